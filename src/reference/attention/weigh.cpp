#include "attn/reference/attention/weigh.hpp"

#include "attn/core/choices.hpp"
#include "attn/core/error.hpp"
#include "attn/core/shape.hpp"
#include "attn/reference/ops/terms.hpp"

namespace attn {
namespace {

constexpr Choice<Normalization> normalizations[] = {{Normalization::softmax, "softmax"}, {Normalization::none, "none"}};

template <Attending T>
void expect_fitting(const Vector& sinks, const T& scores, Normalization normalization)
{
    std::size_t heads = 1;
    if constexpr (std::same_as<T, Tensor4>)
        heads = scores.shape(1);
    if (sinks.size() != heads)
        throw ShapeError("attention: sinks ", shape_of(sinks), " are for ", sinks.size(), " heads, but there ",
                         (heads == 1 ? "is 1" : "are " + std::to_string(heads)));
    if (normalization != Normalization::softmax)
        throw Error("attention: sinks take a share of softmax, and the scores are not normalised: leave the sinks out");
}

/// Each head's sink for each of its queries, ((b,) n, one).
template <Attending T>
T sink_scores(const Vector& sinks, const T& scores)
{
    auto shape = scores.shape();
    shape.back() = 1;
    T column(shape);
    for (std::size_t i = 0; i < column.size(); ++i)
        column.data()[i] = sinks(i / scores.shape(token_axis<T>) % sinks.size());
    return column;
}

template <Attending T>
std::string sink_formula(const T& scores)
{
    const std::string batch = std::to_string(scores.shape(0)), n = std::to_string(scores.shape(token_axis<T>));
    if constexpr (std::same_as<T, Matrix>)
        return "repeat(sinks[None], " + n + ", axis=0)";
    else if constexpr (std::same_as<T, Tensor3>)
        return "repeat(repeat(sinks[None, None], " + batch + ", axis=0), " + n + ", axis=1)";
    else
        return "repeat(repeat(sinks[None, :, None, None], " + batch + ", axis=0), " + n + ", axis=2)";
}

/// Softmax with one more score in each row, whose weight is left out of the result.
template <Attending T>
Term<T> softmax_with_sinks(const Term<T>& scores, const Vector& given, const Trace& trace)
{
    constexpr bool has_heads = std::same_as<T, Tensor4>;
    const Term sinks = trace.input(has_heads ? "sinks[h]" : "sinks[one]", Term(given));
    const std::size_t m = scores.shape(feature_axis<T>);
    const Term column = trace(
        "sink_scores[(b,) n, one]", [&] { return sink_formula(*scores); }, Term(sink_scores(*sinks, *scores)));
    const Term with_sink = trace("with_sink[(b,) n, m_and_one]", concat<T>({scores, column}, -1));
    const Term all = trace("all_weights[(b,) n, m_and_one]", softmax(with_sink));
    return trace("weights[(b,) n, m]", columns(all, 0, m));
}

/// Each query's scores as weights, under the name `weights`.
template <Attending T>
Term<T> normalized(Term<T> scores, const WeighingOptions& options, const Trace& trace)
{
    if (options.normalization == Normalization::none)
        return trace.alias("weights", scores);
    if (options.sinks)
        return softmax_with_sinks(scores, *options.sinks, trace);
    return trace("weights[(b,) n, m]", softmax(std::move(scores)));
}

} // namespace

std::string_view name_of(Normalization normalization) { return row_for<normalizations>(normalization).name; }

StepOptions describe(const WeighingOptions& options)
{
    const auto& [mask, causal, normalization, sinks] = options;
    StepOptions all{{"mask", describe(mask, causal)}, {"normalization", std::string(name_of(normalization))}};
    if (sinks)
        all.emplace_back("sinks", "given");
    return all;
}

template <Attending T>
Term<T> attention_weights(Term<T> scores, const WeighingOptions& options, const Trace& trace)
{
    if (options.sinks)
        expect_fitting(*options.sinks, *scores, options.normalization);
    const bool is_softmax = options.normalization == Normalization::softmax;

    // Remove forbidden pairs before softmax, not after: the weights of what is left sum to one.
    const std::size_t n = scores.shape(token_axis<T>), m = scores.shape(feature_axis<T>);
    if (const auto mask = join_masks(
            n, m, {.given = options.mask, .causal = options.causal, .has_heads = std::same_as<T, Tensor4>}, trace))
        scores = trace("masked[(b,) n, m]",
                       where_allowed(*mask, std::move(scores), is_softmax ? minus_infinity : 0.0, trace));

    // Normalise each query's scores to weights.
    return normalized(std::move(scores), options, trace);
}

template <Attending T>
AttentionOf<Term<T>> weigh_values(Term<T> scores, const Term<T>& values, const WeighingOptions& options,
                                  const Trace& trace)
{
    const std::string said = trace.say(scores.wording()), name = said.empty() ? "scores" : said;
    expect_same_batch("attention", name, scores, "values", values);
    expect_agreement("attention", "m", {name, scores, feature_axis<T>}, {"values", values, token_axis<T>});
    Term weights = attention_weights(std::move(scores), options, trace);

    // Average the values by the weights.
    Term context = trace("context[(b,) n, d_v]", matmul(weights, values));
    return {std::move(context), std::move(weights)};
}

template <Attending T>
requires Traceable<T> AttentionOf<T> weigh_values(T scores, std::string_view name, const T& values,
                                                  const WeighingOptions& options, const Trace& trace)
{
    expect_agreement("attention", "m", {name, scores, feature_axis<T>}, {"values", values, token_axis<T>});
    auto [context, weights] =
        weigh_values(Term<T>(std::move(scores), trace.known(name)), named(values, "values", trace), options, trace);
    return {T(std::move(context)), T(std::move(weights))};
}

#define ATTN_INSTANTIATE(T)                                                                                            \
    template Term<T> attention_weights(Term<T>, const WeighingOptions&, const Trace&);                                 \
    template AttentionOf<Term<T>> weigh_values(Term<T>, const Term<T>&, const WeighingOptions&, const Trace&);         \
    template AttentionOf<T> weigh_values(T, std::string_view, const T&, const WeighingOptions&, const Trace&);
ATTN_INSTANTIATE(Matrix)
ATTN_INSTANTIATE(Tensor3)
ATTN_INSTANTIATE(Tensor4)
#undef ATTN_INSTANTIATE

} // namespace attn
