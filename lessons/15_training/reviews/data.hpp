#pragma once

#include "trainer.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace attn::train {

/// How the reviews are prepared: as keras.datasets and pad_sequences do it.
inline constexpr std::size_t review_vocabulary =
    20000; ///< ids: 0 padding, 1 the beginning, 2 a rarer word, 4 the commonest word
inline constexpr std::size_t review_words = 80; ///< the last ones of a review; a shorter one is padded at its beginning

/// Reads prepared reviews: x_PART_20000_80.npy (reviews, 80), ids, and y_PART.npy (reviews), 1 for a favourable review.
/// @param part  "train" or "test"
/// @throws FileError where a file is missing or damaged, an id is not below 20000 or is beyond the words of the
///                   vocabulary, where there is one, or a label is neither 0 nor 1
Reviews read_reviews(const std::filesystem::path& folder, const std::string& part);

/// The words of the vocabulary, from vocab_by_train_frequency.json; nothing where the folder doesn't have it. Word i of the
/// list has the id i + 4.
std::vector<std::string> read_review_words(const std::filesystem::path& folder);

/// Prepares the Large Movie Review Dataset from the text files of its published archive, in train/pos, train/neg, test/pos
/// and test/neg, such as train/pos/127_10.txt.
///
/// Negative reviews come first, each kind in the order of the numbers in the files' names. A text is in small letters and
/// split at blanks, after each of !"#$%&()*+,-./:;<=>?@[\]^_`{|}~, tabs and line ends became one (Keras's Tokenizer).
/// Words are numbered by how often the training reviews have them; of those as frequent, the one that came first is
/// first. A word that training does not have is left out.
/// @param archive  the folder that has train and test
/// @param folder   gets x_train_20000_80.npy, y_train.npy, x_test_20000_80.npy, y_test.npy and vocab_by_train_frequency.json
/// @return how many reviews of training and test there are
/// @throws FileError where a folder of texts is missing or empty, a file can't be read or is not UTF-8
/// @see Maas et al. 2011, "Learning Word Vectors for Sentiment Analysis"
std::pair<std::size_t, std::size_t> prepare_reviews(const std::filesystem::path& archive,
                                                    const std::filesystem::path& folder);

} // namespace attn::train
