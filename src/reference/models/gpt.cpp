#include "attn/reference/models/gpt.hpp"

#include "attn/reference/layers/residual.hpp"
#include "predict.hpp"

#include "attn/reference/ops/concat.hpp"
#include "attn/reference/ops/terms.hpp"

namespace attn {
namespace {

StepOptions describe(const GptOptions& options, std::size_t layers)
{
    return {{"heads", std::to_string(options.heads)},
            {"activation", std::string(name_of(options.feed_forward.activation))},
            {"epsilon", exact_text(options.norm.epsilon)},
            {"layers", std::to_string(layers)}};
}

/// The same on ids that are a step already, in the module's own trace.
/// @param formula  of the ids; none where they are given
template <Sequence T, class Ids>
T decode(Ids& ids, const std::string& formula, const std::optional<Integers>& lengths, const GptWeights& weights,
         const GptOptions& options, const Trace& caller)
{
    const Trace trace = caller.module("gpt", [&] { return describe(options, weights.layers.size()); });
    ids = formula.empty() ? trace.input("ids[(b,) n]", ids) : trace("ids[(b,) n]", formula, ids);
    const std::size_t n = ids.shape().back();
    const Term embedding = trace.input("token_embedding[vocabulary, d_model]", Term(weights.token_embedding));

    // Look the tokens up, and add their positions.
    Term words = trace("tokens[(b,) n, d_model]", "token_embedding[ids]", Term(T(take_rows(*embedding, ids))));
    const Trace of_positions = trace.scope("position_embedding");
    const Term positions = learned_positions(Term(weights.position_embedding), n, 0, of_positions);
    expect_agreement("gpt", "d_model", {"token_embedding", embedding, 1},
                     {"position_embedding", weights.position_embedding, 1});
    const Term embedded = trace("embedded[(b,) n, d_model]", words + positions);

    // Pass them through the layers, where no token attends to a later one.
    const auto mask =
        join_masks(n, n, {.given = options.mask, .causal = Causal::bottom_right, .key_lengths = lengths}, trace);
    const EncoderOptions of_layers{.attention = {.heads = options.heads, .mask = mask},
                                   .feed_forward = options.feed_forward,
                                   .norm = options.norm,
                                   .placement = NormPlacement::pre};
    const Term last = pass_through(embedded, weights.layers, trace,
                                   [&](const auto& x, const EncoderLayerWeights& layer, const Trace& inside) {
                                       return encoder_layer(x, layer, of_layers, inside);
                                   });

    // Compare the result with every word.
    const Term normalized = layer_norm(last, weights.norm, options.norm, trace.scope("norm"));
    return T(predict("gpt", normalized, embedding, weights.output, trace));
}

} // namespace

Matrix gpt(const Integers& given_ids, const GptWeights& weights, const GptOptions& options, const Trace& trace)
{
    Integers ids = given_ids;
    return decode<Matrix>(ids, "", {}, weights, options, trace);
}

Tensor3 gpt(const IntegerMatrix& given_ids, const std::optional<Integers>& lengths, const GptWeights& weights,
            const GptOptions& options, const Trace& trace)
{
    IntegerMatrix ids = given_ids;
    return decode<Tensor3>(ids, "", lengths, weights, options, trace);
}

Integers continue_greedily(const Integers& prompt, const GptWeights& weights, const GptGreedyOptions& options,
                           const Trace& caller)
{
    if (prompt.size() == 0)
        throw ShapeError("continue_greedily: prompt (0,) has no token, expected at least one");
    const Trace trace = caller.module("continue_greedily", [&] {
        return StepOptions{{"end", options.end ? std::to_string(*options.end) : "none"},
                           {"max_tokens", std::to_string(options.max_tokens)}};
    });
    Integers ids = prompt, found(Integers::shape_type{0});
    std::string formula;
    const std::size_t positions = weights.position_embedding.shape(0);
    while (found.size() < options.max_tokens && (found.size() == 0 || ids.size() <= positions)) {
        const Trace token = trace.scope("steps", found.size());
        const Matrix logits = decode<Matrix>(ids, formula, {}, weights, options.gpt, token);
        const Integers next{likeliest_next(logits, "logits", token)};
        const std::string before = "steps." + std::to_string(found.size());
        formula = "concat(" + before + ".ids, reshape(" + before + ".next_id, 1), axis=0)";
        ids = concat(ids, next);
        found = concat(found, next);
        if (options.end && next(0) == *options.end)
            break;
    }
    return found;
}

} // namespace attn
