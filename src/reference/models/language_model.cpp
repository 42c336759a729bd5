#include "attn/reference/models/language_model.hpp"

#include "attn/core/error.hpp"
#include "attn/reference/layers/activation.hpp"
#include "attn/reference/layers/embedding.hpp"
#include "attn/reference/layers/residual.hpp"
#include "attn/reference/ops/concat.hpp"
#include "attn/reference/ops/terms.hpp"
#include "predict.hpp"

#include <algorithm>
#include <string>

namespace attn {
namespace {

/// 1 for each id that is another one than that.
template <class Ids>
Ids other_ids(const Ids& ids, std::size_t id, std::string_view step, const Trace& trace)
{
    const std::string text = std::to_string(id);
    Ids others = ids;
    for (std::int64_t& any : others)
        any = any == static_cast<std::int64_t>(id) ? 0 : 1;
    return trace(step, "1 * (ids < " + text + ") + 1 * (ids > " + text + ")", std::move(others));
}

/// The row of each token in the table of positions where padding does not count, and has the row of its own id.
/// @param padding  its id
template <class Ids>
Term<Ids> count_tokens(const Ids& ids, std::size_t padding, const Trace& trace)
{
    const std::string p = std::to_string(padding), n = std::to_string(ids.shape().back());
    const auto id = static_cast<std::int64_t>(padding);
    const Ids counted = other_ids(ids, padding, "counted[(b,) n]", trace);
    Ids rows = counted;
    for (std::size_t i = 0, count = 0; i < rows.size(); ++i) {
        count = (i % ids.shape().back() == 0 ? 0 : count) + static_cast<std::size_t>(counted.data()[i]);
        rows.data()[i] = id + counted.data()[i] * static_cast<std::int64_t>(count);
    }
    return trace("position_ids[(b,) n]",
                 p + " + counted * (counted @ (arange(" + n + ")[:, None] <= arange(" + n + ")))",
                 Term(std::move(rows)));
}

/// How many tokens of each sequence are real, and how a formula says it.
std::pair<Vector, std::string> real_tokens(const Shape& ids, const Padding& padding, const Trace& trace)
{
    const std::size_t n = ids.back(), sequences = ids.size() == 1 ? 1 : ids.front();
    Vector counts(Vector::shape_type{sequences}, static_cast<double>(n));
    if (const auto* lengths = std::get_if<Integers>(&padding)) {
        std::ranges::copy(trace.input("lengths[b]", *lengths), counts.begin());
        return {counts, "lengths"};
    }
    if (const auto* mask = std::get_if<Mask>(&padding)) {
        const Mask& real = trace.input("padding[b, m]", *mask);
        for (std::size_t b = 0; b < sequences; ++b)
            counts(b) = static_cast<double>(std::ranges::count(xt::row(real, static_cast<std::ptrdiff_t>(b)), true));
        return {counts, "sum(padding, axis=-1)"};
    }
    return {counts, std::to_string(n)};
}

/// Tokens of which the hidden ones are 0, and all are scaled as in training.
template <Sequence T, class Ids>
Term<T> without_hidden(const Term<T>& tokens, const Ids& ids, const TokenDropout& dropout, const Padding& padding,
                       std::string_view step, const Trace& trace)
{
    constexpr bool is_batch = std::same_as<T, Tensor3>;
    const std::size_t n = ids.shape().back();
    const Ids kept = other_ids(ids, dropout.id, "kept[(b,) n]", trace);
    auto [factors, real] = real_tokens(shape_of(ids), padding, trace);
    for (std::size_t b = 0; b < factors.size(); ++b) {
        double hidden = 0;
        for (std::size_t i = 0; i < n; ++i)
            hidden += 1 - static_cast<double>(kept.data()[b * n + i]);
        factors(b) = (1 - dropout.share) / (1 - hidden / factors(b));
    }
    const std::string formula = exact_text(1 - dropout.share) + " / (1 - sum(1 - kept, axis=-1) / " + real + ")";
    if constexpr (is_batch)
        factors = trace("factor[b]", formula, std::move(factors));
    else
        factors(0) = trace("factor", formula, double(factors(0)));
    T scaled = *tokens;
    const std::size_t d_model = scaled.shape(feature_axis<T>);
    for (std::size_t i = 0; i < scaled.size(); ++i)
        scaled.data()[i] *= static_cast<double>(kept.data()[i / d_model]) * factors(i / d_model / n);
    return trace(step, is_batch ? "tokens * (kept * factor[:, None])[..., None]" : "tokens * (kept * factor)[:, None]",
                 Term<T>(std::move(scaled)));
}

/// What a table has for the type of each token.
template <class Ids>
auto types_of(const Ids& ids, const std::optional<Ids>& given, const Matrix& table, const Trace& trace)
{
    Ids none = ids;
    none.fill(0);
    const Term types = given ? trace.input("token_types[(b,) n]", Term(*given))
                             : trace("token_types[(b,) n]", "0 * ids", Term(std::move(none)));
    return look_up(types, {table}, {}, trace.scope("token_type_embedding"));
}

/// Tokens plus learned positions.
/// @param first  the row of the first token
template <Sequence T>
Term<T> with_positions(const Term<T>& tokens, std::size_t first, const Matrix& table, const Trace& trace)
{
    const Trace inside = trace.scope("position_embedding");
    return tokens + learned_positions(Term(table), tokens.shape(token_axis<T>), first, inside);
}

/// The rows in the table of positions of tokens that stand anywhere.
/// @param first  that of position 0
Term<Integers> rows_of(const Integers& given, std::size_t first, const Trace& trace)
{
    const Term positions = trace.shared_input("positions[n]", Term(given));
    if (first == 0)
        return positions;
    Integers rows = *positions;
    for (std::int64_t& row : rows)
        row += static_cast<std::int64_t>(first);
    return trace("position_ids[n]", "positions + " + std::to_string(first), Term(std::move(rows)));
}

const Padding all_real; // gcc 12 warns of a temporary one

/// Where the tokens of a call stand: after so many others, or at places that are given.
struct Standing {
    std::size_t before = 0;
    Shared<PlacesOfPairs> places = {};
    std::optional<Matrix> coordinates = {}; ///< (axes, n)
    bool is_whole = true;                   ///< false where other calls have tokens of the same text
};

/// Names the places once for all that asks about them.
Standing named(const Standing& standing, const Trace& trace)
{
    if (standing.coordinates)
        return {.before = standing.before,
                .coordinates = trace.input("coordinates[axes, n]", *standing.coordinates),
                .is_whole = standing.is_whole};
    if (!standing.places)
        return standing;
    const auto& [queries, keys] = *standing.places;
    return {.places =
                PlacesOfPairs{
                    {trace.input("sequences[n]", queries.sequences), trace.input("positions[n]", queries.positions)},
                    {trace.input("key_sequences[m]", keys.sequences), trace.input("key_positions[m]", keys.positions)}},
            .is_whole = standing.is_whole};
}

/// The table of words.
/// @param others  of a model that shares it
const Matrix& table_of(const LanguageModelWeights& weights, const Matrix* others = nullptr)
{
    const Matrix* table = others == nullptr ? std::get_if<Matrix>(&weights.embedding) : others;
    if (table == nullptr)
        throw Error("language_model: the model has no table of words: see image_model() and sound_model()");
    return *table;
}

/// The rows of the embedding, scaled and with token types and positions where the model has them.
template <Sequence T, class Ids>
Term<T> embed_tokens(const Ids& ids, const Standing& standing, const LanguageModelWeights& weights,
                     const LanguageModelDescription& description, const Padding& padding,
                     const std::optional<Ids>& token_types, const Matrix& embedding, const Trace& trace)
{
    const std::optional<double>& scale = description.embedding_scale;
    constexpr std::string_view embedded = "embedded[(b,) n, d_model]";
    if (token_types && !weights.token_types)
        throw Error("language_model: tokens have types, and the model has no table of them");
    if (token_types && token_types->shape() != ids.shape())
        throw ShapeError("language_model: token_types " + to_string(shape_of(*token_types)) + " and ids " +
                         to_string(shape_of(ids)) + " must have the same shape");
    for (const auto& [name, table] :
         {std::pair("position_embedding", &weights.positions), {"token_type_embedding", &weights.token_types}})
        if (*table && !weights.word_map)
            expect_agreement("language_model", "d_model", {"embedding", embedding, 1}, {name, **table, 1});
    const bool is_sum = scale || weights.positions || weights.token_types;
    const auto& dropout = description.token_dropout;
    Term tokens = trace(is_sum || dropout ? "tokens[(b,) n, d_model]" : embedded, "embedding[ids]",
                        Term(T(take_rows(embedding, ids))));
    if (dropout)
        tokens = without_hidden(tokens, ids, *dropout, padding, is_sum ? "dropped[(b,) n, d_model]" : embedded, trace);
    if (weights.word_map)
        tokens = linear(tokens, *weights.word_map, {.name = "mapped", .d_in = "d_embedding", .d_out = "d_model"},
                        trace.scope("word_map"));
    if (!is_sum)
        return tokens;
    if (scale)
        tokens = *scale * tokens;
    if (weights.token_types)
        tokens = tokens + types_of(ids, token_types, *weights.token_types, trace);
    if (weights.positions && description.padding_id)
        tokens = tokens + look_up(count_tokens(ids, *description.padding_id, trace), {*weights.positions}, {},
                                  trace.scope("position_embedding"));
    else if (weights.positions && standing.places) {
        if constexpr (std::same_as<T, Matrix>) // a batch has none
            tokens = tokens + look_up(rows_of(standing.places->queries.positions, description.first_position, trace),
                                      {*weights.positions}, {}, trace.scope("position_embedding"));
    } else if (weights.positions)
        tokens = with_positions(tokens, description.first_position + standing.before, *weights.positions, trace);
    return trace(embedded, tokens);
}

/// Tokens that are embedded already, with positions where the model has them.
template <Sequence T>
Term<T> with_positions(const T& given, const LanguageModelWeights& weights, const LanguageModelDescription& description,
                       const Trace& trace)
{
    if (weights.token_types || description.padding_id || description.token_dropout)
        throw Error("language_model: the model counts or types its tokens by their ids: give these");
    const Term tokens = trace.input("tokens[(b,) n, d_model]", Term(given));
    if (!weights.positions)
        return tokens;
    expect_agreement("language_model", "d_model", {"tokens", tokens, feature_axis<T>},
                     {"position_embedding", *weights.positions, 1});
    constexpr std::string_view embedded = "embedded[(b,) n, d_model]";
    if (const auto& grid = description.position_grid)
        return trace(embedded, tokens + resized_positions(Term(*weights.positions), grid->height, grid->width,
                                                          trace.scope("position_embedding")));
    return trace(embedded, with_positions(tokens, description.first_position, *weights.positions, trace));
}

/// What hides padding.
MaskParts mask_of(const Padding& padding)
{
    MaskParts parts;
    if (const auto* lengths = std::get_if<Integers>(&padding))
        parts.key_lengths = *lengths;
    if (const auto* mask = std::get_if<Mask>(&padding))
        parts.padding = *mask;
    return parts;
}

/// The masks of the layers: one of the whole model, and one for each width of a window or a chunk.
class Masks {
public:
    Masks(std::size_t n, std::size_t m, const Standing& standing, const Padding& padding,
          const LanguageModelDescription& description, const Trace& trace)
        : mask_(join_masks(n, m, parts_of(standing, padding, description), trace))
    {
        for (const BlockDescription& layer : description.layers) {
            if (layer.kept > 0 && !layer.window)
                throw Error("language_model: a layer keeps " + std::to_string(layer.kept) +
                            " first tokens in its window, and has no window");
            if ((!layer.window && !layer.chunk) || find(layer) != nullptr)
                continue;
            MaskParts parts{.given = mask_};
            if (standing.places)
                parts.places = *standing.places;
            if (layer.window)
                parts.window = {.left = *layer.window - 1, .kept = layer.kept};
            if (!description.is_causal)
                parts.window.right = parts.window.left;
            parts.chunk = layer.chunk;
            const std::string scope = layer.window ? "window" : "chunk";
            const Trace inside = trace.scope(scope, near_.size());
            if (mask_)
                inside.alias("given_mask", "mask");
            near_.push_back({layer.window, layer.chunk, layer.kept,
                             scope + "." + std::to_string(near_.size()) + ".mask", join_masks(n, m, parts, inside)});
        }
    }

    /// The mask of a layer, and the step that it is, where it has one.
    struct OfLayer {
        OptionalMask mask;
        std::string name;
    };
    OfLayer of(const BlockDescription& layer) const
    {
        if (!layer.window && !layer.chunk)
            return {mask_, "mask"};
        const Near* found = find(layer);
        return {found->mask, found->name};
    }

private:
    /// The mask of layers whose queries attend to keys near them.
    struct Near {
        std::optional<std::size_t> window, chunk;
        std::size_t kept;
        std::string name;
        OptionalMask mask;
    };

    static MaskParts parts_of(const Standing& standing, const Padding& padding,
                              const LanguageModelDescription& description)
    {
        MaskParts parts = mask_of(padding);
        if (standing.places)
            parts.places = *standing.places;
        if (description.is_causal)
            parts.causal = Causal::bottom_right;
        return parts;
    }

    const Near* find(const BlockDescription& layer) const
    {
        const auto found = std::ranges::find_if(near_, [&](const Near& near) {
            return near.window == layer.window && near.chunk == layer.chunk && near.kept == layer.kept;
        });
        return found == near_.end() ? nullptr : &*found;
    }

    OptionalMask mask_;
    std::vector<Near> near_;
};

/// Norms stand where the weights have them.
template <Sequence T>
Term<T> normalized(const Term<T>& x, std::string_view scope, const std::optional<LayerNormWeights>& weights,
                   const NormDescription& description, const Trace& trace)
{
    return weights ? norm(x, *weights, description, trace.scope(scope)) : x;
}

/// Passes the tokens through the head of a masked language model.
template <Sequence T>
Term<T> predict_tokens(const Term<T>& tokens, const PredictionHeadWeights& weights,
                       const LanguageModelDescription& description, const Trace& trace)
{
    const Trace head = trace.scope("prediction_head");
    const Term x = head.input("x[(b,) n, d_model]", tokens);
    const Term hidden = linear(x, weights.map, {.name = "hidden", .d_in = "d_model", .d_out = "d_model"}, head);
    const Term activated = activate("activated[(b,) n, d_model]", hidden, description.head_activation, head);
    return normalized(activated, "norm", weights.norm, description.norm, head);
}

/// One row for all tokens. A learned query can attend to those that are no padding.
template <Sequence T>
void pool_tokens(const Term<T>& tokens, const IdsOf<T>* ids, const Padding& padding, const PoolerWeights& weights,
                 const PoolerDescription& description, const Trace& trace)
{
    const Trace inside = trace.scope("pooler");
    const Term x = inside.input("x[(b,) n, d_model]", tokens);
    PoolerInputs<Term<T>> inputs{.ids = ids};
    if (description.token == PooledToken::query) {
        if (std::holds_alternative<Integers>(padding))
            inside.alias("lengths", "lengths");
        if (std::holds_alternative<Mask>(padding))
            inside.alias("padding", "padding");
        inputs.mask = join_masks(1, x.shape(token_axis<T>), mask_of(padding), inside, "mask[(b,) one, n]");
    }
    (void)pool(x, weights, description, inputs, inside);
}

/// The logits, from the last layer's tokens.
/// @param table  of words, of a model that shares it
template <Sequence T>
Term<T> logits_of(const Term<T>& last, const LanguageModelWeights& weights, const LanguageModelDescription& description,
                  const Matrix* table, const Trace& trace)
{
    const Term embedding = weights.output
                               ? Term<Matrix>() // not needed beside an output map
                               : trace.shared_input("embedding[vocabulary, d_model]", Term(table_of(weights, table)));
    const auto& bias = weights.output_bias;
    const auto &scale = description.logit_scale, &softcap = description.logit_softcap;
    if (!bias && !scale && !softcap)
        return predict("language_model", last, embedding, weights.output, trace);

    Term logits = predict("language_model", last, embedding, weights.output, trace, "products[(b,) n, vocabulary]");
    if (bias) {
        expect_agreement("language_model", "vocabulary", {"products", logits, feature_axis<T>},
                         {"output_bias", *bias, 0});
        logits = logits + trace.input("output_bias[vocabulary]", Term(*bias));
    }
    if (scale)
        logits = *scale * logits;
    if (softcap)
        logits = *softcap * tanh(logits / *softcap);
    return trace("logits[(b,) n, vocabulary]", logits);
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

/// The scope of a model, whose layers are described.
Trace model_scope(const LanguageModelWeights& weights, const LanguageModelDescription& description, const Trace& caller)
{
    if (description.layers.size() != weights.layers.size())
        throw Error("language_model: " + std::to_string(description.layers.size()) + " layers are described, and " +
                    std::to_string(weights.layers.size()) + " layers have weights");
    return caller.module("language_model", [&] {
        return StepOptions{{"layers", std::to_string(weights.layers.size())}};
    });
}

/// Whether a token of any sequence is not real, and a later one is.
bool is_before_tokens(const Padding& padding)
{
    const auto* mask = std::get_if<Mask>(&padding);
    for (std::size_t b = 0; mask != nullptr && b < mask->shape(0); ++b)
        if (!std::ranges::is_sorted(xt::row(*mask, b), std::greater<>()))
            return true;
    return false;
}

/// Whether a token of any sequence is not real, and stands between two that are.
bool is_between_tokens(const Padding& padding)
{
    const auto* mask = std::get_if<Mask>(&padding);
    for (std::size_t b = 0; mask != nullptr && b < mask->shape(0); ++b) {
        std::size_t begins = 0; // how often tokens follow what is none
        for (std::size_t i = 0; i < mask->shape(1); ++i)
            begins += (*mask)(b, i) && (i == 0 || !(*mask)(b, i - 1));
        if (begins > 1)
            return true;
    }
    return false;
}

/// Padding before a token gives it another position, which does not matter where positions only say how far apart tokens are.
void expect_unmoved(const Padding& padding, const LanguageModelWeights& weights,
                    const LanguageModelDescription& description)
{
    if (!is_before_tokens(padding))
        return;
    if (weights.positions && description.is_causal)
        throw Error(
            "language_model: padding stands before a token, and the model has learned positions, which count it or "
            "not, as one asks: put it behind the tokens");
    const auto has_alibi = [](const BlockDescription& layer) {
        return layer.attention.positions == HeadPositions::alibi;
    };
    if (is_between_tokens(padding) && std::ranges::any_of(description.layers, has_alibi))
        throw Error(
            "language_model: padding stands between tokens, and ALiBi counts it as a distance or not, as one asks: "
            "put it before or behind the tokens");
    if (std::ranges::any_of(description.layers, [](const BlockDescription& layer) { return layer.chunk.has_value(); }))
        throw Error(
            "language_model: padding stands before a token, and chunks begin at the first: put it behind the tokens");
    if (has_states(weights))
        throw Error(
            "language_model: padding stands before a token, and the state of a gated DeltaNet would have it: put "
            "it behind the tokens");
}

/// The biases by distance of a table.
Tensor4 bias_of(const Matrix& table, std::size_t n, std::size_t m, const Standing& standing,
                const LanguageModelDescription& description, const Trace& trace)
{
    if (standing.places)
        return bucket_bias(standing.places->queries.positions, standing.places->keys.positions, table,
                           description.distance_buckets, trace);
    return bucket_bias(n, m, table, description.distance_buckets, trace);
}

/// @param embedded  tokens
/// @param padding   of a batch
/// @param table     of words, of a model that shares it
/// @param ids       of the tokens, where they have some
/// @param layer     one layer: from (tokens, number, description, mask, its scope) to what comes out
template <Sequence T, class Ids, class Layer>
Term<T> pass_through(const Term<T>& embedded, const Standing& standing, const Padding& padding,
                     const LanguageModelWeights& weights, const LanguageModelDescription& description,
                     const Matrix* table, const Ids* ids, const Trace& trace, const Layer& layer)
{
    expect_unmoved(padding, weights, description);
    Term x = normalized(embedded, "embedding_norm", weights.embedding_norm, description.norm, trace);
    if (weights.embedding_map)
        x = linear(x, *weights.embedding_map, {.name = "mapped", .d_in = "d_embedding", .d_out = "d_model"},
                   trace.scope("embedding_map"));

    // Pass them through the layers, where no token of a decoder attends to a later one.
    const std::size_t n = x.shape(token_axis<T>);
    const std::size_t m = standing.places ? standing.places->keys.positions.size() : standing.before + n;
    const Masks masks(n, m, standing, padding, description, trace);
    OptionalBias shared_bias;
    if (const auto& biases = weights.distance_bias) {
        const Trace of_distance = trace.scope("distance_bias");
        shared_bias = bias_of(*biases, n, m, standing, description, of_distance);
    }
    for (std::size_t i = 0; i < weights.layers.size(); ++i) {
        const auto [mask, mask_name] = masks.of(description.layers[i]);
        const Trace inside = trace.scope("layers", description.first_layer + i);
        x = inside.input("x[(b,) n, d_model]", x);
        if (mask)
            inside.alias("mask", mask_name);
        BlockDescription described = description.layers[i];
        described.attention.places = standing.places;
        if (standing.coordinates) {
            if (!described.attention.rotary.axes)
                throw Error("language_model: coordinates are given, and layer ", i, " rotates along one axis");
            described.attention.rotary.axes->coordinates = *standing.coordinates;
        }
        described.attention.bias = shared_bias;
        if (const auto& own = weights.layers[i].distance_bias) {
            const Trace of_distance = inside.scope("distance_bias");
            described.attention.bias = bias_of(*own, n, m, standing, description, of_distance);
        }
        if (described.attention.bias)
            inside.alias("bias", "distance_bias.bias");
        x = layer(x, i, described, mask, inside);
    }
    x = normalized(x, "norm", weights.norm, description.norm, trace);

    if (weights.output_map)
        x = linear(x, *weights.output_map, {.name = "mapped", .d_in = "d_model", .d_out = "d_embedding"},
                   trace.scope("output_map"));

    // Compare the result with every word.
    if (!description.has_logits) {
        if (description.pooler && standing.is_whole)
            pool_tokens(x, ids, padding, weights.pooler, *description.pooler, trace);
        return trace.alias("output", x);
    }
    const std::size_t tokens = x.shape(token_axis<T>),
                      kept = std::min(description.logits_to_keep.value_or(tokens), tokens);
    if (kept < tokens)
        x = trace("last_tokens[(b,) n_last, d_model]", rows(x, tokens - kept, tokens));
    if (weights.prediction_head)
        x = predict_tokens(x, *weights.prediction_head, description, trace);
    return logits_of(x, weights, description, table, trace);
}

/// The same of ids.
/// @param layer  as above, with what the layers attend to besides each other in the end
template <Sequence T, class Ids, class Layer>
T decode(const Ids& given_ids, const Standing& given_standing, const Padding& padding,
         const LanguageModelWeights& weights, const LanguageModelDescription& description,
         const LanguageModelOptions<Ids>& options, const Trace& caller, const Layer& layer)
{
    const auto& [token_types, given_memory, memory_padding, others, coordinates] = options;
    const Trace trace = model_scope(weights, description, caller);
    const Ids& ids = trace.input("ids[(b,) n]", given_ids);
    const Standing standing = named(given_standing, trace);
    constexpr std::string_view words = "embedding[vocabulary, d_model]";
    const Matrix& embedding = others == nullptr ? trace.input(words, table_of(weights))
                                                : trace.shared_input(words, table_of(weights, others));
    BlockMemoryOf<Term<T>> memory;
    if (given_memory) {
        const Term named = trace.input("memory[(b,) m, d_memory]", Term(*given_memory));
        memory.tokens = named;
        const std::size_t n = ids.shape().back(), m = named.shape(token_axis<T>);
        if (!std::holds_alternative<std::monostate>(memory_padding)) {
            const Trace of_memory = trace.scope("of_memory");
            memory.mask = join_masks(n, m, mask_of(memory_padding), of_memory);
            trace.alias("memory_mask", "of_memory.mask");
        }
    }

    // Look the tokens up.
    const Term embedded = embed_tokens<T>(ids, standing, weights, description, padding, token_types, embedding, trace);
    const auto with_memory = [&](const Term<T>& x, std::size_t i, const BlockDescription& described,
                                 const OptionalMask& mask,
                                 const Trace& inside) { return layer(x, i, described, mask, inside, memory); };
    return T(pass_through(embedded, standing, padding, weights, description, others, &ids, trace, with_memory));
}

/// One layer without a cache.
auto layer_of(const LanguageModelWeights& weights)
{
    return [&]<Sequence T>(const Term<T>& x, std::size_t i, const BlockDescription& described, const OptionalMask& mask,
                           const Trace& inside, const BlockMemoryOf<Term<T>>& memory = {}) {
        return decoder_block(x, weights.layers[i], described, mask, inside, memory);
    };
}

/// The same of tokens that are embedded already.
template <Sequence T>
T encode(const T& tokens, const Padding& padding, const LanguageModelWeights& weights,
         const LanguageModelDescription& description, const std::optional<Matrix>& coordinates, const Trace& caller)
{
    const Trace trace = model_scope(weights, description, caller);
    const IdsOf<T>* no_ids = nullptr;
    return T(pass_through(with_positions(tokens, weights, description, trace),
                          named({.coordinates = coordinates}, trace), padding, weights, description, nullptr, no_ids,
                          trace, layer_of(weights)));
}

} // namespace

Matrix language_model(const Integers& ids, const LanguageModelWeights& weights,
                      const LanguageModelDescription& description, const Trace& trace)
{
    return language_model(ids, weights, description, LanguageModelOptions<Integers>{}, trace);
}

Matrix language_model(const Integers& ids, const LanguageModelWeights& weights,
                      const LanguageModelDescription& description, const LanguageModelOptions<Integers>& options,
                      const Trace& trace)
{
    return decode<Matrix>(ids, {.coordinates = options.coordinates}, all_real, weights, description, options, trace,
                          layer_of(weights));
}

Tensor3 language_model(const IntegerMatrix& ids, const Padding& padding, const LanguageModelWeights& weights,
                       const LanguageModelDescription& description, const Trace& trace)
{
    return language_model(ids, padding, weights, description, LanguageModelOptions<IntegerMatrix>{}, trace);
}

Tensor3 language_model(const IntegerMatrix& ids, const Padding& padding, const LanguageModelWeights& weights,
                       const LanguageModelDescription& description, const LanguageModelOptions<IntegerMatrix>& options,
                       const Trace& trace)
{
    return decode<Tensor3>(ids, {.coordinates = options.coordinates}, padding, weights, description, options, trace,
                           layer_of(weights));
}

Matrix language_model(const Matrix& tokens, const LanguageModelWeights& weights,
                      const LanguageModelDescription& description, const Trace& trace)
{
    return encode(tokens, all_real, weights, description, {}, trace);
}

Matrix language_model(const Matrix& tokens, const LanguageModelWeights& weights,
                      const LanguageModelDescription& description, const std::optional<Matrix>& coordinates,
                      const Trace& trace)
{
    return encode(tokens, all_real, weights, description, coordinates, trace);
}

Tensor3 language_model(const Tensor3& tokens, const Padding& padding, const LanguageModelWeights& weights,
                       const LanguageModelDescription& description, const Trace& trace)
{
    return encode(tokens, padding, weights, description, {}, trace);
}

Tensor3 language_model(const Tensor3& tokens, const Padding& padding, const LanguageModelWeights& weights,
                       const LanguageModelDescription& description, const std::optional<Matrix>& coordinates,
                       const Trace& trace)
{
    return encode(tokens, padding, weights, description, coordinates, trace);
}

namespace {

/// Tokens that follow those in a cache, which stand before them or at places that are given.
/// @param memory  what each layer made of a memory; empty where there is none
LanguageModelStep<Matrix> go_on(const Integers& ids, const LanguageModelCache<Matrix>& past, Standing standing,
                                const std::vector<KeyValueCache>& memory, const Matrix* embedding,
                                const LanguageModelWeights& weights, const LanguageModelDescription& description,
                                const Trace& trace)
{
    if (!description.is_causal)
        throw Error("language_model: an encoder has no cache: tokens before a new one would attend to it");
    if (!past.empty() && past.size() != weights.layers.size())
        throw ShapeError("language_model: a cache of " + std::to_string(past.size()) + " layers is no cache of " +
                         std::to_string(weights.layers.size()));
    if (description.padding_id && !past.empty())
        throw Error("language_model: the model counts its tokens by their ids, and a cache does not keep these");
    if (!memory.empty() && memory.size() != weights.layers.size())
        throw ShapeError("language_model: a memory of ", memory.size(), " layers is no memory of ",
                         weights.layers.size());
    standing.is_whole = false;
    LanguageModelStep<Matrix> step;
    const auto layer = [&](const Term<Matrix>& x, std::size_t i, const BlockDescription& described,
                           const OptionalMask& mask, const Trace& inside, const BlockMemoryOf<Term<Matrix>>&) {
        const auto before = past.empty() ? PastOfBlock<Matrix>() : PastOfBlock<Matrix>(past[i]);
        BlockMemoryOf<Term<Matrix>> of_layer;
        if (!memory.empty())
            of_layer.tokens = memory[i];
        auto [output, cache] = cached_decoder_block(x, before, weights.layers[i], described, mask, inside, of_layer);
        step.cache.push_back(std::move(cache));
        return std::move(output);
    };
    const LanguageModelOptions<Integers> options{.embedding = embedding};
    step.logits = decode<Matrix>(ids, standing, all_real, weights, description, options, trace, layer);
    return step;
}

Integers joined(const Integers& before, const Integers& after)
{
    Integers both(Integers::shape_type{before.size() + after.size()});
    std::ranges::copy(after, std::ranges::copy(before, both.begin()).out);
    return both;
}

Integers chosen(const Integers& all, const std::vector<std::size_t>& tokens)
{
    Integers some(Integers::shape_type{tokens.size()});
    std::ranges::transform(tokens, some.begin(), [&](std::size_t token) { return all(token); });
    return some;
}

Matrix chosen(const Matrix& all, const std::vector<std::size_t>& tokens)
{
    return xt::view(all, xt::keep(tokens), xt::all());
}

} // namespace

LanguageModelStep<Matrix> language_model(const Integers& ids, const LanguageModelCache<Matrix>& past,
                                         const LanguageModelWeights& weights,
                                         const LanguageModelDescription& description, const Trace& trace)
{
    return go_on(ids, past, {tokens_in(past)}, {}, nullptr, weights, description, trace);
}

LanguageModelStep<Matrix> language_model(const Integers& ids, const LanguageModelCache<Matrix>& past,
                                         const std::vector<KeyValueCache>& memory, const LanguageModelWeights& weights,
                                         const LanguageModelDescription& description, const Matrix* embedding,
                                         const Trace& trace)
{
    return go_on(ids, past, {tokens_in(past)}, memory, embedding, weights, description, trace);
}

std::vector<KeyValueCache> memory_cache(const Matrix& given, const LanguageModelWeights& weights, const Trace& caller)
{
    const Trace trace = caller.module("memory_cache");
    const Term memory = trace.input("memory[m, d_memory]", Term(given));
    std::vector<KeyValueCache> cache;
    for (std::size_t i = 0; i < weights.layers.size(); ++i) {
        const auto& maps = weights.layers[i].cross_attention;
        if (!maps)
            throw Error("memory_cache: layer ", i, " has no cross-attention");
        const Trace layer = trace.scope("layers", i);
        const Trace cross_attn = layer.scope("cross_attn");
        Term key = linear(memory, maps->key, {"memory", "key", "d_memory", "h_d_k", "m"}, cross_attn);
        Term value = linear(memory, maps->value, {"memory", "value", "d_memory", "h_d_v", "m"}, cross_attn);
        cache.push_back({Matrix(std::move(key)), Matrix(std::move(value))});
    }
    return cache;
}

bool has_states(const LanguageModelWeights& weights)
{
    return std::ranges::any_of(weights.layers, [](const BlockWeights& layer) {
        return std::holds_alternative<GatedDeltaNetWeights>(layer.self_attention);
    });
}

PlacedStep language_model(const Integers& ids, const Places& places, const PlacedCache& past,
                          const LanguageModelWeights& weights, const LanguageModelDescription& description,
                          const Trace& trace)
{
    if (has_states(weights))
        throw Error("language_model: the state of a gated DeltaNet is that of one sequence, token after token: give "
                    "sequences one by one");
    if (description.padding_id)
        throw Error("language_model: the model counts its tokens by their ids, and places say where they stand");
    if (places.positions.size() != ids.size() || places.sequences.size() != ids.size())
        throw ShapeError("language_model: there are " + std::to_string(ids.size()) + " ids, " +
                         std::to_string(places.sequences.size()) + " sequences and " +
                         std::to_string(places.positions.size()) + " positions: each token has one of each");
    if (std::ranges::any_of(places.positions, [](std::int64_t position) { return position < 0; }))
        throw ShapeError("language_model: a position is negative, expected 0 for the first token of a sequence");
    const Places all{joined(past.places.sequences, places.sequences), joined(past.places.positions, places.positions)};
    auto [logits, layers] =
        go_on(ids, past.layers, {.places = PlacesOfPairs{places, all}}, {}, nullptr, weights, description, trace);
    return {std::move(logits), {std::move(layers), all}};
}

PlacedCache chosen(const PlacedCache& cache, const std::vector<std::size_t>& tokens)
{
    PlacedCache some{cache.layers, {chosen(cache.places.sequences, tokens), chosen(cache.places.positions, tokens)}};
    for (auto& layer : some.layers) {
        if (auto* latents = std::get_if<LatentCache>(&layer))
            *latents = {chosen(latents->latent, tokens), chosen(latents->shared_key, tokens)};
        if (auto* heads = std::get_if<KeyValueCache>(&layer))
            *heads = {chosen(heads->keys, tokens), chosen(heads->values, tokens)};
    }
    return some;
}

} // namespace attn
