"""A model in a .gguf file: its tensors, dequantised, under transformers' names, and its metadata as a config.json."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .formats import Array, Arrays, Model, library
from .program import Error

OF_LLAMA = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head", "attn_norm": "input_layernorm",
            "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
            "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm", "ffn_norm": "post_attention_layernorm",
            "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
OF_GEMMA2 = {**OF_LLAMA, "post_attention_norm": "post_attention_layernorm", "ffn_norm": "pre_feedforward_layernorm",
             "post_ffw_norm": "post_feedforward_layernorm"}
OF_PHI3 = {**OF_LLAMA, "attn_qkv": "self_attn.qkv_proj", "ffn_up": "mlp.gate_up_proj"}
OF_GPT2 = {"token_embd": "transformer.wte", "position_embd": "transformer.wpe", "output_norm": "transformer.ln_f", "output": "lm_head",
           "attn_norm": "ln_1", "attn_qkv": "attn.c_attn", "attn_output": "attn.c_proj", "ffn_norm": "ln_2", "ffn_up": "mlp.c_fc",
           "ffn_down": "mlp.c_proj"}
SIZES = {"embedding_length": "hidden_size", "block_count": "num_hidden_layers", "feed_forward_length": "intermediate_size",
         "attention.head_count": "num_attention_heads", "attention.head_count_kv": "num_key_value_heads",
         "attention.key_length": "head_dim", "attention.layer_norm_rms_epsilon": "rms_norm_eps", "context_length": "max_position_embeddings",
         "rope.freq_base": "rope_theta", "attention.sliding_window": "sliding_window"}
SIZES_OF_GPT2 = {"embedding_length": "n_embd", "block_count": "n_layer", "feed_forward_length": "n_inner", "attention.head_count": "n_head",
                 "attention.layer_norm_epsilon": "layer_norm_epsilon", "context_length": "n_positions"}
# Said again by the shapes of tensors, or of the tokenizer.
SAID_ELSEWHERE = ("vocab_size", "attention.value_length", "rope.dimension_count")


def as_it_is(name: str, array: Array, config: Mapping[str, Any]) -> Array:
    return array


def unpermuted(name: str, array: Array, config: Mapping[str, Any]) -> Array:
    """llama.cpp rotates neighbours, so that the files of Llama have the rows of queries and keys in that order."""
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config.get("num_key_value_heads", config["num_attention_heads"])}
    count = next((number for part, number in heads.items() if f".{part}." in name), None)
    return array if count is None else array.reshape(count, -1, 2, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)


def without_one(name: str, array: Array, config: Mapping[str, Any]) -> Array:
    """The files of Gemma have 1 + gain."""
    return array - 1 if name.endswith("norm.weight") else array


def transposed(name: str, array: Array, config: Mapping[str, Any]) -> Array:
    """The maps of GPT-2 are (in, out) in transformers."""
    return array.T if re.search(r"\.(c_attn|c_proj|c_fc)\.weight$", name) else array


@dataclass(frozen=True)
class Row:
    """An architecture of llama.cpp's, as transformers has it."""

    model_type: str
    names: Mapping[str, str] = field(default_factory=lambda: OF_LLAMA)
    sizes: Mapping[str, str] = field(default_factory=lambda: SIZES)
    laid: Callable[[str, Array, Mapping[str, Any]], Array] = as_it_is
    layer: str = "model.layers."


ARCHITECTURES = {
    "llama": Row("llama", laid=unpermuted),
    "qwen2": Row("qwen2"),
    "qwen3": Row("qwen3"),
    "gemma": Row("gemma", laid=without_one),
    "gemma2": Row("gemma2", OF_GEMMA2, {**SIZES, "attn_logit_softcapping": "attn_logit_softcapping", "final_logit_softcapping":
                                        "final_logit_softcapping"}, without_one),
    "phi3": Row("phi3", OF_PHI3, {**SIZES, "rope.scaling.original_context_length": "original_max_position_embeddings"}),
    "gpt2": Row("gpt2", OF_GPT2, SIZES_OF_GPT2, transposed, "transformer.h."),
}


def read_gguf(path: Path, config_beside: str | None) -> Model:
    """config_beside  a config.json that lies beside the file, which says more than its metadata"""
    gguf = library("gguf", path)
    file = gguf.GGUFReader(path)
    architecture = str(file.fields["general.architecture"].contents()) if "general.architecture" in file.fields else "nothing"
    row = ARCHITECTURES.get(architecture)
    if row is None:
        raise Error(f"{path} is of the architecture {architecture}, known are {', '.join(ARCHITECTURES)}")
    config = json.loads(config_beside) if config_beside else config_of(path, file, architecture, row)
    kinds = sorted({tensor.tensor_type.name for tensor in file.tensors})

    def read() -> Arrays:
        found: Arrays = {}
        for tensor in file.tensors:
            name = name_of(path, tensor.name, row)
            found[name] = row.laid(name, np.asarray(gguf.quants.dequantize(tensor.data, tensor.tensor_type), np.float32), config)
        if config.get("tie_word_embeddings") or row.model_type == "gpt2":
            embedding = found[row.names["token_embd"] + ".weight"]
            if np.array_equal(found.get("lm_head.weight", embedding), embedding):
                found.pop("lm_head.weight", None)
        return found

    return Model(path, json.dumps(config), read,
                 said=[f"the weights of {path.name}, dequantised from {', '.join(kinds)}" + (", config.json beside it" if config_beside else "")])


def name_of(path: Path, name: str, row: Row) -> str:
    """raises  Error where transformers has no such tensor in this architecture"""
    parts = re.fullmatch(r"(?:blk\.(\d+)\.)?(\w+)\.(weight|bias)", name)
    if parts is None or parts[2] not in row.names:
        more = ": it scales the rotary frequencies; a config.json beside the file can say how" if name == "rope_freqs.weight" else ""
        raise Error(f"{path}: {name} is not known in a {row.model_type}{more}")
    return (f"{row.layer}{parts[1]}." if parts[1] is not None else "") + f"{row.names[parts[2]]}.{parts[3]}"


def config_of(path: Path, file: Any, architecture: str, row: Row) -> dict[str, Any]:
    """raises  Error where the metadata say something that changes what is computed and is not known here"""
    config: dict[str, Any] = {"model_type": row.model_type}
    start = architecture + "."
    metadata = {name[len(start):]: one.contents() for name, one in file.fields.items() if name.startswith(start)}
    for name, value in metadata.items():
        if name in row.sizes:  # a float32 in the file: 1e-5 is meant, not 9.99999974e-06
            config[row.sizes[name]] = float(str(np.float32(value))) if isinstance(value, float) else value
        elif name == "rope.scaling.type" and value == "none" or name in SAID_ELSEWHERE:
            continue
        else:
            raise Error(f"{path}: {start}{name} = {value!r} is not known here; a config.json beside the file can say it")
    for name in ("attention.value_length", "rope.dimension_count"):
        width = config.get("head_dim", metadata.get("embedding_length", 0) // max(1, metadata.get("attention.head_count", 1)))
        if metadata.get(name, width) != width:
            raise Error(f"{path}: {start}{name} = {metadata[name]}, expected {width}, the width of a head")
    shapes = {tensor.name: tensor.shape for tensor in file.tensors}
    if "token_embd.weight" not in shapes:
        raise Error(f"{path} has no token_embd.weight")
    config["vocab_size"] = int(shapes["token_embd.weight"][-1])
    if row.model_type != "gpt2":
        config["tie_word_embeddings"] = "output.weight" not in shapes
    return config
