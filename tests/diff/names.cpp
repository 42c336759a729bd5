#include "reference/layers/decoder_examples.hpp"
#include "runs.hpp"
#include "sources.hpp"
#include "test.hpp"

#include "attn/reference/attention/with_past.hpp"
#include "attn/reference/models/llama.hpp"
#include "attn/reference/ops/heads.hpp"

#include <cstdlib>
#include <fstream>
#include <set>

using namespace attn;
using namespace attn::diff;
using namespace attn::files;
using namespace attn::test;

namespace {

/// A post-norm decoder layer of two heads, three tokens that ask four.
void run_decoder_layer(const Trace& trace)
{
    Numbers numbers(17);
    const DecoderLayerWeights weights = random_decoder_layer(numbers);
    const Matrix x = numbers.matrix(3, 6), memory = numbers.matrix(4, 6);
    decoder_layer(x, memory, weights, {.attention = {.heads = 2}}, trace);
}

/// A layer of two heads, and the logits of four words for three tokens.
void run_small_llama(const Trace& trace)
{
    Numbers numbers(19);
    LlamaWeights weights{.embedding = numbers.matrix(4, 6)};
    LlamaLayerWeights& layer = weights.layers.emplace_back();
    layer.norm1 = layer.norm2 = {numbers.vector(6)};
    layer.self_attention = {
        {numbers.matrix(6, 4)}, {numbers.matrix(6, 4)}, {numbers.matrix(6, 4)}, LinearWeights{numbers.matrix(4, 6)}};
    layer.feed_forward = {{numbers.matrix(6, 5)}, {numbers.matrix(6, 5)}, {numbers.matrix(5, 6)}};
    weights.norm = {numbers.vector(6)};
    llama(Integers{2, 0, 3}, weights, {.heads = 2}, trace);
}

/// Two heads that share keys and values, after a past, with a mask, lengths and a bias.
void run_shared_heads(const Trace& trace)
{
    Numbers numbers(18);
    const auto heads = [&] { return unpack_heads(numbers.tensor3(2, 2, 3), 1); };
    const PastOf<Tensor4> past{heads(), heads()};
    const MaskParts parts{
        .given = Mask(Mask::shape_type{2, 4}, true), .key_lengths = Integers{4, 3}, .has_heads = true};
    packed_attention(numbers.tensor3(2, 2, 6), numbers.tensor3(2, 2, 3), numbers.tensor3(2, 2, 3), {2, 1}, past,
                     {.mask = join_masks(2, 4, parts, trace), .bias = AnyBias(numbers.matrix(2, 4))}, trace);
}

} // namespace

TEST_CASE("missing steps are listed and pass, unless all are asked for or nothing is in common", "[diff][names]")
{
    const Recording reference = recording_of(run_layer);
    NamedArrays mine = arrays_of(reference);
    mine.erase("norm1.mean");
    const Diff lenient = diff::compare(reference, mine), strict = diff::compare(reference, mine, {.all = true});
    CHECK(lenient.passed());
    CHECK(lenient.missing == std::vector<std::string>{"norm1.mean"});
    CHECK_FALSE(strict.passed());
    CHECK(strict.missing_fails);
    CHECK_FALSE(diff::compare(reference, NamedArrays{}).passed());
}

TEST_CASE("an array that is no step fails, for a name may be misspelt, unless the result is there and right",
          "[diff][names]")
{
    const Recording reference = recording_of(run_layer);
    NamedArrays mine = arrays_of(reference);
    mine["ouptut"] = Array{{2}, {0.25, 0.75}, ElementType::real};
    CHECK(diff::compare(reference, mine).passed());
    CHECK(diff::compare(reference, mine).extra == std::vector<std::string>{"ouptut"});
    CHECK_FALSE(diff::compare(reference, mine, {.all = true}).passed());
    mine.erase("norm2.output");
    mine.erase("output"); // which is another name of it
    const Diff result = diff::compare(reference, std::move(mine));
    CHECK_FALSE(result.passed());
    CHECK(result.first_different() == nullptr);
    REQUIRE(result.ledger.open.size() == 1);
    CHECK(result.ledger.open[0].starts_with("the result, norm2.output, was not compared"));
}

TEST_CASE("names can be mapped, one by one, by number, by the rest, and with an axis of heads", "[diff][names]")
{
    const Recording reference = recording_of(run_layer);
    const Array& output = named(reference, "output").value;
    const auto compared = [&](const std::string& name, const Array& array, const NameRule& rule) {
        const Diff result = diff::compare(reference, NamedArrays{{name, array}}, {.names = {rule}});
        CHECK(result.first_different() == nullptr);
        CHECK(result.extra.empty());
        return result.steps.size();
    };
    CHECK(compared("result", output, {"result", "output"}) == 1);
    CHECK(compared("norm_2", named(reference, "norm2.output").value, {"norm_{i}", "norm{i}.output"}) == 1);
    CHECK(compared("model.norm1.mean", named(reference, "norm1.mean").value, {"model.{*}", "{*}"}) == 1);
    CHECK(compared("probs", packed_heads(reference, "self_attn.", "weights", 2),
                   {"probs[..., {h}, :, :]", "self_attn.head.{h}.weights"}) == 2);
    CHECK(compared("w", transposed(named(reference, "self_attn.query_weights").value),
                   {"w.T", "self_attn.query_weights"}) == 1);
    CHECK(compared("w", stacked({named(reference, "norm1.gain").value, named(reference, "norm1.bias").value}),
                   {"w[1/2]", "norm1.bias"}) == 1);
    CHECK(compared("s", packed_heads(reference, "self_attn.", "masked", 2),
                   {"s[:, {h}]", "self_attn.head.{h}.none|self_attn.head.{h}.masked"}) == 2);
}

TEST_CASE("a map means the whole of a name, and is refused where MINE has no such array", "[diff][names]")
{
    const Recording reference = recording_of(run_layer);
    const NamedArrays mine{{"model.norm1.means", named(reference, "norm1.mean").value}};
    CHECK_THROWS_WITH(diff::compare(reference, mine, {.names = {{"norm1.means", "norm1.mean"}}}),
                      "norm1.means = norm1.mean: MINE has no array norm1.means; did you mean model.norm1.means?");
    CHECK(diff::compare(reference, mine, {.names = {{"model.norm1.means", "norm1.mean"}}}).passed());
}

TEST_CASE("a wrong number in a packed array is named by its head", "[diff][names]")
{
    const Recording reference = recording_of(run_heads);
    Array probs = packed_heads(reference, "", "weights", 2);
    REQUIRE(probs.shape == Shape{3, 2, 4, 5});
    probs.values[((1 * 2 + 1) * 4 + 2) * 5 + 4] += 0.5;
    const Diff result =
        diff::compare(reference, NamedArrays{{"probs", probs}}, {.names = {{"probs[:, {h}]", "head.{h}.weights"}}});
    CHECK(result.first_wrong()->place == "head 1, sequence 1, query 2, key 4");
    CHECK(result.first_wrong()->mine == "probs[:, 1]");
    CHECK(result.count(DiffVerdict::equal) == 1);
}

TEST_CASE("a packed array of another number of heads fails and says so", "[diff][names]")
{
    const Recording reference = recording_of(run_heads);
    const Array probs{{3, 4, 4, 5}, std::vector<double>(240), ElementType::real};
    const Diff result =
        diff::compare(reference, NamedArrays{{"probs", probs}}, {.names = {{"probs[:, {h}]", "head.{h}.weights"}}});
    CHECK_FALSE(result.passed());
    CHECK_THAT(result.steps.at(0).message, ContainsSubstring("has 4 heads along axis 1 of (3, 4, 4, 5), expected 2"));
}

TEST_CASE("a malformed map is refused", "[diff][names]")
{
    const Recording reference = recording_of(run_heads);
    for (const NameRule& rule : {NameRule{"a[2]", "x"}, NameRule{"a[3/3]", "x"}, NameRule{"a[..., ...]", "x"},
                                 NameRule{"a", "head.{h}.x"}, NameRule{"a[{h}]", "x"}, NameRule{"", "x"}})
        CHECK_THROWS_AS(diff::compare(reference, NamedArrays{}, {.names = {rule}}), Error);
}

namespace {

const NameTable& table_called(std::string_view name)
{
    for (const NameTable& table : name_tables())
        if (table.name == name)
            return table;
    throw std::out_of_range(std::string(name));
}

/// Compares arrays under a program's names with a run; returns how many steps were compared.
std::size_t compared_under(std::string_view table, const Recording& reference, NamedArrays mine)
{
    const Diff result = diff::compare(reference, std::move(mine), {.table = &table_called(table)});
    for (const StepDiff& step : result.steps) {
        CAPTURE(step.step->path, step.mine, step.message);
        CHECK(step.verdict == DiffVerdict::equal);
    }
    CHECK(result.extra.empty());
    CHECK(result.matched.empty()); // found by its name, not by its numbers
    return result.steps.size();
}

} // namespace

TEST_CASE("the names of TransformerLens mean the steps that they say", "[diff][names]")
{
    const Recording steps = recording_of(run_stack);
    const std::string scope = "layers.1.self_attn.";
    const auto tokens_first = [&](const std::string& name) { // (b, n, h, d)
        Array heads = packed_heads(steps, scope, name, 3);
        Array result{{2, 5, 3, 2}, std::vector<double>(60), ElementType::real};
        for (std::size_t b = 0; b < 2; ++b)
            for (std::size_t h = 0; h < 3; ++h)
                for (std::size_t n = 0; n < 5; ++n)
                    for (std::size_t d = 0; d < 2; ++d)
                        result.values[((b * 5 + n) * 3 + h) * 2 + d] = heads.values[((b * 3 + h) * 5 + n) * 2 + d];
        return result;
    };
    CHECK(compared_under("transformer-lens", steps,
                         {{"blocks.1.hook_resid_pre", named(steps, "layers.1.x").value},
                          {"blocks.1.attn.hook_q", tokens_first("rotary_query.x")},
                          {"blocks.1.attn.hook_rot_q", tokens_first("queries")},
                          {"blocks.1.attn.hook_attn_scores", packed_heads(steps, scope, "scaled", 3)},
                          {"blocks.1.attn.hook_pattern", packed_heads(steps, scope, "weights", 3)},
                          {"blocks.1.attn.hook_z", tokens_first("context")},
                          {"blocks.1.hook_resid_post", named(steps, "layers.1.output").value}}) == 1 + 5 * 3 + 1);
}

TEST_CASE("the names of BERT are known with and without the model's in front, and for one layer alone", "[diff][names]")
{
    const Recording stack = recording_of(run_stack), layer = recording_of(run_layer);
    for (const std::string model : {"", "bert.", "model.bert."})
        CHECK(compared_under(
                  "bert", stack,
                  {{model + "encoder.layer.1.attention.self.query", named(stack, "layers.1.self_attn.query").value},
                   {model + "encoder.layer.0.attention.self.dropout",
                    packed_heads(stack, "layers.0.self_attn.", "weights", 3)},
                   {model + "encoder.layer.0.output.dense", named(stack, "layers.0.feed_forward.output").value},
                   {model + "encoder.layer.1", named(stack, "layers.1.output").value}}) == 6);
    for (const std::string begin : {"", "encoder.layer.0.", "bert.encoder.layer.0."})
        CHECK(compared_under(
                  "bert", layer,
                  {{begin + "attention.self.key", named(layer, "self_attn.key").value},
                   {begin + "attention.output.dense", named(layer, "self_attn.output").value},
                   {begin + "output.dense", named(layer, "feed_forward.output").value},
                   {begin + "intermediate.dense.weight", transposed(named(layer, "feed_forward.hidden_weights").value)},
                   {begin + "output.LayerNorm.bias", named(layer, "norm2.bias").value}}) == 5);
}

TEST_CASE("the names of PyTorch's layer and of its attention alone mean the steps that they say", "[diff][names]")
{
    const Recording layer = recording_of(run_layer), heads = recording_of(run_heads);
    std::vector<Array> maps, biases;
    for (const char* map : {"query", "key", "value"}) {
        maps.push_back(transposed(named(layer, std::string("self_attn.") + map + "_weights").value));
        biases.push_back(named(layer, std::string("self_attn.") + map + "_bias").value);
    }
    Array weight = stacked(maps), bias = stacked(biases);
    weight.shape = {18, 6};
    bias.shape = {18};
    CHECK(compared_under("pytorch", layer,
                         {{"self_attn.in_proj_weight", weight},
                          {"self_attn.in_proj_bias", bias},
                          {"self_attn.attn_output_weights", packed_heads(layer, "self_attn.", "weights", 2)},
                          {"linear1", named(layer, "feed_forward.hidden").value},
                          {"norm1.weight", named(layer, "norm1.gain").value},
                          {"norm2", named(layer, "norm2.output").value}}) == 3 + 3 + 2 + 3);
    CHECK(compared_under("pytorch", heads,
                         {{"attn_output", named(heads, "output").value},
                          {"attn_output_weights", packed_heads(heads, "", "weights", 2)},
                          {"out_proj.bias", named(heads, "output_bias").value}}) == 4);
}

TEST_CASE("the names of PyTorch's decoder and Transformer mean the steps that they say", "[diff][names]")
{
    const Recording layer = recording_of(run_decoder_layer);
    CHECK(compared_under("pytorch", layer,
                         {{"dropout1", named(layer, "self_attn.output").value},
                          {"multihead_attn.out_proj.bias", named(layer, "cross_attn.output_bias").value},
                          {"multihead_attn.attn_output_weights", packed_heads(layer, "cross_attn.", "weights", 2)},
                          {"dropout2", named(layer, "cross_attn.output").value},
                          {"dropout3", named(layer, "feed_forward.output").value},
                          {"norm3.weight", named(layer, "norm3.gain").value}}) == 1 + 1 + 2 + 1 + 1 + 1);
    const Recording both = recording_of([](const Trace& trace) {
        Numbers numbers(18);
        const TransformerWeights weights = random_transformer(numbers, 2, true);
        const Matrix source = numbers.matrix(4, 6), target = numbers.matrix(3, 6);
        transformer(source, target, weights, {.attention = {.heads = 2}}, trace);
    });
    for (const std::string model : {"", "transformer."})
        CHECK(compared_under(
                  "pytorch", both,
                  {{model + "encoder.layers.1.dropout2", named(both, "encoder.layers.1.feed_forward.output").value},
                   {model + "encoder.layers.1.norm1", named(both, "encoder.layers.1.norm1.output").value},
                   {model + "decoder.layers.1.norm1", named(both, "decoder.layers.1.norm1.output").value},
                   {model + "decoder.layers.0.dropout2", named(both, "decoder.layers.0.cross_attn.output").value},
                   {model + "decoder.layers.0", named(both, "decoder.layers.0.output").value}}) == 5);
}

TEST_CASE("the names of ONNX's Attention are those of heads or of one attention", "[diff][names]")
{
    const Recording heads = recording_of(run_heads);
    CHECK(compared_under("onnx", heads,
                         {{"Q", packed_heads(heads, "", "queries", 2)},
                          {"K", named(heads, "key").value},
                          {"qk_matmul_output", packed_heads(heads, "", "scaled", 2)},
                          {"Y", packed_heads(heads, "", "context", 2)}}) == 7);
    const Recording shared = recording_of([](const Trace& trace) { // two key/value heads, each for two heads
        Numbers numbers(19);
        const HeadSizes sizes{.d_model = 6, .h_d_k = 4, .h_d_v = 4};
        MultiHeadWeights weights = random_heads(numbers, {.d_model = 6, .h_d_k = 8, .h_d_v = 8});
        const MultiHeadWeights narrow = random_heads(numbers, sizes);
        weights.key = narrow.key;
        weights.value = narrow.value;
        multi_head_attention(numbers.matrix(3, 6), weights, {.heads = 4}, trace);
    });
    Array keys = packed_heads(shared, "", "keys", 4);
    keys.shape[1] = 2; // the first of each two heads
    const std::size_t of_head = keys.size() / 4;
    keys.values.erase(keys.values.begin() + static_cast<std::ptrdiff_t>(3 * of_head), keys.values.end());
    keys.values.erase(keys.values.begin() + static_cast<std::ptrdiff_t>(of_head),
                      keys.values.begin() + static_cast<std::ptrdiff_t>(2 * of_head));
    CHECK(compared_under("onnx", shared, {{"K", keys}}) == 4);
    Array queries = packed_heads(shared, "", "queries", 4); // which no two heads share
    queries.shape[1] = 2;
    queries.values.resize(2 * of_head);
    CHECK_FALSE(diff::compare(shared, NamedArrays{{"Q", queries}}, {.table = &table_called("onnx")}).passed());
    const Recording alone = recording_of([](const Trace& trace) {
        Numbers numbers(14);
        const Matrix q = numbers.matrix(2, 3), k = numbers.matrix(4, 3), v = numbers.matrix(4, 5);
        scaled_dot_product_attention(q, k, v, {}, trace);
    });
    Array q = named(alone, "queries").value;
    q.shape = {1, 1, 2, 3};
    CHECK(compared_under("onnx", alone, {{"Q", q}, {"Y", named(alone, "context").value}}) == 2);
    const Recording single = recording_of([](const Trace& trace) { // heads side by side, of one sequence
        Numbers numbers(18);
        packed_attention(numbers.tensor3(1, 2, 6), numbers.tensor3(1, 4, 3), numbers.tensor3(1, 4, 3), {2, 1}, {}, {},
                         trace);
    });
    CHECK(compared_under("onnx", single, {{"Y", named(single, "output").value}}) == 1);
    CHECK(compared_under("onnx", single, {{"Y", named(single, "context").value}}) == 1);
}

TEST_CASE("the names of Llama mean the steps of a pre-norm layer", "[diff][names]")
{
    const Recording stack = recording_of(run_stack);
    CHECK(compared_under("llama", stack,
                         {{"model.layers.1.self_attn.q_proj", named(stack, "layers.1.self_attn.query").value},
                          {"model.layers.0.self_attn.o_proj.weight",
                           transposed(named(stack, "layers.0.self_attn.output_weights").value)},
                          {"model.layers.0.input_layernorm", named(stack, "layers.0.norm1.output").value},
                          {"attentions.1", packed_heads(stack, "layers.1.self_attn.", "weights", 3)}}) == 6);
}

TEST_CASE("the names of llama.cpp, mlx-lm and candle mean the steps of a Llama", "[diff][names]")
{
    const Recording llama = recording_of(run_small_llama);
    const auto of = [&](const std::string& path) { return named(llama, path).value; };
    CHECK(compared_under("ggml", llama,
                         {{"Qcur-0", of("layers.0.self_attn.query")},
                          {"kq_soft_max-0", packed_heads(llama, "layers.0.self_attn.", "weights", 2)},
                          {"kqv_out-0", of("layers.0.self_attn.merged")},
                          {"ffn_swiglu-0", of("layers.0.feed_forward.gated")},
                          {"blk.0.ffn_gate.weight", transposed(of("layers.0.feed_forward.gate_weights"))},
                          {"l_out-0", of("layers.0.output")},
                          {"result_output", of("logits")}}) == 8);
    CHECK(compared_under("mlx", llama,
                         {{"model.layers.0.self_attn.q_proj", of("layers.0.self_attn.query")},
                          {"model.layers.0", of("layers.0.output")}}) == 2);
    CHECK(compared_under("candle", llama,
                         {{"blocks.0.rms_1", of("layers.0.norm1.output")},
                          {"blocks.0.mlp.c_fc1", of("layers.0.feed_forward.gate")},
                          {"ln_f", of("norm.output")}}) == 3);
}

TEST_CASE("every name of every table means a step that a layer or an attention has", "[diff][names]")
{
    std::set<std::string> paths;
    for (const Run& run :
         {Run(run_stack), Run([](const Trace& trace) {
              const Trace layers = trace.scope("layers", 0);
              run_layer(layers);
          }),
          Run([](const Trace& trace) {
              const Trace layers = trace.scope("layers", 0);
              run_decoder_layer(layers);
          }),
          Run([](const Trace& trace) {
              Numbers numbers(15);
              const Matrix x = numbers.matrix(2, 3);
              scaled_dot_product_attention(x, x, x, {.mask = Mask(Mask::shape_type{2, 2}, true)}, trace);
          }),
          Run(run_shared_heads), Run([](const Trace& trace) {
              Numbers numbers(16);
              const Matrix x = numbers.matrix(2, 6);
              multi_head_attention(x, random_heads(numbers), {.heads = 2, .bias = numbers.matrix(2, 2)}, trace);
          }),
          Run([](const Trace& trace) {
              Numbers numbers(16);
              const Matrix x = numbers.matrix(2, 6);
              MultiHeadWeights weights = random_heads(numbers);
              weights.query_norms = weights.key_norms = {LayerNormWeights{{1, 2}}};
              multi_head_attention(x, weights, {.heads = 2}, trace);
          }),
          Run(run_small_llama)})
        for (const Step& step : recording_of(run).steps) {
            paths.insert(step.path);
            paths.insert("layers.0.self_attn." + step.path);
        }
    for (const NameTable& table : name_tables())
        for (const NameRule& rule : table.rules) {
            CAPTURE(table.name, rule.theirs, rule.step);
            std::string rest = rule.step + '|';
            for (std::size_t end = rest.find('|'); end != std::string::npos; end = rest.find('|')) {
                std::string step = rest.substr(0, end);
                rest.erase(0, end + 1);
                for (const char* hole : {"{i}", "{h}"})
                    for (std::size_t at = step.find(hole); at != std::string::npos; at = step.find(hole))
                        step.replace(at, 3, "0");
                CAPTURE(step);
                CHECK(paths.contains(step));
            }
        }
}

TEST_CASE("docs/diff.md lists the names of every table, row by row", "[diff][names][source]")
{
    const std::string page = source_file("docs/diff.md").text;
    for (const NameTable& table : name_tables()) {
        std::string rows = "## " + std::string(table.name) + " {#diff_names_" + std::string(table.name) + "}\n\n" +
                           std::string(table.of) + ".\n\n| name | step |\n|------|------|\n";
        for (const NameRule& rule : table.rules) {
            std::string step = rule.step;
            for (std::size_t at = step.find('|'); at != std::string::npos; at = step.find('|', at + 1))
                step.replace(at, 1, "`, else `");
            rows += "| `" + rule.theirs + "` | `" + step + "` |\n";
        }
        if (const char* file = std::getenv("ATTN_NAME_TABLES")) // to write new ones
            std::ofstream(file, std::ios::app) << rows << '\n';
        CAPTURE(table.name);
        CHECK(page.find(rows) != std::string::npos);
    }
}
