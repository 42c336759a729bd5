"""Somebody's own attention, in plain NumPy, with one well-known mistake planted in its code.

It knows nothing of attn but what its steps are called: `Program(mistake).run(exhibit)` returns the arrays of one of the
exhibits of lesson 23, by those names. Without a mistake it is right. The golden of lesson 23 is made with it, and
diagnose.py lets attn find the mistakes.
"""

import numpy as np


class SplitMix:
    """Steele, Lea and Flood's SplitMix64; the top 24 bits of each output as a fraction in [-1, 1)."""

    def __init__(self, seed):
        self.state = np.uint64(seed)

    def __call__(self, *shape, scale=1.0):
        count = int(np.prod(shape))
        with np.errstate(over="ignore"):
            z = self.state + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
            self.state = z[-1]
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            z = z ^ (z >> np.uint64(31))
        return ((z >> np.uint64(40)).astype(float) / 2**23 - 1).reshape(shape) * scale


D, D_FF = 4, 6  # d_model of every exhibit


def drawn_weights():
    """The numbers of lesson 23, in its order."""
    numbers = SplitMix(12)
    drawn = {"x": numbers(4, D), "memory": numbers(5, D)}
    for name in ("query", "key", "value", "output"):
        drawn |= {f"{name}_weights": numbers(D, D), f"{name}_bias": numbers(D)}
    drawn |= {"up_weights": numbers(D, D_FF), "up_bias": numbers(D_FF), "down_weights": numbers(D_FF, D), "down_bias": numbers(D)}
    return drawn | {"gain1": numbers(D), "bias1": numbers(D), "gain2": numbers(D), "bias2": numbers(D)}


MISTAKES = """
    positions_exponent positions_from_one positions_cos_first positions_halves qkv_swapped weight_transposed
    heads_unpermuted_split heads_interleaved rotary_layout rotary_sign no_scale scale_d_model scale_d_k
    scale_inverse alibi_sign causal_strict causal_next causal_top_left mask_inverted mask_zero mask_finite
    mask_added mask_transposed mask_after_softmax softmax_axis softmax_all softmax_missing softmax_twice
    weights_transposed heads_unpermuted_merge output_map_missing residual_missing residual_after_norm
    norm_skipped norm_all_tokens norm_bessel norm_epsilon_outside norm_epsilon_value norm_no_affine
    relu_missing gelu_for_relu gelu_tanh
""".split()  # in the order of the computation
EXHIBITS = ("sines", "rotary", "alibi", "cached", "post", "pre")


def erf(x):
    from math import erf as of_one

    return np.vectorize(of_one)(x)


def softmax(x, axis=-1):
    exponentials = np.exp(x - x.max(axis=axis, keepdims=True))
    return exponentials / exponentials.sum(axis=axis, keepdims=True)


def as_float64(array):
    return np.array(array)


def as_float32(array):
    array = np.array(array)
    return array.astype(np.float32) if array.dtype == np.float64 else array


def as_bfloat16(array):
    """Rounded to nearest, ties to even, on the bits; NumPy has no such type, so it stays in float32."""
    array = as_float32(array)
    if array.dtype != np.float32:
        return array
    bits = array.view(np.uint32)
    rounded = ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)).view(np.float32)
    return np.where(np.isfinite(array), rounded, array)


class Program:
    """Computes in the type of what it is given and keeps: `kept` makes an array one of that type."""

    def __init__(self, mistake=None, kept=as_float64):
        self.mistake = mistake
        self.kept = kept
        self.arrays = {}
        self.w = {name: kept(array) for name, array in drawn_weights().items()}

    def keep(self, path, array):
        self.arrays[path] = self.kept(array)
        return self.arrays[path]

    def run(self, exhibit):
        with np.errstate(all="ignore"):
            getattr(self, exhibit)()
        return self.arrays

    # ------------------------------------------------------------------------------------------------- exhibits

    def sines(self):
        n, d, m = 5, 6, self.mistake
        pairs = np.arange(d // 2)
        exponent = 4 * pairs / d if m == "positions_exponent" else 2 * pairs / d
        frequencies = self.keep("sines.frequencies", 1 / 10000**exponent)
        first = 1 if m == "positions_from_one" else 0
        angles = self.keep("sines.angles", np.outer(np.arange(first, first + n), frequencies))
        table = np.zeros((n, d))
        sines, cosines = np.sin(angles), np.cos(angles)
        if m == "positions_cos_first":
            table[:, 0::2], table[:, 1::2] = cosines, sines
        elif m == "positions_halves":
            table[:, : d // 2], table[:, d // 2 :] = sines, cosines
        else:
            table[:, 0::2], table[:, 1::2] = sines, cosines
        self.keep("sines.positions", table)

    def rotary(self):
        self.multi_head("rotary.", self.w["x"], self.w["x"], heads=1, turned=True)

    def alibi(self):
        self.multi_head("alibi.", self.w["x"], self.w["x"], heads=2, slopes=(2**-4, 2**-8))

    def cached(self):
        newest = self.w["x"][:2]
        mask = self.causal("cached.", 2, 5)
        self.multi_head("cached.", newest, self.w["memory"], heads=1, mask=mask)

    def post(self):
        w, m = self.w, self.mistake
        x = w["x"]
        mask = self.causal("post.", 4, 4)
        attended = self.multi_head("post.self_attn.", x, x, heads=2, mask=mask)
        residual = self.keep("post.residual1", attended if m == "residual_missing" else x + attended)
        between = self.layer_norm("post.norm1.", residual, w["gain1"], w["bias1"])
        fed = self.feed_forward("post.feed_forward.", residual if m == "norm_skipped" else between, "relu")
        total = self.keep("post.residual2", between + fed)
        self.keep("post.output", self.layer_norm("post.norm2.", total, w["gain2"], w["bias2"]))

    def pre(self):
        w, m = self.w, self.mistake
        x = w["x"]
        first = self.layer_norm("pre.norm1.", x, w["gain1"], w["bias1"])
        attended = self.multi_head("pre.self_attn.", first, first, heads=2)
        through = first if m == "residual_after_norm" else x
        residual = self.keep("pre.residual1", attended if m == "residual_missing" else through + attended)
        second = self.layer_norm("pre.norm2.", residual, w["gain2"], w["bias2"])
        self.keep("pre.output", residual + self.feed_forward("pre.feed_forward.", second, "gelu"))

    # ---------------------------------------------------------------------------------------------------- parts

    def causal(self, scope, n, m):
        offset = {"causal_strict": -1, "causal_next": 1}.get(self.mistake, 0)
        start = 0 if self.mistake == "causal_top_left" else m - n
        mask = np.tril(np.ones((n, m), bool), start + offset)
        self.keep(f"{scope}causal", mask)
        return self.keep(f"{scope}mask", mask)

    def turn(self, scope, x):
        n, d = x.shape
        self.keep(f"{scope}x", x)
        frequencies = self.keep(f"{scope}frequencies", 10000.0 ** (-2 * np.arange(d // 2) / d))
        angles = self.keep(f"{scope}angles", np.outer(np.arange(n), frequencies))
        if self.mistake == "rotary_sign":
            angles = -angles
        cosines, sines = np.cos(angles), np.sin(angles)
        turned = np.empty_like(x)
        pair = (slice(0, d // 2), slice(d // 2, d)) if self.mistake == "rotary_layout" else (slice(0, d, 2), slice(1, d, 2))
        turned[:, pair[0]] = x[:, pair[0]] * cosines - x[:, pair[1]] * sines
        turned[:, pair[1]] = x[:, pair[0]] * sines + x[:, pair[1]] * cosines
        return self.keep(f"{scope}output", turned)

    def multi_head(self, scope, x, memory, heads, mask=None, turned=False, slopes=None):
        w, m = self.w, self.mistake
        self.keep(f"{scope}x", x)
        query_weights = w["query_weights"].T if m == "weight_transposed" else w["query_weights"]
        query = self.keep(f"{scope}query", x @ query_weights + w["query_bias"])
        key = self.keep(f"{scope}key", memory @ w["key_weights"] + w["key_bias"])
        role = "key" if m == "qkv_swapped" else "value"
        value = self.keep(f"{scope}value", memory @ w[f"{role}_weights"] + w[f"{role}_bias"])

        width = D // heads
        contexts = []
        for head in range(heads):
            inside = f"{scope}head.{head}."
            own = slice(head * width, (head + 1) * width)
            queries, keys, values = query[:, own], key[:, own], value[:, own]
            if m == "heads_unpermuted_split":
                queries = query.reshape(heads, len(query), width)[head]
            if m == "heads_interleaved":
                queries = query[:, head::heads]
            if turned:
                queries, keys = self.turn(f"{inside}rotary_query.", queries), self.turn(f"{inside}rotary_key.", keys)
            self.keep(f"{inside}queries", queries)
            self.keep(f"{inside}keys", keys)
            self.keep(f"{inside}values", values)
            bias = None
            if slopes is not None:
                distances = np.abs(np.subtract.outer(np.arange(len(queries)), np.arange(len(keys))))
                bias = self.keep(f"{inside}bias", (slopes[head] if m == "alibi_sign" else -slopes[head]) * distances)
            contexts.append(self.attend(inside, queries, keys, values, mask, bias, query.shape[1]))
        if m == "heads_unpermuted_merge":
            merged = np.array(contexts).reshape(len(x), heads * width)
        else:
            merged = np.concatenate(contexts, axis=1)
        self.keep(f"{scope}merged", merged)
        return self.keep(f"{scope}output", merged if m == "output_map_missing" else merged @ w["output_weights"] + w["output_bias"])

    def attend(self, scope, queries, keys, values, mask, bias, all_features):
        m, d_k = self.mistake, keys.shape[1]
        scores = self.keep(f"{scope}scores", queries @ keys.T)
        divisors = {"no_scale": 1, "scale_d_model": np.sqrt(all_features), "scale_d_k": d_k, "scale_inverse": 1 / np.sqrt(d_k)}
        scaled = self.keep(f"{scope}scaled", scores / divisors.get(m, np.sqrt(d_k)))
        if bias is not None:
            scaled = self.keep(f"{scope}biased", scaled + bias)
        allowed = scaled
        if mask is not None:
            allowed = np.where(mask, scaled, -np.inf)
            if m == "mask_inverted":
                allowed = np.where(~mask, scaled, -np.inf)
            elif m == "mask_zero":
                allowed = scaled * mask
            elif m == "mask_finite":
                allowed = np.where(mask, scaled, -1e4)
            elif m == "mask_added":
                allowed = scaled + mask
            elif m == "mask_transposed" and mask.shape[0] == mask.shape[1]:
                allowed = np.where(mask.T, scaled, -np.inf)
            self.keep(f"{scope}masked", allowed)
        weights = self.shares(allowed, scaled, mask)
        self.keep(f"{scope}weights", weights)
        mixing = weights.T if m == "weights_transposed" and weights.shape[0] == weights.shape[1] else weights
        return self.keep(f"{scope}context", mixing @ values)

    def shares(self, allowed, scaled, mask):
        m = self.mistake
        if m == "mask_after_softmax" and mask is not None:
            return softmax(scaled) * mask
        if m == "softmax_axis":
            return softmax(allowed, axis=0)
        if m == "softmax_all":
            return np.exp(allowed) / np.exp(allowed).sum()
        if m == "softmax_missing":
            return allowed
        weights = softmax(allowed)
        if mask is not None:
            weights = np.nan_to_num(weights)  # a query that can attend to nothing
        return softmax(weights) if m == "softmax_twice" else weights

    def layer_norm(self, scope, x, gain, bias):
        m, d = self.mistake, x.shape[1]
        self.keep(f"{scope}x", x)
        mean = self.keep(f"{scope}mean", np.full(len(x), x.mean()) if m == "norm_all_tokens" else x.mean(axis=1))
        squares = (x - mean[:, None]) ** 2
        variance = self.keep(f"{scope}variance", squares.sum(axis=1) / (d - 1 if m == "norm_bessel" else d))
        if m == "norm_epsilon_outside":
            normalized = (x - mean[:, None]) / (np.sqrt(variance) + 1e-5)[:, None]
        else:
            normalized = (x - mean[:, None]) / np.sqrt(variance + (1e-12 if m == "norm_epsilon_value" else 1e-5))[:, None]
        self.keep(f"{scope}normalized", normalized)
        return self.keep(f"{scope}output", normalized if m == "norm_no_affine" else normalized * gain + bias)

    def feed_forward(self, scope, x, activation):
        w, m = self.w, self.mistake
        self.keep(f"{scope}x", x)
        hidden = self.keep(f"{scope}hidden", x @ w["up_weights"] + w["up_bias"])
        relu = np.maximum(hidden, 0)
        gelu = 0.5 * hidden * (1 + erf(hidden / np.sqrt(2)))
        by_tanh = 0.5 * hidden * (1 + np.tanh(np.sqrt(2 / np.pi) * (hidden + 0.044715 * hidden**3)))
        bent = relu if activation == "relu" else gelu
        if activation == "relu" and m in ("relu_missing", "gelu_for_relu"):
            bent = hidden if m == "relu_missing" else gelu
        if activation == "gelu" and m == "gelu_tanh":
            bent = by_tanh
        self.keep(f"{scope}activated", bent)
        return self.keep(f"{scope}output", bent @ w["down_weights"] + w["down_bias"])


def first_difference(right, wrong):
    """The path of the first step that differs; None where none does. An x is another step under a further name."""
    for path, array in right.items():
        if path in wrong and not path.endswith(".x") and not np.array_equal(array, wrong[path], equal_nan=array.dtype != bool):
            return path
    return None


def planted(mistake, kept=as_float64):
    """The first exhibit that the mistake changes, and its arrays."""
    for exhibit in EXHIBITS:
        if first_difference(Program().run(exhibit), Program(mistake).run(exhibit)):
            return exhibit, Program(mistake, kept).run(exhibit)
    raise LookupError(mistake)
