#pragma once

#include "attn/core/recording.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// What one array of a program can stand for, and in which layouts.
namespace attn::diff {

/// Steps that a program can have as one array: one step, a step of each head, or queries, keys and values.
struct StepSet {
    std::vector<std::size_t> steps;                    ///< stacked along new axes in front, where there are several
    Shape shape;                                       ///< with those axes
    std::vector<std::string> letters;                  ///< of all axes: h, n, m
    std::string text;                                  ///< "self_attn.head.{h}.scaled"
    std::size_t size = 0;                              ///< of all numbers
    bool is_masked = false;                            ///< minus infinity is among them
    double length = 0;                                 ///< of the reference's numbers as one vector
    std::vector<std::vector<std::size_t>> copies = {}; ///< further steps that each of these is, where heads share it
    Shape apart = {}; ///< axes that an array has to have, one after the other, where there are any

    std::size_t first() const { return steps.front(); }
};

/// All targets of a trace, in the order of its steps.
std::vector<StepSet> targets_of(const std::vector<Step>& steps);

/// The numbers of a target as one array; nothing where a step has none.
/// @param value_of  from the number of a step to a pointer to its array
template <class ValueOf>
std::optional<Array> stacked(const StepSet& target, const ValueOf& value_of)
{
    Array whole{target.shape, {}, ElementType::real};
    whole.values.reserve(target.size);
    for (const std::size_t step : target.steps) {
        const Array* part = value_of(step);
        if (part == nullptr || part->size() * target.steps.size() != target.size)
            return std::nullopt;
        whole.values.insert(whole.values.end(), part->values.begin(), part->values.end());
    }
    return whole;
}

/// How an array has the numbers of a target: its axes in an order, some of them merged.
struct Fit {
    std::vector<std::size_t> order; ///< permuted(target, order) has the array's numbers, row by row
    Shape shape;                    ///< of the target
    double distance = 0;            ///< relative_distance
};

/// True where a shape has the axes of another one, some neighbours merged and others split; axes of one entry count for nothing.
bool merges(const Shape& axes, const Shape& shape);

/// Numbers this near to a step's, by relative_distance, are that step's, right or slightly wrong.
double near_enough(const Array& found);

/// Numbers this near to a step's are right, for all that their type tells.
double right_enough(const Array& found);

/// How far an array is from another one of as many numbers, relative to that. What is infinite there does not count, nor does
/// NaN here where most numbers are none: it tells nothing of the step.
double relative_distance(const Array& found, const Array& expected);

/// The length of an array's numbers as one vector.
double length_of(const Array& array);

/// False where no order of some numbers has that relative_distance from others, or a smaller one: as vectors, one is longer than
/// the other by more than that.
bool can_be_as_near(double distance, double found_length, double expected_length);

/// The layout in which an array is nearest to the numbers of a target; nothing where the shapes allow none. A layout that
/// programs have, with heads before their features and tokens before both or after the heads, is preferred to any other one.
/// @param around  the letters of the axes of arrays around it, each in their order there: preferred next
std::optional<Fit> best_fit(const Array& found, const StepSet& target, const Array& numbers,
                            const std::vector<std::vector<std::string>>& around = {});

/// The first half of each row, where the second one is the same, as of the angles of both halves of the features.
std::optional<Array> half_of(const Array& array);

/// True for the weights of a linear map, or their gradient: (…, d_in, d_out).
bool is_map(const StepSet& target);

/// True for a map to as many features as it has.
bool is_square(const StepSet& target);

/// True where an array has a map as (d_out, d_in).
bool is_turned(const Fit& fit);

/// The same array, read as a map that is stored the other way round.
void swap_maps_axes(Fit& fit);

/// The array with its axes as the target has them.
Array in_target_layout(const Array& found, const Fit& fit);

/// "(n, h, m), heads apart": what the axes of an array are.
std::string layout_text(const StepSet& target, const Fit& fit, const Shape& found);

} // namespace attn::diff
