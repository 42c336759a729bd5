#include "attn/reference/models/language_model.hpp"

#include "attn/core/error.hpp"
#include "attn/reference/layers/residual.hpp"
#include "attn/reference/ops/concat.hpp"
#include "predict.hpp"

#include <algorithm>
#include <string>

namespace attn {
namespace {

/// The rows of the embedding, scaled and with positions where the model has them.
/// @param before  how many tokens come before these
template <Sequence T, class Ids>
T embed_tokens(const Ids& ids, std::size_t before, const LanguageModelWeights& weights,
               const LanguageModelDescription& description, const Matrix& embedding, const Trace& trace)
{
    const std::optional<double>& scale = description.embedding_scale;
    constexpr std::string_view embedded = "embedded[(b,) n, d_model]";
    if (!scale && !weights.positions)
        return trace(embedded, "embedding[ids]", T(take_rows(embedding, ids)));

    T tokens = trace("tokens[(b,) n, d_model]", "embedding[ids]", T(take_rows(embedding, ids)));
    std::string formula = scale ? exact_text(*scale) + " * tokens" : "tokens";
    if (scale)
        tokens *= *scale;
    if (weights.positions) {
        expect_agreement("language_model", "d_model", {"embedding", embedding, 1},
                         {"position_embedding", *weights.positions, 1});
        const Trace inside = trace.scope("position_embedding");
        const Matrix positions =
            learned_positions(*weights.positions, ids.shape().back(), description.first_position + before, inside);
        tokens += positions;
        formula += " + position_embedding.positions";
    }
    return trace(embedded, formula, std::move(tokens));
}

/// The masks of the layers: one of the whole model, and one for each width of a window.
class Masks {
public:
    Masks(std::size_t n, std::size_t m, const std::optional<Integers>& lengths,
          const std::vector<BlockDescription>& layers, const Trace& trace)
        : mask_(join_masks(n, m, {.causal = Causal::bottom_right, .key_lengths = lengths}, trace))
    {
        for (const BlockDescription& layer : layers) {
            if (!layer.window || find(*layer.window) != nullptr)
                continue;
            const Trace inside = trace.scope("window", windows_.size(), {{"given_mask", "mask"}});
            windows_.push_back(
                {*layer.window, join_masks(n, m, {.given = mask_, .window = {.left = *layer.window - 1}}, inside)});
        }
    }

    /// The mask of a layer, and the step that it is.
    struct OfLayer {
        OptionalMask mask;
        std::string name;
    };
    OfLayer of(const BlockDescription& layer) const
    {
        if (!layer.window)
            return {mask_, "mask"};
        const Windowed* found = find(*layer.window);
        return {found->mask, "window." + std::to_string(found - windows_.data()) + ".mask"};
    }

private:
    struct Windowed {
        std::size_t width;
        OptionalMask mask;
    };

    const Windowed* find(std::size_t width) const
    {
        const auto found = std::ranges::find(windows_, width, &Windowed::width);
        return found == windows_.end() ? nullptr : &*found;
    }

    OptionalMask mask_;
    std::vector<Windowed> windows_;
};

/// Tokens on their way through the model, and the step that they are.
template <Sequence T>
struct Stream {
    T tokens;
    std::string name;

    void normalize(const std::string& scope, const std::optional<LayerNormWeights>& weights,
                   const NormDescription& description, const Trace& trace)
    {
        if (!weights)
            return;
        const Trace inside = trace.scope(scope, {{"x", name}});
        tokens = norm(tokens, *weights, description, inside);
        name = scope + ".output";
    }
};

/// The logits of the next token, from the last layer's tokens.
template <Sequence T>
T logits_of(const Stream<T>& last, const LanguageModelWeights& weights, const LanguageModelDescription& description,
            const Matrix& embedding, const Trace& trace)
{
    const auto& [layers, norm, first_position, embedding_scale, scale, softcap] = description;
    const bool has_bias = weights.output && weights.output->bias;
    const bool is_product = !has_bias && !scale && !softcap;
    const std::optional<Matrix> output = weights.output ? std::optional(weights.output->weight) : std::nullopt;
    T logits = predict("language_model", last.tokens, "embedding", embedding, output, trace,
                       {.tokens = last.name, .logits = is_product ? "logits" : "products"});
    if (is_product)
        return logits;

    std::string formula = "products";
    if (has_bias) {
        const Vector& bias = trace.input("output_bias[vocabulary]", *weights.output->bias);
        logits += bias;
        formula = scale || softcap ? "(products + output_bias)" : "products + output_bias";
    }
    if (scale) {
        logits *= *scale;
        formula = exact_text(*scale) + " * " + formula;
    }
    if (softcap) {
        logits = *softcap * xt::tanh(T(logits / *softcap));
        formula = exact_text(*softcap) + " * tanh(" + formula + " / " + exact_text(*softcap) + ")";
    }
    return trace("logits[(b,) n, vocabulary]", formula, std::move(logits));
}

/// How many tokens a cache is of, as one of its layers says that keeps each of them.
std::size_t tokens_in(const LanguageModelCache<Matrix>& cache)
{
    for (const auto& layer : cache) {
        if (const auto* latents = std::get_if<LatentCache>(&layer))
            return latents->latent.shape(0);
        if (const auto* heads = std::get_if<KeyValueCache>(&layer))
            return heads->keys.shape(0);
    }
    return 0; // states only, which no mask and no position asks about
}

/// @param before   how many tokens come before these
/// @param lengths  of a batch: how many ids of each sequence are real; optional
/// @param layer    one layer: from (tokens, number, mask, its scope) to what comes out
template <Sequence T, class Ids, class Layer>
T decode(const Ids& given_ids, std::size_t before, const std::optional<Integers>& lengths,
         const LanguageModelWeights& weights, const LanguageModelDescription& description, const Trace& caller,
         const Layer& layer)
{
    if (description.layers.size() != weights.layers.size())
        throw Error("language_model: " + std::to_string(description.layers.size()) + " layers are described, and " +
                    std::to_string(weights.layers.size()) + " layers have weights");
    const Trace trace = caller.module("language_model", [&] {
        return StepOptions{{"layers", std::to_string(weights.layers.size())}};
    });
    const Ids& ids = trace.input("ids[(b,) n]", given_ids);
    const Matrix& embedding = trace.input("embedding[vocabulary, d_model]", weights.embedding);

    // Look the tokens up.
    Stream<T> stream{embed_tokens<T>(ids, before, weights, description, embedding, trace), "embedded"};
    stream.normalize("embedding_norm", weights.embedding_norm, description.norm, trace);

    // Pass them through the layers, where no token attends to a later one.
    const std::size_t n = ids.shape().back();
    const Masks masks(n, before + n, lengths, description.layers, trace);
    for (std::size_t i = 0; i < weights.layers.size(); ++i) {
        const auto [mask, mask_name] = masks.of(description.layers[i]);
        const Trace inside = trace.scope("layers", i, {{"x", stream.name}, {"mask", mask_name}});
        stream = {layer(stream.tokens, i, mask, inside), "layers." + std::to_string(i) + ".output"};
    }
    stream.normalize("norm", weights.norm, description.norm, trace);

    // Compare the result with every word.
    return logits_of(stream, weights, description, embedding, trace);
}

} // namespace

Matrix language_model(const Integers& ids, const LanguageModelWeights& weights,
                      const LanguageModelDescription& description, const Trace& trace)
{
    return decode<Matrix>(ids, 0, {}, weights, description, trace,
                          [&](const Matrix& x, std::size_t i, const OptionalMask& mask, const Trace& inside) {
                              return decoder_block(x, weights.layers[i], description.layers[i], mask, inside);
                          });
}

Tensor3 language_model(const IntegerMatrix& ids, const std::optional<Integers>& lengths,
                       const LanguageModelWeights& weights, const LanguageModelDescription& description,
                       const Trace& trace)
{
    return decode<Tensor3>(ids, 0, lengths, weights, description, trace,
                           [&](const Tensor3& x, std::size_t i, const OptionalMask& mask, const Trace& inside) {
                               return decoder_block(x, weights.layers[i], description.layers[i], mask, inside);
                           });
}

LanguageModelStep<Matrix> language_model(const Integers& ids, const LanguageModelCache<Matrix>& past,
                                         const LanguageModelWeights& weights,
                                         const LanguageModelDescription& description, const Trace& trace)
{
    if (!past.empty() && past.size() != weights.layers.size())
        throw ShapeError("language_model: a cache of " + std::to_string(past.size()) + " layers is no cache of " +
                         std::to_string(weights.layers.size()));
    LanguageModelStep<Matrix> step;
    const auto layer = [&](const Matrix& x, std::size_t i, const OptionalMask& mask, const Trace& inside) {
        const auto before = past.empty() ? PastOfBlock<Matrix>() : PastOfBlock<Matrix>(past[i]);
        auto [output, cache] = cached_decoder_block(x, before, weights.layers[i], description.layers[i], mask, inside);
        step.cache.push_back(std::move(cache));
        return std::move(output);
    };
    const std::size_t before = tokens_in(past);
    step.logits = decode<Matrix>(ids, before, {}, weights, description, trace, layer);
    return step;
}

} // namespace attn
