#include "attn/engines/mpi/tensor_parallel.hpp"

#include "attn/core/recorder.hpp"
#include "attn/core/trace.hpp"
#include "attn/formula/gradient.hpp"
#include "attn/reference/layers/stack.hpp"
#include "attn/reference/ops/concat.hpp"
#include "attn/reference/ops/matmul.hpp"
#include "attn/reference/ops/terms.hpp"
#include "communicator.hpp"
#include "even.hpp"

#include <algorithm>

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
        throw ShapeError(std::to_string(columns) + " columns of queries for this rank's " +
                         std::to_string(heads.count) + " heads: is it encoder_layer_shard() of this rank?");
}

// ------------------------------------------------------------------------------------------------------ parts

/// One rank's part of a layer.
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

    /// The sum over all ranks.
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
EncoderLayerOf<T> forward(const Term<T>& x, const LayerPart& layer, const EncoderLayerWeights& shard,
                          const EncoderOptions& options, Traffic& traffic, const Trace& trace)
{
    EncoderLayerOf<T> found;
    const auto norm1 = [&](const Term<T>& y) {
        found.inputs.norm1 = *y;
        return layer_norm(y, shard.norm1, options.norm, trace.scope("norm1"));
    };
    const auto norm2 = [&](const Term<T>& y) {
        found.inputs.norm2 = *y;
        return layer_norm(y, shard.norm2, options.norm, trace.scope("norm2"));
    };
    const auto attend = [&](const Term<T>& y) {
        found.inputs.attention = *y;
        const auto part = [&](const Term<T>& z, const Trace& inside) { return layer.attention(z, inside); };
        return added_to(
            x, layer_function, "self_attn",
            divided(y, "self_attn", shard.self_attention.output->bias, part, layer, traffic, trace.scope("self_attn")));
    };
    const auto map = [&](const Term<T>& y) {
        found.inputs.feed_forward = *y;
        const auto part = [&](const Term<T>& z, const Trace& inside) { return layer.network(z, inside); };
        return added_to(x, layer_function, "feed_forward",
                        divided(y, "feed_forward", shard.feed_forward.output.bias, part, layer, traffic,
                                trace.scope("feed_forward")));
    };
    if (options.placement == NormPlacement::pre) {
        const Term attended = trace("residual1[(b,) n, d_model]", x + attend(norm1(x)));
        found.output = T(trace("output[(b,) n, d_model]", attended + map(norm2(attended))));
        return found;
    }
    const Term attended = norm1(trace("residual1[(b,) n, d_model]", x + attend(x)));
    found.output = T(trace.alias("output", norm2(trace("residual2[(b,) n, d_model]", attended + map(attended)))));
    return found;
}

// -------------------------------------------------------------------------------------------------- gradients

/// The gradients of a traced function of x, by its formulas.
class Backward {
public:
    /// @param function  from a Trace to a value, whose step is `output`
    template <Sequence T, class Function>
    Backward(const Function& function, const T& grad_output)
    {
        Recorder recorder;
        function(Trace(recorder));
        recording_ = formula::gradients(recorder.recording(), {.of = "output", .seed = to_array(grad_output)});
    }

    /// Of an input; zeros where the output does not depend on it.
    template <Traceable T>
    T of(const std::string& input, const T& like) const
    {
        const auto found = std::ranges::find(recording_.steps, "grad." + input, &Step::path);
        return found == recording_.steps.end() ? T(0 * like) : from_array<T>(found->value);
    }

    LinearWeights of(const std::string& map, const LinearWeights& like) const
    {
        LinearWeights found{of(map + "_weights", like.weight)};
        if (like.bias)
            found.bias = of(map + "_bias", *like.bias);
        return found;
    }

private:
    Recording recording_;
};

/// The gradient of a bias that is added to every token.
template <Sequence T>
std::optional<Vector> summed_over_tokens(const std::optional<Vector>& bias, const T& grad)
{
    if (!bias)
        return std::nullopt;
    Vector sum = 0 * *bias;
    std::size_t at = 0;
    for (const double number : grad)
        sum(at++ % sum.size()) += number;
    return sum;
}

/// Back through a norm, whose own gradients are written.
template <Sequence T>
T back_through_norm(const T& x, const LayerNormWeights& weights, const LayerNormOptions& options, const T& grad,
                    LayerNormWeights& found)
{
    const Backward back([&](const Trace& trace) { static_cast<void>(layer_norm(x, weights, options, trace)); }, grad);
    found.gain = back.of("gain", weights.gain);
    if (weights.bias)
        found.bias = back.of("bias", *weights.bias);
    return back.of("x", x);
}

/// Back through a block: x + part(norm(x)), or norm(x + part(x)).
/// @param norm  from the gradient of its output to that of its input
/// @param part  the same, summed over all ranks
template <Sequence T, class Norm, class Part>
T back_through_block(const T& grad, bool is_pre, const Norm& norm, const Part& part)
{
    if (is_pre)
        return grad + norm(part(grad));
    const T of_sum = norm(grad);
    return of_sum + part(of_sum);
}

/// Back through this rank's part of the network, whose own gradients are written; summed over all ranks.
template <Sequence T>
T back_through_network(const T& x, const LayerPart& layer, const FeedForwardWeights& weights, const T& grad,
                       FeedForwardWeights& found, Traffic& traffic)
{
    const Backward back([&](const Trace& trace) { static_cast<void>(layer.network(x, trace)); }, grad);
    found = {back.of("hidden", weights.hidden),
             {back.of("output_weights", weights.output.weight), summed_over_tokens(weights.output.bias, grad)}};
    return layer.summed(back.of("x", x), traffic);
}

/// The same for self-attention.
template <Sequence T>
T back_through_attention(const T& x, const LayerPart& layer, const MultiHeadWeights& weights, const T& grad,
                         MultiHeadWeights& found, Traffic& traffic)
{
    const Backward back([&](const Trace& trace) { static_cast<void>(layer.attention(x, trace)); }, grad);
    found = {back.of("query", weights.query), back.of("key", weights.key), back.of("value", weights.value),
             LinearWeights{back.of("output_weights", weights.output->weight),
                           summed_over_tokens(weights.output->bias, grad)}};
    return layer.summed(back.of("x", x), traffic);
}

/// Back through the feed-forward network, then through self-attention.
template <Sequence T>
EncoderLayerGradients<T> backward(const EncoderLayerInputs<T>& inputs, const LayerPart& layer,
                                  const EncoderLayerWeights& shard, const EncoderOptions& options, const T& grad_output,
                                  Traffic& traffic)
{
    EncoderLayerGradients<T> found{grad_output, shard};
    EncoderLayerWeights& weights = found.weights;
    const bool is_pre = options.placement == NormPlacement::pre;
    const auto norm = [&](const T& x, const LayerNormWeights& given, LayerNormWeights& of_norm) {
        return [&](const T& grad) { return back_through_norm(x, given, options.norm, grad, of_norm); };
    };
    const auto network = [&](const T& grad) {
        return back_through_network(inputs.feed_forward, layer, shard.feed_forward, grad, weights.feed_forward,
                                    traffic);
    };
    const auto attention = [&](const T& grad) {
        return back_through_attention(inputs.attention, layer, shard.self_attention, grad, weights.self_attention,
                                      traffic);
    };
    const T between = back_through_block(grad_output, is_pre, norm(inputs.norm2, shard.norm2, weights.norm2), network);
    found.x = back_through_block(between, is_pre, norm(inputs.norm1, shard.norm1, weights.norm1), attention);
    return found;
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
            throw ShapeError("mpi::encoder_layer_shard: " + std::to_string(map->shape(1)) +
                             " columns can't be divided evenly among " + std::to_string(heads) + " heads");
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
EncoderLayerOf<T> tensor_parallel_encoder_layer(const T& tokens, const EncoderLayerWeights& shard,
                                                const EncoderOptions& given, MPI_Comm comm, Traffic* traffic,
                                                const Trace& caller)
{
    const std::size_t rank = rank_in(comm), ranks = ranks_in(comm);
    agree(comm, layer_function, facts_of(tokens, given), [&] {
        expect_fit(tokens, shard, given, even_part(given.attention.heads, ranks, rank));
        static_cast<void>(with_joined_mask(tokens, given, Trace()));
    });
    EncoderLayerOf<T> found;
    abort_on_error(comm, layer_function, [&] {
        const Trace named = caller.observing().module(layer_function, [&] {
            return StepOptions{{"ranks", std::to_string(ranks)}, {"heads", std::to_string(given.attention.heads)}};
        });
        const Trace trace = named.scope("rank", rank);
        const Term x = trace.input("x[(b,) n, d_model]", Term(tokens));
        const EncoderOptions options = with_joined_mask(x, given, trace);
        Traffic counted;
        found = forward(x, LayerPart(shard, options, comm), shard, options, counted, trace);
        if (traffic != nullptr)
            *traffic = counted;
    });
    return found;
}

template <Sequence T>
EncoderLayerGradients<T> tensor_parallel_encoder_layer_backward(const EncoderLayerInputs<T>& inputs,
                                                                const EncoderLayerWeights& shard,
                                                                const EncoderOptions& given, const T& grad_output,
                                                                MPI_Comm comm, Traffic* traffic)
{
    constexpr std::string_view function = "mpi::tensor_parallel_encoder_layer_backward";
    agree(comm, function, facts_of(grad_output, given), [&] {
        expect_fit(inputs.attention, shard, given, even_part(given.attention.heads, ranks_in(comm), rank_in(comm)));
        if (shape_of(grad_output) != shape_of(inputs.attention))
            throw ShapeError("grad_output " + to_string(shape_of(grad_output)) + " and x " +
                             to_string(shape_of(inputs.attention)) + " must have the same shape");
    });
    EncoderLayerGradients<T> found;
    abort_on_error(comm, function, [&] {
        const EncoderOptions options = with_joined_mask(grad_output, given, Trace());
        Traffic counted;
        found = backward(inputs, LayerPart(shard, options, comm), shard, options, grad_output, counted);
        if (traffic != nullptr)
            *traffic = counted;
    });
    return found;
}

Traffic predicted_tensor_parallel_traffic(std::size_t tokens, std::size_t d_model, std::size_t ranks)
{
    const std::size_t bytes = ranks > 1 ? sizeof(double) * tokens * d_model : 0;
    return {{bytes, bytes}};
}

template decltype(tensor_parallel_encoder_layer<Matrix>) tensor_parallel_encoder_layer<Matrix>;
template decltype(tensor_parallel_encoder_layer<Tensor3>) tensor_parallel_encoder_layer<Tensor3>;
template decltype(tensor_parallel_encoder_layer_backward<Matrix>) tensor_parallel_encoder_layer_backward<Matrix>;
template decltype(tensor_parallel_encoder_layer_backward<Tensor3>) tensor_parallel_encoder_layer_backward<Tensor3>;

} // namespace attn::mpi
