#pragma once

#include "attn/core/recording.hpp"

#include "compare.hpp"

#include <optional>
#include <string>
#include <string_view>

/// Scores and weights that differ, though softmax makes the same of them.
namespace attn::diff {

bool is_softmax(const Step& step);

/// The step whose softmax a formula is, along the last axis; nothing where it is anything else.
std::optional<std::string> scores_of_softmax(std::string_view formula);

/// True for minus infinity somewhere, as in scores that are masked.
bool is_masked(const Array& array);

/// True where a row of what MINE has for a softmax sums to another number than it should, 1 or, of a query that can attend to
/// nothing, 0. Roundings of large scores can change every weight, but all weights of a row together.
bool has_other_row_sums(const Array& found, const Array& right);

/// Weights with each row divided by its sum, where that is a number other than zero.
Array with_normalised_rows(Array weights);

/// What MINE has for a softmax, with zeros where it is NaN in rows that are all zero.
Array zeros_in_empty_rows(Array found, const Array& right);

/// Scores with each row shifted so that its largest number is zero, as programs have them before they take the exponentials;
/// or that of the same row of other scores.
Array shifted(Array scores, const Array* like = nullptr);

/// The expected scores with each row shifted and minus infinity filled as MINE has it; nothing where more differs than that,
/// noise and the roundings of the shift. A row that is minus infinity throughout can be NaN in MINE: its largest is that, too.
/// @param tolerance  of the expected scores
/// @param roundoff   of MINE's type
std::optional<Array> filled_and_shifted(Array expected, const Array& found, const Tolerance& tolerance,
                                        double roundoff);

} // namespace attn::diff
