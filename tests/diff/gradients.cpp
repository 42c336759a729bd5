#include "src/diff/name_vocabulary.hpp"

#include "attn/diff/diff.hpp"
#include "attn/diff/gradient_name.hpp"

#include "formula/trace_of.hpp"
#include "runs.hpp"
#include "test.hpp"

#include "attn/formula/gradient.hpp"
#include "attn/reference/models/llama.hpp"

#include <set>

using namespace attn;
using namespace attn::diff;
using namespace attn::files;
using namespace attn::formula;
using namespace attn::mistakes;
using namespace attn::test;

namespace {

Array drawn(Numbers& numbers, const Shape& shape)
{
    Array array{shape, {}};
    for (std::size_t i = 0; i < element_count(shape); ++i)
        array.values.push_back(numbers.matrix(1, 1)(0, 0));
    return array;
}

/// A trace of inputs of those shapes, and the gradients of its last step from random ones on.
Recording backwards(const std::vector<std::pair<std::string, Shape>>& inputs, std::vector<Step> others,
                    const std::vector<std::pair<std::string, std::string>>& formulas)
{
    Numbers numbers(51);
    for (const auto& [path, shape] : inputs)
        others.push_back(input(path, drawn(numbers, shape)));
    const Recording forward = trace_of(others, formulas);
    return gradients(forward, {.of = formulas.back().first, .seed = drawn(numbers, forward.steps.back().value.shape)});
}

Recording attention()
{
    const Array mask{{3, 3}, {1, 0, 0, 1, 1, 0, 1, 1, 1}, ElementType::boolean};
    return backwards({{"queries", {3, 4}}, {"keys", {3, 4}}, {"values", {3, 2}}}, {input("mask", mask)},
                     {{"scores", "queries @ keys.T"},
                      {"scaled", "scores / sqrt(keys.shape[-1])"},
                      {"masked", "where(mask, scaled, -inf)"},
                      {"weights", "softmax(masked)"},
                      {"context", "weights @ values"}});
}

Recording square_maps()
{
    return backwards({{"x", {3, 4}}, {"query_weights", {4, 4}}, {"key_weights", {4, 4}}, {"value_weights", {4, 4}}}, {},
                     {{"query", "x @ query_weights"},
                      {"key", "x @ key_weights"},
                      {"value", "x @ value_weights"},
                      {"scores", "query @ key.T"},
                      {"weights", "softmax(scores)"},
                      {"context", "weights @ value"}});
}

Recording norm()
{
    return backwards({{"x", {4, 5}}, {"gain", {5}}, {"bias", {5}}}, {},
                     {{"mean", "mean(x, axis=-1)"},
                      {"variance", "mean((x - mean[..., None]) ** 2, axis=-1)"},
                      {"normalized", "(x - mean[..., None]) / sqrt(variance[..., None] + 1e-05)"},
                      {"output", "normalized * gain + bias"}});
}

Recording residual()
{
    return backwards({{"x", {3, 4}}, {"w", {4, 4}}, {"b", {4}}}, {},
                     {{"hidden", "x @ w + b"}, {"activated", "relu(hidden)"}, {"output", "x + activated"}});
}

Recording gates()
{
    return backwards({{"a", {2, 3}}, {"b", {2, 3}}, {"previous_hidden", {2, 3}}}, {},
                     {{"update", "sigmoid(b)"},
                      {"candidate", "tanh(a)"},
                      {"hidden", "(1 - update) * candidate + update * previous_hidden"}});
}

Recording shared_heads()
{
    return backwards({{"query", {3, 4}}, {"key", {3, 2}}}, {},
                     {{"head.0.queries", "query[..., 0:2]"},
                      {"head.0.keys", "key[..., 0:2]"},
                      {"head.0.scores", "head.0.queries @ head.0.keys.T"},
                      {"head.1.queries", "query[..., 2:4]"},
                      {"head.1.keys", "key[..., 0:2]"},
                      {"head.1.scores", "head.1.queries @ head.1.keys.T"},
                      {"output", "head.0.scores * 2 + head.1.scores"}});
}

Recording embedding()
{
    const Array ids{{5}, {1, 2, 1, 0, 1}, ElementType::integer};
    return backwards({{"table", {4, 3}}}, {input("ids", ids)}, {{"output", "table[ids]"}});
}

Recording maximum()
{
    return backwards({}, {input("x", {{2, 3}, {1, 2, 2, 5, 4, 5}})}, {{"output", "max(x, axis=-1)"}});
}

std::vector<Recording> all_traces()
{
    return {attention(), norm(), residual(), gates(), shared_heads(), embedding(), maximum()};
}

/// The gradients with a mistake in each step that it concerns; nothing where it concerns none, or not all of a joint one.
std::optional<NamedArrays> with_mistake(Recording recording, const PitfallForm& form)
{
    const StepNames names(recording);
    std::set<const StepEdit*> made;
    for (std::size_t i = 0; i < recording.steps.size(); ++i) {
        Step& step = recording.steps[i];
        const Array given = step.value;
        const auto found = [&](std::string_view name) -> const Step* {
            const auto operand = names.resolve(i, name);
            return operand ? &recording.steps[*operand] : nullptr;
        };
        std::string formula = step.formula;
        for (const StepEdit& edit : form.edits)
            if (const auto mistaken = mistaken_formula(edit, form.values.front(), step, found);
                mistaken && formula == step.formula) {
                formula = *mistaken;
                made.insert(&edit);
            }
        if (formula.empty() || !step.path.starts_with(gradient_scope))
            continue;
        const Lookup lookup = [&](std::string_view name) {
            const Step* operand = found(name);
            return operand != nullptr ? &operand->value : name == "given" ? &given : nullptr;
        };
        try {
            step.value = evaluate(formula, lookup).value;
        } catch (const FormulaError&) {
            return std::nullopt; // it is about another step of the same form
        }
        if (step.value.shape != given.shape)
            break; // what is not summed: nothing follows from that
    }
    NamedArrays arrays;
    const auto is_input = [&](std::string_view path) {
        const auto found = std::ranges::find(recording.steps, path, &Step::path);
        return found != recording.steps.end() && found->formula.empty();
    };
    for (const Step& step : recording.steps) // where all edits are needed, one alone is another mistake
        if (step.path.starts_with(gradient_scope) &&
            (!form.needs_all_edits || is_input(std::string_view(step.path).substr(gradient_scope.size()))))
            arrays.emplace(step.path, step.value);
    if (made.size() < (form.needs_all_edits ? form.edits.size() : 1))
        return std::nullopt;
    return arrays;
}

bool is_named(const Diff& result, const Pitfall& pitfall)
{
    return std::ranges::any_of(diagnose(result), [&](const Diagnosis& one) { return one.pitfall == &pitfall; });
}

} // namespace

TEST_CASE("a name says that an array is a gradient, and of what", "[diff][names][gradient]")
{
    const std::vector<std::pair<std::string, std::string>> names{
        {"grad.head.0.scores", "grad.head.0.scores"},
        {"x.grad", "grad.x"},
        {"layers.0.norm1.weight.grad", "grad.layers.0.norm1.weight"},
        {"grads.W1", "grad.W1"},
        {"gradients.x", "grad.x"},
        {"grad_x", "grad.x"},
        {"x_grad", "grad.x"},
        {"d_x", "grad.x"},
        {"dx", "grad.x"},
        {"dWq", "grad.Wq"},
        {"dscores", "grad.scores"},
        {"dL_dx", "grad.x"},
        {"dLdq", "grad.q"},
        {"block1.dx", "grad.block1.x"},
        {"dln1b.0", "grad.ln1b.0"},
        {"dfcprojw", "grad.fcprojw"},
        {"gradWq", "grad.Wq"},
        {"WqGrad", "grad.Wq"},
        {"delta_hidden", "grad.hidden"},
        {"d_loss_d_x", "grad.x"},
        {"dL/dW", "grad.W"}};
    for (const auto& [name, path] : names) {
        CAPTURE(name);
        CHECK(gradient_name(name).value_or("none") == path);
    }
    for (const std::string name : {"x", "dropout", "decoder", "dense", "down", "dots", "data", "grad", "d", "dim",
                                   "deltas", "x_bar", "gradually", "_grad", "grad_"}) {
        CAPTURE(name);
        CHECK_FALSE(gradient_name(name));
    }
}

TEST_CASE("the gradient of a bias is no map's, that of queries is not that of keys", "[diff][names][gradient]")
{
    CHECK(contradicts("grad.query_bias", "grad.query_weights"));
    CHECK_FALSE(contradicts("grad.query_bias", "grad.query_bias"));
    CHECK(contradicts("grad.q", "grad.keys"));
    CHECK_FALSE(contradicts("grad.q", "grad.queries"));
}

TEST_CASE("each mistake of a backward pass is named where it is made, and only there something is wrong",
          "[diff][diagnose][gradient][pitfalls]")
{
    const std::set<std::string_view> elsewhere{"grad_dropout", "grad_loss_padding"}; // told by what MINE has
    for (const Pitfall& pitfall : pitfalls()) {
        if (!pitfall.shown().step.starts_with(gradient_scope) || elsewhere.contains(pitfall.id))
            continue;
        CAPTURE(pitfall.id);
        std::size_t made = 0;
        for (const Recording& reference : all_traces())
            for (const PitfallForm& form : pitfall.forms) {
                auto arrays = with_mistake(reference, form);
                if (!arrays)
                    continue;
                CAPTURE(reference.steps.front().path, form.edits.front().right, form.edits.front().mistaken);
                const Diff result = diff::compare(reference, std::move(*arrays));
                if (result.first_wrong() == nullptr)
                    continue; // it changes nothing here
                ++made;
                const bool is_head_lost = pitfall.id == "grad_overwritten" && // and has the narrower name
                                          result.first_wrong()->step->path.find("head.1.keys") != std::string::npos;
                CHECK(is_named(result, is_head_lost ? find_pitfall("grad_shared_heads") : pitfall));
            }
        CHECK(made > 0);
    }
}

TEST_CASE("a dropout mask that is drawn anew is named by where the zeros are", "[diff][diagnose][gradient][pitfalls]")
{
    const Array kept{{2, 3}, {1, 0, 1, 1, 1, 0}, ElementType::boolean};
    const Recording reference =
        backwards({{"x", {2, 3}}}, {input("kept", kept)}, {{"output", "where(kept, x / 0.9, 0)"}});
    Array mine = named(reference, "grad.output").value;
    for (std::size_t i = 0; i < mine.size(); ++i)
        mine.values[i] *= i % 2 == 0 ? 0 : 1 / 0.9;
    const Diff result = diff::compare(reference, {{"dx", mine}});
    REQUIRE(result.first_wrong() != nullptr);
    CHECK(is_named(result, find_pitfall("grad_dropout")));
}

TEST_CASE("padding in the loss is named by the rows that have a gradient", "[diff][diagnose][gradient][pitfalls]")
{
    const Recording forward = trace_of({input("x", {{3, 2}, {1, 2, 3, 4, 5, 6}})}, {{"output", "x * 2"}});
    const Recording reference = gradients(forward, {.seed = Array{{3, 2}, {0.5, -0.5, 0.25, 0.75, 0, 0}}});
    const Array mine{{3, 2}, {0.5, -0.5, 0.25, 0.75, 0.1, -0.3}};
    const Diff result = diff::compare(reference, {{"grad.output", mine}});
    REQUIRE(result.first_wrong() != nullptr);
    CHECK_THAT(result.first_wrong()->message, ContainsSubstring("the gradients begin here"));
    CHECK(is_named(result, find_pitfall("grad_loss_padding")));
    Array mean = mine;
    for (double& value : mean.values)
        value *= 2.0 / 3;
    CHECK(is_named(diff::compare(reference, {{"grad.output", mean}}), find_pitfall("grad_loss_padding")));
}

TEST_CASE("in a traced loss, a sum for a mean and padding are named from the gradient of the logits",
          "[diff][diagnose][gradient][pitfalls]")
{
    const Array targets{{3}, {1, 0, -1}, ElementType::integer};
    const Recording reference =
        gradients(trace_of({input("logits", {{3, 2}, {0.5, 2, -1, 0.25, 3, 1}}), input("targets", targets)},
                           {{"shifted", "logits - max(logits, axis=-1, keepdims=True)"},
                            {"log_p", "shifted - log(sum(exp(shifted), axis=-1, keepdims=True))"},
                            {"target_p", "where(targets[..., None] == arange(2), 1, 0)"},
                            {"is_counted", "where(targets > -1, 1, 0)"},
                            {"losses", "where(is_counted == 1, -sum(target_p * log_p, axis=-1), 0)"},
                            {"loss", "sum(losses) / sum(is_counted)"}}));
    const Array right = named(reference, "grad.logits").value;
    Array sum = right, padding = right;
    for (double& value : sum.values)
        value *= 2;
    padding.values[4] = 0.2;
    padding.values[5] = -0.2;
    CHECK(diff::compare(reference, {{"dlogits", right}}).passed());
    CHECK(is_named(diff::compare(reference, {{"dlogits", sum}}), find_pitfall("grad_loss_scale")));
    CHECK(is_named(diff::compare(reference, {{"dlogits", padding}}), find_pitfall("grad_loss_padding")));
}

TEST_CASE("right gradients are the same under names of a program's own, packed and as PyTorch has weights",
          "[diff][matching][gradient]")
{
    const Recording reference = gradients(recording_of(run_heads));
    const auto of = [&](const std::string& path) { return named(reference, "grad." + path).value; };
    NamedArrays mine;
    for (const char* part : {"query", "key", "value"})
        mine.emplace(std::string("dW") + part[0], permuted(of(std::string(part) + "_weights"), {1, 0}));
    mine.emplace("dx", of("x"));
    mine.emplace("memory.grad", of("memory"));
    const Diff result = diff::compare(reference, mine);
    CHECK(result.passed());
    CHECK(result.extra.empty());
    CHECK(result.steps.size() == 5);
    for (double& value : mine.at("dWk").values)
        value *= 2;
    const Diff wrong = diff::compare(reference, mine);
    REQUIRE(wrong.first_wrong() != nullptr);
    CHECK(wrong.first_wrong()->mine == "dWk");
    CHECK(wrong.count(DiffVerdict::bug) == 1);
}

TEST_CASE("the gradient of a gain that all heads share is that of PyTorch's q_norm.weight", "[diff][names][gradient]")
{
    Numbers numbers(61);
    LlamaLayerWeights weights{{numbers.vector(6)},
                              random_heads(numbers, {.h_d_v = 4, .is_biased = false}),
                              {numbers.vector(6)},
                              {{numbers.matrix(6, 5)}, {numbers.matrix(6, 5)}, {numbers.matrix(5, 6)}}};
    weights.self_attention.query_norms = {{numbers.vector(2)}};
    weights.self_attention.key_norms = {{numbers.vector(2)}};
    const Matrix x = numbers.matrix(3, 6);
    const Recording reference =
        gradients(recording_of([&](const Trace& trace) { llama_layer(x, weights, {.heads = 2}, trace); }));
    Array sum = named(reference, "grad.self_attn.query_norm.gain.from.head.0.query_norm.output").value;
    const Array& other = named(reference, "grad.self_attn.query_norm.gain.from.head.1.query_norm.output").value;
    for (std::size_t i = 0; i < sum.size(); ++i)
        sum.values[i] += other.values[i];
    const DiffOptions llama{.table = &*std::ranges::find(name_tables(), "llama", &NameTable::name)};
    for (const DiffOptions& options : {llama, DiffOptions{}}) {
        const Diff result = diff::compare(reference, NamedArrays{{"self_attn.q_norm.weight.grad", sum}}, options);
        CHECK(result.passed());
        REQUIRE(result.steps.size() == 1);
        CHECK(result.steps.front().step->path == "grad.self_attn.query_norm.gain");
        const Diff of_one = diff::compare(reference, NamedArrays{{"self_attn.q_norm.weight.grad", other}}, llama);
        CHECK_FALSE(of_one.passed());
    }
}

TEST_CASE("one square map whose gradient is stored the other way round than the others is transposed",
          "[diff][matching][layouts][gradient]")
{
    const Recording reference = square_maps();
    const auto of = [&](const std::string& part) { return named(reference, "grad." + part + "_weights").value; };
    const auto turned = [&](const std::string& part) { return permuted(of(part), {1, 0}); };
    for (const bool is_other : {true, false}) { // (d_out, d_in) among (d_in, d_out), and the reverse
        const auto mine = [&](const std::string& part, bool is_odd) {
            return is_odd == is_other ? turned(part) : of(part);
        };
        const Diff result = diff::compare(
            reference, {{"dWq", mine("query", false)}, {"dWk", mine("key", true)}, {"dWv", mine("value", false)}});
        REQUIRE(result.first_wrong() != nullptr);
        CHECK(result.first_wrong()->mine == "dWk");
        CHECK(result.first_wrong()->verdict == DiffVerdict::layout);
        CHECK(is_named(result, find_pitfall("grad_weight_transposed")));
        CHECK(result.steps.size() == 3);
        CHECK(std::ranges::count_if(result.steps, &StepDiff::passed) == 2);
    }
    // Of two, either can be the right one; the map itself tells.
    NamedArrays two{{"dWq", turned("query")}, {"dWk", of("key")}};
    CHECK(diff::compare(reference, two).passed());
    two.emplace("Wq", named(reference, "query_weights").value);
    const Diff told = diff::compare(reference, two);
    REQUIRE(told.first_wrong() != nullptr);
    CHECK(told.first_wrong()->mine == "dWq");
    two["Wq"] = permuted(two["Wq"], {1, 0});
    CHECK(diff::compare(reference, two).passed());
}

TEST_CASE("the gradient of a weight under the step's own name has its layout", "[diff][layouts][gradient]")
{
    const Recording reference = residual();
    const Array right = named(reference, "grad.w").value;
    const Diff result =
        diff::compare(reference, {{"grad.w", permuted(right, {1, 0})}, {"grad.x", named(reference, "grad.x").value}});
    REQUIRE(result.first_wrong() != nullptr);
    CHECK(result.first_wrong()->verdict == DiffVerdict::layout);
    CHECK(is_named(result, find_pitfall("grad_weight_transposed")));
}

TEST_CASE("what a program leaves out where weights are zero has no effect", "[diff][gradient]")
{
    const Recording reference = attention();
    NamedArrays arrays;
    for (const Step& step : reference.steps)
        if (step.path.starts_with(gradient_scope))
            arrays.emplace(step.path, step.value);
    Array& weights = arrays.at("grad.weights");
    for (std::size_t i = 0; i < weights.size(); ++i)
        weights.values[i] *= named(reference, "mask").value.values[i];
    const Diff result = diff::compare(reference, arrays);
    CHECK(result.passed());
    CHECK(about(result, "grad.weights").verdict == DiffVerdict::no_effect);
    arrays.at("grad.weights").values[0] += 1; // where the weight is one and all others are zero, and so is the slope
    arrays.at("grad.weights").values[4] += 1;
    CHECK_FALSE(diff::compare(reference, arrays).passed());
}

TEST_CASE("the gradient of a bias is found under the names of biases, and a wrong one is not that of a gain",
          "[diff][matching][gradient]")
{
    const Recording reference = norm();
    const NamedArrays right = arrays_of(reference);
    for (const std::string name : {"dbeta", "grad_bias", "db"}) {
        CAPTURE(name);
        Array bias = right.at("grad.bias");
        for (const bool is_wrong : {false, true}) {
            bias.values[1] += is_wrong ? 1 : 0;
            const Diff result = diff::compare(reference, {{name, bias}});
            REQUIRE(result.steps.size() == 1);
            CHECK(result.steps[0].step->path == "grad.bias");
            CHECK(result.passed() == !is_wrong);
        }
    }
}

TEST_CASE("a gradient that nothing explains is not passed over", "[diff][gradient]")
{
    const Recording reference = residual();
    Numbers numbers(3);
    const NamedArrays mine{{"dx", named(reference, "grad.x").value}, {"dQQ", drawn(numbers, {4, 4})}};
    const Diff result = diff::compare(reference, mine);
    CHECK_FALSE(result.passed());
    CHECK(result.extra == std::vector<std::string>{"dQQ"});
}

TEST_CASE("a gradient that is not summed over the tokens is the step that its name says", "[diff][matching][gradient]")
{
    const Recording reference = residual();
    Numbers numbers(3);
    const Diff result =
        diff::compare(reference, {{"dx", named(reference, "grad.x").value}, {"db", drawn(numbers, {3, 4})}});
    REQUIRE(result.first_wrong() != nullptr);
    CHECK(result.first_wrong()->mine == "db");
    CHECK(result.first_wrong()->step->path == "grad.b");
    CHECK_THAT(result.first_wrong()->message, ContainsSubstring("has the shape (3, 4), expected (4,)"));
}

TEST_CASE("what is not called a gradient is compared where it can be one only", "[diff][matching][gradient]")
{
    const Recording reference = residual();
    Numbers numbers(3);
    const Array dx = named(reference, "grad.x").value, other = drawn(numbers, {4, 4});
    const Diff unsaid = diff::compare(reference, {{"dx", dx}, {"error", other}});
    REQUIRE(unsaid.first_wrong() != nullptr);
    CHECK(unsaid.first_wrong()->mine == "error");
    CHECK(unsaid.first_wrong()->step->path == "grad.w");
    CHECK(diff::compare(reference, {{"dx", dx}, {"error", named(reference, "grad.w").value}}).passed());
    // Not beside steps that are no gradients, nor what is nearly the weight itself: a hint says how it can be compared.
    Array trained = named(reference, "w").value;
    for (double& value : trained.values)
        value *= 0.9;
    const NamedArrays beside{{"dx", dx}, {"hidden", named(reference, "hidden").value}, {"error", other}};
    for (const NamedArrays& mine : {beside, NamedArrays{{"dx", dx}, {"error", trained}}}) {
        const Diff result = diff::compare(reference, mine);
        CHECK(result.first_different() == nullptr);
        REQUIRE(result.ledger.open.size() == 1);
        CHECK_THAT(result.ledger.open[0],
                   ContainsSubstring("error can be grad.w, and was not compared: --map error=grad.w"));
    }
}

TEST_CASE("a head's gradient that is one number has no width beside the others", "[diff][matching][gradient]")
{
    ByFormulas program;
    program.given("grad.query", real({2, 4}, {0.5, 1.5, -2, 0.25, 3, 0.75, -1, 0.125}));
    program.given("grad.head.0.queries", real({}, {0.5}));
    Array wrong = program.recording.steps[0].value;
    wrong.values[3] += 1;
    const Diff result = diff::compare(program.recording, NamedArrays{{"dq", wrong}});
    REQUIRE(result.first_wrong() != nullptr);
    CHECK(result.first_wrong()->step->path == "grad.query");
}
