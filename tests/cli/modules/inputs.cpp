// What attn run reads from --input: which arrays, of which kinds, and masks above all.

#include "cli/desk.hpp"

#include <numeric>

using namespace attn;
using namespace attn::cli;
using namespace attn::files;
using namespace attn::test;

namespace {

/// What attn run attention says of these arrays, which it refuses.
std::string refused_input(const NamedArrays& input, const Words& flags = {})
{
    return Desk(input, {}).input_refusal("attention", flags);
}

std::string refused_input(const Example& example, const std::string& name, const Array& array)
{
    return Desk(with(example.input, name, array), example.weights).input_refusal(example.module, example.needed);
}

Array context_of(const NamedArrays& input, const Words& flags = {})
{
    return Desk(input, {}).output("attention", flags);
}

Array mask_of(const NamedArrays& input, const Words& flags = {})
{
    return Desk(input, {}).step("mask", "attention", flags);
}

/// A batch as one sequence of it.
NamedArrays as_batch_of_one(NamedArrays arrays)
{
    for (auto& [name, array] : arrays)
        array.shape.insert(array.shape.begin(), 1);
    return arrays;
}

} // namespace

// --------------------------------------------------------------------------------------------------------------- names

TEST_CASE("attn run refuses an array that a module does not take, and says what it takes", "[cli][run]")
{
    const auto [name, question] = GENERATE(table<std::string, std::string>({
        {"attn_mask", " Is it the mask? nn.MultiheadAttention means the opposite, true where a query can NOT attend"},
        {"key_padding_mask", " Is it the mask? PyTorch's is true at padding"},
        {"attention_mask", " Is it the mask? Hugging Face's is 1 at a token and 0 at padding, (b, m), and can be"},
        {"past_key", " Is it the past_keys?\n"},
        {"softcap", " Is it the flag --softcap?\n"},
        {"num_heads", " Is it the flag --heads?\n"},
        {"masks", " Is it the mask?\n"},
        {"is_causal", " Is it the flag --mask causal?\n"},
        {"length", " Is it the lengths?\n"},
        {"scale", " Is it the flag --scale?\n"},
        {"attn_bias", " Is it the bias?\n"},
        {"biases", "sinks.\n"},
        {"dropout_p", "sinks.\n"},
        {"memory", "sinks.\n"},
    }));
    CAPTURE(name);
    CHECK_THAT(refused_input(with(queries_keys_values(), name, all_allowed({2, 3}))),
               ContainsSubstring(
                   " has an array called " + name +
                   ", which attention does not take; it takes queries, keys, values, past_keys, past_values, mask, "
                   "lengths, bias, sinks.") &&
                   ContainsSubstring(question));
}

TEST_CASE("attn run refuses what a module does not take, whichever it is", "[cli][run]")
{
    for (const Example& example : examples())
        for (const std::string name : {"attn_mask", "key_padding_mask", "masks", "is_causal", "length", "labels"})
            CHECK_THAT(refused_input(example, name, all_allowed({3, 3})),
                       ContainsSubstring(name + ", which " + example.module + " does not take; it takes " +
                                         module_of(example.module).inputs.front().name));
}

TEST_CASE("attn run names all arrays that are missing or not taken at once", "[cli][run]")
{
    const NamedArrays given{{"q", to_array(tokens())}, {"keys", to_array(tokens())}, {"v", to_array(tokens())}};
    CHECK_THAT(
        refused_input(given),
        ContainsSubstring("has no arrays called queries, values, which attention needs; has arrays called q, v, "
                          "which attention does not take; it takes queries, keys, values, past_keys, past_values, "
                          "mask, lengths, bias, sinks. "
                          "Is q the queries? Is v the values?\n"));
    NamedArrays trace = queries_keys_values();
    for (int i = 0; i < 9; ++i)
        trace["step" + std::to_string(i)] = to_array(tokens());
    CHECK_THAT(refused_input(trace),
               ContainsSubstring("arrays called step0, step1, step2, step3, step4, step5 and 3 more"));
}

// --------------------------------------------------------------------------------------------------------------- kinds

TEST_CASE("attn run refuses an input of another rank", "[cli][run]")
{
    for (const Shape& shape : {Shape{}, Shape{12}, Shape{1, 1, 1, 3, 4}}) {
        const Array array{shape, std::vector<double>(element_count(shape), 1)};
        for (const Example& example : examples_of_tokens()) {
            const std::string name = module_of(example.module).inputs.front().name;
            CHECK_THAT(refused_input(example, name, array),
                       ContainsSubstring(name + " has the shape " + to_string(shape)));
        }
    }
    const Example example = example_of("attention");
    CHECK_THAT(refused_input(example, "keys", to_array(batch())), ContainsSubstring("keys: "));
    CHECK_THAT(refused_input(example, "bias", {{1, 2, 3}, std::vector<double>(6, 0)}),
               ContainsSubstring("bias has the shape (1, 2, 3), expected (n, m) = (2, 3)"));
}

TEST_CASE("attn run refuses inputs that are not finite, not numbers, or not there", "[cli][run]")
{
    for (const double value : {std::nan(""), infinity, -infinity})
        for (const Example& example : examples_of_tokens())
            for (auto [name, array] : example.input) {
                array.values[5] = value;
                CHECK_THAT(refused_input(example, name, array),
                           ContainsSubstring(name + "[1, ") && ContainsSubstring("expected finite numbers"));
            }
    const Example norm = example_of("layer-norm");
    CHECK_THAT(refused_input(norm, "x", booleans({1, 4}, {1, 0, 1, 0})), ContainsSubstring("x holds booleans"));
    CHECK_THAT(refused_input(norm, "x", {{0, 4}, {}}), ContainsSubstring("x has the shape (0, 4)"));
}

TEST_CASE("attn run refuses inputs that disagree, and says in what", "[cli][run]")
{
    Numbers numbers(12);
    const Example example = example_of("attention");
    CHECK_THAT(refused_input(example, "values", to_array(numbers.matrix(4, 5))), ContainsSubstring("must agree in m"));
    CHECK_THAT(refused_input(example, "queries", to_array(numbers.matrix(2, 3))),
               ContainsSubstring("must agree in d_k"));
    CHECK_THAT(refused_input(with(queries_keys_values_of(3, 1, 2), "queries", to_array(numbers.tensor3(2, 1, 4)))),
               ContainsSubstring("must agree in b"));
    CHECK_THAT(Desk(queries_keys_values(), {}).input_refusal("restricted-attention", {"--radius", "1"}),
               ContainsSubstring("queries (2, 4) and keys (3, 4) must agree in n"));
    CHECK_THAT(Desk(queries_keys_values_of(2, 1, 1), {{"bilinear_weights", to_array(numbers.matrix(4, 4))}})
                   .input_refusal("attention", {"--score", "bilinear"}),
               ContainsSubstring("not a batch"));
}

TEST_CASE("a bias of attn run is added to the scores, and can forbid with minus infinity", "[cli][run]")
{
    const NamedArrays given = with(queries_keys_values(), "bias", {{2, 3}, {0, 0, -infinity, -infinity, 0, 0}});
    const NamedArrays masked = with(queries_keys_values(), "mask", booleans({2, 3}, {1, 1, 0, 0, 1, 1}));
    CHECK(identical(context_of(given), context_of(masked)));
    const NamedArrays two = queries_keys_values_of(2, 2, 3); // of a batch, where (b, m) is no bias either
    CHECK_THAT(refused_input(with(two, "bias", given.at("bias"))), ContainsSubstring("(n, m) as well as (b, m)"));
    CHECK(identical(context_of(with(two, "bias", {{1, 2, 3}, given.at("bias").values})),
                    context_of(with(two, "mask", booleans({1, 2, 3}, {1, 1, 0, 0, 1, 1})))));
    CHECK_FALSE(identical(context_of(given), context_of(queries_keys_values())));
    CHECK_THAT(refused_input(with(given, "bias", {{2, 3}, {infinity, 0, 0, 0, 0, 0}})),
               ContainsSubstring("bias[0, 0] is inf"));
    CHECK_THAT(refused_input(given, {"--score", "dot"}), ContainsSubstring("bias has no effect"));
    const Example heads = example_of("multi-head-attention");
    CHECK_THAT(Desk(with(heads.input, "bias", to_array(Numbers(8).matrix(3, 3))), heads.weights)
                   .input_refusal(heads.module, words_of("--heads 2 --positions alibi")),
               ContainsSubstring("ALiBi"));
}

// --------------------------------------------------------------------------------------------------------------- masks

TEST_CASE("a mask of 1 and 0, or of 0 and minus infinity, is a mask of booleans", "[cli][run][mask]")
{
    const Array boolean = booleans({2, 3}, {1, 1, 0, 1, 1, 1});
    const std::vector<Array> the_same{{{2, 3}, {1, 1, 0, 1, 1, 1}},
                                      {{2, 3}, {1, 1, 0, 1, 1, 1}, ElementType::integer},
                                      {{2, 3}, {0, 0, -infinity, 0, 0, 0}}};
    for (const Array& mask : the_same)
        CHECK(identical(mask_of(with(queries_keys_values(), "mask", mask)), boolean));
    const Example encoder = example_of("encoder-layer");
    const Array zero_or_infinite{{3, 3}, {0, 0, -infinity, 0, 0, 0, 0, -infinity, 0}};
    CHECK(identical(Desk(with(encoder.input, "mask", zero_or_infinite), encoder.weights)
                        .step("mask", "encoder-layer", encoder.needed),
                    booleans({3, 3}, {1, 1, 0, 1, 1, 1, 1, 0, 1})));
}

TEST_CASE("a mask of other numbers is added to the scores, where the module takes them", "[cli][run][mask]")
{
    const Array added{{2, 3}, {0, 0, -10000, 0.5, 0, 0}};
    CHECK(identical(context_of(with(queries_keys_values(), "mask", added)),
                    context_of(with(queries_keys_values(), "bias", added))));
    CHECK_THAT(refused_input(with(with(queries_keys_values(), "mask", added), "bias", added)),
               ContainsSubstring("save their sum as bias"));
    CHECK_THAT(refused_input(with(queries_keys_values(), "mask", added), {"--score", "dot"}),
               ContainsSubstring("only the scaled score has a bias"));
    const Array of_tokens{{3, 3}, {0, 0, -10000, 0, 0, 0, 0, 0, 0}};
    const Example talking = example_of("talking-heads-attention");
    CHECK_THAT(refused_input(talking, "mask", of_tokens),
               ContainsSubstring("talking-heads-attention only takes a mask that hides keys: save mask == 0 where 0 "
                                 "lets a query attend"));
    for (const std::string module : {"encoder-layer", "encoder", "decoder-layer"}) { // in float32 numbers hide nothing
        const Example layer = example_of(module);
        CHECK_THAT(Desk(with(layer.input, "mask", of_tokens), layer.weights)
                       .input_refusal(module, layer.needed + Words{"--fast"}),
                   ContainsSubstring("--fast only takes a mask that hides keys: leave --fast out"));
    }
    CHECK_THAT(refused_input(with(queries_keys_values(), "mask", {{2, 3}, {0, 0, infinity, 0, 0, 0}})),
               ContainsSubstring("mask[0, 2] is inf, expected finite numbers, or -inf"));
}

TEST_CASE("a mask of real numbers that is 0 throughout hides nothing, one of whole numbers is refused",
          "[cli][run][mask]")
{
    Array zeros{{2, 3}, std::vector<double>(6, 0)};
    CHECK(identical(context_of(with(queries_keys_values(), "mask", zeros)), context_of(queries_keys_values())));
    zeros.type = ElementType::integer; // as 1 and 0 are, which would hide everything
    CHECK_THAT(refused_input(with(queries_keys_values(), "mask", zeros)),
               ContainsSubstring("mask is the whole number 0 throughout"));
}

TEST_CASE("attn run refuses a mask of another shape, and says which it takes", "[cli][run][mask]")
{
    for (const std::string module : {"attention", "multi-head-attention", "encoder-layer", "encoder"}) {
        const Example example = example_of(module);
        const std::string expected =
            module == "attention" ? "(n, m) = (2, 3)" : "(n, m) = (3, 3) or (b, h, n, m) = (1, 2, 3, 3)";
        for (const Shape& shape : {Shape{4, 4}, Shape{4, 3, 3}, Shape{9}, Shape{3, 2}})
            CHECK_THAT(refused_input(example, "mask", all_allowed(shape)),
                       ContainsSubstring("mask has the shape " + to_string(shape) + ", expected " + expected));
    }
    const NamedArrays batch_of_two = queries_keys_values_of(2, 4, 3);
    for (const Shape& shape : {Shape{3, 4, 3}, Shape{2, 3, 4}, Shape{4, 4}, Shape{2, 3, 4, 3}, Shape{4}})
        CHECK_THAT(refused_input(with(batch_of_two, "mask", all_allowed(shape))),
                   ContainsSubstring(to_string(shape) + ", expected (n, m) = (4, 3) or (b, n, m) = (2, 4, 3)"));
}

TEST_CASE("a mask (b, m) that could be (n, m) is refused: attn run says how to write each", "[cli][run][mask]")
{
    const Array keys_or_pairs = booleans({3, 4}, {1, 0, 1, 1, 1, 1, 0, 0, 1, 1, 1, 0});
    const auto shaped = [&](const Shape& shape) { return booleans(shape, keys_or_pairs.values); };
    const NamedArrays as_many = queries_keys_values_of(3, 3, 4); // b = n
    CHECK_THAT(refused_input(with(as_many, "mask", keys_or_pairs)),
               ContainsSubstring("mask has the shape (3, 4), which is (n, m) as well as (b, m) here") &&
                   ContainsSubstring("mask[None, None] where it is the same for all sequences") &&
                   ContainsSubstring("mask[:, None, None] where each sequence has a row of keys of its own"));
    CHECK(identical(mask_of(with(queries_keys_values_of(3, 2, 4), "mask", keys_or_pairs)), // b != n
                    mask_of(with(queries_keys_values_of(3, 2, 4), "mask", shaped({3, 1, 4})))));

    // Written as it says, each means what it says.
    const Array for_all = mask_of(with(as_many, "mask", shaped({1, 3, 4})));
    CHECK(identical(for_all, keys_or_pairs));
    const Array for_keys = mask_of(with(as_many, "mask", shaped({3, 1, 4})));
    REQUIRE(for_keys.shape == Shape{3, 3, 4});
    for (std::size_t i = 0; i < for_keys.size(); ++i)
        CHECK(for_keys.values[i] == keys_or_pairs.values[i / 12 * 4 + i % 4]);
    const NamedArrays batch_of_two = queries_keys_values_of(2, 3, 4); // b != n: only (n, m) fits
    CHECK(identical(mask_of(with(batch_of_two, "mask", keys_or_pairs)), keys_or_pairs));
    CHECK(identical(context_of(with(batch_of_two, "mask", keys_or_pairs)),
                    context_of(with(batch_of_two, "mask", shaped({1, 3, 4})))));

    const Example encoder = example_of("encoder");
    const NamedArrays square{{"x", to_array(Numbers(3).tensor3(3, 3, 4))}, {"mask", all_allowed({3, 3})}};
    CHECK_THAT(Desk(square, encoder.weights).input_refusal("encoder", encoder.needed),
               ContainsSubstring("(n, m) as well as (b, m)"));
    // Of one sequence with one query both mean the same.
    CHECK(mask_of(with(queries_keys_values_of(1, 1, 4), "mask", booleans({1, 4}, {1, 0, 1, 1}))).values ==
          std::vector<double>{1, 0, 1, 1});
}

TEST_CASE("a mask can be of heads, in each shape that programs have for it", "[cli][run][mask]")
{
    Numbers numbers(21);
    const Example heads = example_of("multi-head-attention");
    const NamedArrays x{{"x", to_array(batch())}}; // two sequences, two heads, three tokens
    const auto weights_in = [&](const std::string& path, const Array& mask) {
        return Desk(with(x, "mask", mask), heads.weights).step(path, heads.module, heads.needed);
    };
    std::vector<double> values;
    for (std::size_t i = 0; i < 36; ++i)
        values.push_back(i % 3 == 0 || numbers.number() < 1);
    const Array whole = booleans({2, 2, 3, 3}, values);
    for (const std::string path : {"head.0.weights", "head.1.weights"}) {
        const Array expected = weights_in(path, whole);
        CHECK(identical(weights_in(path, booleans({4, 3, 3}, values)), expected)); // nn.MultiheadAttention's
        const std::size_t head = path[5] - '0';
        std::vector<double> own;
        for (const std::size_t sequence : {0U, 1U})
            own.insert(own.end(), values.begin() + static_cast<std::ptrdiff_t>((sequence * 2 + head) * 9),
                       values.begin() + static_cast<std::ptrdiff_t>((sequence * 2 + head + 1) * 9));
        CHECK(identical(weights_in(path, booleans({2, 1, 3, 3}, own)), expected));
    }
    const std::vector<double> first(values.begin(), values.begin() + 18);
    CHECK(identical(weights_in("head.1.mask", booleans({1, 2, 3, 3}, first)),
                    booleans({3, 3}, {first.begin() + 9, first.end()})));
    CHECK_THAT(Desk(with(x, "mask", booleans({2, 3, 3, 3}, std::vector<double>(54, 1))), heads.weights)
                   .input_refusal(heads.module, heads.needed),
               ContainsSubstring("or (b, n, m) = (2, 3, 3) or (b, h, n, m) = (2, 2, 3, 3)"));
}

TEST_CASE("a mask of heads (h, n, m) that could be (b, n, m) is refused by every module with heads", "[cli][run][mask]")
{
    const NamedArrays two{{"x", to_array(batch())}, {"memory", to_array(Numbers(16).tensor3(2, 5, 4))}};
    for (const std::string module :
         {"multi-head-attention", "encoder-layer", "encoder", "decoder-layer", "decoder", "transformer"})
        for (const std::string name : {"mask", "memory_mask", "source_mask", "target_mask"}) {
            const Example example = example_of(module);
            NamedArrays input = two;
            if (module == "transformer")
                input = {{"target", two.at("x")}, {"source", two.at("memory")}};
            else if (!example.input.contains("memory"))
                input.erase("memory");
            const Module taking = module_of(module);
            if (std::ranges::find(taking.inputs, name, &ModuleInput::name) == taking.inputs.end())
                continue;
            const std::size_t n = name == "source_mask" ? 5 : 3, m = name == "mask" || name == "target_mask" ? 3 : 5;
            CAPTURE(module, name);
            CHECK_THAT(
                Desk(with(input, name, all_allowed({2, n, m})), example.weights).input_refusal(module, example.needed),
                ContainsSubstring("which is (b, n, m) as well as (h, n, m) here: save " + name + "[:, None]") &&
                    ContainsSubstring(name + "[None, :] where each head has its own"));
        }
    NamedArrays arrays;
    for (const std::string name : {"queries", "keys", "values"})
        arrays[name] = {{2, 2, 3, 1}, std::vector<double>(12, 1)};
    CHECK_THAT(refused_input(with(arrays, "mask", all_allowed({2, 3, 3}))),
               ContainsSubstring("which is (b, n, m) as well as (h, n, m) here") && ContainsSubstring("mask[:, None]"));
    CHECK_THAT(refused_input(with(arrays, "mask", all_allowed({3, 3})), {"--heads", "2"}),
               ContainsSubstring("--heads has no effect"));
    CHECK_THAT(refused_input(with(arrays, "past_keys", arrays.at("keys"))), ContainsSubstring("belong together"));
}

TEST_CASE("a key mask for each sequence does what lengths do", "[cli][run][mask]")
{
    const NamedArrays given = queries_keys_values_of(2, 2, 3);
    CHECK(identical(context_of(with(given, "mask", booleans({2, 1, 3}, {1, 1, 1, 1, 0, 0}))),
                    context_of(with(given, "lengths", {{2}, {3, 1}, ElementType::integer}))));
}

TEST_CASE("attn run joins the input's mask and lengths and the flag's", "[cli][run][mask]")
{
    const NamedArrays given = queries_keys_values_of(2, 4, 3);
    Numbers numbers(11);
    BatchMask own(BatchMask::shape_type{2, 4, 3});
    for (bool& allowed : own)
        allowed = numbers.number() < 1;
    for (const Array& mask : {to_array(numbers.mask(4, 3)), to_array(own)})
        for (const bool is_causal : {false, true}) {
            const NamedArrays input = with(with(given, "mask", mask), "lengths", {{2}, {3, 1}});
            const Array joined = mask_of(input, is_causal ? words_of("--mask causal") : Words{});
            REQUIRE(joined.shape == Shape{2, 4, 3});
            for (std::size_t i = 0; i < joined.size(); ++i) {
                const std::size_t sequence = i / 12, query = i / 3 % 4, key = i % 3;
                const bool is_real = key < (sequence == 0 ? 3U : 1U), is_earlier = key + 1 <= query + !is_causal * 9;
                CHECK(joined.values[i] == (mask.values[i % mask.size()] != 0 && is_real && is_earlier));
            }
        }
}

// ------------------------------------------------------------------------------------------------------------ the past

TEST_CASE("attn run says what keys and values of the past should be", "[cli][run]")
{
    Numbers numbers(17);
    const NamedArrays side_by_side{{"queries", to_array(numbers.matrix(1, 12))},
                                   {"keys", to_array(numbers.matrix(1, 6))},
                                   {"values", to_array(numbers.matrix(1, 4))},
                                   {"past_keys", to_array(numbers.tensor3(1, 3, 6))},
                                   {"past_values", to_array(numbers.tensor3(1, 3, 4))}};
    for (const Words& flags : {words_of("--heads 2"), words_of("--heads 2 --fast")}) {
        CHECK_THAT(refused_input(side_by_side, flags),
                   ContainsSubstring("past_keys has the shape (1, 3, 6), expected (b, g, past, d) = (1, 1, past, 6): "
                                     "keys of earlier tokens, with an axis of heads"));
        NamedArrays keys_fit = side_by_side;
        keys_fit["past_keys"].shape = {1, 1, 3, 6};
        CHECK_THAT(
            refused_input(keys_fit, flags),
            ContainsSubstring("past_values has the shape (1, 3, 4), expected (b, g, past, d) = (1, 1, past, 4)"));
        keys_fit["past_values"].shape = {1, 1, 3, 4};
        CHECK(context_of(keys_fit, flags).shape == Shape{1, 8});
    }
    NamedArrays batch = queries_keys_values_of(2, 1, 1);
    batch["past_keys"] = to_array(numbers.matrix(3, 4));
    batch["past_values"] = to_array(numbers.tensor3(2, 3, 5));
    CHECK_THAT(refused_input(batch),
               ContainsSubstring("past_keys has the shape (3, 4), expected (b, past, d) = (2, past, 4)"));
}

TEST_CASE("attn run multi-head-attention says what keys and values of the past should be", "[cli][run]")
{
    Numbers numbers(18);
    const Example heads = example_of("multi-head-attention"); // two heads of two features
    const auto refused = [&](const Array& x, const Array& keys, const Array& values) {
        return Desk({{"x", x}, {"past_keys", keys}, {"past_values", values}}, heads.weights)
            .input_refusal(heads.module, heads.needed);
    };
    const auto shaped = [&](const Shape& shape) { return Array{shape, std::vector<double>(element_count(shape), 1)}; };
    const Array x = to_array(batch()), good = shaped({2, 5, 4});
    const std::string expected = ", expected (b, past, g d) = (2, past, 4) or (b, g, past, d) = (2, 2, past, 2): ";
    // The last one has as many features as two heads of two have.
    for (const Shape& shape : {Shape{5, 4}, Shape{2, 5, 3}, Shape{3, 5, 4}, Shape{2, 4, 5, 2}, Shape{2, 4, 5, 1}}) {
        CHECK_THAT(refused(x, shaped(shape), good),
                   ContainsSubstring("past_keys has the shape " + to_string(shape) + expected + "keys of earlier"));
        CHECK_THAT(refused(x, good, shaped(shape)),
                   ContainsSubstring("past_values has the shape " + to_string(shape) + expected + "values of earlier"));
    }
    CHECK_THAT(
        refused(to_array(tokens()), shaped({4, 5, 1}), shaped({5, 4})),
        ContainsSubstring("past_keys has the shape (4, 5, 1), expected (past, g d) = (past, 4) or (g, past, d) = "
                          "(2, past, 2): keys of earlier tokens"));
    CHECK_THAT(refused(x, shaped({4}), good), ContainsSubstring("past_keys has the shape (4,), expected"));
}

// ------------------------------------------------------------------------------------------------------------- lengths

TEST_CASE("attn run refuses lengths of a single sequence, too long, not whole or too many", "[cli][run][mask]")
{
    for (const std::string module : {"attention", "multi-head-attention", "encoder-layer", "encoder"}) {
        CAPTURE(module);
        Example example = example_of(module);
        CHECK_THAT(refused_input(example, "lengths", {{1}, {2}, ElementType::integer}),
                   ContainsSubstring("lengths") && ContainsSubstring("only one sequence"));
        example.input = as_batch_of_one(example.input);
        const auto expect_refusal_of = [&](const Array& lengths, const std::string& complaint) {
            CHECK_THAT(refused_input(example, "lengths", lengths), ContainsSubstring(complaint));
        };
        expect_refusal_of({{1}, {4}, ElementType::integer}, "lengths[0] is 4, expected 0 to m = 3");
        expect_refusal_of({{1}, {-1}, ElementType::integer}, "lengths[0] is -1, expected whole numbers from 0");
        expect_refusal_of({{1}, {2.5}}, "lengths[0] is 2.5, expected whole numbers from 0");
        expect_refusal_of({{1}, {std::nan("")}}, "lengths[0] is nan");
        expect_refusal_of(booleans({1}, {1}), "lengths holds booleans");
        expect_refusal_of({{2}, {1, 1}}, "lengths has the shape (2,)");
        expect_refusal_of({{1, 1}, {1}}, "lengths has the shape (1, 1)");
        expect_refusal_of({{}, {1}}, "lengths has the shape ()");
        expect_refusal_of({{0}, {}}, "lengths has the shape (0,)");
    }
}

TEST_CASE("lengths can be 2.0, and no rounding moves them or any other whole number", "[cli][run][mask]")
{
    NamedArrays given = queries_keys_values_of(1, 1, 300);
    const std::string longest = "257"; // which bfloat16 does not have
    for (const ElementType type : {ElementType::real, ElementType::integer}) {
        given["lengths"] = {{1}, {std::stod(longest)}, type};
        CHECK(Desk(given, {}).step("lengths", "attention", words_of("--round bfloat16")).values[0] == 257);
        const Array mask = mask_of(given, words_of("--round bfloat16"));
        CHECK(std::accumulate(mask.values.begin(), mask.values.end(), 0.0) == 257);
    }
    given["keys"].type = ElementType::integer;
    given["keys"].values.assign(1200, 257);
    CHECK(Desk(given, {}).step("keys", "attention", words_of("--round bfloat16")).values[0] == 257);
    given["keys"].type = ElementType::real;
    CHECK(Desk(given, {}).step("keys", "attention", words_of("--round bfloat16")).values[0] == 256);
}

// ------------------------------------------------------------------------------------------------------------- decoders

TEST_CASE("attn run refuses masks and lengths of a memory that do not fit", "[cli][run][decoder][mask][hostile]")
{
    const Example example = example_of("decoder-layer");
    CHECK_THAT(refused_input(example, "memory_mask", all_allowed({3, 3})), ContainsSubstring("(n, m) = (3, 5)"));
    CHECK_THAT(refused_input(example, "memory_lengths", {{1}, {2}}),
               ContainsSubstring("memory_lengths has the shape (1,)"));
    CHECK_THAT(refused_input(example, "memory", to_array(Numbers(16).tensor3(2, 5, 4))), ContainsSubstring("memory"));
    CHECK_THAT(refused_input(example, "memory", to_array(Numbers(16).matrix(5, 3))),
               ContainsSubstring("memory (5, 3)"));
}
