// Decoders, and the whole Transformer.

#include "families.hpp"

#include "attn/models/transformer.hpp"
#include "attn/weights/state_dict.hpp"

#include <string>

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
std::optional<AnyMask> mask_as(const MaskRole& role, const T& asking, const T& answering, const ModuleRun& run)
{
    const Inputs& inputs = run.inputs;
    const Trace& trace = run.trace;
    MaskParts parts{.given = inputs.mask(role.step), .causal = role.causal};
    const bool is_padded = inputs.has(role.lengths);
    if (!is_padded && !role.causal)
        return share(std::string(role.step) + "[(b,) n, m]", parts.given, trace);

    const Trace masking = trace.scope(role.scope);
    if (is_padded) {
        parts.key_lengths = inputs.lengths(answering.shape(0), std::same_as<T, Tensor3>, role.lengths);
        masking.alias("lengths", role.lengths);
    }
    const std::optional<AnyMask> joined =
        join_masks(asking.shape(token_axis<T>), answering.shape(token_axis<T>), parts, masking);
    trace.alias(role.step, std::string(role.scope) + ".mask");
    return joined;
}

void name_lengths(std::string_view name, const ModuleRun& run)
{
    if (run.inputs.has(name))
        static_cast<void>(run.trace.input(std::string(name) + "[b]", run.inputs.get<Integers>(name)));
}

/// What a layer of a decoder is told by flags.
DecoderOptions told(const ModuleOptions& options)
{
    DecoderOptions of_decoder{.attention = grouped_query_options(options),
                              .feed_forward = {.activation = options.activation},
                              .norm = {.epsilon = options.epsilon},
                              .placement = options.placement};
    if (options.final_epsilon)
        of_decoder.final_norm = {.epsilon = *options.final_epsilon};
    return of_decoder;
}

/// Calls a function with tokens, what they ask, and what they are told.
template <Sequence T, class Work>
void decode(const ModuleRun& run, const Work& work)
{
    const T x = run.trace("x[(b,) n, d_model]", "", run.inputs.get<T>("x"));
    const T memory = run.trace("memory[(b,) m, d_model]", "", run.inputs.get<T>("memory"));
    const std::optional<AnyMask> mask = mask_for(x, x, run);
    name_lengths("memory_lengths", run);
    work(x, memory, mask, mask_as({"memory_mask", "memory_masking", "memory_lengths"}, x, memory, run),
         told(run.options));
}

template <Sequence T>
void translate(const ModuleRun& run)
{
    const T source = run.trace("source[(b,) m, d_model]", "", run.inputs.get<T>("source"));
    const T target = run.trace("target[(b,) n, d_model]", "", run.inputs.get<T>("target"));
    name_lengths("source_lengths", run);
    name_lengths("target_lengths", run);
    const auto source_mask = mask_as({"source_mask", "source_masking", "source_lengths"}, source, source, run);
    const auto target_mask =
        mask_as({"target_mask", "target_masking", "target_lengths", run.options.causal}, target, target, run);
    // Nobody looks at the source's padding, from wherever.
    const auto memory_mask = mask_as({"memory_mask", "memory_masking", "source_lengths"}, target, source, run);
    transformer(source, target, source_mask, target_mask, memory_mask,
                transformer_weights(run.weights, features(source), run.options.layers), told(run.options), run.trace);
}

} // namespace

void run_decoder_layer(const ModuleRun& run)
{
    const auto work = [&](const auto& x, const auto& memory, const auto& mask, const auto& memory_mask,
                          const DecoderOptions& options) {
        decoder_layer(x, memory, mask, memory_mask, decoder_layer_weights(run.weights, features(x)), options,
                      run.trace);
    };
    run.inputs.is_batch("x") ? decode<Tensor3>(run, work) : decode<Matrix>(run, work);
}

void run_decoder(const ModuleRun& run)
{
    const auto work = [&](const auto& x, const auto& memory, const auto& mask, const auto& memory_mask,
                          const DecoderOptions& options) {
        decoder(x, memory, mask, memory_mask, decoder_weights(run.weights, features(x), run.options.layers), options,
                run.trace);
    };
    run.inputs.is_batch("x") ? decode<Tensor3>(run, work) : decode<Matrix>(run, work);
}

void run_transformer(const ModuleRun& run)
{
    run.inputs.is_batch("source") ? translate<Tensor3>(run) : translate<Matrix>(run);
}

} // namespace attn
