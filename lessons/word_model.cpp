#include "word_model.hpp"

#include "attn/files/file.hpp"
#include "attn/files/json_file.hpp"
#include "attn/files/weights/gpt.hpp"
#include "attn/files/weights/language_model.hpp"
#include "attn/files/weights/state_dict.hpp"
#include "attn/files/weights/transformer.hpp"

#include <algorithm>
#include <filesystem>
#include <sstream>

namespace attn {
namespace {

std::filesystem::path file_of(const WordModel& model, std::string_view name)
{
    return std::filesystem::path(ATTN_LESSONS_FOLDER) / model.folder / name;
}

} // namespace

std::vector<std::string> words_of(std::string_view text)
{
    std::istringstream stream{std::string(text)};
    std::vector<std::string> words;
    for (std::string word; stream >> word;)
        words.push_back(word);
    return words;
}

Integers WordModel::ids(std::string_view text) const
{
    const std::vector<std::string> given = words_of(text);
    Integers found(Integers::shape_type{given.size()});
    for (std::size_t i = 0; i < given.size(); ++i) {
        const auto at = std::ranges::find(vocabulary, given[i]);
        if (at == vocabulary.end())
            throw Error("the model has no word " + given[i] + ": lessons/" + folder +
                        "/config.json lists the " + std::to_string(vocabulary.size()) +
                        " that it has");
        found(i) = at - vocabulary.begin();
    }
    return found;
}

std::string WordModel::words(const Integers& ids) const
{
    std::string text;
    for (const std::int64_t id : ids) {
        if (id < 0 || static_cast<std::size_t>(id) >= vocabulary.size())
            throw Error("the model of lessons/" + folder + " has no word " +
                        std::to_string(id) + ": its ids go from 0 to " +
                        std::to_string(vocabulary.size() - 1));
        text += (text.empty() ? "" : " ") + vocabulary[static_cast<std::size_t>(id)];
    }
    return text;
}

WordModel read_word_model(std::string_view folder)
{
    WordModel model;
    model.folder = folder;
    const std::filesystem::path file = file_of(model, "config.json");
    const nlohmann::json config =
        files::read_json_object(file, R"({"heads": 4, "vocabulary": ["Lily", ...]})");
    const auto is_word = [](const nlohmann::json& word) { return word.is_string(); };
    const nlohmann::json heads = config.value("heads", nlohmann::json());
    const nlohmann::json words = config.value("vocabulary", nlohmann::json());
    if (!heads.is_number_unsigned())
        throw files::FileError(file, "has no whole number \"heads\", expected what "
                                     "script/train-model writes");
    if (!words.is_array() || !std::ranges::all_of(words, is_word))
        throw files::FileError(file, "has no list of words \"vocabulary\", expected what "
                                     "script/train-model writes");
    heads.get_to(model.heads);
    words.get_to(model.vocabulary);
    return model;
}

template <class Weights>
Weights read_weights_of(const WordModel& model, std::string_view name)
{
    const std::filesystem::path file = file_of(model, name);
    try {
        return files::load_weights<Weights>(files::read_weights(file),
                                            {{"vocabulary", model.vocabulary.size()}});
    } catch (const files::WeightsError& error) {
        throw files::WeightsError(printable(file.string()) + ": " + error.what());
    }
}

template GptWeights read_weights_of(const WordModel&, std::string_view);
template LanguageModelWeights read_weights_of(const WordModel&, std::string_view);
template TranslatorWeights read_weights_of(const WordModel&, std::string_view);

} // namespace attn
