"""Random modules of attention and recurrence, with their numbers, as `attn run` takes them.

`draw_reference(random.Random(1))` draws a module, its sizes, its options, weights of one scale (as they are drawn at first,
as after training, or large) and inputs.
"""

import dataclasses
import math

import numpy as np
import planted


def as_float16(array):
    with np.errstate(over="ignore"):
        return array.astype(np.float16).astype(np.float32)


ROUNDED = {"float64": planted.as_float64, "float32": planted.as_float32, "float16": as_float16, "bfloat16": planted.as_bfloat16}


@dataclasses.dataclass
class Reference:
    """A module with its numbers, as `attn run` takes them, and the flags."""

    module: str
    options: dict
    inputs: dict
    weights: dict
    flags: list

    def described(self):
        shapes = " ".join(f"{name}{list(array.shape)}" for name, array in self.inputs.items())
        return f"{self.module} {shapes} {' '.join(map(str, self.flags))}"


class Numbers:
    """Weights and inputs of one scale: as they are drawn at first, as after training, or large."""

    def __init__(self, draw, rng):
        self.draw, self.rng = draw, rng
        self.scale = draw.choice(["first", "trained", "trained", "large"])
        self.type = draw.choice(["float64", "float64", "float32", "float16", "bfloat16"])

    def stored(self, array):
        return np.asarray(ROUNDED[self.type](array), np.float64)

    def matrix(self, out, into):
        if self.scale == "first":
            edge = math.sqrt(6 / (out + into))
            return self.stored(self.rng.uniform(-edge, edge, (out, into)))
        if self.scale == "trained":
            return self.stored(self.rng.standard_t(5, (out, into)) * self.draw.choice([0.5, 1, 1.5]) / math.sqrt(into))
        return self.stored(self.rng.normal(size=(out, into)))

    def bias(self, size):
        if self.scale == "first":
            return np.zeros(size)
        return self.stored(self.rng.normal(size=size) * (0.3 if self.scale == "trained" else 1))

    def gain(self, size):
        if self.scale == "first":
            return np.ones(size)
        return self.stored(1 + self.rng.normal(size=size) * (0.3 if self.scale == "trained" else 1))

    def input(self, *shape):
        factor = self.draw.choice([1, 1, 1, 0.1, 4])
        offset = self.draw.choice([0, 0, 0, 0.5])
        return self.stored((self.rng.normal(size=shape) + offset) * factor)


def norm_weights(numbers, name, d):
    return {f"{name}.weight": numbers.gain(d), f"{name}.bias": numbers.bias(d)}


def attention_weights(numbers, prefix, d):
    return {
        f"{prefix}in_proj_weight": np.concatenate([numbers.matrix(d, d) for _ in range(3)]),
        f"{prefix}in_proj_bias": numbers.bias(3 * d),
        f"{prefix}out_proj.weight": numbers.matrix(d, d),
        f"{prefix}out_proj.bias": numbers.bias(d),
    }


def network_weights(numbers, d, hidden):
    return {"linear1.weight": numbers.matrix(hidden, d), "linear1.bias": numbers.bias(hidden),
            "linear2.weight": numbers.matrix(d, hidden), "linear2.bias": numbers.bias(d)}  # fmt: skip


def layer_weights(numbers, d, hidden, is_decoder=False):
    weights = attention_weights(numbers, "self_attn.", d) | network_weights(numbers, d, hidden)
    if is_decoder:
        weights |= attention_weights(numbers, "multihead_attn.", d)
    for norm in range(3 if is_decoder else 2):
        weights |= norm_weights(numbers, f"norm{norm + 1}", d)
    return weights


class ReferenceDraw:
    """Draws a module, its sizes and its numbers."""

    def __init__(self, draw):
        self.draw = draw
        self.numbers = Numbers(draw, np.random.default_rng(draw.getrandbits(63)))
        self.batch = draw.choice([(), (), (1,), (2,), (3,)])
        self.is_wide = draw.random() < 0.06
        self.heads = draw.choice([1, 2, 2, 3, 4])
        self.d_k = draw.choice([32, 64]) if self.is_wide else draw.choice([1, 2, 3, 4, 5, 8, 16])
        self.d = self.heads * self.d_k
        if self.d < 3:
            self.d_k, self.d = 4, self.heads * 4
        self.n = draw.choice([1, 2, 3, 4, 5, 7, 9, 16]) if not self.is_wide else draw.choice([2, 5, 9])
        self.m = draw.choice([self.n, 2, 6, 11])
        self.hidden = draw.choice([1, 4, 11, 2 * self.d, 4 * self.d])
        self.rows_can_be_empty = False

    def reference(self):
        module = self.draw.choice(["attention", "multi-head-attention", "multi-head-attention", "encoder-layer", "encoder-layer",
                                   "encoder", "decoder-layer", "llama", "gru", "lstm", "feed-forward", "layer-norm"])  # fmt: skip
        self.rows_can_be_empty = module in ("attention", "multi-head-attention")  # NaN would spread in a layer
        return getattr(self, "draw_" + module.replace("-", "_"))()

    def tokens(self, n, d=None):
        return self.numbers.input(*self.batch, n, d or self.d)

    def masks(self, options, flags, inputs, n, m, is_given=True, lengths="lengths"):
        """No mask, causal, padding, a mask of its own, or several of these."""
        if n <= m and is_given and self.draw.random() < 0.5:
            options["causal"] = True
            flags += ["--mask", "causal"]
        if self.batch and self.draw.random() < 0.4:
            inputs[lengths] = np.array([self.draw.randint(1, m) for _ in range(self.batch[0])])
        if is_given and self.draw.random() < 0.2 and self.batch != (n,):
            inputs["mask"] = self.numbers.rng.random((n, m)) < 0.7
            inputs["mask"][..., 0] = True
            if self.rows_can_be_empty and self.draw.random() < 0.3:
                inputs["mask"][self.draw.randrange(n)] = False

    def of_layers(self, positions=True):
        options = {"heads": self.heads, "norm": self.draw.choice(["pre", "post"]), "epsilon": self.draw.choice([1e-5, 1e-5, 1e-6, 1e-12]),
                   "activation": self.draw.choice(["relu", "gelu", "gelu-tanh"])}  # fmt: skip
        flags = ["--heads", self.heads, "--norm", options["norm"], "--epsilon", options["epsilon"], "--activation", options["activation"]]
        if positions:
            self.positions(options, flags)
        return options, flags

    def positions(self, options, flags):
        can = ["none"] * 3 + ["alibi"] * (self.heads in (1, 2, 4)) + ["rotary"] * (self.d_k % 2 == 0)
        options["positions"] = self.draw.choice(can)
        if options["positions"] != "none":
            flags += ["--positions", options["positions"]]
        if options["positions"] == "rotary":
            self.rotary(options, flags, self.draw.choice(["pairs", "halves"]))
            flags += ["--rotary-layout", options["rotary"]]

    def rotary(self, options, flags, layout):
        options |= {"rotary": layout, "base": self.draw.choice([10000.0, 500000.0, 100.0])}
        flags += ["--rotary-base", options["base"]]

    def draw_attention(self):
        options, flags, inputs = {"heads": 0}, [], {}
        if self.draw.random() < 0.2:
            options["scale"] = self.draw.choice([1.0, 0.1, 0.5])
            flags += ["--scale", options["scale"]]
        d_v = self.draw.choice([1, 3, self.d])
        inputs |= {"queries": self.tokens(self.n), "keys": self.tokens(self.m), "values": self.tokens(self.m, d_v)}
        if self.draw.random() < 0.2 and self.batch != (self.n,):
            inputs["bias"] = self.numbers.input(self.n, self.m)
        self.masks(options, flags, inputs, self.n, self.m)
        return Reference("attention", options, inputs, {}, flags)

    def draw_multi_head_attention(self):
        options, flags = {"heads": self.heads}, ["--heads", self.heads]
        is_cross = self.draw.random() < 0.4
        inputs = {"x": self.tokens(self.n)} | ({"memory": self.tokens(self.m)} if is_cross else {})
        self.positions(options, flags)
        self.masks(options, flags, inputs, self.n, self.m if is_cross else self.n)
        return Reference("multi-head-attention", options, inputs, attention_weights(self.numbers, "", self.d), flags)

    def draw_encoder_layer(self):
        options, flags = self.of_layers()
        inputs = {"x": self.tokens(self.n)}
        self.masks(options, flags, inputs, self.n, self.n)
        return Reference("encoder-layer", options, inputs, layer_weights(self.numbers, self.d, self.hidden), flags)

    def draw_encoder(self):
        options, flags = self.of_layers()
        options["layers"] = self.draw.choice([1, 2, 3]) if self.is_wide else self.draw.choice([2, 3, 6])
        flags += ["--layers", options["layers"]]
        inputs, weights = {"x": self.tokens(self.n)}, {}
        self.masks(options, flags, inputs, self.n, self.n)
        for i in range(options["layers"]):
            weights |= {f"layers.{i}.{name}": array for name, array in layer_weights(self.numbers, self.d, self.hidden).items()}
        if self.draw.random() < 0.5:
            weights |= norm_weights(self.numbers, "norm", self.d)
        return Reference("encoder", options, inputs, weights, flags)

    def draw_decoder_layer(self):
        options, flags = self.of_layers(positions=False)
        inputs = {"x": self.tokens(self.n), "memory": self.tokens(self.m)}
        self.masks(options, flags, inputs, self.n, self.n)
        if self.batch and self.draw.random() < 0.4:
            inputs["memory_lengths"] = np.array([self.draw.randint(1, self.m) for _ in range(self.batch[0])])
        weights = layer_weights(self.numbers, self.d, self.hidden, is_decoder=True)
        return Reference("decoder-layer", options, inputs, weights, flags)

    def draw_llama(self):
        d_k = self.d_k + self.d_k % 2
        groups, shared, vocabulary = self.draw.choice([1, 2]), self.draw.choice([1, 2]), self.draw.choice([7, 30])
        options = {"heads": groups * shared, "groups": groups, "layers": self.draw.choice([1, 2]), "epsilon": self.draw.choice([1e-5, 1e-6])}
        flags = ["--heads", groups * shared, "--epsilon", options["epsilon"]]
        self.rotary(options, flags, "halves")
        matrix, gain, d = self.numbers.matrix, self.numbers.gain, self.d
        weights = {"model.embed_tokens.weight": matrix(vocabulary, d) * 3, "model.norm.weight": gain(d)}
        for i in range(options["layers"]):
            weights |= {f"model.layers.{i}.{name}": array for name, array in {
                "self_attn.q_proj.weight": matrix(groups * shared * d_k, d), "self_attn.k_proj.weight": matrix(groups * d_k, d),
                "self_attn.v_proj.weight": matrix(groups * d_k, d), "self_attn.o_proj.weight": matrix(d, groups * shared * d_k),
                "mlp.gate_proj.weight": matrix(self.hidden, d), "mlp.up_proj.weight": matrix(self.hidden, d),
                "mlp.down_proj.weight": matrix(d, self.hidden),
                "input_layernorm.weight": gain(d), "post_attention_layernorm.weight": gain(d)}.items()}  # fmt: skip
        if self.draw.random() < 0.5:
            weights["lm_head.weight"] = matrix(vocabulary, d)
        inputs = {"ids": np.array([self.draw.randrange(vocabulary) for _ in range(self.n)])}
        return Reference("llama", options | {"causal": True}, inputs, weights, ["--without-config", *flags])

    def recurrent(self, module, gates):
        into, out = self.draw.choice([1, 3, 8]), self.draw.choice([1, 2, 5, 16])
        n, layers = min(self.n, 7), self.draw.choice([1, 1, 2])
        weights = {}
        for i in range(layers):
            weights |= {f"weight_ih_l{i}": self.numbers.matrix(gates * out, out if i else into),
                        f"weight_hh_l{i}": self.numbers.matrix(gates * out, out),
                        f"bias_ih_l{i}": self.numbers.bias(gates * out), f"bias_hh_l{i}": self.numbers.bias(gates * out)}  # fmt: skip
        inputs = {"x": self.numbers.input(*self.batch, n, into)}
        if self.batch and self.draw.random() < 0.4:
            inputs["lengths"] = np.array([self.draw.randint(1, n) for _ in range(self.batch[0])])
        if self.draw.random() < 0.4:
            for name in ("initial_hidden", "initial_cell")[: 2 if module == "lstm" else 1]:
                inputs[name] = self.numbers.input(layers, *self.batch, out) / 2
        return Reference(module, {"layers": layers, "size": out}, inputs, weights, [])

    def draw_gru(self):
        return self.recurrent("gru", 3)

    def draw_lstm(self):
        return self.recurrent("lstm", 4)

    def draw_feed_forward(self):
        options = {"activation": self.draw.choice(["relu", "gelu", "gelu-tanh"])}
        flags = ["--activation", options["activation"]]
        return Reference("feed-forward", options, {"x": self.tokens(self.n)}, network_weights(self.numbers, self.d, self.hidden), flags)

    def draw_layer_norm(self):
        options = {"epsilon": self.draw.choice([1e-5, 1e-6, 1e-12, 0.1])}
        weights = {"weight": self.numbers.gain(self.d), "bias": self.numbers.bias(self.d)}
        return Reference("layer-norm", options, {"x": self.tokens(self.n)}, weights, ["--epsilon", options["epsilon"]])


def draw_reference(draw):
    return ReferenceDraw(draw).reference()
