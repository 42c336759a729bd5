#include "attn/reference/layers/block.hpp"

#include "attn/core/choices.hpp"
#include "attn/core/shape.hpp"

#include <string>

namespace attn {
namespace {

/// Which norms of a sublayer there are.
struct PlacesRow {
    NormPlaces choice;
    std::string_view name;
    bool before, of_result, after_sum;
};

constexpr PlacesRow places_table[] = {
    {NormPlaces::before, "before", true, false, false},
    {NormPlaces::after_sum, "after-sum", false, false, true},
    {NormPlaces::after_sublayer, "after-sublayer", false, true, false},
    {NormPlaces::around, "around", true, true, false},
};

/// Tokens, and the step that they are.
template <Sequence T>
struct Named {
    T tokens;
    std::string name;
};

/// The parts of a block: its norms, and its sums.
template <Sequence T>
class Block {
public:
    Block(const BlockDescription& description, const Trace& trace)
        : norm_(description.norm),
          places_(row_for<places_table>(description.places)),
          scale_(description.residual_scale),
          trace_(trace)
    {
    }

    /// The tokens as a sublayer takes them.
    Named<T> before(const Named<T>& x, const std::string& scope, const std::optional<LayerNormWeights>& weights) const
    {
        return normalized(x, scope, places_.before, weights);
    }

    /// What a sublayer gives, normalised where a norm of its result stands.
    /// @param scope     of the sublayer: "self_attn"
    /// @param sublayer  from (tokens, scope) to its result
    template <class Sublayer>
    Named<T> result(const Named<T>& x, const std::string& scope, const std::string& norm_scope,
                    const std::optional<LayerNormWeights>& weights, const Sublayer& sublayer) const
    {
        const Trace inside = trace_.scope(scope, {{"x", x.name}});
        return normalized({sublayer(x.tokens, inside), scope + ".output"}, norm_scope, places_.of_result, weights);
    }

    /// The tokens after a sum, normalised where a norm stands there.
    Named<T> after(const Named<T>& x, const std::string& scope, const std::optional<LayerNormWeights>& weights) const
    {
        return normalized(x, scope, places_.after_sum, weights);
    }

    bool has_norm_after_sum() const { return places_.after_sum; }

    /// The tokens plus what sublayers add, as the step of that name.
    Named<T> sum(const Named<T>& x, std::initializer_list<const Named<T>*> branches, const std::string& step) const
    {
        const std::string factor = scale_ == 1 ? "" : exact_text(scale_) + " * ";
        T tokens = x.tokens;
        std::string formula = x.name;
        for (const Named<T>* branch : branches) {
            if (shape_of(branch->tokens) != shape_of(tokens)) // the sum would broadcast
                throw ShapeError("decoder_block: " + x.name + " " + to_string(shape_of(tokens)) + " and " +
                                 branch->name + " " + to_string(shape_of(branch->tokens)) +
                                 " must agree in d_model: they are added");
            tokens += scale_ * branch->tokens;
            formula += " + " + factor + branch->name;
        }
        return {trace_(step + "[(b,) n, d_model]", formula, std::move(tokens)), step};
    }

private:
    Named<T> normalized(const Named<T>& x, const std::string& scope, bool stands,
                        const std::optional<LayerNormWeights>& weights) const
    {
        if (!stands)
            return x;
        if (!weights)
            throw Error("decoder_block: norms stand " + std::string(places_.name) + ", and the weights have no " +
                        scope);
        const Trace inside = trace_.scope(scope, {{"x", x.name}});
        return {norm(x.tokens, *weights, norm_, inside), scope + ".output"};
    }

    const NormDescription& norm_;
    const PlacesRow& places_;
    double scale_;
    const Trace& trace_;
};

template <Sequence T>
T attend_to_each_other(const T& x, const SelfAttentionWeights& weights, const BlockDescription& description,
                       const MultiHeadOptions& options, const Trace& trace)
{
    if (const auto* latent = std::get_if<LatentAttentionWeights>(&weights))
        return latent_attention(x, *latent, options, trace).output;
    if (const auto* delta_net = std::get_if<GatedDeltaNetWeights>(&weights))
        return gated_delta_net(x, *delta_net, description.delta_net, trace).output;
    return multi_head_attention(x, std::get<MultiHeadWeights>(weights), options, trace).output;
}

/// What there is of the kind of cache that some weights have.
template <class Cache, class Caches>
std::optional<Cache> past_of(const std::optional<Caches>& past)
{
    if (past && !std::holds_alternative<Cache>(*past))
        throw Error("cached_decoder_block: the cache is of another kind of attention than the weights");
    return past ? std::optional(std::get<Cache>(*past)) : std::nullopt;
}

template <Sequence T>
CachedBlockOf<T> attend_after(const T& x, const PastOfBlock<T>& past, const SelfAttentionWeights& weights,
                              const BlockDescription& description, const MultiHeadOptions& options, const Trace& trace)
{
    if (const auto* latent = std::get_if<LatentAttentionWeights>(&weights)) {
        auto attended = cached_latent_attention(x, past_of<LatentCacheOf<T>>(past), *latent, options, trace);
        return {std::move(attended.output), std::move(attended.cache)};
    }
    if (const auto* delta_net = std::get_if<GatedDeltaNetWeights>(&weights)) {
        auto read =
            gated_delta_net(x, past_of<GatedDeltaNetCacheOf<T>>(past), *delta_net, description.delta_net, trace);
        return {std::move(read.output), std::move(read.cache)};
    }
    auto attended = cached_self_attention(x, past_of<KeyValueCacheOf<T>>(past), std::get<MultiHeadWeights>(weights),
                                          options, trace);
    return {std::move(attended.output), std::move(attended.cache)};
}

template <Sequence T>
T map_tokens(const T& x, const NetworkWeights& weights, const BlockDescription& description, const Trace& trace)
{
    if (const auto* mixture = std::get_if<ExpertsWeights>(&weights))
        return experts(x, *mixture, description.experts, trace);
    if (const auto* gated = std::get_if<GatedFeedForwardWeights>(&weights))
        return gated_feed_forward(x, *gated, {.activation = description.activation}, trace);
    return feed_forward(x, std::get<FeedForwardWeights>(weights), {.activation = description.activation}, trace);
}

/// One block, whose self-attention is given: from (tokens, options, scope) to its output.
template <Sequence T, class Attend>
T block(std::string_view function, const T& tokens, const BlockWeights& weights, const BlockDescription& description,
        const OptionalMask& given_mask, const Trace& caller, const Attend& attend)
{
    const Trace trace = caller.module(function, [&] { return describe(description); });
    const Named<T> x{trace.input("x[(b,) n, d_model]", tokens), "x"};
    MultiHeadOptions of_heads = description.attention;
    of_heads.mask = share("mask[(b,) n, m]", given_mask, trace);
    const Block<T> block(description, trace);
    const auto network = [&](const Named<T>& y) {
        return block.result(y, "feed_forward", "post_norm2", weights.post_norm2, [&](const T& z, const Trace& inside) {
            return map_tokens(z, weights.feed_forward, description, inside);
        });
    };

    // Attend to the other tokens.
    const Named<T> normalized = description.has_first_norm ? block.before(x, "norm1", weights.norm1) : x;
    const Named<T> attended =
        block.result(normalized, "self_attn", "post_norm1", weights.post_norm1,
                     [&](const T& y, const Trace& inside) { return attend(y, of_heads, inside); });

    // Map each token by itself: the same tokens, side by side with attention,
    if (description.is_parallel) {
        const Named<T> mapped = network(weights.norm2 ? block.before(x, "norm2", weights.norm2) : normalized);
        return block.sum(x, {&attended, &mapped}, "output").tokens;
    }

    // or those that attention has changed.
    const Named<T> residual = block.after(block.sum(x, {&attended}, "residual1"), "norm1", weights.norm1);
    const Named<T> mapped = network(block.before(residual, "norm2", weights.norm2));
    const std::string last = block.has_norm_after_sum() ? "residual2" : "output";
    const Named<T> output = block.after(block.sum(residual, {&mapped}, last), "norm2", weights.norm2);
    if (output.name != "output")
        trace.alias("output", output.name);
    return output.tokens;
}

} // namespace

StepOptions describe(const BlockDescription& description)
{
    const auto& [norm, places, has_first_norm, is_parallel, residual_scale, attention, delta_net, window, chunk,
                 activation,
                 experts] = description; // those of a gated DeltaNet and of experts are said by their own steps
    StepOptions described{
        {"norm", std::string(name_of(norm.kind))},       {"epsilon", exact_text(norm.epsilon)},
        {"norms", std::string(name_of(places))},         {"heads", std::to_string(attention.heads)},
        {"scale", describe_scale(attention.scale)},      {"positions", std::string(name_of(attention.positions))},
        {"activation", std::string(name_of(activation))}};
    const auto add = [&](bool is_there, const char* name, std::string value) {
        if (is_there)
            described.emplace_back(name, std::move(value));
    };
    add(norm.adds_one, "adds_one", "true");
    add(!has_first_norm, "first_norm", "none");
    add(is_parallel, "sublayers", "parallel");
    add(residual_scale != 1, "residual_scale", exact_text(residual_scale));
    add(attention.softcap.has_value(), "softcap", exact_text(attention.softcap.value_or(0)));
    add(window.has_value(), "window", std::to_string(window.value_or(0)));
    add(chunk.has_value(), "chunk", std::to_string(chunk.value_or(0)));
    add(attention.unit_epsilon.has_value(), "unit_epsilon", exact_text(attention.unit_epsilon.value_or(0)));
    if (const auto& temperature = attention.temperature)
        described.emplace_back("temperature",
                               exact_text(temperature->strength) + " from every " + std::to_string(temperature->every));
    if (attention.positions == HeadPositions::rotary)
        for (auto& [name, value] : describe(attention.rotary))
            described.emplace_back("rotary_" + name, std::move(value));
    return described;
}

std::string_view name_of(NormPlaces places) { return row_for<places_table>(places).name; }

template <Sequence T>
T decoder_block(const T& x, const BlockWeights& weights, const BlockDescription& description, const OptionalMask& mask,
                const Trace& trace)
{
    return block("decoder_block", x, weights, description, mask, trace,
                 [&](const T& y, const MultiHeadOptions& of_heads, const Trace& inside) {
                     return attend_to_each_other(y, weights.self_attention, description, of_heads, inside);
                 });
}

template <Sequence T>
CachedBlockOf<T> cached_decoder_block(const T& x, const PastOfBlock<T>& past, const BlockWeights& weights,
                                      const BlockDescription& description, const OptionalMask& mask, const Trace& trace)
{
    CachedBlockOf<T> result;
    result.output = block("cached_decoder_block", x, weights, description, mask, trace,
                          [&](const T& y, const MultiHeadOptions& of_heads, const Trace& inside) {
                              auto attended =
                                  attend_after<T>(y, past, weights.self_attention, description, of_heads, inside);
                              result.cache = std::move(attended.cache);
                              return std::move(attended.output);
                          });
    return result;
}

#define ATTN_INSTANTIATE(T)                                                                                            \
    template T decoder_block(const T&, const BlockWeights&, const BlockDescription&, const OptionalMask&,              \
                             const Trace&);                                                                            \
    template CachedBlockOf<T> cached_decoder_block(const T&, const PastOfBlock<T>&, const BlockWeights&,               \
                                                   const BlockDescription&, const OptionalMask&, const Trace&);
ATTN_INSTANTIATE(Matrix)
ATTN_INSTANTIATE(Tensor3)
#undef ATTN_INSTANTIATE

} // namespace attn
