// Decoders, and the whole Transformer.

#include "all_modules.hpp"
#include "fast_layers.hpp"
#include "shared.hpp"

#include "attn/files/weights/transformer.hpp"
#include "attn/reference/layers/decoder_cache.hpp"
#include "attn/reference/models/transformer.hpp"

#include <memory>

namespace attn::cli {
namespace {

/// Which mask of several it is, and what it is joined of.
struct MaskRole {
    std::string_view step;    ///< as the result is called, and an array of the input: "memory_mask"
    std::string_view scope;   ///< where it is joined: "memory_masking"
    std::string_view lengths; ///< the array that says how many keys are real
    std::size_t heads;        ///< each can have a mask of its own
    std::optional<Causal> causal = {};
};

/// What one mask of several hides: as the input has it, or joined in a scope of its own.
template <Sequence T>
OptionalMask hidden_by(const MaskRole& role, const T& queries, const T& keys, const ModuleRun& run)
{
    const MaskParts parts{.given = run.inputs.mask(role.step, pair_axes(queries, keys, role.heads)),
                          .causal = role.causal,
                          .key_lengths = run.inputs.lengths(role.lengths, keys)};
    if (!parts.key_lengths && !parts.causal)
        return share(std::string(role.step) + "[(b,) n, m]", parts.given, run.trace);

    const Trace masking = run.trace.scope(role.scope);
    if (parts.key_lengths)
        masking.alias("lengths", role.lengths);
    const OptionalMask joined = join_masks(queries.shape(token_axis<T>), keys.shape(token_axis<T>), parts, masking);
    run.trace.alias(role.step, std::string(role.scope) + ".mask");
    return joined;
}

/// One mask of several, and the numbers that it adds.
template <Sequence T>
MaskAndBias mask_as(const MaskRole& role, const T& queries, const T& keys, const ModuleRun& run)
{
    return {hidden_by(role, queries, keys, run), run.inputs.bias(role.step, pair_axes(queries, keys, role.heads))};
}

void name_lengths(std::string_view name, const ModuleRun& run)
{
    if (run.inputs.has(name))
        (void)run.input<Integers>(name);
}

template <Sequence T>
MaskAndBias memory_mask(const T& x, const T& memory, const ModuleRun& run, std::size_t heads)
{
    name_lengths("memory_lengths", run);
    return mask_as({"memory_mask", "memory_masking", "memory_lengths", heads}, x, memory, run);
}

std::vector<ModuleInput> decoder_inputs()
{
    return {required("x", "(b,) n, d_model"),
            required("memory", "(b,) m, d_model"),
            mask_input("mask", "n, n"),
            mask_input("memory_mask"),
            lengths_input(),
            lengths_input("memory_lengths")};
}

/// Of a layer, which can go on after earlier tokens.
std::vector<ModuleInput> layer_inputs()
{
    std::vector<ModuleInput> inputs = decoder_inputs();
    inputs.push_back({"past_keys", "(b,) past, h_d_k", "of self-attention, of tokens before those of x"});
    inputs.push_back({"past_values", "(b,) past, h_d_v", "of earlier tokens"});
    return inputs;
}

template <Sequence T>
void translate(const StackFlags& flags, const T& source, const ModuleRun& run)
{
    const T target = run.input<T>("target");
    name_lengths("source_lengths", run);
    name_lengths("target_lengths", run);
    const std::size_t heads = flags.options.attention.heads;
    const MaskAndBias source_mask =
        mask_as({"source_mask", "source_masking", "source_lengths", heads}, source, source, run);
    const MaskAndBias target_mask =
        mask_as({"target_mask", "target_masking", "target_lengths", heads, flags.causal}, target, target, run);
    // No query can attend to the source's padding, those of the target neither.
    const MaskAndBias to_source =
        mask_as({"memory_mask", "memory_masking", "source_lengths", heads}, target, source, run);
    const auto weights = run.load<TransformerWeights>(d_model(source), {.layers = flags.layers});
    expect_final_norm(flags, weights.encoder);
    transformer(source, target, weights, masked_transformer(flags.all_options(), source_mask, target_mask, to_source),
                run.trace);
}

} // namespace

Module decoder_layer_module()
{
    const auto flags = std::make_shared<StackFlags>();
    const auto exactly = with_tokens("x", [flags]<Sequence T>(const T& x, const ModuleRun& run) {
        const T memory = run.input<T>("memory");
        const std::size_t heads = flags->options.attention.heads;
        const MaskAndBias mask = own_mask(x, flags->causal, run, heads, tokens_of_past(run.inputs));
        const MaskAndBias to_memory = memory_mask(x, memory, run, heads);
        const auto weights = run.load<DecoderLayerWeights>(d_model(x));
        const PastOfTokens<T> past = packed_past(x, weights.self_attention, heads, run.inputs);
        const DecoderOptions options = masked_decoder(flags->options, mask, to_memory);
        if (past)
            cached_decoder_layer(x, memory, past, weights, options, run.trace);
        else
            decoder_layer(x, memory, weights, options, run.trace);
    });
    return {.name = "decoder-layer",
            .summary = "nn.TransformerDecoderLayer",
            .inputs = layer_inputs(),
            .flags = flags->of_layer(" of the target") +
                     std::vector<Flag>{fast_flag(flags->is_fast, "fast::decoder_layer()")},
            .run = [flags, exactly](const ModuleRun& run) {
                if (flags->is_fast && tokens_of_past(run.inputs) > 0)
                    throw Error(
                        "--fast computes a decoder layer without a past: leave out past_keys and past_values, or "
                        "--fast");
                flags->is_fast ? decode_layer_fast(masked_decoder(flags->options, {}, {}), flags->causal, run)
                               : exactly(run);
            }};
}

Module decoder_module()
{
    const auto flags = std::make_shared<StackFlags>();
    return {.name = "decoder",
            .summary = "nn.TransformerDecoder",
            .inputs = decoder_inputs(),
            .flags = flags->of_layer(" of the target") + flags->of_stack(),
            .run = with_tokens("x", [flags]<Sequence T>(const T& x, const ModuleRun& run) {
                const T memory = run.input<T>("memory");
                const MaskAndBias mask = own_mask(x, flags->causal, run, flags->options.attention.heads);
                const MaskAndBias to_memory = memory_mask(x, memory, run, flags->options.attention.heads);
                const auto weights = run.load<DecoderWeights>(d_model(x), {.layers = flags->layers});
                expect_final_norm(*flags, weights);
                decoder(x, memory, weights, masked_decoder(flags->all_options(), mask, to_memory), run.trace);
            })};
}

Module transformer_module()
{
    const auto flags = std::make_shared<StackFlags>();
    return {.name = "transformer",
            .summary = "nn.Transformer",
            .inputs = {required("source", "(b,) m, d_model"), required("target", "(b,) n, d_model"),
                       mask_input("source_mask", "m, m"), mask_input("target_mask", "n, n"), mask_input("memory_mask"),
                       lengths_input("source_lengths"), lengths_input("target_lengths")},
            .flags = std::vector<Flag>{heads_flag(flags->options.attention.heads),
                                       mask_flag(flags->causal, " of the target")} +
                     flags->of_feed_forward_and_norm() + flags->of_stack(),
            .run = with_tokens("source",
                               [flags](const auto& source, const ModuleRun& run) { translate(*flags, source, run); })};
}

} // namespace attn::cli
