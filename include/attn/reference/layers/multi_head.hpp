#pragma once

#include "attn/reference/attention/dot_product.hpp"
#include "attn/reference/layers/linear.hpp"
#include "attn/reference/layers/norm.hpp"
#include "attn/reference/layers/position.hpp"
#include "attn/reference/layers/rotary.hpp"

#include <string_view>
#include <vector>

namespace attn {

/// The learned parameters of multi-head attention: the columns of each map are divided among the heads, in order.
struct MultiHeadWeights {
    LinearWeights query;                      ///< (d_model, h d_k)
    LinearWeights key;                        ///< (d_memory, h d_k), or (d_memory, g d_k), where heads share them
    LinearWeights value;                      ///< (d_memory, h d_v), or (d_memory, g d_v)
    std::optional<LinearWeights> output = {}; ///< W^O, (h d_v, d_model); without it the heads stay side by side
    /// Norms of queries: one that heads share, (d_k); or one for each head; or one of all heads together, (h d_k).
    std::vector<LayerNormWeights> query_norms = {};
    std::vector<LayerNormWeights> key_norms = {}; ///< the same of keys
    std::optional<Vector> sinks = {};             ///< (h): each head's sink, see WeighingOptions
    std::optional<LinearWeights> gate = {};       ///< (d_model, h d_v): how much of each feature of the heads is kept
};

/// How attention depends on positions.
enum class HeadPositions {
    none,   ///< not at all: positions, if any, were added to the tokens
    rotary, ///< queries and keys are rotated by their positions, see rotary()
    alibi   ///< scores fall with distance, for each head by a slope of its own, see alibi_bias()
};

/// Its name as a trace has it: "none", "rotary", "alibi".
std::string_view name_of(HeadPositions positions);

/// Queries grow with their position, so that attention stays sharp over many keys: they are multiplied by
/// 1 + strength log(1 + floor((position + 1) / every)).
/// @see Nakanishi 2025, "Scalable-Softmax Is Superior for Attention"; Llama 4 has it where queries are not rotated
struct QueryTemperature {
    double strength = 0;
    std::size_t every = 1; ///< tokens
};

/// Options of multi_head_attention(), and of the self-attention of a layer.
struct MultiHeadOptions {
    std::size_t heads = 1;
    OptionalMask mask = {}; ///< (n, m) or (b, n, m), true where a query can attend; (b, h, n, m) for each head
    OptionalBias bias = {}; ///< (n, m), (b, n, m) or (b, h, n, m), added to the scaled scores
    std::optional<Causal> causal = {};  ///< no later keys; joined with the mask that is given
    std::optional<double> scale = {};   ///< what scores are multiplied by; 1/sqrt(d_k) unless given
    std::optional<double> softcap = {}; ///< limits the scaled scores, see scaled_dot_product_attention()
    HeadPositions positions = HeadPositions::none;
    RotaryOptions rotary = {};
    NormKind norm_kind = NormKind::rms; ///< of queries and keys, where the weights have such norms
    RmsNormOptions norm = {};           ///< their epsilon, and whether one is added to their gains
    /// What is added to their mean square, where each query and key of a head is scaled to one of 1, without a gain and after
    /// its rotation, as in Llama 4.
    std::optional<double> unit_epsilon = {};
    std::optional<QueryTemperature> temperature = {};
    /// Where tokens stand that do not follow each other, for positions in the heads; which key a query can see is for the mask to say.
    Shared<PlacesOfPairs> places = {};
};

/// Refuses what some attention does not compute: queries and keys that are scaled to one, and temperatures.
/// @throws Error
void expect_no_scaled_queries(std::string_view function, const MultiHeadOptions& options);

/// How many key/value heads the weights have, each as wide as one of the query heads.
/// @throws ShapeError where the columns of the weights are no whole number of heads of one size
std::size_t key_value_heads(const MultiHeadWeights& weights, std::size_t heads);

/// The tokens that queries, keys and values are made of: Sources(x, memory) for cross-attention.
template <Sequence T>
struct Sources {
    /// Self-attention.
    explicit Sources(const T& x) : Sources(x, x, x, "x", "x") {}
    /// Cross-attention: keys and values of another sequence.
    Sources(const T& x, const T& memory) : Sources(x, memory, memory, "memory", "memory") {}
    /// Keys of one sequence, values of another of the same length, as PyTorch's (query, key, value).
    Sources(const T& x, const T& memory, const T& value_memory)
        : Sources(x, memory, value_memory, "memory", "value_memory")
    {
    }
    /// @param key_step    the step that the tokens of the keys are: "x" or "memory"
    /// @param value_step  the step that the tokens of the values are: "x", "memory" or "value_memory"
    Sources(const T& x, const T& of_keys, const T& of_values, std::string_view key_step, std::string_view value_step)
        : queries(x), keys(of_keys), values(of_values), keys_name(key_step), values_name(value_step)
    {
    }

    const T& queries; ///< ((b,) n, d_model)
    const T& keys;    ///< ((b,) m, d_memory)
    const T& values;  ///< ((b,) m, d_value)
    std::string_view keys_name, values_name;
};

/// What multi-head attention gives.
template <Sequence T>
struct MultiHeadOf {
    T output;               ///< ((b,) n, d_model), or ((b,) n, h d_v) without an output map
    std::vector<T> weights; ///< of each head, ((b,) n, m)
};
using MultiHead = MultiHeadOf<Matrix>;
using BatchMultiHead = MultiHeadOf<Tensor3>;

/// Multi-head self-attention: several attention heads side by side, each with its own small queries, keys and values.
///
/// Each head has one row of weights per query, so several heads can follow several relations between tokens. Usually
/// each has d_k = d_model / h features, so that all heads together cost about as much as one head of full width.
///
/// @param x        ((b,) n, d_model)
/// @param weights  the packed maps of all heads
/// @param options  heads; mask and bias; causal or not; scale; positions
/// @param trace    | step             | shape             | formula                                       |
///                 |------------------|-------------------|-----------------------------------------------|
///                 | x                | ((b,) n, d_model) |                                               |
///                 | query_weights    | (d_model, h_d_k)  |                                               |
///                 | query_bias       | (h_d_k,)          |                                               |
///                 | query            | ((b,) n, h_d_k)   | x @ query_weights + query_bias                |
///                 | key_weights      | (d_model, h_d_k)  |                                               |
///                 | key_bias         | (h_d_k,)          |                                               |
///                 | key              | ((b,) m, h_d_k)   | x @ key_weights + key_bias                    |
///                 | value_weights    | (d_model, h_d_v)  |                                               |
///                 | value_bias       | (h_d_v,)          |                                               |
///                 | value            | ((b,) m, h_d_v)   | x @ value_weights + value_bias                |
///                 | head.0.queries   | ((b,) n, d_k)     | query[..., 0:3]                               |
///                 | head.0.keys      | ((b,) m, d_k)     | key[..., 0:3]                                 |
///                 | head.0.values    | ((b,) m, d_v)     | value[..., 0:3]                               |
///                 | head.0.scores    | ((b,) n, m)       | queries @ keys.T                              |
///                 | head.0.scaled    | ((b,) n, m)       | scores / sqrt(keys.shape[-1])                 |
///                 | head.0.weights   | ((b,) n, m)       | softmax(scaled)                               |
///                 | head.0.context   | ((b,) n, d_v)     | weights @ values                              |
///                 | merged           | ((b,) n, h_d_v)   | concat(head.0.context, axis=-1)               |
///                 | output_weights   | (h_d_v, d_model)  |                                               |
///                 | output_bias      | (d_model,)        |                                               |
///                 | output           | ((b,) n, d_model) | merged @ output_weights + output_bias         |
///
///                 with as many heads as asked for; mask and bias as in scaled_dot_product_attention(), named once, in
///                 this scope, before the heads; where each head has its own, head.0 has a `mask`, which is `mask[:, 0]`
///                 (`mask[0, 0]` where all sequences share it), and also a `bias`; without an output map `output` is
///                 another name of `merged`
/// @throws ShapeError where x and the weights disagree, h does not divide their columns, or the mask does not fit
/// @throws Error      where ALiBi is asked for and a bias is given, too: ALiBi is itself a bias
/// @see Vaswani et al. 2017, section 3.2.2; documents 000, 001 and 003 of docs/sources.md
template <Sequence T>
MultiHeadOf<T> multi_head_attention(const T& x, const MultiHeadWeights& weights, const MultiHeadOptions& options = {},
                                    const Trace& trace = {});

/// The same for queries, keys and values of several sequences, for heads that share keys and values, and for positions in the
/// heads: cross-attention and grouped-query attention.
///
/// Each of g key/value heads serves h / g consecutive query heads, so that a cache is h / g times smaller. The number g follows
/// from the weights: g = h is multi-head attention, g = 1 is multi-query attention.
///
/// @param from     ((b,) n, d_model), ((b,) m, d_memory), ((b,) m, d_value)
/// @param weights  the packed maps of all heads, those of keys and values with the columns of g heads
/// @param options  heads; mask and bias; causal or not; scale; positions
/// @param trace    | step                         | shape            | formula                            |
///                 |------------------------------|------------------|------------------------------------|
///                 | x                            | ((b,) n, d_model) |                                   |
///                 | query_weights                | (d_model, h_d_k) |                                    |
///                 | query                        | ((b,) n, h_d_k)  | x @ query_weights                  |
///                 | key_weights                  | (d_model, g_d_k) |                                    |
///                 | key                          | ((b,) m, g_d_k)  | x @ key_weights                    |
///                 | value_weights                | (d_model, g_d_v) |                                    |
///                 | value                        | ((b,) m, g_d_v)  | x @ value_weights                  |
///                 | head.0.rotary_query.x        | ((b,) n, d)      | query[..., 0:2]                    |
///                 | head.0.queries               | ((b,) n, d_k)    | = rotary_query.output              |
///                 | head.0.rotary_key.x          | ((b,) n, d)      | key[..., 0:2]                      |
///                 | head.0.keys                  | ((b,) m, d_k)    | = rotary_key.output                |
///                 | head.0.values                | ((b,) m, d_v)    | value[..., 0:4]                    |
///                 | merged                       | ((b,) n, h_d_v)  | concat(head.0.context, head.1.context, axis=-1) |
///                 | output_weights               | (h_d_v, d_model) |                                    |
///                 | output                       | ((b,) n, d_model) | merged @ output_weights           |
///
///                 for two heads of one group, with the steps of rotary() in the scopes rotary_query and rotary_key, and
///                 those of scaled_dot_product_attention() in each head, whose queries, keys and values are, without
///                 rotary positions, `query[..., 0:2]` and so on; with ALiBi each head has its `bias`. Where the weights
///                 have norms of queries and keys, the steps of norm() come first, in each head's scopes query_norm
///                 and key_norm; a gain, or a bias, that the heads share is query_norm.gain or key_norm.gain, and of norms for
///                 each head query_norm.0.gain, and so on. Where the weights
///                 have sinks, the input `sinks`, (h,), comes before the heads, and head.0 has `sinks`, which is `sinks[0:1]`.
///                 The lists of factors of a LongRopeScaling are short_factors and long_factors, in this scope. Biases of the
///                 maps, mask, bias and output map as in multi_head_attention(); with g = h so are the axes.
///
///                 With a unit_epsilon, the steps of rms_norm() without a gain come last, in the scopes unit_query and unit_key. With
///                 a temperature, `temperature`, (n), comes before the heads, and head.0.queries is
///                 `plain_queries * temperature[:, None]`.
///
///                 Where the weights have a gate, gate_weights, (d_model, h_d_v), follows `merged`, then `gate`, ((b,) n, h_d_v), which
///                 is `x @ gate_weights`, and `gated`, `merged * sigmoid(gate)`, which the output map takes in place of `merged`.
///
///                 Of several sequences `memory`, and `value_memory`, follow `x`, and stand in its place in the formulas of key
///                 and value.
/// @throws ShapeError where tokens and weights disagree, h or g does not divide their columns, g does not divide h, or the mask
///                    does not fit
/// @throws Error      where ALiBi is asked for and a bias is given, too
/// @see Ainslie et al. 2023; Shazeer 2019 for g = 1; Su et al. 2021; Press, Smith and Lewis 2022; Henry et al. 2020 for
///      norms of queries and keys; Qiu et al. 2025, "Gated Attention for Large Language Models", section 2, for the gate
template <Sequence T>
MultiHeadOf<T> multi_head_attention(const Sources<T>& from, const MultiHeadWeights& weights,
                                    const MultiHeadOptions& options = {}, const Trace& trace = {});
ATTN_REFUSE_OTHER_TENSORS(multi_head_attention);

/// True where every head has keys and values of its own, no norms, no sink, no gate and no positions.
bool is_plain(const MultiHeadWeights& weights, HeadPositions positions);

} // namespace attn
