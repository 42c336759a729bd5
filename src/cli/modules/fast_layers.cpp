#include "fast_layers.hpp"

#include "fast_attention.hpp"

#include "attn/engines/fast/decoder.hpp"
#include "attn/engines/fast/encoder.hpp"
#include "attn/engines/fast/llama.hpp"

namespace attn::cli {
namespace {

/// Tokens of the input in float32, which the layers change.
class FloatTokens {
public:
    FloatTokens(const Inputs& inputs, std::string_view name)
    {
        const std::size_t rank = inputs.rank(name, 2, 3, "a sequence (n, d) or a batch of sequences (b, n, d)");
        const auto keep = [&](const auto& all) { numbers_.assign(all.begin(), all.end()); };
        if (rank == 2)
            keep(inputs.get<Matrix>(name));
        else
            keep(inputs.get<Tensor3>(name));
        const Shape& shape = inputs.shape(name);
        tokens_ = {numbers_.data(), shape[rank - 2], shape[rank - 1]};
        if (rank == 3)
            tokens_.batch = shape[0];
    }
    FloatTokens(const FloatTokens&) = delete;

    const fast::Tokens<float>& get() const { return tokens_; }

private:
    std::vector<float> numbers_;
    fast::Tokens<float> tokens_;
};

/// A mask and lengths of the input, which it keeps.
class FloatMasking {
public:
    /// @param heads  where each head can have a mask of its own
    FloatMasking(const Inputs& inputs, std::string_view mask, std::string_view lengths, const FloatTokens& queries,
                 const FloatTokens& keys, std::optional<std::size_t> heads = {})
        : mask_(inputs.mask(
              mask,
              {.sequences = queries.get().batch, .heads = heads, .queries = queries.get().n, .keys = keys.get().n})),
          lengths_(inputs.lengths(lengths, queries.get().batch))
    {
        if (inputs.has(mask) && !mask_)
            throw Error(mask, " holds numbers that are added to the scores, and --fast only takes a mask that hides "
                              "keys: leave --fast out");
        if (mask_)
            std::visit([&](const auto& any) { masking_.mask = {any.data(), strides_of(any)}; }, *mask_);
        if (lengths_)
            masking_.key_lengths = {lengths_->data(), lengths_->size()};
    }
    FloatMasking(const FloatMasking&) = delete;

    const fast::Masking& get() const { return masking_; }

private:
    OptionalMask mask_;
    std::optional<Integers> lengths_;
    fast::Masking masking_;
};

template <class Options>
Options with_causal(Options options, std::optional<Causal> causal)
{
    options.attention.causal = causal;
    return options;
}

/// Of tokens by themselves: their masks, and what is done with both.
template <class Work>
void with_masking(std::size_t heads, const ModuleRun& run, const Work& work)
{
    const FloatTokens x(run.inputs, "x");
    const FloatMasking masking(run.inputs, "mask", "lengths", x, x, heads);
    fast::Workspace workspace;
    work(x.get(), masking.get(), workspace);
}

} // namespace

void encode_layer_fast(const EncoderOptions& options, std::optional<Causal> causal, const ModuleRun& run)
{
    with_masking(options.attention.heads, run,
                 [&](const auto& x, const fast::Masking& masking, fast::Workspace& workspace) {
                     const fast::PackedEncoderLayer weights(run.load<EncoderLayerWeights>({{"d_model", x.d}}));
                     fast::encoder_layer(x, masking, weights, with_causal(options, causal), x, workspace, run.trace);
                 });
}

void encode_fast(const EncoderOptions& options, std::optional<Causal> causal, const EncoderWeights& weights,
                 const ModuleRun& run)
{
    with_masking(options.attention.heads, run,
                 [&](const auto& x, const fast::Masking& masking, fast::Workspace& workspace) {
                     fast::encoder(x, masking, fast::PackedEncoder(weights), with_causal(options, causal), x, workspace,
                                   run.trace);
                 });
}

void decode_layer_fast(const DecoderOptions& options, std::optional<Causal> causal, const ModuleRun& run)
{
    const FloatTokens memory(run.inputs, "memory"), tokens(run.inputs, "x");
    const FloatMasking to_memory(run.inputs, "memory_mask", "memory_lengths", tokens, memory, options.attention.heads);
    with_masking(options.attention.heads, run,
                 [&](const auto& x, const fast::Masking& masking, fast::Workspace& workspace) {
                     const fast::PackedDecoderLayer weights(run.load<DecoderLayerWeights>({{"d_model", x.d}}));
                     fast::decoder_layer(x, memory.get(), masking, to_memory.get(), weights,
                                         with_causal(options, causal), x, workspace, run.trace);
                 });
}

void llama_fast(const Integers& ids, const LlamaWeights& weights, const LlamaOptions& options, const Trace& trace)
{
    const fast::PackedLlama packed(weights);
    fast::LlamaCache cache(ids.size());
    fast::Workspace workspace;
    std::vector<float> logits(ids.size() * packed.vocabulary);
    fast::llama({ids.data(), ids.size()}, cache, packed, options, logits, workspace, trace);
}

} // namespace attn::cli
