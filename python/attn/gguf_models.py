"""A model in a .gguf file: its tensors, dequantised, under transformers' names, and its metadata as a config.json."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from .formats import Array, Arrays, Model, guarded, library
from .program import Error

# The names of tensors, llama.cpp's and transformers'; a * counts the experts, which llama.cpp has in one tensor.
OF_LLAMA = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head", "attn_norm": "input_layernorm",
            "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
            "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm", "ffn_norm": "post_attention_layernorm",
            "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
OF_EXPERTS = {**OF_LLAMA, "ffn_gate_inp": "mlp.gate", "ffn_gate_exps": "mlp.experts.*.gate_proj", "ffn_up_exps": "mlp.experts.*.up_proj",
              "ffn_down_exps": "mlp.experts.*.down_proj", "ffn_gate_inp_shexp": "mlp.shared_expert_gate",
              "ffn_gate_shexp": "mlp.shared_expert.gate_proj", "ffn_up_shexp": "mlp.shared_expert.up_proj",
              "ffn_down_shexp": "mlp.shared_expert.down_proj"}
OF_MIXTRAL = {**OF_LLAMA, "ffn_gate_inp": "block_sparse_moe.gate", "ffn_gate_exps": "block_sparse_moe.experts.*.w1",
              "ffn_down_exps": "block_sparse_moe.experts.*.w2", "ffn_up_exps": "block_sparse_moe.experts.*.w3"}
OF_GPT_OSS = {**OF_EXPERTS, "ffn_gate_inp": "mlp.router", "post_attention_norm": "post_attention_layernorm",
              "attn_sinks.weight": "self_attn.sinks"}
AFTER = {**OF_LLAMA, "post_attention_norm": "post_attention_layernorm", "post_ffw_norm": "post_feedforward_layernorm"}
OF_GEMMA2 = {**AFTER, "ffn_norm": "pre_feedforward_layernorm"}
OF_GLM = {**OF_LLAMA, "ffn_up": "mlp.gate_up_proj", "post_attention_norm": "post_self_attn_layernorm", "post_ffw_norm": "post_mlp_layernorm"}
OF_PHI2 = {**OF_LLAMA, "output_norm": "model.final_layernorm", "attn_output": "self_attn.dense", "ffn_up": "mlp.fc1", "ffn_down": "mlp.fc2"}
OF_PHI3 = {**OF_LLAMA, "attn_qkv": "self_attn.qkv_proj", "ffn_up": "mlp.gate_up_proj"}
OF_GPT2 = {"token_embd": "transformer.wte", "position_embd": "transformer.wpe", "output_norm": "transformer.ln_f", "output": "lm_head",
           "attn_norm": "ln_1", "attn_qkv": "attn.c_attn", "attn_output": "attn.c_proj", "ffn_norm": "ln_2", "ffn_up": "mlp.c_fc",
           "ffn_down": "mlp.c_proj"}
OF_BLOOM = {"token_embd": "transformer.word_embeddings", "token_embd_norm": "transformer.word_embeddings_layernorm",
            "output_norm": "transformer.ln_f", "output": "lm_head", "attn_norm": "input_layernorm", "attn_qkv": "self_attention.query_key_value",
            "attn_output": "self_attention.dense", "ffn_norm": "post_attention_layernorm", "ffn_up": "mlp.dense_h_to_4h",
            "ffn_down": "mlp.dense_4h_to_h"}
OF_NEOX = {**OF_BLOOM, "token_embd": "gpt_neox.embed_in", "output_norm": "gpt_neox.final_layer_norm", "output": "embed_out",
           "attn_qkv": "attention.query_key_value", "attn_output": "attention.dense"}
OF_BERT = {"token_embd": "embeddings.word_embeddings", "position_embd": "embeddings.position_embeddings",
           "token_types": "embeddings.token_type_embeddings", "token_embd_norm": "embeddings.LayerNorm", "attn_q": "attention.self.query",
           "attn_k": "attention.self.key", "attn_v": "attention.self.value", "attn_output": "attention.output.dense",
           "attn_output_norm": "attention.output.LayerNorm", "ffn_up": "intermediate.dense", "ffn_down": "output.dense",
           "layer_output_norm": "output.LayerNorm"}
OF_DISTILBERT = {**OF_BERT, "attn_q": "attention.q_lin", "attn_k": "attention.k_lin", "attn_v": "attention.v_lin",
                 "attn_output": "attention.out_lin", "attn_output_norm": "sa_layer_norm", "ffn_up": "ffn.lin1", "ffn_down": "ffn.lin2",
                 "layer_output_norm": "output_layer_norm"}
OF_MODERNBERT = {"token_embd": "embeddings.tok_embeddings", "token_embd_norm": "embeddings.norm", "output_norm": "final_norm",
                 "attn_norm": "attn_norm", "attn_qkv": "attn.Wqkv", "attn_output": "attn.Wo", "ffn_norm": "mlp_norm", "ffn_up": "mlp.Wi",
                 "ffn_down": "mlp.Wo"}
OF_EUROBERT = {name: theirs[6:] if theirs.startswith("model.") else theirs for name, theirs in OF_LLAMA.items()}

# The fields of metadata and of a config.json.
SIZES = {"embedding_length": "hidden_size", "block_count": "num_hidden_layers", "feed_forward_length": "intermediate_size",
         "attention.head_count": "num_attention_heads", "attention.head_count_kv": "num_key_value_heads",
         "attention.key_length": "head_dim", "attention.layer_norm_rms_epsilon": "rms_norm_eps", "attention.layer_norm_epsilon": "layer_norm_eps",
         "context_length": "max_position_embeddings", "rope.freq_base": "rope_theta", "attention.sliding_window": "sliding_window",
         "attention.sliding_window_pattern": "layer_types", "attention.clamp_kqv": "clip_qkv", "use_parallel_residual": "use_parallel_residual",
         "attn_logit_softcapping": "attn_logit_softcapping", "final_logit_softcapping": "final_logit_softcapping",
         "expert_count": "num_experts", "expert_used_count": "num_experts_per_tok", "expert_feed_forward_length": "moe_intermediate_size",
         "expert_shared_feed_forward_length": "shared_expert_intermediate_size"}
SIZES_OF_GPT2 = {"embedding_length": "n_embd", "block_count": "n_layer", "feed_forward_length": "n_inner", "attention.head_count": "n_head",
                 "attention.layer_norm_epsilon": "layer_norm_epsilon", "context_length": "n_positions"}
SCALING = {"rope.scaling.type": "rope_type", "rope.scaling.factor": "factor", "rope.scaling.yarn_beta_fast": "beta_fast",
           "rope.scaling.yarn_beta_slow": "beta_slow", "rope.scaling.original_context_length": "original_max_position_embeddings"}
OF_PART = {"rope.dimension_count": "partial_rotary_factor"}  # of models that rotate a part of each head
# Said again by the shapes of tensors, or of the tokenizer, or of what is made of the result.
SAID_ELSEWHERE = ("vocab_size", "pooling_type", "classifier.pooling_type")
SCALES = ("rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight")  # of rotary frequencies; a config says how


def as_it_is(name: str, array: Array, heads: int, kv_heads: int) -> Array:
    return array


def unpermuted(name: str, array: Array, heads: int, kv_heads: int) -> Array:
    """llama.cpp rotates neighbours, so that the files of Llama have the rows of queries and keys in that order."""
    count = {"q_proj": heads, "k_proj": kv_heads}.get(name.split(".")[-2])
    return array if count is None else array.reshape(count, -1, 2, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)


def by_group(name: str, array: Array, heads: int, kv_heads: int) -> Array:
    """All queries, keys and values, one below the other, that transformers has in groups: the queries that share a key, the key, the value."""
    if "query_key_value" not in name:
        return array
    rows = array.reshape(heads + 2 * kv_heads, -1, *array.shape[1:])
    parts = np.split(rows, (heads, heads + kv_heads))
    return np.concatenate([part.reshape(kv_heads, -1, *rows.shape[1:]) for part in parts], 1).reshape(array.shape)


def without_one(name: str, array: Array, heads: int, kv_heads: int) -> Array:
    """The files of Gemma have 1 + gain."""
    return array - 1 if name.endswith("norm.weight") else array


def transposed(name: str, array: Array, heads: int, kv_heads: int) -> Array:
    """The maps of GPT-2 are (in, out) in transformers."""
    return array.T if re.search(r"\.(c_attn|c_proj|c_fc)\.weight$", name) else array


def scale_of_gemma(layers_of_27b: int) -> Callable[[Mapping[str, Any], int], dict[str, Any]]:
    """llama.cpp knows the one model whose scores have another scale by its layers."""
    return lambda config, width: {"query_pre_attn_scalar": config["hidden_size"] // config["num_attention_heads"]
                                  if config["num_hidden_layers"] == layers_of_27b else width}


@dataclass(frozen=True)
class Row:
    """An architecture of llama.cpp's, as transformers has it."""

    architecture: str
    model_type: str
    names: Mapping[str, str] = field(default_factory=lambda: OF_LLAMA)
    sizes: Mapping[str, str] = field(default_factory=dict)  # in place of those of SIZES; "" of what this family says by another one
    laid: Callable[[str, Array, int, int], Array] = as_it_is
    layer: str = "model.layers."
    having: str = ""  # the tensor, or the field of the metadata, without which another row holds
    config: Mapping[str, Any] = field(default_factory=dict)  # what the architecture fixes, and what it means where metadata say nothing
    told: Mapping[str, str] = field(default_factory=dict)  # fields that say whether there is a tensor
    expected: Mapping[str, Any] = field(default_factory=dict)  # metadata that this architecture always has
    derived: Callable[[Mapping[str, Any], int], dict[str, Any]] = lambda config, width: {}  # from sizes, and the width of a head
    is_rotary: bool = True


BIAS = {"attention_bias": "blk.0.attn_q.bias"}
FALCON = Row("falcon", "falcon", OF_BLOOM, {"attention.layer_norm_epsilon": "layer_norm_epsilon", "attention.head_count_kv": "num_kv_heads",
                                            "feed_forward_length": "ffn_hidden_size"},
             by_group, "transformer.h.", config={"new_decoder_architecture": True, "num_ln_in_parallel_attn": 1},
             expected={"tensor_data_layout": "jploski"})
ROWS = (  # the first one holds
    Row("llama", "mixtral", OF_MIXTRAL, {"expert_count": "num_local_experts"}, unpermuted, having="llama.expert_count"),
    Row("llama", "llama", laid=unpermuted, told=BIAS),
    Row("qwen2", "qwen2"),
    Row("qwen3", "qwen3", told=BIAS),
    Row("qwen2moe", "qwen2_moe", OF_EXPERTS, config={"norm_topk_prob": False}),
    Row("qwen3moe", "qwen3_moe", OF_EXPERTS, config={"norm_topk_prob": True}, told=BIAS),
    Row("olmo", "olmo", laid=unpermuted, expected={"attention.layer_norm_epsilon": 1e-5}),
    Row("olmo2", "olmo3", AFTER, having="olmo2.attention.sliding_window"),
    Row("olmo2", "olmo2", AFTER),
    Row("olmoe", "olmoe", OF_EXPERTS, config={"norm_topk_prob": False}),
    Row("gpt-oss", "gpt_oss", OF_GPT_OSS, {"expert_count": "num_local_experts", "expert_feed_forward_length": ""},
        config={"rope_scaling": {"truncate": False}}),
    Row("gemma", "gemma", laid=without_one),
    Row("gemma2", "gemma2", OF_GEMMA2, laid=without_one, derived=scale_of_gemma(46)),
    Row("gemma3", "gemma3_text", OF_GEMMA2, {"rope.freq_base_swa": "rope_local_base_freq"}, without_one, derived=scale_of_gemma(62)),
    Row("chatglm", "glm", OF_GLM, OF_PART, told=BIAS, derived=lambda config, width: {"head_dim": width}),
    Row("glm4", "glm4", OF_GLM, OF_PART, told=BIAS, derived=lambda config, width: {"head_dim": width}),
    Row("granite", "granite", laid=unpermuted, sizes={"attention.scale": "attention_multiplier", "embedding_scale": "embedding_multiplier",
                                                      "residual_scale": "residual_multiplier", "logit_scale": "logits_scaling"}, told=BIAS,
        derived=lambda config, width: {"attention_multiplier": config.get("attention_multiplier", width**-0.5)}),
    Row("seed_oss", "seed_oss", {**OF_LLAMA, "post_attention_norm": "post_attention_layernorm"}, told=BIAS),
    Row("smollm3", "smollm3", laid=unpermuted),
    Row("exaone4", "exaone4", AFTER, having="exaone4.attention.sliding_window"),
    Row("exaone4", "exaone4", AFTER, config={"sliding_window": None, "sliding_window_pattern": 1}),
    Row("command-r", "cohere", sizes={"logit_scale": "logit_scale"}, told={**BIAS, "use_qk_norm": "blk.0.attn_q_norm.weight"}),
    Row("cohere2", "cohere2", sizes={"logit_scale": "logit_scale"}, told=BIAS),
    Row("stablelm", "stablelm", sizes=OF_PART, told={"use_qkv_bias": "blk.0.attn_q.bias"}),
    Row("starcoder2", "starcoder2", {**OF_LLAMA, "ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"},
        {"attention.layer_norm_epsilon": "norm_epsilon"}, told={"use_bias": "blk.0.attn_q.bias"}),
    Row("phi2", "phi", OF_PHI2, OF_PART),
    Row("phi3", "phi3", OF_PHI3, {**OF_PART, "rope.scaling.original_context_length": "original_max_position_embeddings"}),
    replace(FALCON, names={**OF_BLOOM, "attn_norm": "ln_mlp", "attn_norm_2": "ln_attn"}, having="blk.0.attn_norm_2.weight",
            config={**FALCON.config, "num_ln_in_parallel_attn": 2}),
    FALCON,
    Row("gptneox", "gpt_neox", OF_NEOX, {"rope.dimension_count": "rotary_pct", "rope.freq_base": "rotary_emb_base"}, by_group,
        "gpt_neox.layers."),
    Row("bloom", "bloom", OF_BLOOM, {"attention.layer_norm_epsilon": "layer_norm_epsilon", "block_count": "n_layer", "attention.head_count": "n_head",
                                     "attention.head_count_kv": "", "feed_forward_length": "", "context_length": ""},
        by_group, "transformer.h.", is_rotary=False),
    Row("gpt2", "gpt2", OF_GPT2, SIZES_OF_GPT2, transposed, "transformer.h.", is_rotary=False),
    Row("starcoder", "gpt_bigcode", OF_GPT2, SIZES_OF_GPT2, layer="transformer.h.", config={"multi_query": True}, is_rotary=False),
    Row("bert", "bert", OF_BERT, layer="encoder.layer.", having="token_types.weight", config={"architectures": ["BertModel"]},
        expected={"attention.causal": False}, is_rotary=False),
    Row("bert", "distilbert", OF_DISTILBERT, {"embedding_length": "dim", "block_count": "n_layers", "feed_forward_length": "hidden_dim",
                                              "attention.head_count": "n_heads"}, layer="transformer.layer.",
        config={"architectures": ["DistilBertModel"]}, expected={"attention.causal": False, "attention.layer_norm_epsilon": 1e-12},
        is_rotary=False),
    Row("modern-bert", "modernbert", OF_MODERNBERT, {
            "attention.sliding_window": "local_attention", "attention.sliding_window_pattern": "global_attn_every_n_layers",
            "rope.freq_base": "global_rope_theta", "rope.freq_base_swa": "local_rope_theta", "attention.layer_norm_rms_epsilon": "norm_eps",
            "attention.layer_norm_epsilon": "norm_eps", "hidden_activation": "hidden_activation"},
        layer="layers.", config={"architectures": ["ModernBertModel"]}, expected={"attention.causal": False}),
    Row("eurobert", "eurobert", OF_EUROBERT, layer="layers.", config={"architectures": ["EuroBertModel"]}, expected={"attention.causal": False}),
)


def read_gguf(path: Path, config_beside: str | None) -> Model:
    """config_beside  a config.json that lies beside the file, which says more than its metadata"""
    gguf = library("gguf", path)
    file = gguf.GGUFReader(path)
    metadata = {name: one.contents() for name, one in file.fields.items() if not name.startswith("tokenizer.")}
    if metadata.get("split.count", 1) != 1:
        raise Error(f"{path} is one of {metadata['split.count']} parts: llama-gguf-split --merge makes one file of them")
    row = row_of(path, file)
    beside = json.loads(config_beside) if config_beside else None
    if beside and "architectures" in row.config:  # the files have no head; those of RoBERTa are of a BERT, without the first positions
        beside = {**beside, "architectures": row.config["architectures"]} if beside.get("model_type") == row.model_type else None
    config = beside or config_of(path, file, metadata, row)
    heads = metadata.get(row.architecture + ".attention.head_count", 1)
    kv_heads = metadata.get(row.architecture + ".attention.head_count_kv", heads)
    kinds = sorted({tensor.tensor_type.name for tensor in file.tensors})

    def read() -> Arrays:
        found: Arrays = {}
        for tensor in file.tensors:
            if tensor.name in SCALES and (beside or "rope_scaling" in config):
                continue
            name = name_of(path, tensor.name, row)
            array = np.asarray(gguf.quants.dequantize(tensor.data, tensor.tensor_type), np.float32)
            if name.endswith(("shared_expert_gate.weight", "token_type_embeddings.weight")):  # the files leave out an axis of one number
                array = np.atleast_2d(array)
            for i, one in enumerate(array if "*" in name else [array]):
                named = name.replace("*", str(i))
                found[named] = row.laid(named, one, heads, kv_heads)
        return found

    return Model(path, json.dumps(config), lambda: guarded(path, read),
                 said=[f"the weights of {path.name}, dequantised from {', '.join(kinds)}" + (", config.json beside it" if beside else "")])


def row_of(path: Path, file: Any) -> Row:
    architecture = str(file.fields["general.architecture"].contents()) if "general.architecture" in file.fields else "nothing"
    rows = [row for row in ROWS if row.architecture == architecture]
    if not rows:
        raise Error(f"{path} is of the architecture {architecture}, known are {', '.join(dict.fromkeys(row.architecture for row in ROWS))}")
    there = {"", *file.fields, *(tensor.name for tensor in file.tensors)}
    found = next((row for row in rows if row.having in there), None)
    if found is None:
        raise Error(f"{path} is of the architecture {architecture}, which is known with {' or '.join(row.having for row in rows)} alone")
    return found


def name_of(path: Path, name: str, row: Row) -> str:
    """raises  Error where transformers has no such tensor in this architecture"""
    parts = re.fullmatch(r"(?:blk\.(\d+)\.)?((\w+)\.(weight|bias))", name)
    theirs = parts and (row.names.get(parts[2]) or (parts[3] in row.names and f"{row.names[parts[3]]}.{parts[4]}"))
    if not theirs:
        more = ": it scales the rotary frequencies; a config.json beside the file can say how" if name in SCALES else ""
        raise Error(f"{path}: {name} is not known in a {row.model_type}{more}")
    return (f"{row.layer}{parts[1]}." if parts[1] is not None else "") + theirs


def config_of(path: Path, file: Any, all_metadata: Mapping[str, Any], row: Row) -> dict[str, Any]:
    """raises  Error where the metadata say something that changes what is computed and is not known here"""
    start, sizes = row.architecture + ".", {**SIZES, **row.sizes}
    metadata = {name[len(start):]: shortest(value) for name, value in all_metadata.items() if name.startswith(start)}
    for name in ("embedding_length", "attention.head_count", "block_count"):
        if not isinstance(metadata.get(name), int) or metadata[name] < 1:
            raise Error(f"{path}: {start}{name} is {metadata.get(name)!r}, expected a whole number from 1")
    width = metadata.get("attention.key_length", metadata["embedding_length"] // metadata["attention.head_count"])
    base = metadata.setdefault("rope.freq_base", 10000.0) if row.is_rotary else None
    if "rope.dimension_count" in row.sizes:
        metadata.setdefault("rope.dimension_count", width)
    expected = {"attention.value_length": width, "rope.dimension_count": width, "rope.freq_base_swa": base, **row.expected}
    config: dict[str, Any] = {"model_type": row.model_type, **row.config}
    if metadata.get("rope.scaling.type") in ("linear", "yarn"):
        config["rope_scaling"] = {**{theirs: metadata.pop(name) for name, theirs in SCALING.items() if name in metadata},
                                  **row.config.get("rope_scaling", {})}
    elif metadata.get("rope.scaling.type") == "none":
        metadata.pop("rope.scaling.type")
    for name, value in metadata.items():
        if name in expected and name not in row.sizes:
            if value != expected[name]:
                raise Error(f"{path}: {start}{name} = {value!r}, expected {expected[name]!r}; a config.json beside the file can say more")
        elif name == "rope.dimension_count":
            config[sizes[name]] = value / width
        elif name == "attention.sliding_window_pattern" and isinstance(value, list):
            config[sizes[name]] = ["sliding_attention" if one else "full_attention" for one in value]
        elif sizes.get(name) and not isinstance(value, list):
            config[sizes[name]] = None if name == "attention.sliding_window" and value == 0 else value
        elif name not in SAID_ELSEWHERE and sizes.get(name) != "":
            raise Error(f"{path}: {start}{name} = {value!r} is not known here; a config.json beside the file can say it")
    shapes = {tensor.name: tensor.shape for tensor in file.tensors}
    if "token_embd.weight" not in shapes:
        raise Error(f"{path} has no token_embd.weight")
    for tensor, size in (("token_embd.weight", "vocab_size"), ("token_types.weight", "type_vocab_size")):
        if tensor in shapes:
            config[size] = int(np.prod(shapes[tensor])) // metadata["embedding_length"]
    config["tie_word_embeddings"] = "output.weight" not in shapes
    config.update({name: tensor in shapes for name, tensor in row.told.items()})
    config.update(row.derived(config, width))
    if "rope_freqs.weight" in shapes:
        factors = next(np.asarray(tensor.data) for tensor in file.tensors if tensor.name == "rope_freqs.weight")
        config["rope_scaling"] = scaling_of_llama3(path, factors, base, width)
    return config


def shortest(value: Any) -> Any:
    """A float32 in the file: 1e-5 is meant, not 9.99999974e-06."""
    return float(str(np.float32(value))) if isinstance(value, float) else value


def scaling_of_llama3(path: Path, factors: Array, base: float, width: int) -> dict[str, Any]:
    """The file has what each frequency is divided by, which follows from the largest one as Llama 3.1 says, or is refused."""
    scaling = {"rope_type": "llama3", "factor": float(factors.max()), "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 8192}
    turns = 8192 / (2 * np.pi) * base ** (-np.arange(0, width, 2) / width)  # of each frequency, in that many tokens
    smooth = np.clip((turns - 1) / 3, 0, 1)
    if factors.shape != turns.shape or not np.allclose(factors, 1 / ((1 - smooth) / scaling["factor"] + smooth), rtol=1e-5, atol=0):
        raise Error(f"{path}: rope_freqs.weight has other factors than Llama 3.1; a config.json beside the file can say how they follow")
    return scaling
