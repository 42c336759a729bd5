"""Asks attn about programs that keep what they compute in layouts, orders and names of their own.

    python3 strangers.py ATTN

Each program is NumPy in float32: an encoder layer, a decoder layer, attention with a cache or an LSTM, written as other people write them. Heads are
folded into the batch or come after the tokens; queries, keys and values are packed in one array in any order; the scale
is part of the queries; forbidden scores are -inf, -1e9 or the smallest float32; one variable holds the scores before the
mask, after it, and the weights; a variable called `x` is something else on every line. Nothing is mapped to a step by hand.

Right programs have to be the same, without the name of a mistake. With a mistake in their code, the first wrong step and the
mistake's name have to be right, from all arrays and from the result alone.

A line a program. Exit code 0 where all is as it has to be, 1 where it isn't, 77 where there is no NumPy.
"""

import itertools
import json
import math
import re
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import numpy as np
except ImportError:
    print("strangers.py: skipped, there is no NumPy")
    sys.exit(77)

BATCH, TOKENS, MEMORY, HEADS, D_K, D_FF = 2, 5, 7, 3, 4, 20
D = HEADS * D_K
EPSILON = 1e-5

failures = []


def expect(condition, message):
    if not condition:
        failures.append(message)
        print(f"FAILED: {message}")


# ----------------------------------------------------------------------------------------------- what all programs do


def drawn(seed, *shape):
    return (np.random.default_rng(seed).standard_normal(shape) * 0.4).astype(np.float32)


def attention_weights(seed, prefix="self_attn."):
    return {f"{prefix}in_proj_weight": drawn(seed, 3 * D, D), f"{prefix}in_proj_bias": drawn(seed + 1, 3 * D),
            f"{prefix}out_proj.weight": drawn(seed + 2, D, D), f"{prefix}out_proj.bias": drawn(seed + 3, D)}  # fmt: skip


def layer_weights(norms):
    weights = {"linear1.weight": drawn(20, D_FF, D), "linear1.bias": drawn(21, D_FF)}
    weights |= {"linear2.weight": drawn(22, D, D_FF), "linear2.bias": drawn(23, D)}
    for i in range(1, norms + 1):
        weights |= {f"norm{i}.weight": 1 + drawn(30 + i, D), f"norm{i}.bias": drawn(40 + i, D)}
    return weights


WEIGHTS = attention_weights(10) | layer_weights(2)
X = drawn(1, BATCH, TOKENS, D) * 3


def erf(x):
    return np.vectorize(math.erf)(x).astype(np.float32)


def gelu(x, mistake):
    if mistake == "gelu_tanh":
        return np.float32(0.5) * x * (1 + np.tanh(np.float32(math.sqrt(2 / math.pi)) * (x + np.float32(0.044715) * x**3)))
    if mistake == "quick_gelu":
        return x / (1 + np.exp(np.float32(-1.702) * x))
    return np.float32(0.5) * x * (1 + erf(x / np.float32(math.sqrt(2))))


def softmax(scores, mistake=None):
    of_heads = 1 if scores.ndim == 4 else 0  # the axis that PyTorch takes where none is given
    axis = {"softmax_axis": -2, "softmax_heads": of_heads, "softmax_heads: and keys": (1, 3),
            "softmax_all: heads, queries, keys": (1, 2, 3)}.get(mistake, -1)  # fmt: skip
    exponentials = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return exponentials / exponentials.sum(axis=axis, keepdims=True)


def scale(mistake):
    width = {"scale_d_model": math.sqrt(D), "scale_d_k": D_K, "no_scale": 1}.get(mistake, math.sqrt(D_K))
    return np.float32(1 / width)


def allowed(mistake, tokens=TOKENS):
    return np.tril(np.ones((tokens, tokens), bool), k={"causal_next": 1, "mask_missing": tokens}.get(mistake, 0))


def norm(x, weights, name, mistake):
    mean = x.mean(axis=-1, keepdims=True)
    variance = x.var(axis=-1, keepdims=True, ddof=1 if mistake == "norm_bessel" else 0)
    return (x - mean) / np.sqrt(variance + np.float32(EPSILON)) * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def linear(x, weights, name):
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def projection(x, weights, which, prefix="self_attn."):
    """Queries, keys or values of all heads: which is 0, 1 or 2."""
    rows = slice(which * D, (which + 1) * D)
    return x @ weights[f"{prefix}in_proj_weight"][rows].T + weights[f"{prefix}in_proj_bias"][rows]


def heads_of(x):
    """(b, n, d_model) to (b, h, n, d_k)"""
    return x.reshape(BATCH, -1, HEADS, D_K).swapaxes(1, 2)


def merged(x, mistake):
    """(b, h, n, d_k) to (b, n, d_model)"""
    if mistake == "heads_unpermuted_merge: heads first":  # (h, b, n, d_k) taken for (b, h, n, d_k)
        x = x.swapaxes(0, 1)
    if mistake == "heads_unpermuted_merge: read as heads first":
        return x.reshape(HEADS, BATCH, -1, D_K).transpose(1, 2, 0, 3).reshape(BATCH, -1, D)
    return (x if mistake == "heads_unpermuted_merge" else x.swapaxes(1, 2)).reshape(BATCH, -1, D)


class Kept(dict):
    """Arrays under the names of a program's variables, in order; a variable that is assigned again is NAME_2, NAME_3."""

    def __call__(self, name, array):
        candidates = itertools.chain([name], (f"{name}_{i}" for i in itertools.count(2)))
        fresh = next(candidate for candidate in candidates if candidate not in self)
        self[fresh] = np.array(array, dtype=array.dtype if array.dtype.kind in "bi" else np.float32)
        return array


def rest_of_layer(keep, x, attended, mistake, names):
    """What follows attention in a post-norm layer, kept under `names`."""
    first, normed, hidden, back, second, out = names
    h = keep(first, x + attended)
    a = keep(normed, norm(h, WEIGHTS, "norm1", mistake))
    f = keep(hidden, gelu(linear(a, WEIGHTS, "linear1"), mistake))
    o = keep(back, linear(f, WEIGHTS, "linear2"))
    y = keep(second, (x if mistake == "residual_stale" else a) + o)
    keep(out, norm(y, WEIGHTS, "norm2", mistake))


# --------------------------------------------------------------------------------------------------------- encoder layers


def folded(keep, mistake):
    """Heads are folded into the batch, and the scale is shared between queries and keys."""
    fold = lambda x: heads_of(x).reshape(BATCH * HEADS, -1, D_K)
    keys = keep("keys", projection(X, WEIGHTS, 1))
    queries = keep("queries", projection(X, WEIGHTS, 0))
    values = keep("values", projection(X, WEIGHTS, 2))
    keys, queries, values = keep("keys", fold(keys)), keep("queries", fold(queries)), keep("values", fold(values))
    root = np.sqrt(scale(mistake))
    queries, keys = keep("queries", queries * root), keep("keys", keys * root)
    dot = keep("dot", queries @ keys.swapaxes(1, 2))
    dot = keep("dot", np.where(allowed(mistake), dot, np.float32(-1e4 if mistake == "softmax_heads" else -np.inf)))
    dot = keep("dot", softmax(dot, mistake))
    out = keep("out", (dot @ values).reshape(BATCH, HEADS, TOKENS, D_K))
    out = keep("out", merged(out, mistake))
    attended = keep("attended", linear(out, WEIGHTS, "self_attn.out_proj"))
    rest_of_layer(keep, X, attended, mistake, ["x", "x", "fedforward", "fedforward", "x", "result"])


def sequence_first(keep, mistake):
    """Tokens come before the sequences of the batch, all along, and -inf is added."""
    query = keep("query", X.swapaxes(0, 1))
    q = keep("q", projection(query, WEIGHTS, 0) * scale(mistake))
    k, v = keep("k", projection(query, WEIGHTS, 1)), keep("v", projection(query, WEIGHTS, 2))
    fold = lambda x: x.reshape(TOKENS, BATCH * HEADS, D_K).swapaxes(0, 1)
    if mistake == "heads_unpermuted_split: no transpose":
        fold = lambda x: x.reshape(BATCH * HEADS, TOKENS, D_K)
    q, k, v = keep("q", fold(q)), keep("k", fold(k)), keep("v", fold(v))
    attn_weights = keep("attn_weights", q @ k.swapaxes(1, 2))
    attn_mask = keep("attn_mask", np.where(allowed(mistake), np.float32(0), np.float32(-np.inf)))
    attn_weights = keep("attn_weights", attn_weights + attn_mask)
    attn_probs = keep("attn_probs", softmax(attn_weights, mistake))
    attn = keep("attn", attn_probs @ v)
    swapped = attn if mistake == "heads_unpermuted_merge: no transpose" else attn.swapaxes(0, 1)
    attn = keep("attn", swapped.reshape(TOKENS, BATCH, D))
    attn = keep("attn", linear(attn, WEIGHTS, "self_attn.out_proj"))
    rest_of_layer(keep, query, attn, mistake, ["x", "residual", "x", "x", "x", "x"])


def packed_by_head(keep, mistake):
    """One array has each head's query, key and value beside each other; the mask fills in -1e9; tokens come first."""
    x = keep("hidden_states", X.swapaxes(0, 1))
    by_head = lambda w: w.reshape(3, HEADS, D_K, -1).swapaxes(0, 1).reshape(3 * D, -1)
    weight = by_head(WEIGHTS["self_attn.in_proj_weight"])
    mixed = keep("mixed_x_layer", x @ weight.T + by_head(WEIGHTS["self_attn.in_proj_bias"])[:, 0])
    if mistake == "qkv_packed_by_head":
        parts = [part.reshape(TOKENS, BATCH, HEADS, D_K) for part in np.split(mixed, 3, axis=-1)]
    else:
        parts = np.split(mixed.reshape(TOKENS, BATCH, HEADS, 3 * D_K), 3, axis=-1)
    query_layer = keep("query_layer", parts[0])
    key_layer = keep("key_layer", parts[1])
    value_layer = keep("value_layer", parts[2])
    swap = lambda x: x.transpose(1, 2, 0, 3)
    scores = keep("attention_scores", swap(query_layer) @ swap(key_layer).swapaxes(-1, -2) * scale(mistake))
    scores = keep("attention_scores", np.where(allowed(mistake)[None, None], scores, np.float32(-1e9)))
    probs = keep("attention_probs", softmax(scores, mistake))
    context_layer = keep("context_layer", probs @ swap(value_layer))
    context_layer = keep("context_layer", merged(context_layer, mistake).swapaxes(0, 1))
    dense = keep("dense", linear(context_layer, WEIGHTS, "self_attn.out_proj"))
    names = ["layernorm_input", "layernorm_output", "intermediate", "mlp_output", "layernorm_input", "layer_output"]
    rest_of_layer(keep, x, dense, mistake, names)


def packed(order):
    """Queries, keys and values in one array, in some order; keys are transposed when split; the smallest number is added."""

    def program(keep, mistake):
        which = ["qkv".index(letter) for letter in order]
        c_attn = keep("c_attn", np.concatenate([projection(X, WEIGHTS, i) for i in which], axis=-1))
        parts = dict(zip(order, np.split(c_attn, 3, axis=-1)))
        q, k, v = (parts[letter] for letter in ("kqv" if mistake == "qkv_swapped" else "qkv"))
        q, v = keep("q", heads_of(q)), keep("v", heads_of(v))
        k = keep("k", heads_of(k).swapaxes(-1, -2))
        att = keep("att", q @ k)
        att = keep("att", att * scale(mistake))
        att = keep("att", att + np.where(allowed(mistake), np.float32(0), np.finfo(np.float32).min))
        att = keep("att", softmax(att, mistake))
        y = keep("y", att @ v)
        y = keep("y", merged(y, mistake))
        y = keep("y", linear(y, WEIGHTS, "self_attn.out_proj"))
        rest_of_layer(keep, X, y, mistake, ["x", "x", "a", "m", "x", "x"])

    program.__name__ = f"packed_{order}"
    return program


def heads_after_tokens(keep, mistake):
    """(b, n, h, d_k), under names that are steps of the reference with another shape."""
    kernel = lambda i: WEIGHTS["self_attn.in_proj_weight"][i * D : (i + 1) * D].T.reshape(D, HEADS, D_K)
    bias = lambda i: WEIGHTS["self_attn.in_proj_bias"][i * D : (i + 1) * D].reshape(HEADS, D_K)
    dense = lambda i: np.einsum("bnd,dhk->bnhk", X, kernel(i)) + bias(i)
    query, key, value = keep("query", dense(0)), keep("key", dense(1)), keep("value", dense(2))
    query = keep("query", query * scale(mistake))
    scores = keep("scores", np.einsum("bnhk,bmhk->bhnm", query, key))
    mask = keep("mask", allowed(mistake)[None, None])
    scores = keep("scores", np.where(mask, scores, np.finfo(np.float32).min))
    weights = keep("weights", softmax(scores, mistake))
    x = keep("x", np.einsum("bhnm,bmhk->bnhk", weights, value))
    out = merged(x.swapaxes(1, 2), mistake)
    out = keep("output", linear(out, WEIGHTS, "self_attn.out_proj"))
    rest_of_layer(keep, X, out, mistake, ["add", "layer_norm", "dense", "dense", "add", "outputs"])


def copies(keep, mistake):
    """Everything is kept: what dropout returns, residuals, the parts of softmax and of the norms; `x` is reused."""
    inputs = keep("inputs", X)
    residual = keep("residual", X)
    x = keep("q", heads_of(projection(inputs, WEIGHTS, 0)))
    k, v = keep("k", heads_of(projection(inputs, WEIGHTS, 1))), keep("v", heads_of(projection(inputs, WEIGHTS, 2)))
    x = keep("x", x @ k.swapaxes(-1, -2) * scale(mistake))
    x = keep("x", np.where(allowed(mistake), x, np.float32(-np.inf)))
    exp_x = keep("exp_x", np.exp(x - x.max(axis=-1, keepdims=True)))
    x = keep("x", exp_x / exp_x.sum(axis=-1, keepdims=True) if mistake != "softmax_axis" else softmax(x, mistake))
    x = keep("dropped", x)
    x = keep("x", x @ v)
    x = keep("x", linear(merged(x, mistake), WEIGHTS, "self_attn.out_proj"))
    x = keep("dropped", x)
    x = keep("x", x + residual)
    mean = keep("mean", x.mean(axis=-1, keepdims=True))
    var = keep("var", x.var(axis=-1, keepdims=True, ddof=1 if mistake == "norm_bessel" else 0))
    rstd = keep("rstd", 1 / np.sqrt(var + np.float32(EPSILON)))
    x = keep("x", (x - mean) * rstd * WEIGHTS["norm1.weight"] + WEIGHTS["norm1.bias"])
    residual = keep("residual", inputs if mistake == "residual_stale" else x)
    x = keep("hidden", linear(x, WEIGHTS, "linear1"))
    x = keep("x", gelu(x, mistake))
    x = keep("x", linear(x, WEIGHTS, "linear2"))
    x = keep("dropped", x)
    keep("x", norm(x + residual, WEIGHTS, "norm2", mistake))


def loops(keep, mistake):
    """As in C: nothing is written where the mask hides, and the norms keep their mean and one over the deviation."""
    qkv = keep("qkv", np.concatenate([projection(X, WEIGHTS, i) for i in range(3)], axis=-1))
    q, k, v = (heads_of(part) for part in np.split(qkv, 3, axis=-1))
    if mistake == "qkv_swapped":
        k, v = v, k
    seen = allowed(mistake)
    scores = q @ k.swapaxes(-1, -2) * scale(mistake)
    keep("preatt", np.where(seen, scores, np.float32(0)))
    att = keep("att", softmax(np.where(seen, scores, np.float32(-np.inf)), mistake))
    atty = keep("atty", merged(att @ v, mistake))
    attproj = keep("attproj", linear(atty, WEIGHTS, "self_attn.out_proj"))
    residual2 = keep("residual2", X + attproj)
    mean = keep("ln2_mean", residual2.mean(axis=-1))
    rstd = keep("ln2_rstd", 1 / np.sqrt(residual2.var(axis=-1) + np.float32(EPSILON)))
    ln2 = keep("ln2", (residual2 - mean[..., None]) * rstd[..., None] * WEIGHTS["norm1.weight"] + WEIGHTS["norm1.bias"])
    fch = keep("fch", linear(ln2, WEIGHTS, "linear1"))
    fcproj = keep("fcproj", linear(keep("fch_gelu", gelu(fch, mistake)), WEIGHTS, "linear2"))
    residual3 = keep("residual3", (X if mistake == "residual_stale" else ln2) + fcproj)
    keep("lnf", norm(residual3, WEIGHTS, "norm2", mistake))


def list_of_heads(keep, mistake):
    """One sequence, each head by itself in the same three variables, and 1e10 subtracted where the mask hides."""
    x = keep("x", X[0])
    q, k, v = (keep("x", projection(x, WEIGHTS, i)) for i in range(3))
    mask = keep("causal_mask", (1 - allowed(mistake).astype(np.float32)) * np.float32(-1e10))
    heads = []
    for columns in (slice(i * D_K, (i + 1) * D_K) for i in range(HEADS)):
        first, second = (k, q) if mistake == "qkv_swapped" else (q, k)
        scores = keep("x", first[:, columns] @ second[:, columns].T * scale(mistake) + mask)
        exp_x = keep("exp_x", np.exp(scores - scores.max(axis=-1, keepdims=True)))
        heads.append(keep("out_heads", exp_x / exp_x.sum(axis=-1, keepdims=True) @ v[:, columns]))
    out = keep("x", linear(keep("x", np.hstack(heads)), WEIGHTS, "self_attn.out_proj"))
    rest_of_layer(keep, x, out, mistake, ["x", "x", "a", "x", "x", "x"])


HEAD = r"self_attn\.head\.\d\."
STEPS = {  # where each mistake is made
    "scale_d_model": HEAD + "(queries|scaled)",
    "scale_d_k": HEAD + "(queries|scaled)",
    "no_scale": HEAD + "(queries|scaled)",
    "causal_next": HEAD + "(masked|weights)|causal",
    "mask_missing": HEAD + "(masked|weights)|causal",
    "softmax_axis": HEAD + "weights",
    "softmax_heads": HEAD + "weights",
    "softmax_all": HEAD + "weights",
    "heads_unpermuted_split": HEAD + "(queries|keys|values)",
    "heads_unpermuted_merge": r"self_attn\.merged",
    "qkv_swapped": r"self_attn\.(query|key|value)|" + HEAD + "(queries|keys|values|scores|scaled)",
    "qkv_packed_by_head": r"self_attn\.(query|key|value)|" + HEAD + "(queries|keys|values)",
    "residual_stale": r"residual2",
    "norm_bessel": r"norm1\.variance",
    "gelu_tanh": r"feed_forward\.activated",
    "quick_gelu": r"feed_forward\.activated",
}
LAYERS = {  # a program, and the mistakes that it is tried with; after a colon, in which form
    folded: ["scale_d_model", "softmax_axis", "softmax_heads", "norm_bessel"],
    sequence_first: ["no_scale", "mask_missing", "residual_stale", "heads_unpermuted_split: no transpose",
                     "heads_unpermuted_merge: no transpose"],
    packed_by_head: ["qkv_packed_by_head", "heads_unpermuted_merge", "quick_gelu", "softmax_heads"],
    packed("kqv"): ["qkv_swapped", "causal_next", "gelu_tanh", "softmax_heads: and keys"],
    packed("vqk"): ["scale_d_k", "residual_stale", "softmax_all: heads, queries, keys",
                    "heads_unpermuted_merge: read as heads first"],
    heads_after_tokens: ["scale_d_model", "heads_unpermuted_merge", "heads_unpermuted_merge: heads first", "gelu_tanh",
                         "softmax_heads"],
    copies: ["mask_missing", "heads_unpermuted_merge", "norm_bessel", "residual_stale"],
    loops: ["qkv_swapped", "scale_d_model", "causal_next", "quick_gelu", "residual_stale"],
}


# ----------------------------------------------------------------------------------------- a decoder layer and an LSTM

DECODER_WEIGHTS = attention_weights(10) | attention_weights(50, "multihead_attn.") | layer_weights(3)
REAL = np.array([6, 4])  # tokens of each memory
MEMORIES = drawn(2, BATCH, MEMORY, D) * 2


def decoder(keep, mistake):
    """A decoder layer of three methods, with -1e9 for what is forbidden, and one pair of names for both attentions."""
    w = DECODER_WEIGHTS
    enc = keep("enc_output", MEMORIES)
    src_mask = keep("src_mask", np.arange(MEMORY) < REAL[:, None, None])

    def attention(q, kv, mask, prefix):
        split = lambda x, i: heads_of(projection(x, w, i, prefix))
        q, k, v = keep("q", split(q, 0)), keep("k", split(kv, 1)), keep("v", split(kv, 2))
        attn = keep("attn", q * np.float32(1 / math.sqrt(D_K)) @ k.swapaxes(-1, -2))
        attn = keep("attn", np.where(mask[:, None], attn, np.float32(-1e9)))
        attn = keep("attn", softmax(attn))
        output = keep("output", merged(attn @ v, None))
        return keep("q", linear(output, w, f"{prefix}out_proj"))

    q = attention(X, X, allowed(None)[None], "self_attn.")
    dec = keep("dec_output", norm(q + X, w, "norm1", mistake))
    mask = np.ones((1, 1, MEMORY), bool) if mistake == "mask_missing" else src_mask
    q = attention(dec, enc, mask, "self_attn." if mistake == "cross_shared_weights" else "multihead_attn.")
    dec = keep("dec_output", norm(q + dec, w, "norm2", mistake))
    x = keep("x", linear(np.maximum(linear(dec, w, "linear1"), 0), w, "linear2"))
    keep("dec_output", norm(x + dec, w, "norm2" if mistake == "norms_swapped" else "norm3", mistake))


DECODER_STEPS = {
    "mask_missing": r"memory_masking\.mask|cross_attn\.(mask|head\.\d\.(masked|weights))",
    "cross_shared_weights": r"cross_attn\.(query|key|value|head\.\d\.(queries|keys|values))",
    "norms_swapped": r"norm3\..*",
}

PAST, NEW = 5, 2
CACHED_WEIGHTS = attention_weights(70, "")
CACHED_X = drawn(4, BATCH, NEW, D) * 3
CACHED = {f"past_{what}": drawn(5 + i, BATCH, HEADS, PAST, D_K) for i, what in enumerate(("keys", "values"))}


def written(past, new, mistake):
    """A buffer of past tokens that has room for the new ones, with these at their place."""
    buffer = np.concatenate([past, np.zeros_like(new)], axis=2)
    if mistake == "cache_lost":
        buffer = np.zeros_like(buffer)
    if mistake == "cache_overwritten: the place never moves on":  # two of the past tokens were written there before
        buffer[:, :, 3:] = 0
    place = {"cache_overwritten: from the start": 0, "cache_overwritten: one too early": PAST - 1,
             "cache_overwritten: the place never moves on": 3, "cache_overwritten: one too late": PAST + 1}.get(mistake, PAST)  # fmt: skip
    count = min(NEW, PAST + NEW - place)
    buffer[:, :, place : place + count] = new[:, :, :count]
    if mistake == "cache_overwritten: views of one variable":
        buffer[:] = new[:, :, -1:]
    return buffer


def cached(keep, mistake):
    """New tokens attend to those in a cache, and to each other."""
    q, xk, xv = (keep(name, heads_of(projection(CACHED_X, CACHED_WEIGHTS, i, ""))) for i, name in enumerate(("q", "xk", "xv")))
    past = CACHED["past_values" if mistake == "cache_shared" else "past_keys"]  # one buffer, which values are written to last
    cache_k, cache_v = keep("cache_k", written(past, xk, mistake)), keep("cache_v", written(CACHED["past_values"], xv, mistake))
    att = keep("att", q @ cache_k.swapaxes(-1, -2) * scale(mistake))
    att = keep("att", np.where(np.tril(np.ones((NEW, PAST + NEW), bool), k=PAST), att, np.float32(-np.inf)))
    y = keep("y", merged(keep("att", softmax(att)) @ cache_v, mistake))
    keep("out", linear(y, CACHED_WEIGHTS, "out_proj"))


OF_CACHE = r"head\.\d\.(keys|values)"
CACHE_STEPS = {
    "cache_overwritten: from the start": OF_CACHE,
    "cache_overwritten: one too early": OF_CACHE,
    "cache_overwritten: one too late": OF_CACHE,
    "cache_overwritten: the place never moves on": OF_CACHE,
    "cache_overwritten: views of one variable": OF_CACHE,
    "cache_lost": OF_CACHE,
    "cache_shared": OF_CACHE,
}

CELLS, INPUTS = 6, 4
CELL_X = drawn(3, BATCH, TOKENS, INPUTS)
CELL_WEIGHTS = {"weight_ih_l0": drawn(60, 4 * CELLS, INPUTS), "weight_hh_l0": drawn(61, 4 * CELLS, CELLS),
                "bias_ih_l0": drawn(62, 4 * CELLS), "bias_hh_l0": np.zeros(4 * CELLS, np.float32)}  # fmt: skip
GATES = {"gates_order": r".*\.(input|forget)_gate"}


def cell(keep, mistake):
    """One matrix for the input beside the state, and for each gate what goes into the sigmoid, under one name."""
    sigmoid = lambda z: 1 / (1 + np.exp(-keep("z", z)))
    both = np.concatenate([CELL_WEIGHTS["weight_ih_l0"], CELL_WEIGHTS["weight_hh_l0"]], axis=1)
    hidden, state, outputs = np.zeros((BATCH, CELLS), np.float32), np.zeros((BATCH, CELLS), np.float32), []
    for t in range(TOKENS):
        stacked = keep("Zt", np.concatenate([CELL_X[:, t], hidden], axis=1))
        update, forget, candidate, output = np.split(stacked @ both.T + CELL_WEIGHTS["bias_ih_l0"], 4, axis=1)
        if mistake == "gates_order":
            update, forget = forget, update
        forget, update, output = keep("Gft", sigmoid(forget)), keep("Gut", sigmoid(update)), keep("Got", sigmoid(output))
        state = keep("Ct", forget * state + update * keep("Cct", np.tanh(candidate)))
        hidden = keep("At", output * np.tanh(state))
        outputs.append(hidden)
    keep("A", np.stack(outputs, axis=1))


# ---------------------------------------------------------------------------------------------------------------- attn


class Reference:
    """The trace of a module of attn, and what attn diff says of arrays."""

    def __init__(self, attn, folder, module, inputs, weights, *flags):
        self.attn, self.folder, self.path = attn, Path(folder), Path(folder) / f"{module}.npz"
        np.savez(self.folder / "inputs.npz", **inputs)
        np.savez(self.folder / "weights.npz", **weights)
        self.call(0, "run", module, "--input", self.folder / "inputs.npz", "--weights", self.folder / "weights.npz",
                  "--quiet", "--trace", self.path, *flags)  # fmt: skip

    def call(self, code, *words):
        run = subprocess.run([str(word) for word in (self.attn, *words)], capture_output=True, text=True)
        if run.returncode > code or run.stderr:
            raise SystemExit(f"{words}: exit code {run.returncode}\n{run.stdout}{run.stderr}")
        return run.stdout

    def diff(self, arrays):
        np.savez(self.folder / "mine.npz", **arrays)
        return json.loads(self.call(1, "diff", self.path, self.folder / "mine.npz", "--diagnose", "--json"))

    def check_right(self, program, what, arrays):
        found = self.diff(arrays)
        names = [match["id"] for match in found["looks_like"]]
        what = f"{program.__name__}, right, {what}: {found['first_wrong'] or 'the same'}, {', '.join(names) or 'no mistake'}"
        print(what)
        expect(found["same"] and not names, what)

    def check_wrong(self, program, mistake, step, what, arrays):
        """@param step what the first wrong step has to match, or the mistake's own step where that was not kept"""
        found = self.diff(arrays)
        names = [match["id"] for match in found["looks_like"]]
        what = f"{program.__name__}, {mistake}, {what}: {found['first_wrong']}, {', '.join(names) or 'nothing known'}"
        print(what)
        expect(not found["same"] and mistake.split(":")[0] in names[:1], what)
        steps = [found["first_wrong"] or "", *(found["looks_like"][0]["steps"] if names else [])]
        expect(any(re.fullmatch(step, made) for made in steps), f"{what}; the step is {step}")

    def check(self, program, steps):
        """Right, and with each mistake; from all arrays, and from the result alone."""
        for mistake in (None, *steps):
            arrays = Kept()
            program(arrays, mistake)
            last = list(arrays)[-1]
            for what, kept in (("all arrays", arrays), ("the result", {last: arrays[last]})):
                if mistake is None:
                    self.check_right(program, what, kept)
                else:
                    self.check_wrong(program, mistake, steps[mistake], what, kept)


def main(arguments):
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        layer = Reference(arguments[0], folder, "encoder-layer", {"x": X}, WEIGHTS,
                          "--heads", HEADS, "--mask", "causal", "--activation", "gelu")  # fmt: skip
        for program, mistakes in LAYERS.items():
            layer.check(program, {mistake: STEPS[mistake.split(":")[0]] for mistake in mistakes})
        Reference(arguments[0], folder, "encoder-layer", {"x": X[0]}, WEIGHTS, "--heads", HEADS, "--mask", "causal",
                  "--activation", "gelu").check(list_of_heads, {m: STEPS[m] for m in ("qkv_swapped", "no_scale", "gelu_tanh")})  # fmt: skip
        Reference(arguments[0], folder, "decoder-layer", {"x": X, "memory": MEMORIES, "memory_lengths": REAL},
                  DECODER_WEIGHTS, "--heads", HEADS, "--mask", "causal").check(decoder, DECODER_STEPS)  # fmt: skip
        Reference(arguments[0], folder, "multi-head-attention", {"x": CACHED_X, **CACHED}, CACHED_WEIGHTS,
                  "--heads", HEADS, "--mask", "causal").check(cached, CACHE_STEPS)  # fmt: skip
        Reference(arguments[0], folder, "lstm", {"x": CELL_X}, CELL_WEIGHTS).check(cell, GATES)
    print(f"{len(failures)} failures" if failures else "all as it has to be")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
