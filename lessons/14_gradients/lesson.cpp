// Lesson 14: gradients of attention.
//
// Training changes every weight a little, against the derivative of a loss by that
// weight. This program computes these derivatives for the three tokens of lesson 1, from
// the loss back to the inputs, and compares them with attn::gradients() and with
// differences of the loss. Then it measures what reaches the scores, the layers of a
// stack, and the words of a sentence.

#include "../lesson.hpp"
#include "../small_model.hpp"
#include "depth.hpp"
#include "differences.hpp"
#include "gradients_by_hand.hpp"
#include "saturation.hpp"
#include "word_gradients.hpp"

#include "attn/formula/gradient.hpp"
#include "attn/reference/attention/dot_product.hpp"
#include "attn/reference/attention/mask.hpp"
#include "attn/reference/ops/concat.hpp"
#include "attn/reference/ops/matmul.hpp"
#include "attn/reference/ops/reduce.hpp"
#include "attn/reference/ops/softmax.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

using namespace attn;

namespace {

// ---------------------------------------------------------- 1. one attention, and a loss

/// What one attention computes.
struct Attended {
    Matrix queries, keys, values, scaled, weights, output;
};

Attended attend(const Trace& trace, const Matrix& inputs, const Maps& maps)
{
    //! [forward]
    const Matrix queries =
        trace("queries[n, d_k]", "inputs @ query_weights", matmul(inputs, maps.query));
    const Matrix keys =
        trace("keys[m, d_k]", "inputs @ key_weights", matmul(inputs, maps.key));
    const Matrix values =
        trace("values[m, d_v]", "inputs @ value_weights", matmul(inputs, maps.value));
    const Matrix scores =
        trace("scores[n, m]", "queries @ keys.T", matmul(queries, transpose(keys)));
    const double root = std::sqrt(static_cast<double>(keys.shape(1)));
    const Matrix scaled =
        trace("scaled[n, m]", "scores / sqrt(keys.shape[1])", Matrix(scores / root));
    const Matrix weights = trace("weights[n, m]", "softmax(scaled)", softmax(scaled));
    const Matrix output =
        trace("output[n, d_v]", "weights @ values", matmul(weights, values));
    //! [forward]
    return {queries, keys, values, scaled, weights, output};
}

// -------------------------------------------------------- 2. from the loss to the inputs

/// What softmax's input gets, as a formula.
constexpr std::string_view through_softmax =
    "weights * (grad.weights - sum(grad.weights * weights, axis=-1, keepdims=True))";

/// Gradients of one attention.
struct Gradients {
    Matrix values, weights, scaled, queries, keys;
    Matrix query_weights, key_weights, value_weights;
    Matrix inputs_from_values, inputs;
};

/// The three maps and the inputs: each product sends a part to its map, and a part to the
/// inputs, where the three parts add up.
void reach_inputs(const Trace& grad, const Matrix& inputs, const Maps& maps, Gradients& d)
{
    //! [maps]
    d.query_weights = grad("query_weights[d_model, d_k]", "inputs.T @ grad.queries",
                           gradient_of_right(inputs, d.queries));
    d.key_weights = grad("key_weights[d_model, d_k]", "inputs.T @ grad.keys",
                         gradient_of_right(inputs, d.keys));
    d.value_weights = grad("value_weights[d_model, d_v]", "inputs.T @ grad.values",
                           gradient_of_right(inputs, d.values));
    //! [maps]
    const Trace of_inputs = grad.scope("inputs"), from = of_inputs.scope("from");
    //! [inputs]
    const Matrix from_queries =
        from("queries[n, d_model]", "grad.queries @ query_weights.T",
             gradient_of_left(d.queries, maps.query));
    const Matrix from_keys = from("keys[n, d_model]", "grad.keys @ key_weights.T",
                                  gradient_of_left(d.keys, maps.key));
    d.inputs_from_values = from("values[n, d_model]", "grad.values @ value_weights.T",
                                gradient_of_left(d.values, maps.value));
    d.inputs =
        grad("inputs[n, d_model]",
             "grad.inputs.from.queries + grad.inputs.from.keys + grad.inputs.from.values",
             Matrix(from_queries + from_keys + d.inputs_from_values));
    //! [inputs]
}

/// From the loss back to the inputs.
Gradients send_back(const Trace& grad, const Matrix& inputs, const Maps& maps,
                    const Attended& a, const Matrix& target)
{
    Gradients d;
    //! [backward]
    const Matrix output =
        grad("output[n, d_v]", "output - target", Matrix(a.output - target));
    d.values = grad("values[m, d_v]", "weights.T @ grad.output",
                    gradient_of_right(a.weights, output));
    d.weights = grad("weights[n, m]", "grad.output @ values.T",
                     gradient_of_left(output, a.values));
    d.scaled =
        grad("scaled[n, m]", through_softmax, gradient_of_scores(a.weights, d.weights));
    //! [backward]
    //! [queries]
    const double root = std::sqrt(static_cast<double>(a.keys.shape(1)));
    const Matrix scores = grad("scores[n, m]", "grad.scaled / sqrt(keys.shape[1])",
                               Matrix(d.scaled / root));
    d.queries = grad("queries[n, d_k]", "grad.scores @ keys",
                     gradient_of_left(scores, transpose(a.keys)));
    d.keys = grad("keys[m, d_k]", "grad.scores.T @ queries",
                  transpose(gradient_of_right(a.queries, scores)));
    //! [queries]
    reach_inputs(grad, inputs, maps, d);
    return d;
}

Vector flat(const Matrix& x)
{
    return from_array<Vector>({{x.size()}, {x.begin(), x.end()}});
}

/// The same gradients by walking back through the recorded formulas.
void compare_with_library(Lesson& lesson, const Recording& forward, const Gradients& d)
{
    //! [library]
    const Recording back = formula::gradients(forward, {.of = "loss"});
    //! [library]
    Vector mine, theirs;
    const auto compare = [&](const std::string& step, const Matrix& gradient) {
        mine = concat(mine, flat(gradient));
        theirs = concat(theirs, flat(gradient_in(back, step)));
    };
    compare("values", d.values);
    compare("weights", d.weights);
    compare("scaled", d.scaled);
    compare("queries", d.queries);
    compare("keys", d.keys);
    compare("query_weights", d.query_weights);
    compare("key_weights", d.key_weights);
    compare("value_weights", d.value_weights);
    compare("inputs", d.inputs);
    lesson.expect_equal("attn::gradients gives the same nine gradients", theirs, mine);
}

// ----------------------------------------------------------------- 3. softmax's Jacobian

/// One row through softmax by its whole Jacobian.
void multiply_by_jacobian(Lesson& lesson, const Attended& a, const Gradients& d)
{
    const Trace row = lesson.trace().scope("row");
    const Vector weights = xt::row(a.weights, 0), arriving = xt::row(d.weights, 0);
    std::ignore =
        row("mean", "sum(weights[0] * grad.weights[0])", dot(weights, arriving));
    //! [jacobian]
    const Matrix jacobian =
        row("jacobian[m, m]", "diag(weights[0]) - outer(weights[0], weights[0])",
            softmax_jacobian(weights));
    const Vector product =
        row("scaled[m]", "jacobian @ grad.weights[0]", matmul(jacobian, arriving));
    //! [jacobian]
    lesson.expect_equal("the Jacobian times what arrives is what the loop gives", product,
                        Vector(xt::row(d.scaled, 0)));
}

// ---------------------------------------------------------------- 4. central differences

/// Every number of the maps and the inputs.
void differentiate_numerically(Lesson& lesson, Matrix inputs, Maps maps,
                               const Matrix& target, const Gradients& d)
{
    const auto loss = [&] { return loss_of(inputs, maps, target); };
    const double largest =
        std::max({distance_from_differences(d.query_weights, maps.query, loss),
                  distance_from_differences(d.key_weights, maps.key, loss),
                  distance_from_differences(d.value_weights, maps.value, loss),
                  distance_from_differences(d.inputs, inputs, loss)});
    if (lesson.is_example())
        lesson.expect("central differences agree with all 48 numbers to 1e-6",
                      largest < 1e-6);
}

/// Every map moves a little against its gradient, and the loss falls.
void descend(Lesson& lesson, const Matrix& inputs, const Maps& maps, const Matrix& target,
             const Gradients& d, double before)
{
    const Trace step = lesson.trace().scope("step");
    //! [descend]
    const double rate = step("rate", "", 0.01);
    const auto moved = [&](const std::string& name, const Matrix& map,
                           const Matrix& grad) {
        return step(name + "[d_model, d]", name + " - rate * grad." + name,
                    Matrix(map - rate * grad));
    };
    const Matrix query = moved("query_weights", maps.query, d.query_weights);
    const Matrix key = moved("key_weights", maps.key, d.key_weights);
    const Matrix value = moved("value_weights", maps.value, d.value_weights);
    const double loss =
        step("loss", whole_loss, loss_of(inputs, {query, key, value}, target));
    //! [descend]
    if (lesson.is_example())
        lesson.expect("the loss falls", loss < before);
}

// ------------------------------------------------------------------------------ 6. masks

/// The last token is padding: no query attends to it, and the loss leaves out its output.
void pad(Lesson& lesson, const Attended& a, const Matrix& target)
{
    const std::size_t n = a.keys.shape(0);
    const std::string count = std::to_string(n), real = std::to_string(n - 1);
    const Trace trace = lesson.trace().scope("padded", {{"queries", "queries"},
                                                        {"keys", "keys"},
                                                        {"values", "values"},
                                                        {"scaled", "scaled"}});
    Mask allowed = xt::ones<bool>({n, n});
    xt::col(allowed, n - 1) = false;
    //! [padded]
    const AnyMask mask = trace("mask[n, m]",
                               "repeat((arange(" + count + ") < " + real +
                                   ")[None, :], " + count + ", axis=0)",
                               allowed);
    const Matrix masked = trace("masked[n, m]", "where(mask, scaled, -inf)",
                                apply_mask(mask, a.scaled, minus_infinity));
    const Matrix weights = trace("weights[n, m]", "softmax(masked)", softmax(masked));
    const Matrix output =
        trace("output[n, d_v]", "weights @ values", matmul(weights, a.values));
    //! [padded]
    Matrix error = output - target;
    xt::row(error, n - 1) = 0;
    std::ignore = trace("loss", "sum((output - target)[0:" + real + "] ** 2) / 2",
                        half_squares(error));

    const Trace all = lesson.trace().scope("grad"), grad = all.scope("padded");
    //! [masked]
    error = grad("output[n, d_v]", "pad((output - target)[0:" + real + "], 0, 1, axis=0)",
                 error);
    const Matrix of_values = grad("values[m, d_v]", "weights.T @ grad.output",
                                  gradient_of_right(weights, error));
    const Matrix of_weights = grad("weights[n, m]", "grad.output @ values.T",
                                   gradient_of_left(error, a.values));
    const Matrix of_masked =
        grad("masked[n, m]", through_softmax, gradient_of_scores(weights, of_weights));
    const Matrix of_scaled = grad("scaled[n, m]", "where(mask, grad.masked, 0)",
                                  apply_mask(mask, of_masked, 0));
    //! [masked]
    const double root = std::sqrt(static_cast<double>(a.keys.shape(1)));
    const Matrix of_keys =
        grad("keys[m, d_k]", "grad.scaled.T @ queries / sqrt(keys.shape[1])",
             Matrix(gradient_of_right(of_scaled, a.queries) / root));
    const auto is_zero = [&](const Matrix& x) {
        return max_all(Vector(xt::abs(xt::row(x, n - 1)))) == 0;
    };
    lesson.expect("no gradient reaches the padded value and the padded key: exactly 0",
                  is_zero(of_values) && is_zero(of_keys));
    lesson.expect("nor any score that the mask forbids",
                  max_all(Vector(xt::abs(xt::col(of_scaled, n - 1)))) == 0);
}

// ------------------------------------------------------------------- 7. layers on layers

/// The gradient at each layer's input in stacks of 6 and of 24 untrained layers.
void go_deep(Lesson& lesson)
{
    std::vector<std::vector<double>> rows;
    for (const std::size_t layers : {6, 24}) {
        const Trace depth = lesson.trace().scope("depth", layers);
        rows.push_back({static_cast<double>(layers)});
        for (const Recipe& recipe : recipes) {
            const Reached reached = send_through(layers, recipe, RandomNumbers(14));
            const Trace trace = depth.scope(recipe.name);
            const Vector norms = trace("norms[layer]", "", reached.norms);
            std::ignore = trace("spreads[layer]", "", reached.spreads);
            rows.back().push_back(
                trace("ratio", "norms[0] / norms[" + std::to_string(layers) + "]",
                      ratio_of(norms)));
        }
    }
    lesson.say("the gradient at the first layer's input over that at the end:");
    lesson.table(
        {"layers", "post-norm", "pre-norm", "residual only", "norm only", "neither"},
        rows);
}

/// The same ratio in other stacks of 24 layers with norms, where it depends on the draw.
void draw_again(Lesson& lesson)
{
    const Trace depth = lesson.trace().scope("depth");
    const Trace others = depth.scope("others");
    std::vector<std::vector<double>> rows(9);
    for (const Recipe& recipe : recipes)
        if (recipe.norm != Recipe::Norm::none) {
            const Trace trace = others.scope(recipe.name);
            const Vector ratios =
                trace("ratios[stack]", "", sorted_ratios(rows.size(), 24, recipe));
            for (std::size_t i = 0; i < rows.size(); ++i)
                rows[i].push_back(ratios(i));
        }
    lesson.say("the same of other stacks of 24 layers, from the least to the largest:");
    lesson.table({"post-norm", "pre-norm", "norm only"}, rows);
}

// --------------------------------------------------------------------------- 9. mistakes

/// Three well-known mistakes of a backward pass written by hand.
void go_wrong(Lesson& lesson, const Matrix& inputs, const Attended& a, const Gradients& d)
{
    const Trace wrong = lesson.trace().scope("wrong");
    const Trace diagonal = wrong.scope("diagonal"), unscaled = wrong.scope("unscaled"),
                overwritten = wrong.scope("overwritten");
    const double root = std::sqrt(static_cast<double>(a.keys.shape(1)));
    const auto to_map = [&](const Matrix& of_scores) {
        return matmul(transpose(inputs), matmul(of_scores, a.keys));
    };
    //! [wrong]
    const Matrix slopes =
        diagonal("scaled[n, m]", "weights * (1 - weights) * grad.weights",
                 Matrix(a.weights * (1.0 - a.weights) * d.weights));
    const Matrix by_diagonal = diagonal(
        "query_weights[d_model, d_k]", "inputs.T @ (scaled / sqrt(keys.shape[1]) @ keys)",
        to_map(slopes / root));
    const Matrix without_scale =
        unscaled("query_weights[d_model, d_k]", "inputs.T @ (grad.scaled @ keys)",
                 to_map(d.scaled));
    const Matrix last_part = overwritten("inputs[n, d_model]", "grad.inputs.from.values",
                                         d.inputs_from_values);
    //! [wrong]
    lesson.table({"query_weights[0,0]: right", "by the diagonal", "without the scale"},
                 {{d.query_weights(0, 0), by_diagonal(0, 0), without_scale(0, 0)}});
    lesson.table({"inputs[0,0]: right", "overwritten"},
                 {{d.inputs(0, 0), last_part(0, 0)}});
}

void teach(Lesson& lesson)
{
    const Trace& trace = lesson.trace();

    lesson.heading("1. Three tokens, their attention, and a loss");
    const Matrix inputs = lesson.input("inputs[n, d_model]",
                                       Matrix{{1, 0, 1, 0}, {0, 2, 0, 2}, {1, 1, 1, 1}});
    const Maps maps{lesson.input("query_weights[d_model, d_k]",
                                 Matrix{{1, 0, 1}, {1, 0, 0}, {0, 0, 1}, {0, 1, 1}}),
                    lesson.input("key_weights[d_model, d_k]",
                                 Matrix{{0, 0, 1}, {1, 1, 0}, {0, 1, 0}, {1, 1, 0}}),
                    lesson.input("value_weights[d_model, d_v]",
                                 Matrix{{0, 2, 0}, {0, 3, 0}, {1, 0, 3}, {1, 1, 0}})};
    const Matrix target =
        lesson.input("target[n, d_v]", Matrix{{1, 6, 2}, {2, 7, 1}, {2, 6, 1}});
    const Attended a = attend(trace, inputs, maps);
    //! [loss]
    const double loss =
        trace("loss", "sum((output - target) ** 2) / 2", half_squares(a.output - target));
    //! [loss]
    const Recording forward = lesson.recording();

    lesson.heading("2. Every gradient, from the loss back to the inputs");
    const Trace grad = trace.scope("grad");
    const Gradients d = send_back(grad, inputs, maps, a, target);
    compare_with_library(lesson, forward, d);

    lesson.heading("3. One row through softmax's Jacobian");
    multiply_by_jacobian(lesson, a, d);

    lesson.heading("4. Central differences, and one step downhill");
    difference(lesson, "query_weights", maps.query, d.query_weights(0, 0),
               [&](const Matrix& moved) {
                   return loss_of(inputs, {moved, maps.key, maps.value}, target);
               });
    difference(lesson, "inputs", inputs, d.inputs(0, 0),
               [&](const Matrix& moved) { return loss_of(moved, maps, target); });
    differentiate_numerically(lesson, inputs, maps, target, d);
    descend(lesson, inputs, maps, target, d, loss);

    lesson.heading("5. What reaches the scores, by d_k");
    saturate(lesson);

    lesson.heading("6. A padded token");
    if (inputs.shape(0) > 1)
        pad(lesson, a, target);

    lesson.heading("7. What reaches the layers of a stack");
    go_deep(lesson);
    draw_again(lesson);

    lesson.heading("8. What reaches the words of the sentence");
    const SmallModel model = small_model();
    blame(lesson, model, {"she", sentence(), 5, "She"});
    blame(lesson, model, {"he", sentence(), 5, "He"});
    blame(lesson, model, {"kite", sentence() + " took the", 8, "kite"});

    lesson.heading("9. Three mistakes");
    go_wrong(lesson, inputs, a, d);
}

} // namespace

int main(int argc, char** argv) { return Lesson::run("14_gradients", argc, argv, teach); }
