"""The families: for each a tiny config in which every field that it has is of consequence.

A row is the folder's name, the config's class, what differs from the common part, and how it is run:
    kind      what goes in: decoder (ids), encoder (ids), seq2seq (ids and decoder_ids), audio (and decoder_ids), image, patches (of one
              image, cut already)
    grid      of patches, their rows and columns
    heads     the class that is built (default: the causal language model of the config's class)
    by_length transformers' frequencies follow the longest sequence of a batch, and with a cache they differ from token to token
    ends      each sequence ends by the id of the end of a text
    attention eager, unless the family's eager attention is not what it should be
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
    ("llama-dynamic", "LlamaConfig", dict(COMMON, head_dim=8, max_position_embeddings=8, **rope("dynamic", factor=2.0)), dict(by_length=True)),
    ("llama-yarn", "LlamaConfig", dict(COMMON, head_dim=16, **rope("yarn", theta=50.0, factor=4.0, original_max_position_embeddings=16, beta_fast=4.0, beta_slow=0.5))),
    ("llama-yarn-mscale", "LlamaConfig", dict(COMMON, head_dim=16, **rope("yarn", theta=50.0, factor=4.0, original_max_position_embeddings=16, beta_fast=4.0, beta_slow=0.5, mscale=1.5, mscale_all_dim=0.5, truncate=False))),
    ("llama-3.1", "LlamaConfig", dict(COMMON, head_dim=16, **rope("llama3", theta=1000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16))),
    ("phi3", "Phi3Config", dict(COMMON, hidden_size=32, sliding_window=5, **rope(partial_rotary_factor=0.75))),
    ("phi3-longrope", "Phi3Config", dict(COMMON, hidden_size=32, original_max_position_embeddings=8, **rope("longrope", short_factor=SHORT, long_factor=LONG)), dict(by_length=True)),
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
    ("olmo-plain", "OlmoConfig", dict(COMMON, attention_bias=True, tie_word_embeddings=True, **rope())),
    ("gpt-neo", "GPTNeoConfig", dict(vocab_size=40, hidden_size=24, num_layers=3, num_heads=4, intermediate_size=32, max_position_embeddings=32, window_size=5, attention_types=[[["global", "local"], 1], [["local"], 1]], **NONE)),
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
    ("qwen3-next", "Qwen3NextConfig", dict(COMMON, num_hidden_layers=4, intermediate_size=24, moe_intermediate_size=6, shared_expert_intermediate_size=10, num_experts=5, num_experts_per_tok=3, mlp_only_layers=[0], head_dim=8, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=6, linear_value_head_dim=4, **rope(partial_rotary_factor=0.5))),
    ("qwen3-next-dense", "Qwen3NextConfig", dict(COMMON, num_hidden_layers=3, intermediate_size=24, num_experts=0, num_experts_per_tok=1, attention_bias=True, head_dim=8, rms_norm_eps=1e-3, layer_types=["full_attention", "linear_attention", "full_attention"], linear_num_key_heads=3, linear_num_value_heads=3, linear_key_head_dim=4, linear_value_head_dim=6, linear_conv_kernel_dim=3, **rope(partial_rotary_factor=0.25))),
    ("gpt-oss", "GptOssConfig", dict(COMMON, intermediate_size=12, head_dim=8, num_local_experts=4, num_experts_per_tok=2, sliding_window=5, **rope("yarn", theta=50.0, factor=4.0, beta_fast=4.0, beta_slow=0.5, truncate=False, original_max_position_embeddings=16))),
    ("llama4", "Llama4TextConfig", dict(COMMON, num_hidden_layers=4, intermediate_size=8, intermediate_size_mlp=16, head_dim=8, num_local_experts=3, num_experts_per_tok=1, interleave_moe_layer_step=2, no_rope_layer_interval=2, attention_chunk_size=5, floor_scale=4, attn_scale=0.5, **rope())),
    ("llama4-plain", "Llama4TextConfig", dict(COMMON, num_hidden_layers=2, intermediate_size=8, intermediate_size_mlp=16, head_dim=8, num_local_experts=4, num_experts_per_tok=2, moe_layers=[0], no_rope_layers=[1, 0], use_qk_norm=False, attn_temperature_tuning=False, attention_bias=True, attention_chunk_size=5, **rope())),
    ("deepseek-v2", "DeepseekV2Config", dict(COMMON, num_key_value_heads=4, num_hidden_layers=2, first_k_dense_replace=1, intermediate_size=24, moe_intermediate_size=8, n_routed_experts=6, n_shared_experts=2, num_experts_per_tok=2, topk_method="greedy", routed_scaling_factor=1.5, q_lora_rank=12, kv_lora_rank=10, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=5, attention_bias=True, **rope())),
    ("deepseek-v2-lite", "DeepseekV2Config", dict(COMMON, num_key_value_heads=4, num_hidden_layers=2, first_k_dense_replace=1, intermediate_size=24, moe_intermediate_size=8, n_routed_experts=4, n_shared_experts=1, num_experts_per_tok=2, topk_method="greedy", q_lora_rank=None, kv_lora_rank=10, qk_nope_head_dim=6, qk_rope_head_dim=8, v_head_dim=8,
        **rope("yarn", theta=50.0, factor=4.0, original_max_position_embeddings=16, beta_fast=4.0, beta_slow=0.5, mscale=0.707, mscale_all_dim=0.5))),
    ("deepseek-v3", "DeepseekV3Config", dict(COMMON, num_key_value_heads=4, num_hidden_layers=2, first_k_dense_replace=1, intermediate_size=24, moe_intermediate_size=8, n_routed_experts=6, n_shared_experts=1, num_experts_per_tok=2, n_group=3, topk_group=2, routed_scaling_factor=1.5, q_lora_rank=12, kv_lora_rank=10, qk_nope_head_dim=6, qk_rope_head_dim=8, v_head_dim=5,
        **rope("yarn", theta=50.0, factor=4.0, original_max_position_embeddings=16, beta_fast=4.0, beta_slow=0.5, mscale=1.0, mscale_all_dim=1.0))),
    ("deepseek-v3-halves", "DeepseekV3Config", dict(COMMON, num_key_value_heads=4, num_hidden_layers=2, first_k_dense_replace=1, intermediate_size=24, moe_intermediate_size=8, n_routed_experts=4, n_shared_experts=2, num_experts_per_tok=2, n_group=1, topk_group=1, norm_topk_prob=False, routed_scaling_factor=1.0, q_lora_rank=None, kv_lora_rank=10, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=5, rope_interleave=False, attention_bias=True, **rope())),
    ("stablelm", "StableLmConfig", dict(COMMON, hidden_size=32, use_qkv_bias=True, **rope(partial_rotary_factor=0.5))),
    ("stablelm-parallel", "StableLmConfig", dict(COMMON, hidden_size=32, qk_layernorm=True, use_parallel_residual=True, layer_norm_eps=1e-3, **rope(partial_rotary_factor=0.25))),
    ("phi", "PhiConfig", dict(COMMON, hidden_size=32, **rope(partial_rotary_factor=0.5))),
    ("phi-qk-norm", "PhiConfig", dict(COMMON, hidden_size=32, qk_layernorm=True, **rope(partial_rotary_factor=0.25))),
    ("starcoder2", "Starcoder2Config", dict(COMMON, sliding_window=5, **rope())),
    ("starcoder2-plain", "Starcoder2Config", dict(COMMON, use_bias=False, norm_epsilon=1e-3, tie_word_embeddings=False, **rope())),
    ("granite", "GraniteConfig", dict(COMMON, attention_multiplier=0.3, embedding_multiplier=1.5, residual_multiplier=0.7, logits_scaling=2.0, **rope())),
    ("glm", "GlmConfig", dict(COMMON, head_dim=8, **rope(partial_rotary_factor=0.5))),
    ("glm4", "Glm4Config", dict(COMMON, head_dim=8, **rope(partial_rotary_factor=0.5))),
    ("exaone4", "Exaone4Config", dict(COMMON, num_hidden_layers=3, sliding_window=5, sliding_window_pattern=3, **rope())),
    ("exaone4-full", "Exaone4Config", dict(COMMON, sliding_window=None, layer_types=["full_attention"] * 2, **rope())),
    ("nemotron", "NemotronConfig", dict(COMMON, head_dim=8, attention_bias=True, mlp_bias=True, **rope(partial_rotary_factor=0.5))),
    ("qwen2-moe", "Qwen2MoeConfig", dict(COMMON, num_hidden_layers=3, intermediate_size=24, moe_intermediate_size=6, shared_expert_intermediate_size=10, num_experts=5, num_experts_per_tok=3, mlp_only_layers=[0], use_sliding_window=True, sliding_window=5, max_window_layers=3, **rope())),
    ("qwen2-moe-plain", "Qwen2MoeConfig", dict(COMMON, intermediate_size=24, moe_intermediate_size=8, shared_expert_intermediate_size=8, num_experts=4, num_experts_per_tok=2, norm_topk_prob=True, decoder_sparse_step=2, qkv_bias=False, **rope())),
    ("olmoe", "OlmoeConfig", dict(COMMON, intermediate_size=8, num_experts=5, num_experts_per_tok=3, **rope())),
    ("olmoe-bias", "OlmoeConfig", dict(COMMON, intermediate_size=8, num_experts=4, num_experts_per_tok=2, norm_topk_prob=True, attention_bias=True, rms_norm_eps=1e-3, **rope())),
    ("glm4-moe", "Glm4MoeConfig", dict(COMMON, head_dim=8, first_k_dense_replace=1, intermediate_size=24, moe_intermediate_size=8, n_routed_experts=6, n_shared_experts=1, num_experts_per_tok=2, n_group=3, topk_group=2, routed_scaling_factor=1.5, use_qk_norm=True, attention_bias=True, **rope(partial_rotary_factor=0.5))),
    ("glm4-moe-plain", "Glm4MoeConfig", dict(COMMON, head_dim=8, first_k_dense_replace=1, intermediate_size=24, moe_intermediate_size=8, n_routed_experts=4, n_shared_experts=2, num_experts_per_tok=2, norm_topk_prob=False, **rope(partial_rotary_factor=0.25))),
    ("minimax-m2", "MiniMaxM2Config", dict(COMMON, intermediate_size=8, head_dim=8, num_local_experts=5, num_experts_per_tok=2, **rope(partial_rotary_factor=0.5))),
    ("minimax-m2-dim", "MiniMaxM2Config", dict(COMMON, intermediate_size=8, head_dim=8, num_local_experts=4, num_experts_per_tok=3, rotary_dim=2)),
    ("seed-oss", "SeedOssConfig", dict(COMMON, head_dim=8, **rope())),
    ("seed-oss-bias", "SeedOssConfig", dict(COMMON, head_dim=8, attention_out_bias=True, mlp_bias=True, attention_bias=False, **rope("linear", factor=2.0))),
    ("gptj", "GPTJConfig", dict(GPT, rotary_dim=4)),
    ("gptj-inner", "GPTJConfig", dict(GPT, rotary_dim=2, n_inner=20, activation_function="relu", layer_norm_epsilon=1e-3)),
    ("codegen", "CodeGenConfig", dict(GPT, rotary_dim=4)),
    ("gpt-bigcode", "GPTBigCodeConfig", dict(GPT)),
    ("gpt-bigcode-heads", "GPTBigCodeConfig", dict(GPT, multi_query=False, n_inner=20, scale_attn_weights=False, tie_word_embeddings=False)),
    ("qwen3.5", "Qwen3_5TextConfig", dict(COMMON, num_hidden_layers=4, head_dim=8, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=6, linear_value_head_dim=4, **rope(partial_rotary_factor=0.5, mrope_section=[1, 1, 0], mrope_interleaved=True))),
    ("qwen3.5-moe", "Qwen3_5MoeTextConfig", dict(COMMON, num_hidden_layers=2, intermediate_size=24, moe_intermediate_size=6, shared_expert_intermediate_size=10, num_experts=5, num_experts_per_tok=3, head_dim=8, layer_types=["linear_attention", "full_attention"], linear_num_key_heads=2, linear_num_value_heads=2, linear_key_head_dim=4, linear_value_head_dim=6, **rope(partial_rotary_factor=0.5, mrope_section=[1, 1, 0]))),
    ("qwen2-vl", "Qwen2VLTextConfig", dict(COMMON, hidden_size=32, **rope(mrope_section=[1, 2, 1])), dict(heads="Qwen2VLTextModel")),
    ("qwen2.5-vl", "Qwen2_5_VLTextConfig", dict(COMMON, hidden_size=32, num_hidden_layers=3, use_sliding_window=True, sliding_window=5, max_window_layers=2, rms_norm_eps=1e-3, **rope(mrope_section=[2, 1, 1])), dict(heads="Qwen2_5_VLTextModel")),
    ("qwen3-vl", "Qwen3VLTextConfig", dict(COMMON, head_dim=16, **rope(mrope_section=[3, 3, 2], mrope_interleaved=True)), dict(heads="Qwen3VLTextModel")),
    ("olmo3", "Olmo3Config", dict(COMMON, num_hidden_layers=3, sliding_window=5, layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        rope_parameters=dict(full_attention=dict(rope_type="yarn", rope_theta=100.0, factor=4.0, original_max_position_embeddings=16, beta_fast=4.0, beta_slow=0.5), sliding_attention=dict(rope_type="default", rope_theta=50.0)))),
]

BERT = dict(vocab_size=40, hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32, max_position_embeddings=20, type_vocab_size=2)
MODERN = dict(vocab_size=40, hidden_size=24, intermediate_size=32, num_hidden_layers=3, num_attention_heads=4, max_position_embeddings=32, global_attn_every_n_layers=2, local_attention=6,
    pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2, rope_parameters=dict(full_attention=dict(rope_type="default", rope_theta=1000.0), sliding_attention=dict(rope_type="default", rope_theta=50.0)))
ESM = dict(vocab_size=12, hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32, max_position_embeddings=20, pad_token_id=1)

ENCODERS = [
    ("bert", "BertConfig", dict(BERT), dict(kind="encoder", heads="BertModel")),
    ("bert-mlm", "BertConfig", dict(BERT, layer_norm_eps=1e-3, hidden_act="gelu_new"), dict(kind="encoder", heads="BertForMaskedLM")),
    ("roberta", "RobertaConfig", dict(BERT, pad_token_id=1, type_vocab_size=1), dict(kind="encoder", heads="RobertaModel")),
    ("roberta-mlm", "RobertaConfig", dict(BERT, pad_token_id=1, type_vocab_size=1), dict(kind="encoder", heads="RobertaForMaskedLM")),
    ("xlm-roberta-mlm", "XLMRobertaConfig", dict(BERT, pad_token_id=2), dict(kind="encoder", heads="XLMRobertaForMaskedLM")),
    ("camembert", "CamembertConfig", dict(BERT, pad_token_id=1), dict(kind="encoder", heads="CamembertModel")),
    ("distilbert", "DistilBertConfig", dict(vocab_size=40, dim=24, n_layers=2, n_heads=4, hidden_dim=32, max_position_embeddings=20), dict(kind="encoder", heads="DistilBertModel")),
    ("distilbert-mlm", "DistilBertConfig", dict(vocab_size=40, dim=24, n_layers=2, n_heads=4, hidden_dim=32, max_position_embeddings=20, activation="relu"), dict(kind="encoder", heads="DistilBertForMaskedLM")),
    ("modernbert", "ModernBertConfig", dict(MODERN), dict(kind="encoder", heads="ModernBertModel")),
    ("modernbert-mlm", "ModernBertConfig", dict(MODERN, num_hidden_layers=2, norm_bias=True, attention_bias=True, mlp_bias=True, norm_eps=1e-3, classifier_bias=True), dict(kind="encoder", heads="ModernBertForMaskedLM")),
    ("mpnet", "MPNetConfig", dict({k: v for k, v in BERT.items() if k != "type_vocab_size"}, max_position_embeddings=24), dict(kind="encoder", heads="MPNetModel")),
    ("mpnet-mlm", "MPNetConfig", dict({k: v for k, v in BERT.items() if k != "type_vocab_size"}, max_position_embeddings=24, hidden_act="relu", layer_norm_eps=1e-3), dict(kind="encoder", heads="MPNetForMaskedLM")),
    ("electra", "ElectraConfig", dict(BERT, embedding_size=16), dict(kind="encoder", heads="ElectraModel")),
    ("electra-wide", "ElectraConfig", dict(BERT, embedding_size=24, hidden_act="relu"), dict(kind="encoder", heads="ElectraModel")),
    ("electra-mlm", "ElectraConfig", dict(BERT, embedding_size=16, hidden_act="relu", layer_norm_eps=1e-3), dict(kind="encoder", heads="ElectraForMaskedLM")),
    ("albert", "AlbertConfig", dict(BERT, num_hidden_layers=3, embedding_size=16), dict(kind="encoder", heads="AlbertModel")),
    ("albert-mlm", "AlbertConfig", dict(BERT, embedding_size=24, hidden_act="gelu", layer_norm_eps=1e-3), dict(kind="encoder", heads="AlbertForMaskedLM")),
    ("nomic-bert", "NomicBertConfig", dict(vocab_size=40, hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32, max_position_embeddings=20, type_vocab_size=2), dict(kind="encoder", heads="NomicBertModel")),
    ("nomic-bert-mlm", "NomicBertConfig", dict(vocab_size=40, hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32, max_position_embeddings=20, type_vocab_size=2, layer_norm_eps=1e-3, hidden_act="gelu"), dict(kind="encoder", heads="NomicBertForMaskedLM")),
    ("eurobert", "EuroBertConfig", dict(COMMON, head_dim=8, **rope()), dict(kind="encoder", heads="EuroBertModel")),
    ("eurobert-mlm", "EuroBertConfig", dict(COMMON, head_dim=8, attention_bias=True, mlp_bias=True, rms_norm_eps=1e-3, **rope()), dict(kind="encoder", heads="EuroBertForMaskedLM")),
    ("vit", "ViTConfig", dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32, image_size=12, patch_size=4, num_channels=3), dict(kind="image", heads="ViTModel")),
    ("vit-plain", "ViTConfig", dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32, image_size=[8, 12], patch_size=[4, 2], num_channels=1, qkv_bias=False, pooler_output_size=10, layer_norm_eps=1e-3), dict(kind="image", heads="ViTModel")),
    ("deit", "DeiTConfig", dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32, image_size=12, patch_size=4, num_channels=3), dict(kind="image", heads="DeiTModel")),
    ("dinov2", "Dinov2Config", dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=4, mlp_ratio=2, image_size=12, patch_size=4, num_channels=1), dict(kind="image", heads="Dinov2Model")),
    ("clip-vision", "CLIPVisionConfig", dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32, image_size=12, patch_size=4, num_channels=3), dict(kind="image", heads="CLIPVisionModel")),
    ("clip-vision-projection", "CLIPVisionConfig", dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32, image_size=12, patch_size=4, num_channels=3, projection_dim=10), dict(kind="image", heads="CLIPVisionModelWithProjection")),
    ("clip-text", "CLIPTextConfig", dict(vocab_size=40, hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32, max_position_embeddings=20, eos_token_id=2, bos_token_id=1, pad_token_id=0), dict(kind="encoder", heads="CLIPTextModel")),
    ("clip-text-projection", "CLIPTextConfig", dict(vocab_size=40, hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32, max_position_embeddings=20, eos_token_id=7, projection_dim=10, bos_token_id=1, pad_token_id=0), dict(kind="encoder", heads="CLIPTextModelWithProjection", ends=True)),
    ("siglip-vision", "SiglipVisionConfig", dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32, image_size=12, patch_size=4, num_channels=3), dict(kind="image", heads="SiglipVisionModel")),
    ("siglip-vision-plain", "SiglipVisionConfig", dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32, image_size=12, patch_size=4, num_channels=1, vision_use_head=False), dict(kind="image", heads="SiglipVisionModel")),
    ("dinov3", "DINOv3ViTConfig", dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32, image_size=[12, 16], patch_size=4, num_channels=1, num_register_tokens=3), dict(kind="image", heads="DINOv3ViTModel")),
    ("dinov3-gated", "DINOv3ViTConfig", dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16, image_size=12, patch_size=[4, 2], num_channels=3, rope_theta=30.0, key_bias=True, value_bias=False, proj_bias=False, mlp_bias=False, use_gated_mlp=True, hidden_act="silu"), dict(kind="image", heads="DINOv3ViTModel")),
    ("siglip2-vision", "Siglip2VisionConfig", dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32, num_patches=16, patch_size=2, num_channels=3), dict(kind="patches", heads="Siglip2VisionModel", grid=(2, 5))),
    ("siglip2-text", "Siglip2TextConfig", dict(vocab_size=40, hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32, max_position_embeddings=20, eos_token_id=2, bos_token_id=1, pad_token_id=0), dict(kind="encoder", heads="Siglip2TextModel")),
    ("esm", "EsmConfig", dict(ESM, position_embedding_type="rotary", token_dropout=True, mask_token_id=3), dict(kind="encoder", heads="EsmModel")),
    ("esm-mlm", "EsmConfig", dict(ESM, emb_layer_norm_before=True, token_dropout=True, mask_token_id=5, layer_norm_eps=1e-3), dict(kind="encoder", heads="EsmForMaskedLM")),
    ("siglip-text", "SiglipTextConfig", dict(vocab_size=40, hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32, max_position_embeddings=20, projection_size=10, eos_token_id=2, bos_token_id=1, pad_token_id=0), dict(kind="encoder", heads="SiglipTextModel")),
]

T5 = dict(vocab_size=40, d_model=24, d_kv=8, d_ff=24, num_layers=2, num_heads=4, relative_attention_num_buckets=8, relative_attention_max_distance=10, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0)
BART = dict(vocab_size=40, d_model=24, encoder_layers=1, decoder_layers=2, encoder_ffn_dim=32, decoder_ffn_dim=24, encoder_attention_heads=4, decoder_attention_heads=3, max_position_embeddings=20, scale_embedding=True, pad_token_id=1, bos_token_id=2, eos_token_id=3, decoder_start_token_id=3, forced_eos_token_id=3)

PAIRS = [
    ("t5", "T5Config", dict(T5), dict(kind="seq2seq", heads="T5ForConditionalGeneration")),
    ("t5-gated", "T5Config", dict(T5, feed_forward_proj="gated-gelu", num_decoder_layers=1, tie_word_embeddings=False), dict(kind="seq2seq", heads="T5ForConditionalGeneration")),
    ("bart", "BartConfig", dict(BART), dict(kind="seq2seq", heads="BartForConditionalGeneration")),
    ("mt5", "MT5Config", dict(T5, num_decoder_layers=1), dict(kind="seq2seq", heads="MT5ForConditionalGeneration")),
    ("umt5", "UMT5Config", dict(T5, feed_forward_proj="gated-silu", layer_norm_epsilon=1e-3), dict(kind="seq2seq", heads="UMT5ForConditionalGeneration")),
    ("mbart", "MBartConfig", dict(BART, scale_embedding=False, activation_function="relu"), dict(kind="seq2seq", heads="MBartForConditionalGeneration")),
    ("pegasus", "PegasusConfig", dict(BART), dict(kind="seq2seq", heads="PegasusForConditionalGeneration")),
    ("m2m100", "M2M100Config", dict(BART), dict(kind="seq2seq", heads="M2M100ForConditionalGeneration")),
    ("marian", "MarianConfig", dict(BART, activation_function="swish"), dict(kind="seq2seq", heads="MarianMTModel")),
    ("whisper", "WhisperConfig", dict(vocab_size=40, num_mel_bins=6, d_model=24, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=32, decoder_ffn_dim=24, encoder_attention_heads=4, decoder_attention_heads=3, max_source_positions=8, max_target_positions=16,
        pad_token_id=1, bos_token_id=2, eos_token_id=3, decoder_start_token_id=3, begin_suppress_tokens=None), dict(kind="audio", heads="WhisperForConditionalGeneration")),
]

ALL = DECODERS + ENCODERS + PAIRS
# fmt: on
