#include "lessons/15_training/reviews/data.hpp"

#include "sources.hpp"
#include "temporary_folder.hpp"
#include "test.hpp"

#include "attn/files/file.hpp"

#include <algorithm>
#include <fstream>

using namespace attn;
using namespace attn::train;
using namespace attn::test;

namespace {

void write_text(const std::filesystem::path& path, const std::string& text)
{
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
}

/// An archive of six reviews.
void write_archive(const std::filesystem::path& folder)
{
    write_text(folder / "train/neg/2_1.txt", "Bad, bad film.<br />It's \xC3\x89mile's worst!");
    write_text(folder / "train/neg/10_3.txt", "film");
    write_text(folder / "train/pos/0_9.txt", "A good film; a GOOD one");
    write_text(folder / "train/pos/notes.md", "no review");
    write_text(folder / "test/neg/0_2.txt", "bad unheard-of film");
    write_text(folder / "test/pos/0_10.txt", "");
}

} // namespace

TEST_CASE("reviews are prepared by Keras's rules", "[train][reviews]")
{
    const TemporaryFolder folder;
    write_archive(folder / "archive");
    CHECK(prepare_reviews(folder / "archive", folder / "data") == std::pair<std::size_t, std::size_t>{3, 2});
    // How often: film 3, bad 2, a 2, good 2, the others once, each in the order of its first place.
    CHECK(read_review_words(folder / "data") ==
          std::vector<std::string>{"film", "bad", "a", "good", "br", "it's", "\xC3\xA9mile's", "worst", "one"});
    const Reviews train = read_reviews(folder / "data", "train"), test = read_reviews(folder / "data", "test");
    CHECK(std::vector<std::int64_t>(train.labels.begin(), train.labels.end()) == std::vector<std::int64_t>{0, 0, 1});
    const auto last = [](const Reviews& reviews, std::size_t row, std::size_t count) {
        std::vector<std::int64_t> ids;
        for (std::size_t i = review_words - count; i < review_words; ++i)
            ids.push_back(reviews.ids(row, i));
        return ids;
    };
    CHECK(last(train, 0, 9) == std::vector<std::int64_t>{0, 1, 5, 5, 4, 8, 9, 10, 11});
    CHECK(last(train, 1, 3) == std::vector<std::int64_t>{0, 1, 4}); // 2_1 before 10_3
    CHECK(last(train, 2, 7) == std::vector<std::int64_t>{1, 6, 7, 4, 6, 7, 12});
    CHECK(last(test, 0, 4) == std::vector<std::int64_t>{0, 1, 5, 4}); // what training does not have is left out
    CHECK(last(test, 1, 2) == std::vector<std::int64_t>{0, 1});
}

TEST_CASE("words of reviews are in small letters, whatever their length in UTF-8", "[train][reviews]")
{
    const TemporaryFolder folder;
    write_archive(folder / "archive");
    // E with acute; A with ring below; Deseret's long I.
    write_text(folder / "archive/train/neg/2_1.txt", "A\xC3\x89 \xE1\xB8\x80x \xF0\x90\x90\x80x");
    prepare_reviews(folder / "archive", folder / "data");
    const std::vector<std::string> words = read_review_words(folder / "data");
    for (const std::string word : {"a\xC3\xA9", "\xE1\xB8\x81x", "\xF0\x90\x90\xA8x"})
        CHECK(std::ranges::find(words, word) != words.end());
}

TEST_CASE("prepared reviews that are damaged are refused, and the file is named", "[train][reviews]")
{
    const TemporaryFolder folder;
    CHECK_THROWS_WITH(prepare_reviews(folder / "none", folder / "data"),
                      ContainsSubstring("train/neg: has no texts such as"));
    CHECK_THROWS_WITH(read_reviews(folder.path(), "train"), ContainsSubstring("x_train_20000_80.npy: cannot be read"));
    write_archive(folder / "archive");
    prepare_reviews(folder / "archive", folder / "data");
    const std::filesystem::path labels = folder / "data" / "y_train.npy",
                                ids = folder / "data" / "x_train_20000_80.npy";
    const auto change_last = [](const std::filesystem::path& path, char byte) {
        std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(-1, std::ios::end);
        file.put(byte);
    };
    change_last(labels, 2);
    CHECK_THROWS_WITH(read_reviews(folder / "data", "train"),
                      ContainsSubstring("y_train.npy: label [2] is 2, expected from 0 to 1"));
    change_last(labels, 1);
    change_last(ids, 0x7F);
    CHECK_THROWS_WITH(read_reviews(folder / "data", "train"),
                      ContainsSubstring("id [2,79] is 32524, expected from 0 to 12, the last word of"));
    std::filesystem::copy_file(folder / "data" / "x_test_20000_80.npy", ids,
                               std::filesystem::copy_options::overwrite_existing);
    CHECK_THROWS_WITH(read_reviews(folder / "data", "train"),
                      ContainsSubstring("expected (3, 80), as there are 3 labels"));
    write_text(folder / "archive/test/pos/0_10.txt", "\xFF");
    CHECK_THROWS_WITH(prepare_reviews(folder / "archive", folder / "data"),
                      ContainsSubstring("0_10.txt: is no text in UTF-8"));
}
