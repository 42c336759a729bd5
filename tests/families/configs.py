"""The families: for each a tiny config in which every field that it has is of consequence.

A row is the folder's name, the config's class, what differs from the common part, and how it is run:
    heads     the class that is built (default: the causal language model of the config's class)
    attention eager, if the family's eager attention is what it should be
"""

NONE = dict(pad_token_id=None, bos_token_id=None, eos_token_id=None)

COMMON = dict(
    vocab_size=40, hidden_size=24, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    max_position_embeddings=64, **NONE,
)  # fmt: skip


def rope(rope_type="default", theta=100.0, **others):
    return dict(rope_parameters=dict(rope_type=rope_type, rope_theta=theta, **others))


# fmt: off
SHORT = [1.0, 1.25, 1.5, 2.0]
LONG = [1.0, 2.0, 3.5, 6.0]
GPT = dict(vocab_size=40, n_embd=24, n_layer=2, n_head=4, n_positions=32, **NONE)
NEOX = dict(vocab_size=40, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=64, **NONE)
FALCON = dict(vocab_size=40, hidden_size=24, num_hidden_layers=2, num_attention_heads=4, ffn_hidden_size=40, max_position_embeddings=64, **NONE)
OPT = dict(vocab_size=40, hidden_size=24, ffn_dim=40, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=32, **NONE)

DECODERS = [
    ("llama", "LlamaConfig", dict(COMMON, num_key_value_heads=4, **rope(theta=10000.0))),
    ("llama-grouped", "LlamaConfig", dict(COMMON, head_dim=8, hidden_act="gelu", rms_norm_eps=1e-3, tie_word_embeddings=True, **rope())),
    ("llama-bias", "LlamaConfig", dict(COMMON, attention_bias=True, mlp_bias=True, **rope())),
    ("llama-linear", "LlamaConfig", dict(COMMON, head_dim=8, **rope("linear", factor=2.5))),
    ("llama-dynamic", "LlamaConfig", dict(COMMON, head_dim=8, max_position_embeddings=8, **rope("dynamic", factor=2.0))),
    ("llama-yarn", "LlamaConfig", dict(COMMON, head_dim=16, **rope("yarn", theta=50.0, factor=4.0, original_max_position_embeddings=16, beta_fast=4.0, beta_slow=0.5))),
    ("llama-yarn-mscale", "LlamaConfig", dict(COMMON, head_dim=16, **rope("yarn", theta=50.0, factor=4.0, original_max_position_embeddings=16, beta_fast=4.0, beta_slow=0.5, mscale=1.5, mscale_all_dim=0.5, truncate=False))),
    ("llama-3.1", "LlamaConfig", dict(COMMON, head_dim=16, **rope("llama3", theta=1000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16))),
    ("phi3", "Phi3Config", dict(COMMON, hidden_size=32, sliding_window=5, **rope(partial_rotary_factor=0.75))),
    ("phi3-longrope", "Phi3Config", dict(COMMON, hidden_size=32, original_max_position_embeddings=8, **rope("longrope", short_factor=SHORT, long_factor=LONG))),
    ("phi3-longrope-short", "Phi3Config", dict(COMMON, hidden_size=32, original_max_position_embeddings=16, **rope("longrope", short_factor=SHORT, long_factor=LONG))),
    ("mistral", "MistralConfig", dict(COMMON, head_dim=8, sliding_window=5, **rope())),
    ("mistral-full", "MistralConfig", dict(COMMON, head_dim=8, sliding_window=None, **rope())),
    ("qwen2", "Qwen2Config", dict(COMMON, use_sliding_window=False, sliding_window=5, max_window_layers=1, **rope())),
    ("qwen2-window", "Qwen2Config", dict(COMMON, num_hidden_layers=3, use_sliding_window=True, sliding_window=5, max_window_layers=2, tie_word_embeddings=True, **rope())),
    ("qwen3", "Qwen3Config", dict(COMMON, head_dim=8, **rope())),
    ("qwen3-window", "Qwen3Config", dict(COMMON, num_hidden_layers=3, head_dim=8, attention_bias=True, use_sliding_window=True, sliding_window=5, max_window_layers=1, **rope())),
    ("gemma", "GemmaConfig", dict(COMMON, head_dim=8, num_key_value_heads=1, **rope())),
    ("gemma2", "Gemma2Config", dict(COMMON, num_hidden_layers=3, head_dim=8, query_pre_attn_scalar=5, attn_logit_softcapping=3.0, final_logit_softcapping=4.0, sliding_window=5, **rope())),
    ("gemma3", "Gemma3TextConfig", dict(COMMON, num_hidden_layers=4, intermediate_size=24, head_dim=8, query_pre_attn_scalar=5, final_logit_softcapping=4.0, sliding_window=5, sliding_window_pattern=3,
        rope_parameters=dict(full_attention=dict(rope_type="linear", factor=2.0, rope_theta=1000.0), sliding_attention=dict(rope_type="default", rope_theta=50.0)))),
    ("olmo2", "Olmo2Config", dict(COMMON, rms_norm_eps=1e-3, attention_bias=True, **rope())),
    ("olmo", "OlmoConfig", dict(COMMON, clip_qkv=1.25, **rope())),
    ("cohere", "CohereConfig", dict(COMMON, logit_scale=0.25, **rope())),
    ("cohere-qk-norm", "CohereConfig", dict(COMMON, logit_scale=0.25, use_qk_norm=True, attention_bias=True, layer_norm_eps=1e-3, tie_word_embeddings=False, **rope())),
    ("cohere2", "Cohere2Config", dict(COMMON, num_hidden_layers=4, intermediate_size=24, logit_scale=0.25, sliding_window=5, sliding_window_pattern=2, **rope())),
    ("smollm3", "SmolLM3Config", dict(COMMON, num_hidden_layers=4, intermediate_size=24, use_sliding_window=True, sliding_window=5, no_rope_layer_interval=2, **rope())),
    ("smollm3-given", "SmolLM3Config", dict(COMMON, num_hidden_layers=3, attention_bias=True, mlp_bias=True, no_rope_layers=[0, 1, 1], use_sliding_window=False, tie_word_embeddings=False, **rope())),
    ("gpt2", "GPT2Config", dict(GPT)),
    ("gpt2-inverse", "GPT2Config", dict(GPT, n_inner=40, activation_function="gelu", layer_norm_epsilon=1e-3, scale_attn_by_inverse_layer_idx=True, reorder_and_upcast_attn=True, tie_word_embeddings=False)),
    ("gpt-neox", "GPTNeoXConfig", dict(NEOX, **rope(partial_rotary_factor=0.25))),
    ("gpt-neox-sequential", "GPTNeoXConfig", dict(NEOX, use_parallel_residual=False, attention_bias=False, hidden_act="gelu_new", **rope("linear", factor=2.0, partial_rotary_factor=0.5))),
    ("falcon", "FalconConfig", dict(FALCON, **rope())),
    ("falcon-bias", "FalconConfig", dict(FALCON, multi_query=False, parallel_attn=False, bias=True, **rope())),
    ("falcon-new", "FalconConfig", dict(FALCON, new_decoder_architecture=True, num_kv_heads=2, **rope())),
    ("falcon-new-one-norm", "FalconConfig", dict(FALCON, new_decoder_architecture=True, num_kv_heads=2, num_ln_in_parallel_attn=1, bias=True, **rope())),
    ("falcon-alibi", "FalconConfig", dict(FALCON, alibi=True, multi_query=False, parallel_attn=False, bias=True), dict(attention="sdpa")),
    ("falcon-alibi-6", "FalconConfig", dict(FALCON, num_attention_heads=6, alibi=True), dict(attention="sdpa")),
    ("bloom", "BloomConfig", dict(vocab_size=40, hidden_size=24, n_layer=2, n_head=4, **NONE)),
    ("bloom-6", "BloomConfig", dict(vocab_size=40, hidden_size=24, n_layer=2, n_head=6, apply_residual_connection_post_layernorm=True, layer_norm_epsilon=1e-3, **NONE)),
    ("opt", "OPTConfig", dict(OPT)),
    ("opt-post", "OPTConfig", dict(OPT, do_layer_norm_before=False, word_embed_proj_dim=16, activation_function="gelu")),
    ("opt-plain", "OPTConfig", dict(OPT, enable_bias=False, layer_norm_elementwise_affine=False, word_embed_proj_dim=16, tie_word_embeddings=False)),
    ("mixtral", "MixtralConfig", dict(COMMON, intermediate_size=16, head_dim=8, num_local_experts=4, num_experts_per_tok=2, sliding_window=5, **rope())),
    ("qwen3-moe", "Qwen3MoeConfig", dict(COMMON, num_hidden_layers=3, intermediate_size=24, moe_intermediate_size=6, num_experts=5, num_experts_per_tok=3, norm_topk_prob=True, mlp_only_layers=[0], head_dim=8, **rope())),
    ("qwen3-moe-window", "Qwen3MoeConfig", dict(COMMON, num_hidden_layers=2, intermediate_size=24, moe_intermediate_size=8, num_experts=6, num_experts_per_tok=2, decoder_sparse_step=2, use_sliding_window=True, sliding_window=5, **rope())),
    ("gpt-oss", "GptOssConfig", dict(COMMON, intermediate_size=12, head_dim=8, num_local_experts=4, num_experts_per_tok=2, sliding_window=5, **rope("yarn", theta=50.0, factor=4.0, beta_fast=4.0, beta_slow=0.5, truncate=False, original_max_position_embeddings=16))),
]
# fmt: on
