#include "attn/core/trace.hpp"

#include "../interventions.hpp"
#include "../by_hand.hpp"
#include "../test.hpp"

#include "attn/core/error.hpp"
#include "attn/core/recorder.hpp"

#include <functional>
#include <stdexcept>
#include <utility>

using namespace attn;
using namespace attn::test;

namespace {

const Vector pair_of_numbers{1, 2};

/// Replaces the step of one path, and takes the rest as it is.
class Replacing final : public Listener {
public:
    Replacing(std::string path, std::function<Array(const Array&)> change)
        : path_(std::move(path)), change_(std::move(change))
    {
    }

private:
    std::optional<Array> on_step(const Step& step) override
    {
        if (step.path == path_)
            return change_(step.value);
        return std::nullopt;
    }

    std::string path_;
    std::function<Array(const Array&)> change_;
};

Array plus_one(Array array)
{
    for (double& value : array.values)
        value += 1;
    return array;
}

Array doubled(Array array)
{
    for (double& value : array.values)
        value *= 2;
    return array;
}

std::vector<std::string> paths(const Recorder& recorder)
{
    std::vector<std::string> result;
    for (const Step& step : recorder.steps())
        result.push_back(step.path);
    return result;
}

using Paths = std::vector<std::string>;

template <class T>
concept GivesScopes = requires(T trace)
{
    std::forward<T>(trace).scope("head");
};
template <class T>
concept GivesNumberedScopes = requires(T trace)
{
    std::forward<T>(trace).scope("head", 1);
};

} // namespace

TEST_CASE("a trace without a listener returns its value unchanged", "[trace]")
{
    const Trace trace;
    CHECK_FALSE(trace.has_listener());
    CHECK(same_bits(trace("x[n]", "y", pair_of_numbers), pair_of_numbers));
    CHECK(trace("x", "y", 2.0) == 2.0);
}

TEST_CASE("a trace without a listener does not check names", "[trace]")
{
    const Trace trace;
    CHECK(trace("no name at all", "", 1.0) == 1.0);
    const Trace scope = trace.scope("neither this");
    const Trace numbered = scope.scope("nor this", 3);
    CHECK(numbered("x", "", 1.0) == 1.0);
}

TEST_CASE("a step is recorded with its path, formula, axes and value", "[trace]")
{
    Recorder recorder;
    const Trace trace(recorder);
    CHECK(same_bits(trace("x[n]", "y + 1", pair_of_numbers), pair_of_numbers));

    REQUIRE(recorder.steps().size() == 1);
    const Step& step = recorder.steps().front();
    CHECK(step.path == "x");
    CHECK(step.formula == "y + 1");
    CHECK(step.axes == std::vector<std::string>{"n"});
    CHECK(step.module.empty());
    CHECK(step.options.empty());
    CHECK(identical(step.value, to_array(pair_of_numbers)));
}

TEST_CASE("steps are recorded in the order in which they are computed", "[trace]")
{
    Recorder recorder;
    const Trace trace(recorder);
    static_cast<void>(trace("b", "", 1.0));
    static_cast<void>(trace("a", "", 2.0));
    static_cast<void>(trace("c", "", 3.0));
    CHECK(paths(recorder) == Paths{"b", "a", "c"});
}

TEST_CASE("every container can be a step", "[trace]")
{
    Recorder recorder;
    const Trace trace(recorder);
    static_cast<void>(trace("number", "", 1.0));
    static_cast<void>(trace("vector", "", Vector{1}));
    static_cast<void>(trace("matrix", "", Matrix{{1}}));
    static_cast<void>(trace("tensor3", "", Tensor3{{{1}}}));
    static_cast<void>(trace("tensor4", "", Tensor4{{{{1}}}}));
    static_cast<void>(trace("mask", "", Mask{{true}}));
    static_cast<void>(trace("ids", "", Integers{3, -1}));
    static_cast<void>(trace("count", "", std::int64_t{7}));
    REQUIRE(recorder.steps().size() == 8);
    CHECK(recorder.steps()[6].value.type == ElementType::integer);
    CHECK(recorder.steps()[6].value.values == std::vector<double>{3, -1});
    CHECK(recorder.steps()[7].value.rank() == 0);
    for (std::size_t rank = 0; rank < 5; ++rank)
        CHECK(recorder.steps()[rank].value.rank() == rank);
    CHECK(recorder.steps()[5].value.type == ElementType::boolean);
}

TEST_CASE("nested and numbered scopes lead to a step's path", "[trace]")
{
    Recorder recorder;
    const Trace trace(recorder);
    const Trace encoder = trace.scope("encoder");
    const Trace layer = encoder.scope("layers", 0);
    const Trace attention = layer.scope("self_attn");
    const Trace head = attention.scope("head", 12);
    static_cast<void>(head("scores", "", 1.0));
    static_cast<void>(layer("output", "", 1.0));
    static_cast<void>(trace("output", "", 1.0));
    CHECK(paths(recorder) == Paths{"encoder.layers.0.self_attn.head.12.scores", "encoder.layers.0.output", "output"});
}

TEST_CASE("a scope inside a numbered scope is not numbered itself", "[trace]")
{
    Recorder recorder;
    const Trace trace(recorder);
    const Trace head = trace.scope("head", 3);
    const Trace inner = head.scope("inner");
    static_cast<void>(inner("x", "", 1.0));
    CHECK(paths(recorder) == Paths{"head.3.inner.x"});
}

TEST_CASE("a module says who computed a step with which options, and leaves its path alone", "[trace]")
{
    Recorder recorder;
    const Trace trace(recorder);
    const Trace head = trace.scope("head", 0);
    const Trace module = head.module("attention", [] { return StepOptions{{"scale", "0.5"}}; });
    static_cast<void>(module("scores", "", 1.0));
    const Trace inside = module.scope("inside");
    static_cast<void>(inside("x", "", 1.0));
    const Trace other = inside.module("softmax");
    static_cast<void>(other("y", "", 1.0));
    static_cast<void>(head("z", "", 1.0));

    const std::vector<Step>& steps = recorder.steps();
    CHECK(paths(recorder) == Paths{"head.0.scores", "head.0.inside.x", "head.0.inside.y", "head.0.z"});
    CHECK(steps[0].module == "attention");
    CHECK(steps[0].options == StepOptions{{"scale", "0.5"}});
    CHECK(steps[1].module == "attention");
    CHECK(steps[2].module == "softmax");
    CHECK(steps[2].options.empty());
    CHECK(steps[3].module.empty());
}

TEST_CASE("a temporary trace has no scopes: they would point to nothing", "[trace]")
{
    CHECK(GivesScopes<const Trace&>);
    CHECK(GivesNumberedScopes<const Trace&>);
    CHECK_FALSE(GivesScopes<Trace>);
    CHECK_FALSE(GivesNumberedScopes<Trace>);
}

TEST_CASE("an observing trace, its scopes and modules refuse a replacement, and name step and function", "[trace]")
{
    ReplaceStep zero("head.0.x", [](double) { return 0; });
    const Trace trace(zero);
    const Trace observing = trace.observing().module("fast::attention");
    const Trace head = observing.scope("head", 0), next = observing.scope("head", 1);
    CHECK(next("x", "", 1.0) == 1.0);
    CHECK(next.input("y", 1.0) == 1.0);
    const std::string refusal =
        "trace: head.0.x was replaced, but fast::attention only shows its steps: replace those of the reference";
    CHECK_THROWS_WITH(head("x", "", 1.0), refusal);
    ReplaceStep to_input("x", [](double) { return 0; });
    CHECK_THROWS_AS(Trace(to_input).observing().input("x", 1.0), std::logic_error);
    CHECK(Trace().observing()("x", "", 1.0) == 1.0);
}

TEST_CASE("an input that its caller has named in this scope is not recorded twice", "[trace]")
{
    Recorder recorder;
    const Trace trace(recorder);
    const Trace head = trace.scope("head", 0);
    static_cast<void>(head("queries[n]", "query[0:2]", pair_of_numbers));
    static_cast<void>(head.input("queries[n]", pair_of_numbers));
    static_cast<void>(head.input("keys[m]", pair_of_numbers));
    static_cast<void>(head.input("keys[m]", pair_of_numbers));
    CHECK(paths(recorder) == Paths{"head.0.queries", "head.0.keys"});
    CHECK(recorder.steps()[0].formula == "query[0:2]");
    CHECK(recorder.steps()[1].formula.empty());
}

TEST_CASE("an input named in another scope is recorded in this one", "[trace]")
{
    Recorder recorder;
    const Trace trace(recorder);
    static_cast<void>(trace.input("queries", pair_of_numbers));
    const Trace head = trace.scope("head");
    static_cast<void>(head.input("queries", pair_of_numbers));
    CHECK(paths(recorder) == Paths{"queries", "head.queries"});
}

TEST_CASE("two steps of one path are refused, and the path is named", "[trace]")
{
    Recorder recorder;
    const Trace trace(recorder);
    const Trace head = trace.scope("head", 1);
    static_cast<void>(head("scores", "", 1.0));
    CHECK_THROWS_AS(head("scores", "", 2.0), std::logic_error);
    CHECK_THROWS_WITH(head("scores", "", 2.0), ContainsSubstring("head.1.scores"));
    CHECK(recorder.steps().size() == 1);
    CHECK(recorder.find("head.1.scores") == "head.1.scores");
    CHECK_FALSE(recorder.find("scores").has_value());
}

TEST_CASE("a malformed step name is refused", "[trace]")
{
    Recorder recorder;
    const Trace trace(recorder);
    const std::string name = GENERATE(as<std::string>{}, "", "1x", "a.b", "a b", "x-y", "x[", "x]", "x[n", "x[]",
                                      "x[n, ]", "x[, n]", "x[n,]", "x[n,m]", "x[ n, m]", "x[n,  m]", "x[n, m] ",
                                      "x[n]m]", "x[n][m]", "x[n m, k]", "[n, m]", "\xC3\xA9[n, m]");
    CAPTURE(name);
    CHECK_THROWS_AS(trace(name, "", Matrix{{1}}), std::logic_error);
    CHECK_THROWS_AS(trace.input(name, Matrix{{1}}), std::logic_error);
    CHECK(recorder.steps().empty());
}

TEST_CASE("an axis whose comma lacks its space does not lose a letter", "[trace]")
{
    Recorder recorder;
    const Trace trace(recorder);
    CHECK_THROWS_AS(trace("keys[m,d_k]", "", Matrix{{1}}), std::logic_error);
}

TEST_CASE("letters, digits, underscores and capitals make names", "[trace]")
{
    Recorder recorder;
    const Trace trace(recorder);
    static_cast<void>(trace("W_q2[d_model, d_k]", "", Matrix{{1}}));
    static_cast<void>(trace("_hidden", "", Matrix{{1}}));
    CHECK(recorder.steps()[0].path == "W_q2");
    CHECK(recorder.steps()[0].axes == std::vector<std::string>{"d_model", "d_k"});
    CHECK(recorder.steps()[1].axes.empty());
}

TEST_CASE("a malformed scope name is refused", "[trace]")
{
    Recorder recorder;
    const Trace trace(recorder);
    const std::string name = GENERATE(as<std::string>{}, "", "a.b", "0", "a b", "head[0]");
    CAPTURE(name);
    CHECK_THROWS_AS(trace.scope(name), std::logic_error);
    CHECK_THROWS_AS(trace.scope(name, 1), std::logic_error);
}

TEST_CASE("a step with another number of axes than its name says is refused", "[trace]")
{
    Recorder recorder;
    const Trace trace(recorder);
    CHECK_THROWS_AS(trace("x[n]", "", Matrix{{1}}), std::logic_error);
    CHECK_THROWS_WITH(trace("x[n, m, k]", "", Matrix{{1}}), ContainsSubstring("(1, 1)"));
    CHECK_THROWS_AS(trace("x[n]", "", 1.0), std::logic_error);
    CHECK_THROWS_AS(trace.input("x[n, m]", pair_of_numbers), std::logic_error);
    CHECK(recorder.steps().empty());
}

TEST_CASE("a formula that must be made is made only when somebody listens, and then once", "[trace]")
{
    int made = 0;
    const auto formula = [&] {
        ++made;
        return std::string("x * 2");
    };
    const Trace silent;
    static_cast<void>(silent("y", formula, 1.0));
    CHECK(made == 0);

    Recorder recorder;
    const Trace trace(recorder);
    static_cast<void>(trace("y", formula, 1.0));
    CHECK(made == 1);
    CHECK(recorder.steps().front().formula == "x * 2");
}

TEST_CASE("options are collected only when somebody listens, and then once per module", "[trace]")
{
    int collected = 0;
    const auto options = [&] {
        ++collected;
        return StepOptions{{"mask", "none"}};
    };
    const Trace silent;
    const Trace silent_module = silent.module("f", options);
    static_cast<void>(silent_module("x", "", 1.0));
    CHECK(collected == 0);

    Recorder recorder;
    const Trace trace(recorder);
    const Trace module = trace.module("f", options);
    static_cast<void>(module("x", "", 1.0));
    static_cast<void>(module("y", "", 1.0));
    CHECK(collected == 1);
}

TEST_CASE("the run goes on with what a listener replaces a value by", "[trace]")
{
    Replacing listener("x", plus_one);
    const Trace trace(listener);
    const Vector x = trace("x[n]", "", pair_of_numbers);
    const Vector y = trace("y[n]", "x * 10", Vector(x * 10));
    CHECK(same_bits(x, Vector{2, 3}));
    CHECK(same_bits(y, Vector{20, 30}));
}

TEST_CASE("a mask can be replaced by a mask only", "[trace]")
{
    Replacing allow_all("mask", [](const Array& mask) { return Array{mask.shape, {1, 1}, ElementType::boolean}; });
    Replacing numbers("mask", [](const Array& mask) { return Array{mask.shape, {1, 1}}; });
    const Trace trace(allow_all);
    const Trace wrong(numbers);
    CHECK(same_bits(trace("mask", "", Mask{{true, false}}), Mask{{true, true}}));
    CHECK_THROWS_AS(wrong("mask", "", Mask{{true, false}}), Error);
}

TEST_CASE("a replacement of another shape is refused", "[trace]")
{
    Replacing longer("x", [](const Array&) { return Array{{3}, {1, 2, 3}}; });
    Replacing deeper("x", [](const Array&) { return Array{{1, 2}, {1, 2}}; });
    const Trace to_longer(longer);
    const Trace to_deeper(deeper);
    CHECK_THROWS_AS(to_longer("x", "", pair_of_numbers), std::exception);
    CHECK_THROWS_AS(to_deeper("x", "", pair_of_numbers), std::exception);
}

TEST_CASE("each of several listeners gets what the ones before it replaced values by", "[trace]")
{
    Recorder before;
    Replacing first("x", plus_one);
    Recorder between;
    Replacing second("x", doubled);
    Recorder after;
    Listeners all({&before, &first, &between, &second, &after});
    const Trace trace(all);

    CHECK(same_bits(trace("x[n]", "y", pair_of_numbers), Vector{4, 6}));
    CHECK(before.steps().front().value.values == std::vector<double>{1, 2});
    CHECK(between.steps().front().value.values == std::vector<double>{2, 3});
    CHECK(after.steps().front().value.values == std::vector<double>{4, 6});
    CHECK(after.steps().front().formula == "y");
}

TEST_CASE("several listeners that replace nothing replace nothing together", "[trace]")
{
    Recorder first;
    Recorder second;
    Listeners both({&first, &second});
    CHECK_FALSE(both.record({"x", "", {}, "", {}, to_array(1.0)}).has_value());
    CHECK(first.find("x").has_value());
    CHECK(second.find("x").has_value());
}

TEST_CASE("a replaced input is what the function goes on with, for as long as the listener lives", "[trace]")
{
    Replacing listener("head.keys", plus_one);
    const Trace trace(listener);
    const Trace head = trace.scope("head");
    const Vector& keys = head.input("keys", pair_of_numbers);
    const Vector& others = head.input("values", pair_of_numbers);
    CHECK(same_bits(keys, Vector{2, 3}));
    CHECK(&others == &pair_of_numbers);
    CHECK(same_bits(head.input("temporary", Vector{1}), Vector{1}));
}

TEST_CASE("an input that is replaced by its own bits is no change", "[trace]")
{
    Replacing listener("keys", [](const Array& keys) { return keys; });
    const Trace trace(listener);
    CHECK(&trace.input("keys", pair_of_numbers) == &pair_of_numbers);
}

TEST_CASE("a label that may be a batch's gives a value with one more axis the letter b", "[trace][batch]")
{
    Recorder recorder;
    const Trace trace(recorder);
    static_cast<void>(trace("scores[(b,) n, m]", "", Matrix{{1, 2}}));
    const Trace batch = trace.scope("batch");
    static_cast<void>(batch("scores[(b,) n, m]", "", Tensor3{{{1, 2}}}));
    static_cast<void>(batch("mean[(b,) n]", "", Matrix{{1, 2}}));
    REQUIRE(recorder.steps().size() == 3);
    CHECK(recorder.steps()[0].path == "scores");
    CHECK(recorder.steps()[0].axes == std::vector<std::string>{"n", "m"});
    CHECK(recorder.steps()[1].path == "batch.scores");
    CHECK(recorder.steps()[1].axes == std::vector<std::string>{"b", "n", "m"});
    CHECK(recorder.steps()[2].axes == std::vector<std::string>{"b", "n"});
    CHECK(parse_step_label("scores[(b,) n, m]").may_be_batch);
    CHECK_FALSE(parse_step_label("scores[b, n, m]").may_be_batch);
}

TEST_CASE("a label that may be a batch's may be that of a batch's heads", "[trace][batch]")
{
    Recorder recorder;
    const Trace trace(recorder);
    (void)trace("scores[(b,) n, m]", "", Tensor4{{{{1}}}});
    CHECK(recorder.steps()[0].axes == std::vector<std::string>{"b", "h", "n", "m"});
}

TEST_CASE("a label that may be a batch's refuses any other number of axes", "[trace][batch]")
{
    Recorder recorder;
    const Trace trace(recorder);
    CHECK_THROWS_AS(trace("x[(b,) n, m]", "", pair_of_numbers), std::logic_error);
    CHECK_THROWS_AS(trace("x[(b,) n]", "", Tensor4{{{{1}}}}), std::logic_error);
    CHECK_THROWS_AS(trace("x[n, m]", "", Tensor3{{{1}}}), std::logic_error);
    CHECK(recorder.steps().empty());
}

TEST_CASE("a malformed batch in a label is refused", "[trace][batch]")
{
    Recorder recorder;
    const Trace trace(recorder);
    const std::string name = GENERATE(as<std::string>{}, "x[(b) n, m]", "x[(b,)n, m]", "x[(b,) ]", "x[(b,)]",
                                      "x[(c,) n, m]", "x[n, (b,) m]", "x[(b,) (b,) n]", "x[ (b,) n, m]");
    CAPTURE(name);
    CHECK_THROWS_AS(trace(name, "", Matrix{{1}}), std::logic_error);
    CHECK(recorder.steps().empty());
}

TEST_CASE("a mask for each sequence of a batch is a step of booleans", "[trace][batch]")
{
    const BatchMask mask{{{true, false}}, {{false, false}}};
    Recorder recorder;
    const Trace trace(recorder);
    CHECK(same_bits(trace("mask[(b,) n, m]", "", mask), mask));
    const Trace scope = trace.scope("inside");
    static_cast<void>(scope.input("mask[(b,) n, m]", mask));
    REQUIRE(recorder.steps().size() == 2);
    for (const Step& step : recorder.steps()) {
        CHECK(step.value.type == ElementType::boolean);
        CHECK(step.value.shape == Shape{2, 1, 2});
        CHECK(step.value.values == std::vector<double>{1, 0, 0, 0});
        CHECK(step.axes == std::vector<std::string>{"b", "n", "m"});
    }
    CHECK(same_bits(from_array<BatchMask>(recorder.steps()[0].value), mask));

    Replacing allow_all("mask", [](const Array& any) { return Array{any.shape, {1, 1, 1, 1}, ElementType::boolean}; });
    const Trace replacing(allow_all);
    CHECK(same_bits(replacing("mask", "", mask), BatchMask(mask.shape(), true)));
}

TEST_CASE("a shared input is recorded where it is first named, and not again in the scopes inside", "[trace]")
{
    Recorder recorder;
    const Trace trace(recorder);
    static_cast<void>(trace.shared_input("mask[n]", pair_of_numbers));
    const Trace layer = trace.scope("layers", 0);
    const Trace head = layer.scope("head", 1);
    static_cast<void>(head.shared_input("mask[n]", pair_of_numbers));
    static_cast<void>(layer.shared_input("mask[n]", pair_of_numbers));
    static_cast<void>(trace.shared_input("mask[n]", pair_of_numbers));
    CHECK(paths(recorder) == Paths{"mask"});

    // A plain input belongs to its own scope all the same.
    static_cast<void>(head.input("mask[n]", pair_of_numbers));
    CHECK(paths(recorder) == Paths{"mask", "layers.0.head.1.mask"});
}

TEST_CASE("a shared input that was recorded in another scope, or in one further inside, is recorded here too",
          "[trace]")
{
    Recorder recorder;
    const Trace trace(recorder);
    const Trace first = trace.scope("head", 0);
    const Trace second = trace.scope("head", 1);
    const Trace inner = second.scope("inner");
    static_cast<void>(first.shared_input("mask", pair_of_numbers));
    static_cast<void>(inner.shared_input("mask", pair_of_numbers));
    static_cast<void>(second.shared_input("mask", pair_of_numbers));
    CHECK(paths(recorder) == Paths{"head.0.mask", "head.1.inner.mask", "head.1.mask"});
}

TEST_CASE("a shared input is found by its whole name only", "[trace]")
{
    Recorder recorder;
    const Trace trace(recorder);
    static_cast<void>(trace("given_mask", "", pair_of_numbers));
    static_cast<void>(trace("mask_of", "", pair_of_numbers));
    const Trace scope = trace.scope("mask");
    static_cast<void>(scope.shared_input("mask", pair_of_numbers));
    CHECK(paths(recorder) == Paths{"given_mask", "mask_of", "mask.mask"});
}

TEST_CASE("a module does not hide a shared input from what is inside it", "[trace]")
{
    Recorder recorder;
    const Trace trace(recorder);
    const Trace module = trace.module("encoder");
    static_cast<void>(module.shared_input("mask", pair_of_numbers));
    const Trace scope = module.scope("layers", 0);
    const Trace inner = scope.module("encoder_layer");
    static_cast<void>(inner.shared_input("mask", pair_of_numbers));
    CHECK(paths(recorder) == Paths{"mask"});
    CHECK(recorder.steps()[0].module == "encoder");
}

TEST_CASE("without a listener a shared input is returned unchanged, and its name is not checked", "[trace]")
{
    const Trace trace;
    CHECK(&trace.shared_input("no name at all", pair_of_numbers) == &pair_of_numbers);
    Recorder recorder;
    const Trace listening(recorder);
    CHECK_THROWS_AS(listening.shared_input("no name at all", pair_of_numbers), std::logic_error);
}

// ------------------------------------------------------------------------------------------------------------- aliases

namespace {

Paths aliases(const Recorder& recorder)
{
    Paths result;
    for (const Alias& alias : recorder.recording().aliases)
        result.push_back(alias.path + " = " + alias.target);
    return result;
}

} // namespace

TEST_CASE("a scope's other names mean steps of the scope around, and an input of that name is not recorded", "[trace]")
{
    Recorder recorder;
    const Trace trace(recorder);
    static_cast<void>(trace("residual1", "", 1.0));
    const Trace norm = trace.scope("norm1", {{"x", "residual1"}});
    const double number = 1.0;
    CHECK(&norm.input("x", number) == &number);
    const Trace layer = trace.scope("layers", 2, {{"x", "norm1.x"}}); // another name of another name
    static_cast<void>(layer.input("x", number));
    trace.alias("output", "layers.2.x");
    CHECK(paths(recorder) == Paths{"residual1"});
    CHECK(aliases(recorder) == Paths{"norm1.x = residual1", "layers.2.x = residual1", "output = residual1"});
    CHECK(recorder.find("output") == "residual1");
}

TEST_CASE("a shared input finds other names around it", "[trace]")
{
    Recorder recorder;
    const Trace trace(recorder);
    static_cast<void>(trace("memory_mask", "", 1.0));
    const Trace cross = trace.scope("cross_attn", {{"mask", "memory_mask"}});
    const Trace head = cross.scope("head", 0);
    static_cast<void>(head.shared_input("mask", 1.0));
    CHECK(paths(recorder) == Paths{"memory_mask"});
}

TEST_CASE("another name is malformed, taken, or means no earlier step: each is refused", "[trace]")
{
    Recorder recorder;
    const Trace trace(recorder);
    static_cast<void>(trace("x", "", 1.0));
    CHECK_THROWS_AS(trace.alias("1y", "x"), std::logic_error);
    CHECK_THROWS_AS(trace.alias("y[n]", "x"), std::logic_error);
    CHECK_THROWS_WITH(trace.alias("y", "nowhere"), ContainsSubstring("y can't mean nowhere: there is no such step"));
    CHECK_THROWS_AS(trace.alias("x", "x"), std::logic_error);
    CHECK_THROWS_AS(trace.scope("norm", {{"x", "nowhere"}}), std::logic_error);
    CHECK(aliases(recorder).empty());
    trace.alias("y", "x");
    CHECK_THROWS_AS(trace.alias("y", "x"), std::logic_error);
    CHECK_THROWS_AS(trace("y", "", 1.0), std::logic_error);
}

TEST_CASE("every listener gets another name, and a trace that nobody listens to doesn't look at it", "[trace]")
{
    Recorder first, second;
    Listeners both({&first, &second});
    const Trace trace(both);
    static_cast<void>(trace("x", "", 1.0));
    trace.alias("y", "x");
    CHECK(aliases(first) == Paths{"y = x"});
    CHECK(aliases(second) == Paths{"y = x"});
    CHECK_NOTHROW(Trace().alias("no name", "nowhere"));
}
