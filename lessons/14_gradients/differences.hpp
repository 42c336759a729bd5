#pragma once

// Derivatives of a loss without any rule: how much it changes when a number is moved.

#include "../lesson.hpp"

#include "attn/reference/attention/dot_product.hpp"
#include "attn/reference/ops/matmul.hpp"
#include "attn/reference/ops/reduce.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace attn {

struct Maps {
    Matrix query, key, value;
};

/// Half the sum of the squared errors.
inline double half_squares(const Matrix& error)
{
    return sum_all(Matrix(error * error)) / 2;
}

/// The loss alone, for differences.
inline double loss_of(const Matrix& inputs, const Maps& maps, const Matrix& target)
{
    const Matrix output =
        scaled_dot_product_attention(matmul(inputs, maps.query), matmul(inputs, maps.key),
                                     matmul(inputs, maps.value))
            .context;
    return half_squares(output - target);
}

//! [differences]
/// How far a gradient is from central differences of the loss, at most.
/// @param moved  what the gradient is of; each number is moved, and put back
inline double distance_from_differences(const Matrix& gradient, Matrix& moved,
                                        const std::function<double()>& loss)
{
    constexpr double h = 1e-4;
    double largest = 0;
    for (std::size_t i = 0; i < moved.size(); ++i) {
        const double was = moved.flat(i);
        moved.flat(i) = was + h;
        const double above = loss();
        moved.flat(i) = was - h;
        const double below = loss();
        moved.flat(i) = was;
        const double slope = (above - below) / (2 * h);
        largest = std::max(largest, std::abs(slope - gradient.flat(i)));
    }
    return largest;
}
//! [differences]

/// The loss as one formula of the inputs, the maps and the target.
constexpr std::string_view whole_loss =
    "sum((softmax(inputs @ query_weights @ (inputs @ key_weights).T / "
    "sqrt(key_weights.shape[1])) @ (inputs @ value_weights) - target) ** 2) / 2";

/// The derivative by one number, from losses at a distance h to both sides of it.
/// @param name      of the matrix whose first number is moved
/// @param gradient  of that number
/// @param loss      of such a matrix
inline void difference(Lesson& lesson, std::string_view name, const Matrix& matrix,
                       double gradient, const std::function<double(const Matrix&)>& loss)
{
    const Trace differences = lesson.trace().scope("differences");
    const Trace trace = differences.scope(name);
    Matrix first = xt::zeros<double>(matrix.shape());
    first(0, 0) = 1;
    first = trace("first[i, j]", "", first);
    const auto loss_at = [&](const Trace& side, double h) {
        const std::string text(name);
        const Matrix moved =
            side(text + "[i, j]", text + (h > 0 ? " + h * first" : " - h * first"),
                 Matrix(matrix + h * first));
        return side("loss", whole_loss, loss(moved));
    };
    std::vector<double> row;
    for (const auto& [scope, size] : {std::pair{"tenth", 0.1}, {"hundredth", 0.01}}) {
        const Trace step = trace.scope(scope);
        const Trace above = step.scope("above"), below = step.scope("below");
        //! [difference]
        const double h = step("h", "", size);
        const double loss_above = loss_at(above, h);
        const double loss_below = loss_at(below, -h);
        const double slope = step("slope", "(above.loss - below.loss) / (2 * h)",
                                  (loss_above - loss_below) / (2 * h));
        //! [difference]
        row.push_back(slope);
    }
    row.push_back(gradient);
    lesson.table({std::string(name) + "[0,0]: h = 0.1", "h = 0.01", "gradient"}, {row});
}

} // namespace attn
