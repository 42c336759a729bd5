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

/// The maps of attention, or their gradients.
struct Maps {
    Term<Matrix> query, key, value;
};

/// The loss alone, for differences.
inline double loss_of(const Matrix& inputs, const Matrix& query, const Matrix& key,
                      const Matrix& value, const Matrix& target)
{
    const Matrix output =
        scaled_dot_product_attention(matmul(inputs, query), matmul(inputs, key),
                                     matmul(inputs, value))
            .context;
    const Matrix error = output - target;
    return sum_all(Matrix(error * error)) / 2;
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
inline void difference(Lesson& lesson, const std::string& name,
                       const Term<Matrix>& matrix, double gradient,
                       const std::function<double(const Matrix&)>& loss)
{
    const Trace differences = lesson.trace().scope("differences");
    const Trace trace = differences.scope(name);
    Matrix corner = xt::zeros<double>(matrix.shape());
    corner(0, 0) = 1;
    const Term first = trace.given("first[i, j]", corner);
    const auto loss_at = [&](const Trace& side, const Term<Matrix>& by) {
        const Term moved = side(name + "[i, j]", by);
        return side("loss", whole_loss, Term(loss(*moved)));
    };
    std::vector<double> row;
    for (const auto& [scope, size] : {std::pair{"tenth", 0.1}, {"hundredth", 0.01}}) {
        const Trace step = trace.scope(scope);
        const Trace above = step.scope("above"), below = step.scope("below");
        //! [difference]
        const Term h = step.given("h", size);
        const Term loss_above = loss_at(above, matrix + h * first);
        const Term loss_below = loss_at(below, matrix - h * first);
        const Term slope = step("slope", (loss_above - loss_below) / (2 * h));
        //! [difference]
        row.push_back(*slope);
    }
    row.push_back(gradient);
    lesson.table({name + "[0,0]: h = 0.1", "h = 0.01", "gradient"}, {row});
}

} // namespace attn
