#include "attn/engines/mpi/tensor_parallel.hpp"

#include "attn/core/trace.hpp"
#include "attn/reference/layers/stack.hpp"
#include "attn/reference/ops/concat.hpp"
#include "attn/reference/ops/terms.hpp"
#include "communicator.hpp"
#include "even.hpp"

namespace attn::mpi {
namespace {

constexpr std::string_view layer_function = "mpi::tensor_parallel_encoder_layer";

// ----------------------------------------------------------------------------------------------------- shards

LinearWeights some_columns(const LinearWeights& map, const Chunk& part)
{
    LinearWeights cut{columns(map.weight, part.first, part.first + part.count)};
    if (map.bias)
        cut.bias = Vector(xt::view(*map.bias, xt::range(part.first, part.first + part.count)));
    return cut;
}

/// The bias stays whole: it is added once, to the sum over the ranks.
LinearWeights some_rows(const LinearWeights& map, const Chunk& part)
{
    return {Matrix(xt::view(map.weight, xt::range(part.first, part.first + part.count), xt::all())), map.bias};
}

Chunk columns_of_heads(const Matrix& map, const Chunk& part, std::size_t heads)
{
    const std::size_t each = map.shape(1) / heads;
    return {part.first * each, part.count * each};
}

/// What each of the ranks has in common with the others.
template <Sequence T>
std::vector<Fact> facts_of(const T& x, const EncoderOptions& options)
{
    std::vector<Fact> facts{{"heads", static_cast<double>(options.attention.heads)},
                            {"causal", options.attention.causal ? 1. : 0.},
                            {"pre-norm", options.placement == NormPlacement::pre ? 1. : 0.},
                            {"activation", static_cast<double>(options.feed_forward.activation)}};
    for (std::size_t axis = 0; axis < x.dimension(); ++axis)
        facts.push_back({"axis " + std::to_string(axis) + " of x", static_cast<double>(x.shape(axis))});
    return facts;
}

/// Checks that x and this rank's weights fit. What a part finds itself would come too late for the other ranks.
template <Sequence T>
void expect_fit(const T& x, const EncoderLayerWeights& shard, const EncoderOptions& options, const Chunk& heads)
{
    const MultiHeadWeights& attention = shard.self_attention;
    const FeedForwardWeights& network = shard.feed_forward;
    if (!attention.output || !is_plain(attention, options.attention.positions))
        throw Error(
            "it takes plain multi-head attention with an output map: no shared heads, norms, sinks, gate or positions");
    constexpr std::size_t features = feature_axis<T>;
    for (const Matrix* map : {&attention.query.weight, &attention.key.weight, &attention.value.weight})
        expect_agreement("self_attn", "d_model", {"x", x, features}, {"a map's weights", *map, 0});
    expect_agreement("self_attn", "h d_v", {"value weights", attention.value.weight, 1},
                     {"output weights", attention.output->weight, 0});
    expect_agreement("feed_forward", "d_model", {"x", x, features}, {"hidden weights", network.hidden.weight, 0});
    expect_agreement("feed_forward", "d_ff", {"hidden weights", network.hidden.weight, 1},
                     {"output weights", network.output.weight, 0});
    expect_agreement("norm1", "d_model", {"x", x, features}, {"gain", shard.norm1.gain, 0});
    expect_agreement("norm2", "d_model", {"x", x, features}, {"gain", shard.norm2.gain, 0});
    const std::size_t columns = attention.query.weight.shape(1);
    if (heads.count == 0 ? columns != 0 : columns == 0 || columns % heads.count != 0)
        throw ShapeError(columns, " columns of queries for this rank's ", heads.count,
                         " heads: is it encoder_layer_shard() of this rank?");
}

// ------------------------------------------------------------------------------------------------------ parts

class LayerPart {
public:
    /// @param options  with the joined mask
    LayerPart(const EncoderLayerWeights& shard, const EncoderOptions& options, MPI_Comm comm)
        : attention_weights_(shard.self_attention),
          network_weights_(shard.feed_forward),
          attention_options_(options.attention),
          network_options_(options.feed_forward),
          comm_(comm)
    {
        attention_options_.heads = even_part(options.attention.heads, ranks_in(comm), rank_in(comm)).count;
        attention_weights_.output->bias.reset();
        network_weights_.output.bias.reset();
    }

    /// Of self-attention: without heads, nothing.
    template <Sequence T>
    T attention(const T& x, const Trace& trace) const
    {
        return attention_options_.heads == 0
                   ? nothing(x, trace)
                   : multi_head_attention(x, attention_weights_, attention_options_, trace).output;
    }

    /// Of the feed-forward network: without hidden units, nothing.
    template <Sequence T>
    T network(const T& x, const Trace& trace) const
    {
        return network_weights_.hidden.weight.shape(1) == 0
                   ? nothing(x, trace)
                   : feed_forward(x, network_weights_, network_options_, trace);
    }

    std::size_t ranks() const { return ranks_in(comm_); }

    template <Sequence T>
    T summed(T part, Traffic& traffic) const
    {
        MPI_Allreduce(MPI_IN_PLACE, part.data(), static_cast<int>(part.size()), MPI_DOUBLE, MPI_SUM, comm_);
        traffic.sent.push_back(ranks() > 1 ? part.size() * sizeof(double) : 0);
        return part;
    }

private:
    template <Sequence T>
    static T nothing(const T& given, const Trace& trace)
    {
        const Term x = trace.input("x[(b,) n, d_model]", Term(given));
        return T(trace("output[(b,) n, d_model]", 0.0 * x));
    }

    MultiHeadWeights attention_weights_;
    FeedForwardWeights network_weights_;
    MultiHeadOptions attention_options_;
    FeedForwardOptions network_options_;
    MPI_Comm comm_;
};

std::string sum_formula(std::size_t ranks, const std::string& step)
{
    std::string formula;
    for (std::size_t rank = 0; rank < ranks; ++rank)
        formula += (rank == 0 ? "" : " + ") + ("rank." + std::to_string(rank)) + "." + step;
    return formula;
}

/// A block divided among the ranks: this rank's part, the sum over all ranks, and the bias, once.
/// @param part  from (tokens, Trace) to this rank's part
template <Sequence T, class Part>
Term<T> divided(const Term<T>& tokens, const std::string& block, const std::optional<Vector>& bias, const Part& part,
                const LayerPart& layer, Traffic& traffic, const Trace& trace)
{
    const Term x = trace.input("x[(b,) n, d_model]", tokens);
    const Term added = bias ? trace.input("bias[d_model]", Term(*bias)) : Term<Vector>();
    const Trace of_part = trace.scope("part");
    const Term mine = part(x, of_part);
    const Term sum = trace(
        "sum[(b,) n, d_model]", [&] { return sum_formula(layer.ranks(), block + ".part.output"); },
        Term(layer.summed(*mine, traffic)));
    return bias ? trace("output[(b,) n, d_model]", sum + added) : trace.alias("output", sum);
}

/// Attends with this rank's heads, then uses its hidden units; adds the sums over the ranks.
template <Sequence T>
T forward(const Term<T>& x, const LayerPart& layer, const EncoderLayerWeights& shard, const EncoderOptions& options,
          Traffic& traffic, const Trace& trace)
{
    const auto norm1 = [&](const Term<T>& y) { return layer_norm(y, shard.norm1, options.norm, trace.scope("norm1")); };
    const auto norm2 = [&](const Term<T>& y) { return layer_norm(y, shard.norm2, options.norm, trace.scope("norm2")); };
    const auto attend = [&](const Term<T>& y) {
        const auto part = [&](const Term<T>& z, const Trace& inside) { return layer.attention(z, inside); };
        return added_to(
            x, layer_function, "self_attn",
            divided(y, "self_attn", shard.self_attention.output->bias, part, layer, traffic, trace.scope("self_attn")));
    };
    const auto map = [&](const Term<T>& y) {
        const auto part = [&](const Term<T>& z, const Trace& inside) { return layer.network(z, inside); };
        return added_to(x, layer_function, "feed_forward",
                        divided(y, "feed_forward", shard.feed_forward.output.bias, part, layer, traffic,
                                trace.scope("feed_forward")));
    };
    if (options.placement == NormPlacement::pre) {
        const Term attended = trace("residual1[(b,) n, d_model]", x + attend(norm1(x)));
        return T(trace("output[(b,) n, d_model]", attended + map(norm2(attended))));
    }
    const Term attended = norm1(trace("residual1[(b,) n, d_model]", x + attend(x)));
    return T(trace.alias("output", norm2(trace("residual2[(b,) n, d_model]", attended + map(attended)))));
}

} // namespace

EncoderLayerWeights encoder_layer_shard(const EncoderLayerWeights& weights, std::size_t heads, std::size_t ranks,
                                        std::size_t rank)
{
    const MultiHeadWeights& whole = weights.self_attention;
    if (!whole.output || !is_plain(whole, HeadPositions::none))
        throw Error("mpi::encoder_layer_shard: it takes plain multi-head attention with an output map: no shared heads "
                    "or norms");
    for (const Matrix* map : {&whole.query.weight, &whole.value.weight})
        if (heads == 0 || map->shape(1) % heads != 0)
            throw ShapeError("mpi::encoder_layer_shard: ", map->shape(1), " columns can't be divided evenly among ",
                             heads, " heads");
    const Chunk part = even_part(heads, ranks, rank);
    const Chunk units = even_part(weights.feed_forward.hidden.weight.shape(1), ranks, rank);
    const Chunk of_queries = columns_of_heads(whole.query.weight, part, heads);
    const Chunk of_values = columns_of_heads(whole.value.weight, part, heads);
    EncoderLayerWeights shard = weights;
    shard.self_attention = {some_columns(whole.query, of_queries), some_columns(whole.key, of_queries),
                            some_columns(whole.value, of_values), some_rows(*whole.output, of_values)};
    shard.feed_forward = {some_columns(weights.feed_forward.hidden, units),
                          some_rows(weights.feed_forward.output, units)};
    return shard;
}

template <Sequence T>
T tensor_parallel_encoder_layer(const T& tokens, const EncoderLayerWeights& shard, const EncoderOptions& given,
                                MPI_Comm comm, Traffic* traffic, const Trace& caller)
{
    const std::size_t rank = rank_in(comm), ranks = ranks_in(comm);
    agree(comm, layer_function, facts_of(tokens, given), [&] {
        expect_fit(tokens, shard, given, even_part(given.attention.heads, ranks, rank));
        static_cast<void>(with_joined_mask(tokens, given, Trace()));
    });
    T output;
    abort_on_error(comm, layer_function, [&] {
        const Trace named = caller.observing().module(layer_function, [&] {
            return StepOptions{{"ranks", std::to_string(ranks)}, {"heads", std::to_string(given.attention.heads)}};
        });
        const Trace trace = named.scope("rank", rank);
        const Term x = trace.input("x[(b,) n, d_model]", Term(tokens));
        const EncoderOptions options = with_joined_mask(x, given, trace);
        Traffic counted;
        output = forward(x, LayerPart(shard, options, comm), shard, options, counted, trace);
        if (traffic != nullptr)
            *traffic = counted;
    });
    return output;
}

Traffic predicted_tensor_parallel_traffic(std::size_t tokens, std::size_t d_model, std::size_t ranks)
{
    const std::size_t bytes = ranks > 1 ? sizeof(double) * tokens * d_model : 0;
    return {{bytes, bytes}};
}

template decltype(tensor_parallel_encoder_layer<Matrix>) tensor_parallel_encoder_layer<Matrix>;
template decltype(tensor_parallel_encoder_layer<Tensor3>) tensor_parallel_encoder_layer<Tensor3>;

} // namespace attn::mpi
