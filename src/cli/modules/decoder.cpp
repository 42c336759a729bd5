// Decoders, and the whole Transformer.

#include "families.hpp"
#include "shared.hpp"

#include "attn/models/transformer.hpp"
#include "attn/weights/state_dict.hpp"

#include <memory>

namespace attn {
namespace {

/// Which mask of several it is, and what it is joined of.
struct MaskRole {
    std::string_view step;    ///< as the result is called, and an array of the input: "memory_mask"
    std::string_view scope;   ///< where it is joined: "memory_masking"
    std::string_view lengths; ///< the array that says how many keys are real
    std::optional<Causal> causal = {};
};

/// One mask of several: as the input has it, or joined in a scope of its own.
template <Sequence T>
std::optional<AnyMask> mask_as(const MaskRole& role, const T& queries, const T& keys, const ModuleRun& run)
{
    const Trace& trace = run.trace;
    MaskParts parts{.given = run.inputs.mask(role.step, queries, keys), .causal = role.causal};
    const auto named = [&](std::string_view formula, const AnyMask& mask) {
        return std::visit(
            [&](const auto& any) -> AnyMask { return trace(std::string(role.step) + "[(b,) n, m]", formula, any); },
            mask);
    };
    const bool is_padded = run.inputs.has(role.lengths);
    if (!is_padded && !role.causal)
        return parts.given ? std::optional(named("", *parts.given)) : std::nullopt;

    const Trace masking = is_padded ? trace.scope(role.scope, {{"lengths", role.lengths}}) : trace.scope(role.scope);
    parts.key_lengths = run.inputs.lengths(role.lengths, keys);
    const std::optional<AnyMask> joined =
        join_masks(queries.shape(token_axis<T>), keys.shape(token_axis<T>), parts, masking);
    return named(std::string(role.scope) + ".mask", *joined);
}

void name_lengths(std::string_view name, const ModuleRun& run)
{
    if (run.inputs.has(name))
        (void)run.input<Vector>(name);
}

/// Of a decoder layer, of a stack of them, and of the whole Transformer.
struct DecoderFlags : StackFlags {
    DecoderOptions options = {};

    std::vector<Flag> of_layer()
    {
        return head_flags(options.attention) + std::vector<Flag>{mask_flag(causal, " of the target")} +
               layer_flags(options);
    }
};

template <Sequence T>
DecoderOptions decoder_options(const DecoderFlags& flags, const T& x, const T& memory, const ModuleRun& run)
{
    DecoderOptions options = flags.options;
    if (flags.final_epsilon)
        options.final_norm = {.epsilon = *flags.final_epsilon};
    options.attention.mask = joined_mask(x, x, flags.causal, run);
    name_lengths("memory_lengths", run);
    options.memory_mask = mask_as({"memory_mask", "memory_masking", "memory_lengths"}, x, memory, run);
    return options;
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

template <Sequence T>
void translate(const DecoderFlags& flags, const T& source, const ModuleRun& run)
{
    const T target = run.input<T>("target");
    TransformerOptions options{.heads = flags.options.attention.heads,
                               .feed_forward = flags.options.feed_forward,
                               .norm = flags.options.norm,
                               .placement = flags.options.placement};
    if (flags.final_epsilon)
        options.final_norm = {.epsilon = *flags.final_epsilon};
    name_lengths("source_lengths", run);
    name_lengths("target_lengths", run);
    options.source_mask = mask_as({"source_mask", "source_masking", "source_lengths"}, source, source, run);
    options.target_mask =
        mask_as({"target_mask", "target_masking", "target_lengths", flags.causal}, target, target, run);
    // No query can attend to the source's padding, those of the target neither.
    options.memory_mask = mask_as({"memory_mask", "memory_masking", "source_lengths"}, target, source, run);
    const TransformerWeights weights = transformer_weights(run.weights, features(source), flags.layers);
    expect_final_norm(flags, weights.encoder);
    transformer(source, target, weights, options, run.trace);
}

} // namespace

Module decoder_layer_module()
{
    const auto flags = std::make_shared<DecoderFlags>();
    return {.name = "decoder-layer",
            .summary = "nn.TransformerDecoderLayer",
            .inputs = decoder_inputs(),
            .flags = flags->of_layer(),
            .run = with_tokens("x", [flags]<Sequence T>(const T& x, const ModuleRun& run) {
                const T memory = run.input<T>("memory");
                const DecoderOptions options = decoder_options(*flags, x, memory, run);
                decoder_layer(x, memory, decoder_layer_weights(run.weights, features(x)), options, run.trace);
            })};
}

Module decoder_module()
{
    const auto flags = std::make_shared<DecoderFlags>();
    return {.name = "decoder",
            .summary = "nn.TransformerDecoder",
            .inputs = decoder_inputs(),
            .flags = flags->of_layer() + stack_flags(*flags),
            .run = with_tokens("x", [flags]<Sequence T>(const T& x, const ModuleRun& run) {
                const T memory = run.input<T>("memory");
                const DecoderOptions options = decoder_options(*flags, x, memory, run);
                const DecoderWeights weights = decoder_weights(run.weights, features(x), flags->layers);
                expect_final_norm(*flags, weights);
                decoder(x, memory, weights, options, run.trace);
            })};
}

Module transformer_module()
{
    const auto flags = std::make_shared<DecoderFlags>();
    return {.name = "transformer",
            .summary = "nn.Transformer",
            .inputs = {required("source", "(b,) m, d_model"), required("target", "(b,) n, d_model"),
                       mask_input("source_mask", "m, m"), mask_input("target_mask", "n, n"), mask_input("memory_mask"),
                       lengths_input("source_lengths"), lengths_input("target_lengths")},
            .flags = std::vector<Flag>{heads_flag(flags->options.attention.heads),
                                       mask_flag(flags->causal, " of the target")} +
                     layer_flags(flags->options) + stack_flags(*flags),
            .run = with_tokens("source",
                               [flags](const auto& source, const ModuleRun& run) { translate(*flags, source, run); })};
}

} // namespace attn
