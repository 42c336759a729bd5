"""The small decoder with the weights of a model, whose mistakes then have the model's own numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from .arrays import array_of
from .calls_reference import Array, Decoder
from .program import Error

FAMILIES = {"gpt2": "learned", "llama": "rotary", "mistral": "rotary", "qwen2": "rotary", "qwen3": "rotary"}


def first_of(config: Mapping[str, Any], *names: str, default: Any = None) -> Any:
    return next((config[name] for name in names if config.get(name) is not None), default)


def activation_of(config: Mapping[str, Any]) -> str:
    return str(first_of(config, "activation_function", "hidden_act", default="gelu_new" if config.get("model_type") == "gpt2" else "silu"))


def refused(config: Mapping[str, Any]) -> str:
    """What of a config is not known here."""
    rope = first_of(config, "rope_parameters", "rope_scaling", default={})
    if config.get("model_type") not in FAMILIES:
        return f"model_type is {config.get('model_type')!r}, expected one of {', '.join(FAMILIES)}"
    missing = [names[0] for names in (("num_attention_heads", "n_head"), ("num_hidden_layers", "n_layer"), ("hidden_size", "n_embd")) if not first_of(config, *names)]
    if missing:
        return f"the config has no {missing[0]}"
    if activation_of(config) not in ACTIVATIONS:
        return f"the activation is {activation_of(config)}, expected one of {', '.join(ACTIVATIONS)}"
    if rope.get("rope_type", rope.get("type", "default")) != "default" or first_of(config, "partial_rotary_factor", default=1) != 1:
        return "the rotation is not that of all features with unscaled frequencies"
    if config.get("scale_attn_by_inverse_layer_idx") or config.get("scale_attn_weights") is False:
        return "the scale of scores is not that of the keys' size"
    if len({*(config.get("layer_types") or ())}) > 1:
        return "its layers are of several types"
    return ""


class Weighted(Decoder):
    """GPT-2, or a model like Llama, with weights under the names that they have in transformers.

    config   a mapping with the fields of config.json; model_type is one of FAMILIES
    weights  a state dict. Those of GPT-2 can be of nn.Linear, too, as in nanoGPT
    raises   Error where a weight is missing, or the config asks for what isn't known here
    """

    def __init__(self, config: Mapping[str, Any], weights: Mapping[str, Any], **options: Any):
        refusal = refused(config)
        if refusal:
            raise Error(f"weights(): {refusal}")
        family, one_of = config["model_type"], partial(first_of, config)
        self.names = {name.removeprefix("transformer.").removeprefix("model."): weight for name, weight in weights.items()}
        self.is_gpt = family == "gpt2"
        heads, layers = one_of("num_attention_heads", "n_head"), one_of("num_hidden_layers", "n_layer")
        width = one_of("hidden_size", "n_embd")
        d = one_of("head_dim", default=width // heads)
        super().__init__(**{**options, "positions": FAMILIES[family], "layers": layers, "heads": heads, "d": d, "capacity": 1})
        self.epsilon = one_of("rms_norm_eps", "layer_norm_epsilon", default=1e-5 if self.is_gpt else 1e-6)
        self.activation = ACTIVATIONS[activation_of(config)]
        rope = one_of("rope_parameters", "rope_scaling", default={})
        self.frequencies = float(one_of("rope_theta", default=rope.get("rope_theta", 10000.0))) ** (-np.arange(0, d, 2) / d)
        self.is_interleaved = bool(one_of("rope_interleaved", default=False))
        if self.is_gpt:
            self.embedding, self.learned = self.weight("wte.weight"), self.weight("wpe.weight")
            self.is_linear = self.weight("h.0.attn.c_attn.weight").shape[0] > width
        else:
            self.embedding = self.weight("embed_tokens.weight")
        self.head = (self.weight("lm_head.weight") if "lm_head.weight" in self.names else self.embedding).T

    def weight(self, name: str) -> Array:
        if name not in self.names:
            raise Error(f"weights() has no {name}")
        value = self.names[name]
        if not isinstance(value, np.ndarray) or value.dtype != np.float64:
            self.names[name] = value = np.asarray(array_of(name, value)).astype(np.float64)
        return value

    def linear(self, name: str, x: Array) -> Array:
        weight = self.weight(name + ".weight")
        bias = self.weight(name + ".bias") if self.names.get(name + ".bias") is not None else 0
        return x @ (weight if self.is_gpt and not self.is_linear else weight.T) + bias

    def normed(self, layer: int, name: str, x: Array) -> Array:
        if self.is_gpt:
            full = "ln_f" if layer < 0 else f"h.{layer}.{'ln_1' if name == 'attention' else 'ln_2'}"
            x = x - x.mean(-1, keepdims=True)
        else:
            full = "norm" if layer < 0 else f"layers.{layer}.{'input_layernorm' if name == 'attention' else 'post_attention_layernorm'}"
        bias = self.weight(full + ".bias") if self.names.get(full + ".bias") is not None else 0
        return self.scaled_to_one(x) * self.weight(full + ".weight") + bias

    def scaled_to_one(self, x: Array) -> Array:
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.epsilon)

    def maps(self, layer: int, x: Array) -> tuple[Array, Array, Array]:
        if self.is_gpt:
            queries, keys, values = (self.split(one) for one in np.split(self.linear(f"h.{layer}.attn.c_attn", x), 3, -1))
            return queries, keys, values
        queries, keys, values = (self.linear(f"layers.{layer}.self_attn.{name}_proj", x).reshape(*x.shape[:2], -1, self.d) for name in "qkv")
        if f"layers.{layer}.self_attn.q_norm.weight" in self.names:
            queries, keys = (self.scaled_to_one(one) * self.weight(f"layers.{layer}.self_attn.{name}_norm.weight") for name, one in (("q", queries), ("k", keys)))
        return queries, *(np.repeat(one, self.heads // one.shape[2], 2) for one in (keys, values))  # type: ignore[return-value]

    def mixed(self, layer: int, x: Array) -> Array:
        return self.linear(f"h.{layer}.attn.c_proj" if self.is_gpt else f"layers.{layer}.self_attn.o_proj", x)

    def feed_forward(self, layer: int, x: Array) -> Array:
        if self.is_gpt:
            return self.linear(f"h.{layer}.mlp.c_proj", self.activation(self.linear(f"h.{layer}.mlp.c_fc", x)))
        inner = f"layers.{layer}.mlp."
        return self.linear(inner + "down_proj", self.activation(self.linear(inner + "gate_proj", x)) * self.linear(inner + "up_proj", x))

    def learned_at(self, places: Array) -> Array:
        """A position beyond the table has no embedding: what is computed with it is not a number."""
        return np.where((places < len(self.learned))[..., None], self.learned[np.minimum(places, len(self.learned) - 1)], np.nan)

    def rotated(self, x: Array, places: Array) -> Array:
        if not self.is_interleaved:
            return super().rotated(x, places)
        halves = super().rotated(np.concatenate([x[..., ::2], x[..., 1::2]], -1), places)
        return np.stack(np.split(halves, 2, -1), -1).reshape(x.shape)


def gelu(x: Array) -> Array:
    return 0.5 * x * (1 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2)))


def gelu_new(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


def silu(x: Array) -> Array:
    return x / (1 + np.exp(-np.maximum(x, -700)))


ACTIVATIONS = {"gelu": gelu, "gelu_new": gelu_new, "gelu_pytorch_tanh": gelu_new, "silu": silu}
