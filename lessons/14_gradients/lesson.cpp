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
#include "attn/reference/ops/concat.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

using namespace attn;

namespace {

/// What the attention of the lesson computes.
struct Attended {
    Term<Matrix> queries, keys, values, scaled, weights, output;
};

/// The gradients of its steps, of the maps, and of the inputs.
struct Gradients {
    Term<Matrix> queries, keys, values, scaled, weights;
    Maps maps;
    Term<Matrix> inputs_from_values, inputs;
};

void compare_with_library(Lesson& lesson, const Recording& forward, const Gradients& d);
void multiply_by_jacobian(Lesson& lesson, const Attended& a, const Gradients& d);
void differentiate_numerically(Lesson& lesson, Matrix inputs, const Maps& maps,
                               const Matrix& target, const Gradients& d);
void descend(Lesson& lesson, const Matrix& inputs, const Maps& maps, const Matrix& target,
             const Gradients& d, double before);
void pad_last_token(Lesson& lesson, const Attended& a, const Term<Matrix>& target);
void go_deep(Lesson& lesson);
void draw_again(Lesson& lesson);
void go_wrong(Lesson& lesson, const Term<Matrix>& inputs, const Attended& a,
              const Gradients& d);

void teach(Lesson& lesson)
{
    const Trace& trace = lesson.trace();
    const SmallModel model = small_model(); // first: where it is missing, nothing runs

    lesson.heading("1. Three tokens, their attention, and a loss");
    const Term inputs = lesson.input("inputs[n, d_model]",
                                     Matrix{{1, 0, 1, 0}, {0, 2, 0, 2}, {1, 1, 1, 1}});
    const Maps maps{lesson.input("query_weights[d_model, d_k]",
                                 Matrix{{1, 0, 1}, {1, 0, 0}, {0, 0, 1}, {0, 1, 1}}),
                    lesson.input("key_weights[d_model, d_k]",
                                 Matrix{{0, 0, 1}, {1, 1, 0}, {0, 1, 0}, {1, 1, 0}}),
                    lesson.input("value_weights[d_model, d_v]",
                                 Matrix{{0, 2, 0}, {0, 3, 0}, {1, 0, 3}, {1, 1, 0}})};
    const Term target =
        lesson.input("target[n, d_v]", Matrix{{1, 6, 2}, {2, 7, 1}, {2, 6, 1}});
    //! [forward]
    const Term queries = trace("queries[n, d_k]", matmul(inputs, maps.query));
    const Term keys = trace("keys[m, d_k]", matmul(inputs, maps.key));
    const Term values = trace("values[m, d_v]", matmul(inputs, maps.value));
    const Term scores = trace("scores[n, m]", matmul(queries, transpose(keys)));
    const Term scaled = trace("scaled[n, m]", scores / sqrt(size_along(keys, 1)));
    const Term weights = trace("weights[n, m]", softmax(scaled));
    const Term output = trace("output[n, d_v]", matmul(weights, values));
    //! [forward]
    const Attended a{queries, keys, values, scaled, weights, output};
    //! [loss]
    const Term loss = trace("loss", sum_all(square(output - target)) / 2);
    //! [loss]
    const Recording forward = lesson.recording();

    lesson.heading("2. Every gradient, from the loss back to the inputs");
    const Trace gradients = trace.scope("grad"), of_inputs = gradients.scope("inputs"),
                parts = of_inputs.scope("from");
    const GradientTrace grad{trace, gradients}, from{trace, parts, "inputs.from."};
    Gradients d;
    //! [backward]
    const Term d_output = grad("output[n, d_v]", output - target);
    d.values = grad("values[m, d_v]", gradient_of_right(weights, d_output));
    d.weights = grad("weights[n, m]", gradient_of_left(d_output, values));
    const Term mean = sum_along(d.weights * weights, -1, keepdims);
    d.scaled = grad("scaled[n, m]", weights * (d.weights - mean));
    //! [backward]
    //! [queries]
    const Term d_scores = grad("scores[n, m]", d.scaled / sqrt(size_along(keys, 1)));
    // The right factor of the scores is keys.T; keys.T.T is keys.
    d.queries = grad("queries[n, d_k]", "grad.scores @ keys",
                     gradient_of_left(d_scores, transpose(keys)));
    d.keys = grad("keys[m, d_k]", "grad.scores.T @ queries",
                  transpose(gradient_of_right(queries, d_scores)));
    //! [queries]
    // Each product sends a part to its map, and a part to the inputs, where the three
    // parts add up.
    //! [maps]
    d.maps.query =
        grad("query_weights[d_model, d_k]", gradient_of_right(inputs, d.queries));
    d.maps.key = grad("key_weights[d_model, d_k]", gradient_of_right(inputs, d.keys));
    d.maps.value =
        grad("value_weights[d_model, d_v]", gradient_of_right(inputs, d.values));
    //! [maps]
    //! [inputs]
    const Term from_queries =
        from("queries[n, d_model]", gradient_of_left(d.queries, maps.query));
    const Term from_keys = from("keys[n, d_model]", gradient_of_left(d.keys, maps.key));
    d.inputs_from_values =
        from("values[n, d_model]", gradient_of_left(d.values, maps.value));
    d.inputs =
        grad("inputs[n, d_model]", from_queries + from_keys + d.inputs_from_values);
    //! [inputs]
    compare_with_library(lesson, forward, d);

    lesson.heading("3. One row through softmax's Jacobian");
    multiply_by_jacobian(lesson, a, d);

    lesson.heading("4. Central differences, and one step downhill");
    difference(lesson, "query_weights", maps.query, (*d.maps.query)(0, 0),
               [&](const Matrix& moved) {
                   return loss_of(*inputs, moved, *maps.key, *maps.value, *target);
               });
    difference(lesson, "inputs", inputs, (*d.inputs)(0, 0), [&](const Matrix& moved) {
        return loss_of(moved, *maps.query, *maps.key, *maps.value, *target);
    });
    differentiate_numerically(lesson, *inputs, maps, *target, d);
    descend(lesson, *inputs, maps, *target, d, *loss);

    lesson.heading("5. What reaches the scores, by d_k");
    saturate(lesson);

    lesson.heading("6. A padded token");
    if (inputs.shape(0) > 1)
        pad_last_token(lesson, a, target);

    lesson.heading("7. What reaches the layers of a stack");
    go_deep(lesson);
    draw_again(lesson);

    lesson.heading("8. What reaches the words of the sentence");
    blame(lesson, model, {"she", sentence(), 5, "She"});
    blame(lesson, model, {"he", sentence(), 5, "He"});
    blame(lesson, model, {"kite", sentence() + " took the", 8, "kite"});

    lesson.heading("9. Three mistakes");
    go_wrong(lesson, inputs, a, d);
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
    for (const auto& [step, gradient] : {std::pair{"values", d.values},
                                         {"weights", d.weights},
                                         {"scaled", d.scaled},
                                         {"queries", d.queries},
                                         {"keys", d.keys},
                                         {"query_weights", d.maps.query},
                                         {"key_weights", d.maps.key},
                                         {"value_weights", d.maps.value},
                                         {"inputs", d.inputs}}) {
        mine = concat(mine, flat(*gradient));
        theirs = concat(theirs, flat(gradient_in(back, step)));
    }
    lesson.expect_equal("attn::gradients gives the same nine gradients", theirs, mine);
}

/// One row through softmax by its whole Jacobian.
void multiply_by_jacobian(Lesson& lesson, const Attended& a, const Gradients& d)
{
    const Trace trace = lesson.trace().scope("row");
    constexpr std::size_t first = 0;
    const Term weights = row(a.weights, first), arriving = row(d.weights, first);
    std::ignore = trace("mean", sum_all(weights * arriving));
    //! [jacobian]
    const Term jacobian =
        trace("jacobian[m, m]", diag(weights) - outer(weights, weights));
    const Term product = trace("scaled[m]", matmul(jacobian, arriving));
    //! [jacobian]
    lesson.expect_equal("the Jacobian times what arrives is what the rule gives", product,
                        row(d.scaled, first));
}

/// Every number of the maps and the inputs.
void differentiate_numerically(Lesson& lesson, Matrix inputs, const Maps& maps,
                               const Matrix& target, const Gradients& d)
{
    Matrix query = *maps.query, key = *maps.key, value = *maps.value;
    const auto loss = [&] { return loss_of(inputs, query, key, value, target); };
    const double largest =
        std::max({distance_from_differences(*d.maps.query, query, loss),
                  distance_from_differences(*d.maps.key, key, loss),
                  distance_from_differences(*d.maps.value, value, loss),
                  distance_from_differences(*d.inputs, inputs, loss)});
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
    const Term rate = step.given("rate", 0.01);
    const Term query =
        step("query_weights[d_model, d]", maps.query - rate * d.maps.query);
    const Term key = step("key_weights[d_model, d]", maps.key - rate * d.maps.key);
    const Term value =
        step("value_weights[d_model, d]", maps.value - rate * d.maps.value);
    const double loss =
        step("loss", whole_loss, loss_of(inputs, *query, *key, *value, target));
    //! [descend]
    if (lesson.is_example())
        lesson.expect("the loss falls", loss < before);
}

/// The last token is padding: no query attends to it, and the loss leaves out its output.
void pad_last_token(Lesson& lesson, const Attended& a, const Term<Matrix>& target)
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
    const Term mask = trace("mask[n, m]",
                            "repeat((arange(" + count + ") < " + real + ")[None, :], " +
                                count + ", axis=0)",
                            Term(allowed));
    const Term masked = trace("masked[n, m]", where(mask, a.scaled, minus_infinity));
    const Term weights = trace("weights[n, m]", softmax(masked));
    const Term output = trace("output[n, d_v]", matmul(weights, a.values));
    const Term error = slice(output - target, 0, n - 1);
    std::ignore = trace("loss", sum_all(square(error)) / 2);
    //! [padded]

    const Trace all = lesson.trace().scope("grad"), gradients = all.scope("padded");
    const GradientTrace grad{trace, gradients};
    //! [masked]
    const Term d_output = grad("output[n, d_v]", pad(error, 0, 1, 0));
    const Term d_values = grad("values[m, d_v]", gradient_of_right(weights, d_output));
    const Term d_weights = grad("weights[n, m]", gradient_of_left(d_output, a.values));
    const Term mean = sum_along(d_weights * weights, -1, keepdims);
    const Term d_masked = grad("masked[n, m]", weights * (d_weights - mean));
    const Term d_scaled = grad("scaled[n, m]", where(mask, d_masked, 0));
    const Term d_keys = grad("keys[m, d_k]", gradient_of_right(d_scaled, a.queries) /
                                                 sqrt(size_along(a.keys, 1)));
    //! [masked]
    const auto is_zero = [&](const Term<Matrix>& x) {
        return *max_all(abs(row(x, n - 1))) == 0;
    };
    lesson.expect("no gradient reaches the padded value and the padded key: exactly 0",
                  is_zero(d_values) && is_zero(d_keys));
    lesson.expect("nor any score that the mask forbids", is_zero(transpose(d_scaled)));
}

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
            const Term norms = trace.given("norms[layer]", reached.norms);
            std::ignore = trace.given("spreads[layer]", reached.spreads);
            const Term ratio =
                trace("ratio", row(norms, std::size_t{0}) / row(norms, layers));
            rows.back().push_back(*ratio);
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
            const Term ratios =
                trace.given("ratios[stack]", sorted_ratios(rows.size(), 24, recipe));
            for (std::size_t i = 0; i < rows.size(); ++i)
                rows[i].push_back((*ratios)(i));
        }
    lesson.say("the same of other stacks of 24 layers, from the least to the largest:");
    lesson.table({"post-norm", "pre-norm", "norm only"}, rows);
}

/// Three well-known mistakes of a backward pass written by hand.
void go_wrong(Lesson& lesson, const Term<Matrix>& inputs, const Attended& a,
              const Gradients& d)
{
    const Trace wrong = lesson.trace().scope("wrong");
    const Trace diagonal = wrong.scope("diagonal"), unscaled = wrong.scope("unscaled"),
                overwritten = wrong.scope("overwritten");
    const Term root = sqrt(size_along(a.keys, 1));
    const auto to_map = [&](const Term<Matrix>& of_scores) {
        return matmul(transpose(inputs), matmul(of_scores, a.keys));
    };
    //! [wrong]
    const Term slopes = diagonal("scaled[n, m]", a.weights * (1 - a.weights) * d.weights);
    const Term by_diagonal =
        diagonal("query_weights[d_model, d_k]", to_map(slopes / root));
    const Term without_scale = unscaled("query_weights[d_model, d_k]", to_map(d.scaled));
    const Term last_part = overwritten("inputs[n, d_model]", d.inputs_from_values);
    //! [wrong]
    lesson.table({"query_weights[0,0]: right", "by the diagonal", "without the scale"},
                 {{(*d.maps.query)(0, 0), (*by_diagonal)(0, 0), (*without_scale)(0, 0)}});
    lesson.table({"inputs[0,0]: right", "overwritten"},
                 {{(*d.inputs)(0, 0), (*last_part)(0, 0)}});
}

} // namespace

int main(int argc, char** argv) { return Lesson::run("14_gradients", argc, argv, teach); }
