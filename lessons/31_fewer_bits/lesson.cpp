// Lesson 31: fewer bits.
//
// A cache of keys and values, and weights, can be kept in 8 or 4 bits for each number.
// What a type can hold, which numbers share a scale, what one large channel does to the
// others, and what a rotation before rounding changes.

#include "../lesson.hpp"
#include "../numbers.hpp"
#include "../recorded.hpp"
#include "../small_model.hpp"

#include "attn/core/error.hpp"
#include "attn/reference/models/gpt.hpp"
#include "attn/reference/models/schedule.hpp"
#include "attn/reference/ops/quantize.hpp"

#include <array>
#include <tuple>

using namespace attn;

namespace {

/// What scores are made of.
struct Head {
    Term<Matrix> queries, keys;
};

// The helpers of teach(), which stand below it in this order.
void round_numbers(Lesson& lesson);
Head look_at_head(Lesson& lesson, const SmallModel& model, const Integers& ids);
Head raise_channel(const Trace& raised, const Head& plain, const Term<Vector>& channel,
                   const Term<Vector>& factor);
Head rotate(const Trace& rotated, const Head& raised);
void compare_scales(Lesson& lesson, const Head& plain, const Head& raised,
                    const Head& rotated);
void keep_values(Lesson& lesson);
void serve(Lesson& lesson, const SmallModel& model, const Integers& ids,
           std::size_t channel, double factor);
void round_weights(Lesson& lesson);
void count_bytes(Lesson& lesson);

void teach(Lesson& lesson)
{
    lesson.heading("1. What a type can hold");
    round_numbers(lesson);

    lesson.heading("2. A head of the small model, and the same with one large channel");
    const SmallModel model = small_model();
    const Term ids = lesson.input(
        "ids[n]", model.ids("Lily had a red ball and a blue kite . She took the blue"));
    const Head plain = look_at_head(lesson, model, *ids);
    const Term channel = reals(lesson.input("channel[one]", Integers{2})),
               factor = lesson.input("factor[one]", Vector{16});
    const double place = (*channel)(0), times = (*factor)(0);
    if (place < 0 || place > 7 || !(times >= 1e-6) || times > 1e6)
        throw Error("channel is one of the 8 features of a head, 0 to 7, and factor what "
                    "it is multiplied by, 1e-6 to 1e6; found " +
                    exact_text(place) + " and " + exact_text(times));
    const Trace of_raised =
        lesson.trace().scope("raised", {{"channel", "channel"}, {"factor", "factor"}});
    const Head raised = raise_channel(of_raised, plain, channel, factor);
    const Trace of_rotated = lesson.trace().scope("rotated");
    const Head rotated = rotate(of_rotated, raised);

    lesson.heading("3. Which numbers share a scale");
    compare_scales(lesson, plain, raised, rotated);

    lesson.heading("4. Values");
    keep_values(lesson);

    lesson.heading("5. The small model with a cache of fewer bits");
    serve(lesson, model, *ids, static_cast<std::size_t>(place), times);

    lesson.heading("6. Weights");
    round_weights(lesson);

    lesson.heading("7. Bytes");
    count_bytes(lesson);
}

/// A few numbers, as they come back from each type.
void round_numbers(Lesson& lesson)
{
    const Term numbers =
        lesson.input("numbers[one, t]", Matrix{{0.02, 0.3, -1.1, 2.6, -7, 30, 100}});
    const Trace types = lesson.trace().scope("types", {{"numbers", "numbers"}});
    const auto keep = [&](std::string_view name, const StoredFormat& format) {
        const Trace inside = types.scope(name, {{"x", "numbers"}});
        const Term stored = quantize(numbers, format, inside).stored;
        std::ignore = inside("off[one, t]", abs(stored - numbers));
    };
    //! [types]
    keep("bfloat16", {StoredType::bfloat16, SharedScale::none});
    keep("e4m3", {StoredType::float8_e4m3, SharedScale::none});
    keep("e5m2", {StoredType::float8_e5m2, SharedScale::none});
    keep("int8", {StoredType::int8, SharedScale::token});
    keep("int4", {StoredType::int4, SharedScale::token});
    //! [types]
}

// ----------------------------------------------------------------------------- keys

/// The head of the small model that finds which thing was blue.
Head look_at_head(Lesson& lesson, const SmallModel& model, const Integers& ids)
{
    const Trace exact = lesson.trace().scope("exact", {{"ids", "ids"}});
    const Term logits =
        recorded(gpt(ids, model.weights, model.options, exact), "logits", exact);
    std::ignore = exact("chances[n, vocabulary]", softmax(logits));
    const auto step = [&](const std::string& name) {
        return recorded<Matrix>(lesson, "exact.layers.1.self_attn.head.0." + name);
    };
    const Trace plain = lesson.trace().scope("plain");
    return {plain.alias("queries", step("queries")), plain.alias("keys", step("keys"))};
}

/// One channel of the keys is multiplied, and that of the queries divided: no score
/// changes.
Head raise_channel(const Trace& raised, const Head& plain, const Term<Vector>& channel,
                   const Term<Vector>& factor)
{
    //! [raise]
    const Term place = arange(size_along(plain.keys, 1));
    const Term is_raised = maximum(1 - abs(place - channel), 0);
    const Term factors = raised("factors[d_k]", power(factor, is_raised));
    const Term keys = raised("keys[m, d_k]", plain.keys * factors);
    const Term queries = raised("queries[n, d_k]", plain.queries / factors);
    //! [raise]
    return {queries, keys};
}

/// Keys and queries are turned by the same rotation: no score changes, and the large
/// channel is spread over all.
Head rotate(const Trace& rotated, const Head& raised)
{
    const Term rotation =
        rotated.given("rotation[d_k, d_k]", hadamard(raised.keys.shape(1)));
    //! [rotate]
    const Term keys = rotated("keys[m, d_k]", matmul(raised.keys, rotation));
    const Term queries = rotated("queries[n, d_k]", matmul(raised.queries, rotation));
    //! [rotate]
    return {queries, keys};
}

/// The scaled scores of all queries.
Term<Matrix> score(const Trace& trace, const Term<Matrix>& queries,
                   const Term<Matrix>& keys)
{
    return trace("scores[n, m]",
                 matmul(queries, transpose(keys)) / sqrt(size_along(keys, -1)));
}

/// The head's scores with keys of four bits, under several scales.
void compare_scales(Lesson& lesson, const Head& plain, const Head& raised,
                    const Head& rotated)
{
    const Trace of_plain = lesson.trace().scope("plain"),
                of_raised = lesson.trace().scope("raised"),
                of_rotated = lesson.trace().scope("rotated");
    const Term right = score(of_plain, plain.queries, plain.keys);
    lesson.expect_equal("a large channel changes no score",
                        score(of_raised, raised.queries, raised.keys), right);
    lesson.expect_equal("nor does a rotation of queries and keys",
                        score(of_rotated, rotated.queries, rotated.keys), right);

    const auto keep = [&](const Trace& around, const Head& head, std::string_view name,
                          SharedScale scale) {
        const Trace inside = around.scope(name, {{"queries", "queries"}, {"x", "keys"}});
        //! [keep]
        const StoredFormat format{StoredType::int4, scale, 4};
        const Term stored = quantize(head.keys, format, inside).stored;
        const Term scores = score(inside, head.queries, stored);
        return *inside("off", sqrt(mean_all(square(scores - right))));
        //! [keep]
    };
    const auto keep_all = [&](const Trace& around,
                              const Head& head) -> std::vector<double> {
        return {keep(around, head, "token", SharedScale::token),
                keep(around, head, "block", SharedScale::block),
                keep(around, head, "channel", SharedScale::channel)};
    };
    lesson.table({"error of scores, int4 by token", "by block", "by channel"},
                 {keep_all(of_plain, plain), keep_all(of_raised, raised),
                  keep_all(of_rotated, rotated)});
}

/// The head's values in four bits, with a scale for each token or for each channel.
void keep_values(Lesson& lesson)
{
    const std::string head = "exact.layers.1.self_attn.head.0.";
    const Term values = recorded<Matrix>(lesson, head + "values"),
               weights = recorded<Matrix>(lesson, head + "weights"),
               right = recorded<Matrix>(lesson, head + "context");
    const Trace trace = lesson.trace().scope("values");
    const auto keep = [&](std::string_view name, SharedScale scale) {
        const Trace inside = trace.scope(name);
        const Term stored = quantize(values, {StoredType::int4, scale}, inside).stored;
        const Term context = inside("context[n, d_v]", matmul(weights, stored));
        return *inside("off", sqrt(mean_all(square(context - right))));
    };
    lesson.table(
        {"error of contexts, int4 by token", "by channel"},
        {{keep("token", SharedScale::token), keep("channel", SharedScale::channel)}});
}

// ----------------------------------------------------------------- the whole model

/// The maps of keys and queries followed by others, in each head.
void follow_by(LinearWeights& map, const Matrix& in_each_head)
{
    const std::size_t d_k = in_each_head.shape(0);
    const auto follow = [&](Matrix rows) {
        for (std::size_t begin = 0; begin < rows.shape(1); begin += d_k) {
            const Matrix before =
                xt::view(rows, xt::all(), xt::range(begin, begin + d_k));
            xt::view(rows, xt::all(), xt::range(begin, begin + d_k)) =
                matmul(before, in_each_head);
        }
        return rows;
    };
    map.weight = follow(map.weight);
    if (map.bias) {
        Matrix row(Matrix::shape_type{1, map.bias->size()});
        xt::row(row, 0) = *map.bias;
        *map.bias = xt::row(follow(row), 0);
    }
}

/// The probability of "kite", word by word, with each format of the cache: for the model
/// as it is, with a large channel in every head, and with that channel rotated.
void serve(Lesson& lesson, const SmallModel& model, const Integers& ids,
           std::size_t channel, double factor)
{
    constexpr std::array formats{"none",
                                 "float8_e4m3",
                                 "float8_e5m2",
                                 "int8:token",
                                 "int4:token",
                                 "int4:block8",
                                 "int4:channel4,int4:token",
                                 "uint2:token",
                                 "uint2:block4,uint2:token",
                                 "uint2:channel4,uint2:token"};
    const auto kite = static_cast<std::size_t>(model.ids("kite")(0));
    const std::size_t d_k = 8, n = ids.size();
    Vector up = xt::ones<double>({d_k}), down = up;
    up(channel) = factor;
    down(channel) = 1 / factor;
    const Matrix rotation = hadamard(d_k), larger = xt::diag(up),
                 smaller = xt::diag(down);
    Matrix chances(Matrix::shape_type{3, formats.size()});
    LanguageModelDescription description;
    LanguageModelWeights weights = as_language_model(model.weights);
    description.layers.resize(weights.layers.size());
    for (BlockDescription& layer : description.layers)
        layer.attention.heads = model.heads;
    for (std::size_t variant = 0; variant < 3; ++variant) {
        for (BlockWeights& layer : weights.layers) {
            auto& attention = std::get<MultiHeadWeights>(layer.self_attention);
            if (variant > 0) {
                follow_by(attention.key, variant == 1 ? larger : rotation);
                follow_by(attention.query, variant == 1 ? smaller : rotation);
            }
        }
        for (std::size_t i = 0; i < formats.size(); ++i) {
            //! [serve]
            Schedule schedule = step_by_step({n}, 1);
            if (i > 0)
                schedule.cache = cache_format_called(formats[i]);
            const Matrix logits = run_schedule({ids}, schedule, weights, description)[0];
            //! [serve]
            const Matrix last = xt::view(logits, xt::range(n - 1, n), xt::all());
            chances(variant, i) = (*softmax(Term<Matrix>(Matrix(last))))(0, kite);
        }
    }
    const Term found =
        lesson.trace().given("kite[variants, formats]", std::move(chances));
    std::vector<std::vector<double>> rows(3);
    for (std::size_t variant = 0; variant < 3; ++variant)
        for (std::size_t i = 0; i < formats.size(); ++i)
            rows[variant].push_back((*found)(variant, i));
    lesson.table({formats.begin(), formats.end()}, rows);
}

/// A matrix of weights in four bits, with one scale, one for each output, and one for
/// eight numbers side by side.
void round_weights(Lesson& lesson)
{
    const Trace weights = lesson.trace().scope("weights");
    const Term matrix =
        weights("matrix[d_ff, d_model]",
                transpose(recorded<Matrix>(
                    lesson, "exact.layers.1.feed_forward.hidden_weights")));
    const auto keep = [&](std::string_view name, SharedScale scale) {
        const Trace inside = weights.scope(name, {{"x", "matrix"}});
        const StoredFormat format{StoredType::int4, scale, 8};
        const Term stored = quantize(matrix, format, inside).stored;
        return *inside("off", sqrt(mean_all(square(stored - matrix))));
    };
    lesson.table(
        {"error of weights, int4 with one scale", "one for each output",
         "one for eight inputs"},
        {{keep("tensor", SharedScale::tensor), keep("output", SharedScale::token),
          keep("block", SharedScale::block)}});
}

/// The cache of Llama 3.1 8B with 131,072 tokens; a scale, and a lowest number, take 16
/// bits.
void count_bytes(Lesson& lesson)
{
    const Trace bytes = lesson.trace().scope("bytes");
    const WholeNumbers whole(bytes);
    const Term layers = whole.given("layers", 32), groups = whole.given("groups", 8),
               d_k = whole.given("d_k", 128), n = whole.given("tokens", 131072);
    const Term numbers = whole("numbers", 2 * layers * groups * d_k * n);
    // bfloat16; float8; int8 and int4 by token; int4 by blocks of 32; KIVI's uint2
    const Term code = whole.given("code[formats]", {16, 8, 8, 4, 4, 2});
    const Term beside = whole.given("beside[formats]", {0, 0, 16, 16, 16, 32});
    const Term shared = whole.given("shared[formats]", {1, 1, 1024, 1024, 32, 32});
    const Term bits = bytes("bits[formats]", code + beside / shared);
    const Term gib = power(number(2, bytes), 30);
    std::ignore = bytes("gib[formats]", numbers * bits / 8 / gib);
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("31_fewer_bits", argc, argv, teach);
}
