#include "fast_attention.hpp"

#include "attn/engines/fast/attention.hpp"
#include "attn/reference/ops/batch.hpp"
#include "attn/reference/ops/concat.hpp"
#include "attn/reference/ops/heads.hpp"

#include <memory>

namespace attn::cli {
namespace {

/// An input as heads of a batch, (b, h, n, d): of one sequence, of a batch, of heads side by side, or of heads.
Tensor4 heads_of(const Inputs& inputs, std::string_view name, std::size_t side_by_side)
{
    switch (inputs.shape(name).size()) {
    case 2:
        return unpack_heads(inputs.get<Matrix>(name), side_by_side);
    case 3:
        return unpack_heads(inputs.get<Tensor3>(name), side_by_side);
    default:
        return inputs.get<Tensor4>(name);
    }
}

/// How many heads of the queries' width lie side by side in keys.
std::size_t key_heads(const Inputs& inputs, const Tensor4& queries)
{
    const std::size_t features = inputs.shape("keys").back(), d_k = queries.shape(3);
    if (d_k == 0 || features % d_k != 0)
        throw Error("keys of ", features, " features are no whole number of heads of ", d_k,
                    " features, as the queries have");
    return features / d_k;
}

/// float32, contiguous.
class Floats {
public:
    explicit Floats(const Tensor4& all) : numbers_(all.begin(), all.end())
    {
        std::ranges::copy(all.shape(), shape_.begin());
    }
    fast::HeadRows<float> rows() { return fast::head_rows(numbers_.data(), shape_); }

private:
    std::vector<float> numbers_;
    std::array<std::size_t, 4> shape_;
};

/// Masks and biases in the form of the fast kernel; it keeps what they point to.
class FastScoring {
public:
    FastScoring(const FastAttentionOptions& given, const PairAxes& axes, std::size_t past, const Inputs& inputs)
        : mask_(inputs.mask("mask", axes)), lengths_(inputs.lengths("lengths", axes.sequences))
    {
        const auto& [mask, bias, causal, scale, softcap, sinks] =
            given.options; // what is no flag is in inputs and in given
        if (sinks || inputs.has("sinks"))
            throw Error("--fast does not compute sinks: leave out the flag, or the array");
        if (given.window.kept > 0)
            throw Error("--fast keeps no first keys in a window: leave out --kept, or give a mask");
        scoring_.causal = given.causal;
        scoring_.past = past;
        scoring_.window = given.window;
        if (scale)
            scoring_.scale = static_cast<float>(*scale);
        if (softcap)
            scoring_.softcap = static_cast<float>(*softcap);
        if (mask_)
            std::visit([&](const auto& any) { scoring_.mask = {any.data(), strides_of(any)}; }, *mask_);
        if (const OptionalBias in_file = inputs.bias("mask", axes))
            std::visit(
                [&](const auto& any) {
                    bias_.assign(any.begin(), any.end());
                    scoring_.bias = {bias_.data(), strides_of(any)};
                },
                *in_file);
        if (lengths_)
            scoring_.key_lengths = {lengths_->data(), lengths_->size()};
    }
    FastScoring(const FastScoring&) = delete;

    const fast::Scoring& get() const { return scoring_; }

private:
    OptionalMask mask_;
    std::optional<Integers> lengths_;
    std::vector<float> bias_;
    fast::Scoring scoring_;
};

/// The contexts in the form of the queries.
void record_output(const Tensor4& context, const FastAttentionOptions& options, std::size_t rank, const Trace& trace)
{
    if (rank == 4)
        return trace.alias("output", "context");
    if (!options.heads) {
        if (rank == 2)
            (void)trace("output[n, d_v]", "context[0, 0]", Matrix(xt::view(context, 0, 0, xt::all(), xt::all())));
        else
            (void)trace("output[b, n, d_v]", "context[:, 0]",
                        Tensor3(xt::view(context, xt::all(), 0, xt::all(), xt::all())));
        return;
    }
    const Tensor3 packed = pack_heads(context);
    const std::string sizes = std::to_string(packed.shape(1)) + ", " + std::to_string(packed.shape(2)) + ")";
    if (rank == 2)
        (void)trace("output[n, h_d_v]", "reshape(permute(context, 0, 2, 1, 3), " + sizes, tokens_of(packed));
    else
        (void)trace("output[b, n, h_d_v]",
                    "reshape(permute(context, 0, 2, 1, 3), " + std::to_string(packed.shape(0)) + ", " + sizes, packed);
}

} // namespace

void attend_fast(const FastAttentionOptions& options, const ModuleRun& run)
{
    const Inputs& inputs = run.inputs;
    const std::size_t rank = inputs.shape("queries").size();
    if (inputs.shape("keys").size() != rank || inputs.shape("values").size() != rank)
        throw Error("queries, keys and values must have as many axes, found ", inputs.shape("queries"), ", ",
                    inputs.shape("keys"), " and ", inputs.shape("values"));
    const Tensor4 queries = heads_of(inputs, "queries", options.heads.value_or(1));
    const std::size_t groups = options.heads ? key_heads(inputs, queries) : 1;
    Tensor4 keys = heads_of(inputs, "keys", groups), values = heads_of(inputs, "values", groups);
    std::size_t past = 0;
    if (options.has_past) {
        const Tensor4 past_keys = heads_of(inputs, "past_keys", 1), past_values = heads_of(inputs, "past_values", 1);
        past = past_keys.shape(2);
        keys = concat_rows(past_keys, keys);
        values = concat_rows(past_values, values);
    }
    PairAxes axes = pair_axes(queries, keys, queries.shape(1));
    if (rank == 2)
        axes.sequences.reset();
    axes.has_heads = rank == 4 || options.heads;
    const FastScoring scoring(options, axes, past, inputs);

    Floats q(queries), k(keys), v(values);
    Tensor4 context(Tensor4::shape_type{queries.shape(0), queries.shape(1), queries.shape(2), values.shape(3)});
    Floats result(context);
    const fast::HeadRows<float> rows = result.rows();
    fast::attention(q.rows(), k.rows(), v.rows(), scoring.get(), rows, {}, run.trace);
    std::copy_n(rows.numbers, context.size(), context.data());
    record_output(context, options, rank, run.trace);
}

} // namespace attn::cli
