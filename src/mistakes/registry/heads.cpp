// The maps to queries, keys and values, the way into the heads, and rotary embeddings.

#include "registry.hpp"

namespace attn::mistakes {

namespace {

// A head has the rows that are its share of the tokens, whole: (b, n, h d) reshaped as (b, h, n, d).
const std::vector<StepEdit> whole_tokens{
    {"queries", "query[..., %]", "reshape(query, {batch}query.shape[-1] / {width}, {rows}, {width})[{each}{head}]"},
    {"keys", "key[..., %]", "reshape(key, {batch}key.shape[-1] / {width}, {rows}, {width})[{each}{head}]"},
    {"values", "value[..., %]", "reshape(value, {batch}value.shape[-1] / {width}, {rows}, {width})[{each}{head}]"}};

// The same where tokens come before the sequences of the batch: (n, b, h d) reshaped as (b, h, n, d).
const std::vector<StepEdit> whole_tokens_sequence_first{
    {"queries", "query[..., %]",
     "reshape(permute(query, 1, 0, 2), {batch}query.shape[-1] / {width}, {rows}, {width})[{each}{head}]"},
    {"keys", "key[..., %]",
     "reshape(permute(key, 1, 0, 2), {batch}key.shape[-1] / {width}, {rows}, {width})[{each}{head}]"},
    {"values", "value[..., %]",
     "reshape(permute(value, 1, 0, 2), {batch}value.shape[-1] / {width}, {rows}, {width})[{each}{head}]"}};

std::vector<StepEdit> with(std::vector<StepEdit> edits, StepEdit last)
{
    edits.push_back(last);
    return edits;
}

} // namespace

const std::vector<Pitfall>& heads_pitfalls()
{
    static const std::vector<Pitfall> pitfalls{
        {"qkv_swapped",
         "Two of the three maps of a fused projection are taken in the wrong order.",
         "Keys where values belong: all shapes fit.",
         "tenstorrent/tt-mlir #8958: fusing the q, k, v projection swapped key and value, so the rotary embedding went "
         "to the values and generation was garbage",
         "https://github.com/tenstorrent/tt-mlir/issues/8958",
         {{{{"value", "% @ value_weights + value_bias", "$1 @ key_weights + key_bias"}}},
          {{{"key", "~key_weights ~key_bias", "value_weights value_bias"},
            {"value", "~value_weights ~value_bias", "key_weights key_bias"}}},
          {{{"query", "~query_weights ~query_bias", "key_weights key_bias"},
            {"key", "~key_weights ~key_bias", "query_weights query_bias"}}},
          {{{"query", "~query_weights ~query_bias", "value_weights value_bias"},
            {"value", "~value_weights ~value_bias", "query_weights query_bias"}}},
          {{{"query", "~query_weights ~query_bias", "key_weights key_bias"},
            {"key", "~key_weights ~key_bias", "value_weights value_bias"},
            {"value", "~value_weights ~value_bias", "query_weights query_bias"}}},
          {{{"query", "~query_weights ~query_bias", "value_weights value_bias"},
            {"key", "~key_weights ~key_bias", "query_weights query_bias"},
            {"value", "~value_weights ~value_bias", "key_weights key_bias"}}},
          {{{"key", "~key_weights ~key_bias", "query_weights query_bias"}}},
          {{{"context", "weights @ values", "weights @ keys"}}},
          {{{"context", "weights @ values", "weights @ queries"}}},
          {{{"scores", "queries @ keys.T", "queries @ values.T"}}},
          {{{"scores", "queries @ keys.T", "queries @ queries.T"}}},
          {{{"scores", "queries @ keys.T", "keys @ queries.T"}}}}},
        {"qkv_packed_by_head",
         "A packed projection is split into queries, keys and values, but it has these three head by head.",
         "All shapes fit; the heads have each other's features.",
         "awslabs/slapo #46: chunk(3) read qkv as q, k, v one after another for TP = 1 and interleaved per shard (q0 "
         "k0 v0 ...) for TP > 1; made interleaved throughout, merged",
         "https://github.com/awslabs/slapo/pull/46",
         {{{{"queries", "query[..., %]",
             "concat(query, key, value, axis=-1)[..., (3 * {head} + 0) * {width}:(3 * {head} + 1) * {width}]"},
            {"keys", "key[..., %]",
             "concat(query, key, value, axis=-1)[..., (3 * {head} + 1) * {width}:(3 * {head} + 2) * {width}]"},
            {"values", "value[..., %]",
             "concat(query, key, value, axis=-1)[..., (3 * {head} + 2) * {width}:(3 * {head} + 3) * {width}]"}}}},
         false},
        {"weight_transposed",
         "A weight is not transposed on the way from (out, in) to (in, out).",
         "A square weight raises no error.",
         "AutoGPTQ/AutoGPTQ #139 (merged as #140): GPT-2's Conv1D keeps its weight transposed against Linear, and it "
         "was replaced without transposing back",
         "https://github.com/AutoGPTQ/AutoGPTQ/pull/139",
         {{{{"query", "% @ query_weights%", "$1 @ query_weights.T$2"},
            {"key", "% @ key_weights%", "$1 @ key_weights.T$2"},
            {"value", "% @ value_weights%", "$1 @ value_weights.T$2"},
            {"output", "% @ output_weights%", "$1 @ output_weights.T$2"},
            {"hidden", "% @ hidden_weights%", "$1 @ hidden_weights.T$2"}}}}},
        {"bias_lost",
         "The bias of a linear map is left out.",
         "All tokens are off by the same vector.",
         "sbryngelson/ANEForge #253: the loader took Qwen2's q, k, v weights but dropped their biases, and the output "
         "was garbage; fixed and merged",
         "https://github.com/sbryngelson/ANEForge/pull/253",
         {{{{"query", "% @ query_weights + query_bias", "$1 @ query_weights"},
            {"key", "% @ key_weights + key_bias", "$1 @ key_weights"},
            {"value", "% @ value_weights + value_bias", "$1 @ value_weights"}}},
          {{{"output", "% @ output_weights + output_bias", "$1 @ output_weights"}}},
          {{{"hidden", "% @ hidden_weights + hidden_bias", "$1 @ hidden_weights"}}},
          {{{"query", "% @ query_weights + query_bias", "$1 @ query_weights"},
            {"key", "% @ key_weights + key_bias", "$1 @ key_weights"},
            {"value", "% @ value_weights + value_bias", "$1 @ value_weights"},
            {"output", "% @ output_weights + output_bias", "$1 @ output_weights"},
            {"hidden", "% @ hidden_weights + hidden_bias", "$1 @ hidden_weights"}}}},
         false},
        {"projection_relu",
         "A projection to queries, keys or values ends in a ReLU.",
         "No query or key has a negative feature.",
         "CyberZHG/keras-multi-head #8: ReLU was applied to the q, k, v projections by default (as in "
         "Kyubyong/transformer #4), where the paper's are linear; labelled bug, not fixed",
         "https://github.com/CyberZHG/keras-multi-head/issues/8",
         {{{{"query", "% @ query_weights%", "relu($1 @ query_weights$2)"},
            {"key", "% @ key_weights%", "relu($1 @ key_weights$2)"},
            {"value", "% @ value_weights%", "relu($1 @ value_weights$2)"}}},
          {{{"output", "merged @ output_weights%", "relu(merged @ output_weights$1)"}}}},
         false},
        {"heads_unpermuted_split",
         "Heads are split by a reshape without the transpose.",
         "Each head gets some tokens whole instead of a share of each token.",
         "reczoo/FuxiCTR #30: heads were split by view(batch * heads, -1, dim) without the transpose, wrong for "
         "num_heads > 1",
         "https://github.com/reczoo/FuxiCTR/issues/30",
         {{whole_tokens},
          {{{"queries", "permute(reshape(query, %), 0, 2, 1, 3)", "reshape(query, {shape})"},
            {"keys", "permute(reshape(key, %), 0, 2, 1, 3)", "reshape(key, {shape})"},
            {"values", "permute(reshape(value, %), 0, 2, 1, 3)", "reshape(value, {shape})"}}},
          {whole_tokens_sequence_first},
          {with(whole_tokens, {"merged", "concat(%, axis=-1)", "reshape(concat($1, axis=-2), {shape})"}),
           {""},
           false,
           true},
          {with(whole_tokens_sequence_first,
                {"merged", "concat(%, axis=-1)",
                 "permute(reshape(concat({heads.context}, axis=-2), {rows}, {batch}{width}), 1, 0, 2)"}),
           {""},
           false,
           true}}},
        {"heads_interleaved",
         "A head takes every h-th feature instead of a block of neighbours.",
         "The shapes are right, but the weights were trained for other features.",
         "Vaswani et al. 2017, section 3.2.2: each head has its own columns of the projection; einops writes both "
         "orders, (h d) and (d h)",
         "https://arxiv.org/abs/1706.03762",
         {{{{"queries", "query[..., %]", "query[..., {head}:: query.shape[-1] / {width}]"},
            {"keys", "key[..., %]", "key[..., {head}:: key.shape[-1] / {width}]"},
            {"values", "value[..., %]", "value[..., {head}:: value.shape[-1] / {width}]"}}},
          {{{"merged", "concat(%, axis=-1)",
             "reshape(permute(reshape(concat($1, axis=-1), {batch}{rows}, {v}, {width} / {v}), 0, 2, 1), {shape})"}},
           {"2", "3", "4", "6", "8", "12", "16"}},
          {{{"merged", "concat(%, axis=-1)",
             "reshape(permute(reshape(concat($1, axis=-1), {batch}{rows}, {v}, {width} / {v}), 0, 1, 3, 2), {shape})"}},
           {"2", "3", "4", "6", "8", "12", "16"}}}},
        {"kv_tiled",
         "Shared key/value heads are tiled (0 1 0 1) instead of repeated (0 0 1 1).",
         "The result is right with one key/value head, and with as many as there are query heads.",
         "apple/axlearn #842: after #837 two key heads stood for four query heads as 0 1 0 1 instead of 0 0 1 1; the "
         "original order restored and merged",
         "https://github.com/apple/axlearn/pull/842",
         {{{{"keys", "key[..., %]",
             "key[..., ({head} - key.shape[-1] / {width} * floor({head} * {width} / key.shape[-1])) * {width}:({head} "
             "- key.shape[-1] / {width} * floor({head} * {width} / key.shape[-1]) + 1) * {width}]"},
            {"values", "value[..., %]",
             "value[..., ({head} - value.shape[-1] / {width} * floor({head} * {width} / value.shape[-1])) * "
             "{width}:({head} - value.shape[-1] / {width} * floor({head} * {width} / value.shape[-1]) + 1) * {width}]"},
            {"rotary_key.x", "key[..., %]",
             "key[..., ({head} - key.shape[-1] / {width} * floor({head} * {width} / key.shape[-1])) * {width}:({head} "
             "- key.shape[-1] / {width} * floor({head} * {width} / key.shape[-1]) + 1) * {width}]"}}}},
         false},
        {"rotary_layout",
         "Features are paired with those half a width away instead of their neighbours.",
         "The first token is right, since its angle is 0.",
         "huggingface/transformers #25199: Llama's rotation pairs halves (NeoX style) where Meta's pairs neighbours "
         "(GPT-J style); only permuted q and k weights make them agree",
         "https://github.com/huggingface/transformers/issues/25199",
         {{{{"output",
             "interleave(x[..., ::2] * cos(angles) - x[..., 1::2] * sin(angles), x[..., ::2] * sin(angles) + x[..., "
             "1::2] * cos(angles))",
             "concat(x[..., 0:{half}] * cos(angles) - x[..., {half}:{width}] * sin(angles), x[..., 0:{half}] * "
             "sin(angles) + x[..., {half}:{width}] * cos(angles), axis=-1)"}}},
          {{{"output", "concat(x[..., 0:%] * cos(angles) - x[..., %] * sin(angles), %axis=-1)",
             "interleave(x[..., ::2] * cos(angles) - x[..., 1::2] * sin(angles), x[..., ::2] * sin(angles) + x[..., "
             "1::2] * cos(angles))"}}}}},
        {"rotary_sign",
         "Pairs are rotated in the wrong direction.",
         "The sign of the distance between query and key is reversed; weights that were trained with it need it.",
         "karpathy/nanochat #489: apply_rotary_emb rotates by the transpose of the textbook matrix (opposite "
         "direction); kept as a convention since trained weights depend on it",
         "https://github.com/karpathy/nanochat/pull/489",
         {{{{"output",
             "interleave(x[..., ::2] * cos(angles) - x[..., 1::2] * sin(angles), x[..., ::2] * sin(angles) + x[..., "
             "1::2] * cos(angles))",
             "interleave(x[..., ::2] * cos(angles) + x[..., 1::2] * sin(angles), x[..., 1::2] * cos(angles) - x[..., "
             "::2] * sin(angles))"}}},
          {{{"output", "concat(x[..., 0:%] * cos(angles) - x[..., %] * sin(angles), %axis=-1)",
             "concat(x[..., 0:{half}] * cos(angles) + x[..., {half}:{width}] * sin(angles), x[..., {half}:{width}] * "
             "cos(angles) - x[..., 0:{half}] * sin(angles), axis=-1)"}}}}},
        {"rotary_base",
         "Rotary embeddings or sinusoids have a wrong base.",
         "The rotation of far tokens is wrong; the first tokens hardly differ.",
         "huggingface/candle #3746: Yi's rotary embedding had 10000 written into it and never read the model's "
         "rope_theta of 5000000; reported with a fix",
         "https://github.com/huggingface/candle/pull/3746",
         {{{{"frequencies", "% ** (-2 * arange(%) / %)", "{v} ** (-2 * arange($2) / $3)"}},
           {"10000", "100", "1000", "100000", "500000", "1e6", "5e6", "8e6", "1e7"}}},
         false},
        {"rotary_exponent",
         "The exponent of a rotary frequency is divided by a width other than the head's.",
         "All pairs but the first rotate at the wrong speed.",
         "huggingface/transformers #32495: Llama's RoPE took hidden_size / heads for the head's width even where "
         "config has another head_dim; fixed and merged",
         "https://github.com/huggingface/transformers/pull/32495",
         {{{{"frequencies", "% ** (-2 * arange(%) / %)", "$1 ** (-2 * arange($2) / {v})"}},
           {"query.shape[-1]", "key.shape[-1]", "x.shape[-1]", "(2 * $3)", "($2)"}}},
         false},
        {"rotary_heads_axis",
         "Rotary positions are counted along the axis of heads instead of the tokens.",
         "Every token of a head is rotated by the same angle.",
         "mlfoundations/open_lm #4: rotary embeddings were applied along the heads (dim -2 of b, n, h, d) instead of "
         "the sequence (dim 1); confirmed",
         "https://github.com/mlfoundations/open_lm/issues/4",
         {{{{"angles", "outer(arange(%)%, frequencies)", "outer(0 * arange($1) + {head}, frequencies)"}}}},
         false},
        {"rotary_offset",
         "The offset of rotary positions is left out: the positions of new tokens after a cache start from zero.",
         "A prompt is right; what follows it is wrong.",
         "pytorch/executorch #2010: with a KV cache the rotary angles were not taken from start_pos : start_pos + "
         "seqlen; reported with a fix",
         "https://github.com/pytorch/executorch/pull/2010",
         {{{{"angles", "outer(arange(%) + %, frequencies)", "outer(arange($1), frequencies)"}}},
          {{{"angles", "outer(arange(%) + %, frequencies)", "outer(arange($1) + ($2 {v}), frequencies)"}},
           {"+ 1", "- 1"}}},
         false},
        {"rotary_queries_only",
         "Rotary embeddings are applied to the queries only, to the keys only, or to neither.",
         "Scores depend on absolute positions, or on none.",
         "Su et al. 2021, equation 16: both q_m and k_n are rotated, so that their product depends on n - m",
         "https://arxiv.org/abs/2104.09864",
         {{{{"rotary_key.output", "%", "x"}, {"rotary_query.output", "%", "x"}}}},
         false},
        {"rotary_values",
         "Rotary embeddings are applied to the values, too.",
         "The context is rotated; all shapes fit.",
         "Su et al. 2021, section 3.2: rotary positions rotate queries and keys only (asked in "
         "mistralai/mistral-inference #147: why not values)",
         "https://arxiv.org/abs/2104.09864",
         {{{{"values", "value[..., %]",
             "interleave((value[..., $1])[..., ::2] * cos(rotary_key.angles) - (value[..., $1])[..., 1::2] * "
             "sin(rotary_key.angles), (value[..., $1])[..., ::2] * sin(rotary_key.angles) + (value[..., $1])[..., "
             "1::2] * cos(rotary_key.angles))"}}},
          {{{"values", "value[..., %]",
             "concat((value[..., $1])[..., 0:{half}] * cos(rotary_key.angles) - (value[..., $1])[..., {half}:{width}] "
             "* sin(rotary_key.angles), (value[..., $1])[..., 0:{half}] * sin(rotary_key.angles) + (value[..., "
             "$1])[..., {half}:{width}] * cos(rotary_key.angles), axis=-1)"}}}},
         false},
    };
    return pitfalls;
}

} // namespace attn::mistakes
