#include "data.hpp"

#include "small_letters.hpp"

#include "attn/core/utf8.hpp"
#include "attn/files/file.hpp"
#include "attn/files/json_file.hpp"
#include "attn/files/npy.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <unordered_map>

namespace attn::train {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t beginning = 1, rarer_word = 2, first_word = 4;
constexpr const char* vocabulary_file = "vocab_by_train_frequency.json";

std::string ids_file(const std::string& part)
{
    return "x_" + part + "_" + std::to_string(review_vocabulary) + "_" + std::to_string(review_words) + ".npy";
}
std::string labels_file(const std::string& part) { return "y_" + part + ".npy"; }

Array read_npy(const fs::path& path, std::size_t rank)
{
    std::ifstream file = files::open_file(path, "an array that lesson_15_training --prepare writes");
    const Array array = files::about_file(path, "", [&] {
        return files::decode_npy([&](std::span<char> bytes) {
            file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
            return static_cast<std::size_t>(file.gcount());
        });
    });
    if (array.rank() != rank || array.type != ElementType::integer || array.size() == 0)
        throw files::FileError(path, "has the shape " + to_string(array.shape) + ", expected whole numbers with " +
                                         std::to_string(rank) + (rank == 1 ? " axis" : " axes"));
    return array;
}

/// @throws FileError where a number is not from 0 to below the limit
void expect_below(const fs::path& path, const Array& array, double limit, const std::string& what,
                  const std::string& why)
{
    const auto at =
        std::ranges::find_if(array.values, [limit](double number) { return number < 0 || number >= limit; });
    if (at != array.values.end())
        throw files::FileError(
            path, what + bracketed(index_at(static_cast<std::size_t>(at - array.values.begin()), array.shape)) +
                      " is " + exact_text(*at) + ", expected from 0 to " + exact_text(limit - 1) + why);
}

// ---------------------------------------------------------------------------------------------------- from text files

struct TextFile {
    long number; ///< in its name: 127 of 127_10.txt
    fs::path path;
};

/// The texts of a folder in the order of their numbers.
std::vector<TextFile> texts_in(const fs::path& folder)
{
    std::vector<TextFile> texts;
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
        const std::string name = entry->path().filename().string();
        TextFile text{0, entry->path()};
        const auto [rest, fault] = std::from_chars(name.data(), name.data() + name.size(), text.number);
        if (fault == std::errc() && *rest == '_' && entry->path().extension() == ".txt")
            texts.push_back(text);
    }
    if (texts.empty())
        throw files::FileError(folder,
                               "has no texts such as 127_10.txt; expected the folder of the published archive that has "
                               "train/pos, train/neg, test/pos and test/neg");
    std::ranges::sort(texts, {}, &TextFile::number);
    return texts;
}

std::vector<std::string> words_of(const TextFile& text)
{
    std::ifstream file = files::open_file(text.path, "a text");
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    if (!is_utf8(bytes))
        throw files::FileError(text.path, "is no text in UTF-8");
    std::string letters = in_small_letters(bytes);
    constexpr std::string_view blanks = "!\"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n";
    std::ranges::replace_if(
        letters, [&](char c) { return blanks.find(c) != std::string_view::npos; }, ' ');
    std::vector<std::string> words;
    for (std::size_t begin = 0; begin < letters.size();) {
        const std::size_t end = std::min(letters.find(' ', begin), letters.size());
        if (end > begin)
            words.push_back(letters.substr(begin, end - begin));
        begin = end + 1;
    }
    return words;
}

struct LabelledWords {
    std::vector<std::vector<std::string>> texts; ///< negative ones first
    std::size_t negative = 0;
};

LabelledWords words_in(const fs::path& part)
{
    LabelledWords found;
    for (const char* kind : {"neg", "pos"}) {
        for (const TextFile& text : texts_in(part / kind))
            found.texts.push_back(words_of(text));
        if (found.negative == 0)
            found.negative = found.texts.size();
    }
    return found;
}

/// Words by how often they are there, the commonest first.
std::vector<std::string> by_frequency(const std::vector<std::vector<std::string>>& texts)
{
    std::unordered_map<std::string_view, std::size_t> places;
    std::vector<std::pair<std::string_view, std::size_t>> counts;
    for (const std::vector<std::string>& text : texts)
        for (const std::string& word : text) {
            const auto [entry, is_new] = places.try_emplace(word, counts.size());
            if (is_new)
                counts.emplace_back(word, 0);
            ++counts[entry->second].second;
        }
    std::ranges::stable_sort(counts, std::ranges::greater(), &std::pair<std::string_view, std::size_t>::second);
    std::vector<std::string> words;
    for (const auto& [word, count] : counts)
        words.emplace_back(word);
    return words;
}

/// An .npy file of whole numbers without a sign, with the header that NumPy writes.
template <class Number>
void write_npy(const fs::path& path, const std::vector<Number>& numbers, const std::string& shape)
{
    std::string header = "{'descr': '" + std::string(sizeof(Number) == 1 ? "|u1" : "<u2") +
                         "', 'fortran_order': False, 'shape': " + shape + ", }";
    constexpr std::size_t before = 10, unit = 64;
    header.append(unit - (before + header.size() + 1) % unit, ' ');
    header += '\n';
    std::string bytes("\x93NUMPY\x01\x00", 8);
    for (const std::size_t byte : {header.size() & 0xFF, header.size() >> 8})
        bytes += static_cast<char>(byte);
    bytes += header;
    for (const Number number : numbers)
        for (std::size_t byte = 0; byte < sizeof(Number); ++byte)
            bytes += static_cast<char>(number >> (8 * byte) & 0xFF);
    files::write_file(path, bytes);
}

void write_part(const fs::path& folder, const std::string& part, const LabelledWords& words,
                const std::unordered_map<std::string_view, std::int64_t>& ids)
{
    std::vector<std::uint16_t> all;
    std::vector<std::uint8_t> labels;
    for (const std::vector<std::string>& text : words.texts) {
        std::vector<std::uint16_t> of_text{beginning};
        for (const std::string& word : text)
            if (const auto id = ids.find(word); id != ids.end())
                of_text.push_back(static_cast<std::uint16_t>(
                    id->second < static_cast<std::int64_t>(review_vocabulary) ? id->second : rarer_word));
        const std::size_t kept = std::min(of_text.size(), review_words);
        all.insert(all.end(), review_words - kept, 0);
        all.insert(all.end(), of_text.end() - static_cast<std::ptrdiff_t>(kept), of_text.end());
        labels.push_back(labels.size() < words.negative ? 0 : 1);
    }
    const std::string count = std::to_string(words.texts.size());
    write_npy(folder / ids_file(part), all, "(" + count + ", " + std::to_string(review_words) + ")");
    write_npy(folder / labels_file(part), labels, "(" + count + ",)");
}

/// How many ids there are: those of the words that the file lists, where there is one, and of what is no word.
std::size_t ids_known(const fs::path& folder)
{
    const std::vector<std::string> words = read_review_words(folder);
    return words.empty() ? review_vocabulary : std::min(review_vocabulary, words.size() + first_word);
}

} // namespace

Reviews read_reviews(const fs::path& folder, const std::string& part)
{
    const fs::path ids_path = folder / ids_file(part), labels_path = folder / labels_file(part);
    const Array ids = read_npy(ids_path, 2), labels = read_npy(labels_path, 1);
    const std::size_t known = ids_known(folder);
    expect_below(ids_path, ids, static_cast<double>(known), "id ",
                 known < review_vocabulary ? ", the last word of " + std::string(vocabulary_file) : "");
    expect_below(labels_path, labels, 2, "label ", "");
    if (ids.shape[1] != review_words || ids.shape[0] != labels.size())
        throw files::FileError(ids_path, "has the shape " + to_string(ids.shape) + ", expected (" +
                                             std::to_string(labels.size()) + ", " + std::to_string(review_words) +
                                             "), as there are " + std::to_string(labels.size()) + " labels in " +
                                             labels_file(part));
    return {from_array<IntegerMatrix>(ids), from_array<Integers>(labels)};
}

std::vector<std::string> read_review_words(const fs::path& folder)
{
    const fs::path path = folder / vocabulary_file;
    if (!fs::exists(path))
        return {};
    std::ifstream file = files::open_file(path, "a list of words");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const nlohmann::json list = nlohmann::json::parse(text, nullptr, false);
    if (!list.is_array() || !std::ranges::all_of(list, [](const nlohmann::json& word) { return word.is_string(); }))
        throw files::FileError(path, "is no JSON list of words");
    return list.get<std::vector<std::string>>();
}

std::pair<std::size_t, std::size_t> prepare_reviews(const fs::path& archive, const fs::path& folder)
{
    const LabelledWords train = words_in(archive / "train"), test = words_in(archive / "test");
    const std::vector<std::string> words = by_frequency(train.texts);
    std::unordered_map<std::string_view, std::int64_t> ids;
    for (std::size_t i = 0; i < words.size(); ++i)
        ids.emplace(words[i], first_word + static_cast<std::int64_t>(i));
    std::error_code error;
    fs::create_directories(folder, error);
    write_part(folder, "train", train, ids);
    write_part(folder, "test", test, ids);
    files::write_file(folder / vocabulary_file, nlohmann::json(words).dump() + "\n");
    return {train.texts.size(), test.texts.size()};
}

} // namespace attn::train
