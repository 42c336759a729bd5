"""Modules of attention and recurrence in NumPy, computed in each of the ways that are right.

    reference = random_modules.draw_reference(random.Random(1))
    kept = Program(reference, draw_way(random.Random(2))).run()

A `Way` says how somebody computes a module of random_modules.py: in which type and how rounded, in which order a sum is added, with which fill for the mask, which formula of
softmax, norm and activation. All of them are right. What a program keeps can be saved under the steps' names, or under
names and in layouts of somebody's own.
"""

import dataclasses
import math

import numpy as np
from random_modules import ROUNDED

LARGEST = {"float64": np.finfo(np.float64).max, "float32": np.finfo(np.float32).max, "float16": 65504.0, "bfloat16": 3.3895e38}
# Below the largest score by this, a score has the weight 0 in the type.
HIDDEN = {"float64": 800.0, "float32": 120.0, "float16": 120.0, "bfloat16": 120.0}


# -------------------------------------------------------------------------------------------------------------- ways


@dataclasses.dataclass(frozen=True)
class Way:
    """How somebody computes what the module says."""

    type: str = "float64"  # that results are rounded to
    given: str = "float64"  # that inputs and weights are rounded to before
    rounding: str = "each"  # operation, or the result of each kernel
    sums: str = "blas"
    bias: str = "added"  # or in the product, as a further feature
    packed: bool = False  # queries, keys and values by one product
    scale: str = "divided"  # scores, or multiplied, or the queries, or both
    promoted: bool = False  # to float64 where scores are scaled, as by NumPy 2's np.sqrt
    fill: str = "-inf"  # 1e9, 1e4, largest
    masking: str = "where"  # or added, or before scaling
    softmax: str = "largest first"
    empty: str = "zero"  # or NaN: the weights of a query that can attend to nothing
    norm: str = "two passes"
    activation: str = "product"
    rotation: str = "parts"


CHOICES = {
    "rounding": ("each", "kernels"),
    "sums": ("blas", "sequential", "reversed", "pairwise", "blocks of 8", "blocks of 32", "fused", "in float64"),
    "bias": ("added", "added", "in the product"),
    "packed": (False, True),
    "scale": ("divided", "multiplied", "queries", "both"),
    "fill": ("-inf", "-inf", "1e9", "1e4", "largest"),
    "masking": ("where", "where", "added", "before scaling"),
    "softmax": ("largest first", "largest first", "plain", "powers of two", "reciprocal", "logarithm", "after the product", "blocks"),
    "empty": ("zero", "NaN"),
    "norm": ("two passes", "one pass", "reciprocal root", "folded"),
    "activation": ("product", "powers", "other"),
    "rotation": ("parts", "complex", "matrix"),
}


def draw_way(draw, **fixed):
    chosen = {name: draw.choice(choices) for name, choices in CHOICES.items()}
    chosen["type"] = draw.choice(["float64", "float32", "float32", "float32", "float16", "bfloat16"])
    chosen["given"] = chosen["type"]
    if chosen["type"] == "float64" and draw.random() < 0.3:
        chosen["given"] = "float32"
    if chosen["type"] == "float32" and draw.random() < 0.1:
        chosen["promoted"] = True
    return Way(**(chosen | fixed))


# ---------------------------------------------------------------------------------------------------------- programs


def vectorized(function):
    return lambda x: np.vectorize(function, otypes=[float])(np.asarray(x, np.float64)).astype(x.dtype)


erf, erfc = vectorized(math.erf), vectorized(math.erfc)


OWN = "own."


@dataclasses.dataclass
class Kept:
    """An array under its step's path; where it has an axis of heads, third from the last, the path has {h}.

    What is no step begins with OWN: it is saved under names of somebody's own only.
    """

    path: str
    array: np.ndarray
    has_heads: bool = False


class Program:
    """Computes a module in one way and keeps what it computes.

    `changes` are options of the module that make it another one: a mistake.
    """

    def __init__(self, reference, way, changes=None):
        self.way, self.reference = way, reference
        self.options = {"epsilon": 1e-5, "positions": "none", "layers": 1} | reference.options | (changes or {})
        self.float = np.float64 if way.type == "float64" else np.float32
        given = lambda array: np.asarray(ROUNDED[way.given](array), self.float) if array.dtype.kind == "f" else array
        self.weights = {name: given(array) for name, array in reference.weights.items()}
        self.inputs = {name: given(array) for name, array in reference.inputs.items()}
        self.kept = []

    def run(self):
        """All that was kept; the last is the result."""
        with np.errstate(all="ignore"):
            getattr(self, self.reference.module.replace("-", "_"))()
        return self.kept

    # ------------------------------------------------------------------------------------------------ arithmetic

    def rounded(self, x):
        if self.way.type in ("float64", "float32"):
            return x  # in which it was computed
        return ROUNDED[self.way.type](np.asarray(x))

    def keep_own(self, name, x, has_heads=False):
        self.kept.append(Kept(OWN + name, self.rounded(x), has_heads))
        return x

    def each(self, x):
        """The result of one operation inside a kernel."""
        return self.rounded(x) if self.way.rounding == "each" else x

    def keep(self, path, x, has_heads=False):
        x = self.rounded(x)
        self.kept.append(Kept(path, x, has_heads))
        return x

    def product(self, a, b):
        """a @ b, its sums in the way's order; of 16-bit numbers in float32."""
        sums, size = self.way.sums, a.shape[-1]
        if sums == "in float64":
            return (a.astype(np.float64) @ b.astype(np.float64)).astype(np.result_type(a, b))
        if sums == "blas":
            return a @ b
        if sums.startswith("blocks"):
            block = int(sums.split()[-1])
            parts = [a[..., i : i + block] @ b[..., i : i + block, :] for i in range(0, size, block)]
            return sum(parts[1:], parts[0])
        if sums == "pairwise":
            return self.pairwise(a[..., :, :, None] * b[..., None, :, :])
        order = range(size - 1, -1, -1) if sums == "reversed" else range(size)
        wide = np.longdouble if a.dtype == np.float64 else np.float64
        total = 0
        for i in order:
            left, right = a[..., :, i : i + 1], b[..., i : i + 1, :]
            if sums == "fused":
                total = (left.astype(wide) * right.astype(wide) + total).astype(np.result_type(a, b))
            else:
                total = total + left * right
        return total

    def pairwise(self, terms):
        """The sum over the last axis but one, by halves."""
        while terms.shape[-2] > 1:
            if terms.shape[-2] % 2:
                terms = np.concatenate([terms, np.zeros_like(terms[..., :1, :])], axis=-2)
            terms = terms[..., 0::2, :] + terms[..., 1::2, :]
        return terms[..., 0, :]

    def total(self, x):
        """The sum over the last axis, which stays."""
        return self.product(x[..., None, :], np.ones((x.shape[-1], 1), x.dtype))[..., 0, :]

    def mean(self, x):
        return self.each(self.each(self.total(x)) / self.float(x.shape[-1]))

    def linear(self, x, weights, bias=None):
        """x @ weights.T + bias, of weights as PyTorch has them."""
        if bias is None:
            return self.product(x, weights.T)
        if self.way.bias == "in the product":
            ones = np.ones((*x.shape[:-1], 1), x.dtype)
            return self.product(np.concatenate([x, ones], axis=-1), np.concatenate([weights.T, bias[None, :]]))
        return self.each(self.product(x, weights.T)) + bias

    # ------------------------------------------------------------------------------------------------- attention

    def mask(self, n, m, causal=True, lengths="lengths", given=True):
        """Where queries can attend, (.., 1, n, m) or without the axis of heads; None where they can anywhere."""
        masks = []
        if causal and self.options.get("causal"):
            masks.append(np.tril(np.ones((n, m), bool), m - n))
        if given and "mask" in self.inputs:
            masks.append(self.inputs["mask"])
        if lengths in self.inputs:
            padding = np.arange(m) < self.inputs[lengths][:, None]
            masks.append(padding[:, None, :])
        mask = None
        for one in masks:
            mask = one if mask is None else mask & one
        if mask is None:
            return None
        mask = np.broadcast_to(mask, (*mask.shape[:-2], n, m))
        return mask[:, None] if self.options.get("heads") and mask.ndim == 3 else mask

    def attend(self, scope, queries, keys, values, mask, bias=None):
        has_heads = "{h}" in scope
        keep = lambda name, x: self.keep(scope + name, x, has_heads)
        factor = self.options.get("scale", 1 / math.sqrt(queries.shape[-1])) * self.options.get("scale_factor", 1)
        way, turned = self.way, np.swapaxes(keys, -1, -2)
        is_masked_first = mask is not None and bias is None and way.masking == "before scaling" and way.scale in ("divided", "multiplied")
        if way.scale == "queries":
            scaled = keep("scaled", self.product(self.rounded(queries * self.float(factor)), turned))
        elif way.scale == "both":
            root = self.float(math.sqrt(factor))
            scaled = keep("scaled", self.product(self.rounded(queries * root), self.rounded(turned * root)))
        else:
            scores = keep("scores", self.product(queries, turned))
            if way.promoted:
                scores, self.float = scores.astype(np.float64), np.float64
            hidden = self.fill(scores, mask) if is_masked_first else scores
            scaled = hidden / self.float(1 / factor) if way.scale == "divided" else hidden * self.float(factor)
            scaled = keep("masked" if is_masked_first else "scaled", scaled)
        if bias is not None:
            scaled = keep("biased", scaled + self.rounded(bias.astype(self.float)))
        if mask is not None and not is_masked_first:
            scaled = keep("masked", self.fill(scaled, mask))
        self.empty = None if mask is None or mask.any(-1).all() else ~mask.any(-1, keepdims=True)
        return keep("context", self.emptied(self.mixed(scope, scaled, values)))

    def emptied(self, x):
        """Rows of queries that can attend to nothing as the way has them."""
        return x if self.empty is None else np.where(self.empty, np.asarray(0 if self.way.empty == "zero" else np.nan, x.dtype), x)

    def fill(self, scores, mask):
        """Scores with a number in place of those that the mask hides, by which their weights are 0."""
        mask = np.broadcast_to(mask, scores.shape)
        number = self.options.get("fill", self.hiding(scores, mask))
        if self.way.masking == "added" and "fill" not in self.options:
            return scores + np.where(mask, 0, number).astype(scores.dtype)
        return np.where(mask, scores, np.asarray(number, scores.dtype))

    def hiding(self, scores, mask):
        """The way's fill; -inf where that would not hide."""
        type = self.way.type
        if not mask.any(-1).all():
            return -np.inf  # any other number would let such a query attend to everything
        number = {"-inf": -np.inf, "1e9": -1e9, "1e4": -1e4, "largest": -LARGEST[type]}[self.way.fill]
        number = -1e4 if type == "float16" and number == -1e9 else number
        least = 1.0 if self.way.masking != "before scaling" else 1 / math.sqrt(self.options.get("d_k", 256))
        size = np.max(np.abs(scores[np.isfinite(scores)]), initial=0)
        return number if -number * least > 3 * size + HIDDEN[type] else -np.inf

    def mixed(self, scope, scores, values):
        """softmax(scores) @ values"""
        if self.way.softmax == "blocks":
            return self.mixed_in_blocks(scores, values)
        exponentials = self.exponentials(scores)
        total = self.each(self.total(exponentials))
        drop = self.options.get("dropout")
        if self.way.softmax == "after the product":
            return self.each(self.product(exponentials, values)) / total
        if self.way.softmax == "reciprocal":
            weights = exponentials * self.each(1 / total)
        elif self.way.softmax == "logarithm":
            largest = scores.max(axis=-1, keepdims=True)
            logarithm = largest + np.log(self.total(np.exp(scores - largest)))  # which nobody rounds to 16 bits
            weights = np.exp(self.each(scores - logarithm))
        else:
            weights = exponentials / total
        if drop:
            weights = np.where(np.random.default_rng(1).random(weights.shape) < drop, 0, weights / self.float(1 - drop))
        return self.product(self.keep(scope + "weights", self.emptied(weights), "{h}" in scope), values)

    def exponentials(self, scores):
        largest = scores.max(axis=-1, keepdims=True)
        if self.way.softmax == "plain" and largest.max() < 8 and largest.min() > -8:
            return self.each(np.exp(scores))
        self.keep_own("shifted", scores - largest, scores.ndim > 2 and self.options.get("heads", 0) > 0)
        if self.way.softmax == "powers of two":
            return self.each(np.exp2(self.each((self.each(scores - largest)) * self.float(1.4426950408889634))))
        return self.each(np.exp(self.each(scores - largest)))

    def mixed_in_blocks(self, scores, values, block=3):
        """Key by key, with the largest score and the sum so far: nobody ever has the weights. Sums are in float32."""
        largest = np.full((*scores.shape[:-1], 1), -np.inf, scores.dtype)
        total, context = np.zeros_like(largest), 0
        for i in range(0, scores.shape[-1], block):
            part = scores[..., i : i + block]
            now = np.maximum(largest, part.max(axis=-1, keepdims=True))
            before = np.where(np.isinf(largest), 0, np.exp(largest - now))
            exponentials = np.where(np.isinf(now), 0, np.exp(part - now))
            total = total * before + self.total(exponentials)
            context = context * before + self.product(self.each(exponentials), values[..., i : i + block, :])
            largest = now
        return context / total

    def split(self, x, heads):
        return np.swapaxes(x.reshape(*x.shape[:-1], heads, -1), -2, -3)

    def merge(self, x):
        x = np.swapaxes(x, -2, -3)
        return x.reshape(*x.shape[:-2], -1)

    def rotate(self, x):
        """Each pair of features by the angle position / base ** (2i / d); angles in float32 or better."""
        n, d = x.shape[-2:]
        wide = np.float64 if self.way.type == "float64" else np.float32
        frequencies = (wide(self.options["base"]) ** (-np.arange(0, d, 2, dtype=wide) / wide(d))).astype(wide)
        angles = np.outer(np.arange(n, dtype=wide), frequencies)
        cosines, sines = self.rounded(np.cos(angles)), self.rounded(np.sin(angles))
        self.keep_own("cos", cosines)
        self.keep_own("sin", sines)
        is_pairs = self.options["rotary"] == "pairs"
        first, second = (x[..., 0::2], x[..., 1::2]) if is_pairs else (x[..., : d // 2], x[..., d // 2 :])
        if self.way.rotation == "complex":
            product = (first + 1j * second) * (cosines + 1j * sines)
            left, right = product.real.astype(x.dtype), product.imag.astype(x.dtype)
        elif self.way.rotation == "matrix":
            turns = np.stack([np.stack([cosines, sines], -1), np.stack([-sines, cosines], -1)], -2)  # (n, d/2, 2, 2)
            both = (np.stack([first, second], -1)[..., None, :] @ turns)[..., 0, :]
            left, right = both[..., 0], both[..., 1]
        else:
            left = self.each(first * cosines) - self.each(second * sines)
            right = self.each(first * sines) + self.each(second * cosines)
        return np.stack([left, right], -1).reshape(x.shape) if is_pairs else np.concatenate([left, right], -1)

    def slopes(self, heads, n, m):
        slopes = 2.0 ** (-8 * (np.arange(heads) + 1) / heads) * self.options.get("slope_factor", 1)
        distance = np.abs(np.arange(n)[:, None] + (m - n) - np.arange(m))
        return -slopes[:, None, None] * distance

    def heads_of(self, scope, query, key, value, mask, bias=None):
        """From queries, keys and values of all heads side by side to their contexts side by side."""
        heads, groups = self.options["heads"], self.options.get("groups", self.options["heads"])
        inside = scope + "head.{h}."
        queries, keys, values = self.split(query, heads), self.split(key, groups), self.split(value, groups)
        if self.options.get("rotary"):
            queries, keys = self.rounded(self.rotate(queries)), self.rounded(self.rotate(keys))
        keys, values = (np.repeat(x, heads // groups, axis=-3) for x in (keys, values))
        for name, x in (("queries", queries), ("keys", keys), ("values", values)):
            self.keep(inside + name, x, True)
        context = self.attend(inside, queries, keys, values, mask, bias)
        return self.keep(scope + "merged", self.merge(context))

    def multi_head(self, scope, prefix, x, memory, mask, positions=True):
        weights, bias = self.weights[prefix + "in_proj_weight"], self.weights[prefix + "in_proj_bias"]
        d = x.shape[-1]
        for i, name in enumerate(("query", "key", "value")):
            self.keep(f"{scope}{name}_weights", weights[i * d : (i + 1) * d].T)
            self.keep(f"{scope}{name}_bias", bias[i * d : (i + 1) * d])
        if self.way.packed and memory is x:
            query, key, value = np.split(self.keep_own(scope + "qkv", self.linear(x, weights, bias)), 3, axis=-1)
        else:
            parts = [(weights[i * d : (i + 1) * d], bias[i * d : (i + 1) * d]) for i in range(3)]
            query, key, value = (self.linear(of, *part) for of, part in zip((x, memory, memory), parts))
        query, key, value = (self.keep(scope + name, y) for name, y in (("query", query), ("key", key), ("value", value)))
        slopes = self.slopes(self.options["heads"], x.shape[-2], memory.shape[-2]) if self.options["positions"] == "alibi" else None
        merged = self.heads_of(scope, query, key, value, mask, slopes)
        last = self.weights[prefix + "out_proj.weight"], self.weights[prefix + "out_proj.bias"]
        return self.keep(scope + "output", self.linear(merged, *last))

    def attention(self):
        queries, keys, values = (self.inputs[name] for name in ("queries", "keys", "values"))
        mask = self.mask(queries.shape[-2], keys.shape[-2])
        self.attend("", queries, keys, values, mask, self.inputs.get("bias"))

    def multi_head_attention(self):
        x = self.inputs["x"]
        memory = self.inputs.get("memory", x)
        self.multi_head("", "", x, memory, self.mask(x.shape[-2], memory.shape[-2]))

    # ---------------------------------------------------------------------------------------------------- layers

    def norm(self, scope, x, gain, bias):
        mean = self.mean(x)
        epsilon, size = self.float(self.options["epsilon"]), x.shape[-1]
        squares = self.mean(self.each(self.each(x - mean) ** 2))
        if self.way.norm == "one pass":
            fast = self.each(self.mean(self.each(x**2)) - self.each(mean**2))
            if (mean**2 < 0.5 * squares).all() and self.way.rounding == "kernels":
                squares = fast
        if self.options.get("bessel"):
            squares = squares * self.float(size / (size - 1))
        self.keep(scope + "mean", mean[..., 0])
        self.keep(scope + "variance", squares[..., 0])
        root = self.each(np.sqrt(self.each(squares + epsilon)))
        if self.way.norm == "folded" and self.way.rounding == "kernels" and (mean**2 < 4 * squares).all():
            inverse = 1 / root
            normalized = x * inverse - mean * inverse
        elif self.way.norm == "reciprocal root":
            normalized = self.each(x - mean) * self.each(1 / root)
        else:
            normalized = self.each(x - mean) / root
        kept = self.keep(scope + "normalized", normalized)
        normalized = kept if self.way.rounding == "each" else normalized
        return self.keep(scope + "output", self.each(normalized * gain) + bias)

    def norm_of(self, scope, prefix, x):
        return self.norm(scope, x, self.weights[prefix + "weight"], self.weights[prefix + "bias"])

    def activated(self, x):
        way, number = self.way.activation, self.float
        if self.options["activation"] == "relu":
            return np.maximum(x, 0) if way == "product" else np.where(x > 0, x, number(0)) if way == "powers" else (x + np.abs(x)) / 2
        by_tanh, exact = self.gelu_by_tanh(x), self.gelu(x)
        right, other = (by_tanh, exact) if self.options["activation"] == "gelu-tanh" else (exact, by_tanh)
        share = self.options.get("other_gelu", 0)
        return right + number(share) * (other - right) if share else right

    def gelu(self, x):
        number = self.float
        if self.way.activation == "other":
            return self.each(x * number(0.5)) * self.each(erfc(self.each(-x * number(math.sqrt(0.5)))))
        inside = self.each(x / number(math.sqrt(2))) if self.way.activation == "product" else self.each(x * number(math.sqrt(0.5)))
        return self.each(self.each(number(0.5) * x) * self.each(1 + self.each(erf(inside))))

    def gelu_by_tanh(self, x):
        number = self.float
        cubic = self.each(x * self.each(x * x)) if self.way.activation == "powers" else self.each(x**3)
        inside = self.each(number(math.sqrt(2 / math.pi)) * self.each(x + self.each(number(0.044715) * cubic)))
        if self.way.activation == "other":
            return x * self.each(1 / self.each(1 + self.each(np.exp(-2 * inside))))
        return self.each(self.each(number(0.5) * x) * self.each(1 + self.each(np.tanh(inside))))

    def network(self, scope, prefix, x):
        get = lambda name: self.weights[prefix + name]
        hidden = self.keep(scope + "hidden", self.linear(x, get("linear1.weight"), get("linear1.bias")))
        activated = self.keep(scope + "activated", self.activated(hidden))
        return self.keep(scope + "output", self.linear(activated, get("linear2.weight"), get("linear2.bias")))

    def layer(self, scope, prefix, x, mask):
        plus = lambda x, y: x + y * self.float(self.options.get("residual_factor", 1))
        attend = lambda x: self.multi_head(scope + "self_attn.", prefix + "self_attn.", x, x, mask)
        norm = lambda number, x: self.norm_of(f"{scope}norm{number}.", f"{prefix}norm{number}.", x)
        network = lambda x: self.network(scope + "feed_forward.", prefix, x)
        if self.options["norm"] == "pre":
            x = self.keep(scope + "residual1", plus(x, attend(norm(1, x))))
            return self.keep(scope + "output", plus(x, network(norm(2, x))))
        x = norm(1, self.keep(scope + "residual1", plus(x, attend(x))))
        return norm(2, self.keep(scope + "residual2", plus(x, network(x))))

    def encoder_layer(self):
        x = self.inputs["x"]
        self.layer("", "", x, self.mask(x.shape[-2], x.shape[-2]))

    def encoder(self):
        x = self.inputs["x"]
        mask = self.mask(x.shape[-2], x.shape[-2])
        for i in range(self.options["layers"]):
            x = self.layer(f"layers.{i}.", f"layers.{i}.", x, mask)
        if "norm.weight" in self.weights:
            self.norm_of("norm.", "norm.", x)

    def decoder_layer(self):
        x, memory = self.inputs["x"], self.inputs["memory"]
        n, m = x.shape[-2], memory.shape[-2]
        own, others = self.mask(n, n), self.mask(n, m, causal=False, lengths="memory_lengths", given=False)
        blocks = [
            lambda x: self.multi_head("self_attn.", "self_attn.", x, x, own),
            lambda x: self.multi_head("cross_attn.", "multihead_attn.", x, memory, others),
            lambda x: self.network("feed_forward.", "", x),
        ]
        is_pre = self.options["norm"] == "pre"
        for i, block in enumerate(blocks, 1):
            norm = lambda x: self.norm_of(f"norm{i}.", f"norm{i}.", x)
            total = x + block(norm(x) if is_pre else x)
            total = self.keep("output" if is_pre and i == 3 else f"residual{i}", total)
            x = total if is_pre else norm(total)

    def feed_forward(self):
        self.network("", "", self.inputs["x"])

    def layer_norm(self):
        self.norm_of("", "", self.inputs["x"])

    # ----------------------------------------------------------------------------------------------------- llama

    def root_norm(self, scope, x, gain):
        squares = self.mean(self.each(x**2))
        self.keep(scope + "mean_square", squares[..., 0])
        root = self.each(np.sqrt(self.each(squares + self.float(self.options["epsilon"]))))
        normalized = x * self.each(1 / root) if self.way.norm == "reciprocal root" else x / root
        return self.keep(scope + "output", self.keep(scope + "normalized", normalized) * gain)

    def silu(self, x):
        return x / self.each(1 + self.each(np.exp(-x))) if self.way.activation == "product" else x * self.each(self.sigmoid(x))

    def llama_layer(self, i, x, mask):
        scope, get = f"layers.{i}.", lambda name: self.weights[f"model.layers.{i}.{name}.weight"]
        normed = self.root_norm(scope + "norm1.", x, get("input_layernorm"))
        query, key, value = (self.keep(f"{scope}self_attn.{name}", self.linear(normed, get(f"self_attn.{name[0]}_proj")))
                             for name in ("query", "key", "value"))  # fmt: skip
        merged = self.heads_of(scope + "self_attn.", query, key, value, mask)
        attended = self.keep(scope + "self_attn.output", self.linear(merged, get("self_attn.o_proj")))
        x = self.keep(scope + "residual1", x + attended)
        normed = self.root_norm(scope + "norm2.", x, get("post_attention_layernorm"))
        inside = scope + "feed_forward."
        activated = self.keep(inside + "activated", self.silu(self.keep(inside + "gate", self.linear(normed, get("mlp.gate_proj")))))
        gated = self.keep(inside + "gated", activated * self.keep(inside + "up", self.linear(normed, get("mlp.up_proj"))))
        return self.keep(scope + "output", x + self.keep(inside + "output", self.linear(gated, get("mlp.down_proj"))))

    def llama(self):
        embedding = self.weights["model.embed_tokens.weight"]
        x = self.keep("embedded", embedding[self.inputs["ids"]])
        mask = self.mask(len(x), len(x))
        for i in range(self.options["layers"]):
            x = self.llama_layer(i, x, mask)
        x = self.root_norm("norm.", x, self.weights["model.norm.weight"])
        self.keep("logits", self.linear(x, self.weights.get("lm_head.weight", embedding)))

    # ------------------------------------------------------------------------------------------------- recurrent

    def sigmoid(self, x):
        if self.way.activation == "other":
            return self.float(0.5) * (1 + np.tanh(x / 2))
        return 1 / self.each(1 + self.each(np.exp(-x)))

    def cell(self, scope, parts, state):
        """The next state of a GRU, (hidden,), or an LSTM, (hidden, cell)."""
        into, recurrent = (np.split(part, part.shape[-1] // self.options["size"], axis=-1) for part in parts)
        keep = lambda name, x: self.keep(scope + name, x)
        if self.reference.module == "gru":
            reset = keep("reset", self.sigmoid(self.each(into[0] + recurrent[0])))
            update = keep("update", self.sigmoid(self.each(into[1] + recurrent[1])))
            candidate = keep("candidate", np.tanh(self.each(into[2] + self.each(reset * recurrent[2]))))
            (hidden,) = state
            if self.way.activation == "powers":
                return (keep("hidden", candidate + self.each(update * self.each(hidden - candidate))),)
            return (keep("hidden", self.each(self.each(1 - update) * candidate) + self.each(update * hidden)),)
        gates = [self.each(x + y) for x, y in zip(into, recurrent)]
        named = (("input_gate", 0), ("forget_gate", 1), ("output_gate", 3))
        entry, forget, output = (keep(name, self.sigmoid(gates[i])) for name, i in named)
        candidate = keep("candidate", np.tanh(gates[2]))
        cell = keep("cell", self.each(forget * state[1]) + self.each(entry * candidate))
        return keep("hidden", output * self.each(np.tanh(cell))), cell

    def recurrent_layer(self, i, x):
        """The hidden states of all tokens, and the last state."""
        scope, w = f"layers.{i}.forward.", lambda name: self.weights[f"{name}_l{i}"]
        names = ("initial_hidden",) if self.reference.module == "gru" else ("initial_hidden", "initial_cell")
        zeros = np.zeros((*x.shape[:-2], self.options["size"]), self.float)
        state = tuple(self.inputs[name][i] if name in self.inputs else zeros for name in names)
        lengths, hidden = self.inputs.get("lengths"), []
        at_once = self.linear(x, w("weight_ih"), w("bias_ih")) if self.way.packed else None
        for t in range(x.shape[-2]):
            step = f"{scope}step.{t}."
            into = at_once[..., t, :] if at_once is not None else self.vector(x[..., t, :], w("weight_ih"), w("bias_ih"))
            into = self.keep(step + "input_part", into)
            recurrent = self.keep(step + "recurrent_part", self.vector(state[0], w("weight_hh"), w("bias_hh")))
            new = self.cell(step, (into, recurrent), state)
            hidden.append(new[0])
            if lengths is not None:
                new = tuple(np.where(lengths[:, None] > t, one, old) for one, old in zip(new, state))
            state = new
        hidden = np.stack(hidden, axis=-2)
        if lengths is not None:
            hidden = np.where((np.arange(x.shape[-2]) < lengths[:, None])[:, :, None], hidden, self.float(0))
        return self.keep(scope + "output", hidden), state

    def vector(self, x, weights, bias):
        return self.linear(x[..., None, :], weights, bias)[..., 0, :]

    def recurrent(self):
        x, states = self.inputs["x"], []
        for i in range(self.options["layers"]):
            x, state = self.recurrent_layer(i, x)
            states.append(state)
        result = self.kept.pop()
        for number, name in enumerate(("final_hidden", "final_cell")[: len(states[0])]):
            self.keep(name, np.stack([state[number] for state in states]))
        self.kept.append(result)

    gru = lstm = recurrent


# ------------------------------------------------------------------------------------------------------ what is saved


def under_steps(kept, heads):
    """By the steps' names, one array per head."""
    arrays = {}
    for one in kept:
        if one.path.startswith(OWN):
            continue
        if one.has_heads:
            arrays |= {one.path.format(h=h): one.array[..., h, :, :] for h in range(heads)}
        else:
            arrays[one.path] = one.array
    return arrays


OWN_NAMES = {
    "queries": ["q", "qh", "xq"], "keys": ["k", "kh", "xk"], "values": ["v", "val", "xv"],
    "query": ["q_proj", "q_lin"], "key": ["k_proj", "k_lin"], "value": ["v_proj", "v_lin"],
    "scores": ["att", "dots", "qk"], "scaled": ["att_scaled", "sim", "att2"], "biased": ["att_b", "with_bias"],
    "masked": ["att_masked", "scores_m", "dots_m"], "weights": ["probs", "attn", "alpha", "p"], "context": ["ctx", "y", "z"],
    "merged": ["y_merged", "concat"], "output": ["out", "proj", "res"], "hidden": ["h", "fc1", "up"], "activated": ["act", "a"],
    "residual1": ["x1", "resid_mid"], "residual2": ["x2", "resid2"], "mean": ["mu"], "variance": ["var"], "normalized": ["xhat"],
}  # fmt: skip
# What many programs call them, which are other steps' names.
TAKEN_NAMES = {"queries": "query", "keys": "key", "values": "value", "scaled": "scores", "masked": "scores", "context": "output"}


def own_layout(draw, one):
    """The array with its axes as somebody has them."""
    array = one.array
    name = one.path.rsplit(".", 1)[-1]
    choices = ["same"]
    if one.has_heads and name in ("queries", "keys", "values", "context"):
        choices += ["tokens first", "merged"]
    if one.path.startswith(("layers.", "self_attn", "cross_attn")) or name in ("output", "query"):
        choices += ["one sequence"] * (array.ndim == (3 if one.has_heads else 2))
        choices += ["sequences second"] * (array.ndim == 3 and not one.has_heads)
    choice = draw.choice(choices)
    if choice == "tokens first":
        return np.swapaxes(array, -2, -3)
    if choice == "merged":
        array = np.swapaxes(array, -2, -3)
        return array.reshape(*array.shape[:-2], -1)
    if choice == "one sequence":
        return array[None]
    return np.swapaxes(array, 0, 1) if choice == "sequences second" else array


def under_own_names(draw, kept, taken=False):
    """By names of somebody's own, all heads in one array, axes in an order of their own.

    Where names are taken, some are those of other steps; an array that is assigned again is the last.
    """
    arrays = {}
    chosen = {word: draw.choice(names) for word, names in OWN_NAMES.items()}
    if taken:
        chosen |= {word: name for word, name in TAKEN_NAMES.items() if draw.random() < 0.5}
    for one in kept:
        *scopes, word = one.path.removeprefix(OWN).replace("head.{h}.", "").split(".")
        name = "_".join([*(scope for scope in scopes if scope != "forward"), chosen.get(word, word)])
        arrays[name] = own_layout(draw, one)
    return arrays
