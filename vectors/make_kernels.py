#!/usr/bin/env python3
"""Makes vectors/kernels, the contracts of kernels: make_kernels.py FOLDER [SEED]

Needs NumPy alone. The plan is below: sizes, layouts, parameters. Inputs are whole sixteenths by a rule. Of the right result, in float64,
some numbers are kept, and sums of all, with signs by the rule; how far another can be off is measured, by type, from right kernels: in
tiles of different sizes, with sums in float32, and with weights that are rounded to the type or are not. Of each mistake, in each of its
forms and with each size of tiles that changes the result, eight numbers are kept.
"""

import json
import math
import os
import sys
from itertools import count
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # the order of sums, too, is the same each time

import numpy as np  # noqa: E402

from kernel_mistakes import ABOUT, NOTES  # noqa: E402

TILES = (16, 32, 64, 128, 256)
UNITS = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}  # the largest error of a rounding
KEPT_SUMS, KEPT_PLACES, FINGERS = 96, 32, 8
# By that much the largest error of these kernels. Of 33 others (PyTorch, JAX, ONNX Runtime, loops) 5,005 results were at most 3.8 times as far
# off in float32, and 2.2 times in the short types: they add in other orders, and round weights that are divided already.
ROOM = {"float64": 4, "float32": 4, "float16": 2.4, "bfloat16": 2.4}
CAUGHT = 100    # a mistake is kept where it is off by so many times the tolerance of float32


# The rule.
def rule_bits(seed, size):
    with np.errstate(over="ignore"):
        x = np.arange(size, dtype=np.uint32) * np.uint32(0x9E3779B1) + np.uint32(seed * 0x85EBCA6B & 0xFFFFFFFF)
        x ^= x >> np.uint32(16)
        x *= np.uint32(0x7FEB352D)
        x ^= x >> np.uint32(15)
        x *= np.uint32(0x846CA68B)
        return x ^ (x >> np.uint32(16))


def by_rule(seed, shape):
    return ((rule_bits(seed, math.prod(shape)) % np.uint32(65)).astype(float) - 32).reshape(shape) / 16


def signs(size):
    return 1.0 - 2.0 * (rule_bits(0, size) & np.uint32(1))


# Rounding.
def rounded(x, kind):
    if kind == "bfloat16":
        bits = np.asarray(x, np.float32).view(np.uint32)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32)
    return np.asarray(x, kind).astype(np.float64 if kind == "float64" else np.float32)


# One sequence: what a layout comes down to.
class Sequence:
    """queries (h, n, d), keys (g, m, d), values (g, m, e); positions of queries and keys, which are negative where there is no key."""

    def __init__(self, queries, keys, values, beyond=None, key_positions=None, last=None, grad=None):
        self.q, self.k, self.v, self.beyond, self.grad = queries, keys, values, beyond, grad
        self.n, self.m = queries.shape[1], keys.shape[1]
        self.kpos = np.arange(self.m) if key_positions is None else key_positions
        self.qpos = np.arange(self.n) + (self.m if last is None else last) - self.n
        self.bias = self.sinks = None

    def changed(self, **others):
        other = object.__new__(Sequence)
        other.__dict__ = {**self.__dict__, **others}
        other.n, other.m = other.q.shape[1], other.k.shape[1]
        return other


def heads_of(sequence, mistake):
    h, g = sequence.q.shape[0], sequence.k.shape[0]
    return np.arange(h) % g if mistake == "group_by_remainder" else np.arange(h) // (h // g)


def visible(one, options, mistake="", form="", tile=0):
    """Which query sees which key."""
    kpos, qpos, n, m = one.kpos[None, :], one.qpos[:, None], one.n, one.m
    causal, left = options.get("causal") is not None, options.get("left_window")
    if mistake == "causal_top_left":
        qpos = np.arange(n)[:, None]
    see = np.broadcast_to(kpos >= 0, (n, m))
    later = {"causal_strict": -1, "causal_next": 1}.get(mistake, 0)
    if causal and mistake != "causal_missing":
        see = see & (kpos <= qpos + later)
    if left is not None and mistake != "window_missing":
        see = see & (kpos >= qpos - left - {"one more": 1, "one less": -1}.get(form, 0))
    if not tile:
        return see
    i, j = np.arange(n)[:, None], np.arange(m)[None, :]
    begin, end = i // tile * tile, np.minimum(i // tile * tile + tile, n)  # of the tile of queries
    last = end - 1 + one.qpos[0]                                           # the last key that one of its queries sees
    within = (kpos >= qpos - left) if left is not None else True
    if mistake == "causal_border_of_tile" and causal:
        diagonal = last // tile
        if form == "last tile lost":
            see = see & (j // tile < diagonal)
        elif form == "number of tiles rounded down":
            see = see & (j // tile < (last + 1) // tile)
        elif form == "only the last tile masked":
            see = see | ((j // tile < diagonal) & (kpos >= 0) & within)
        elif form == "last tile not masked":
            see = see | ((j // tile == diagonal) & (kpos >= 0) & within)
        elif form == "by the places in the tile":
            see = np.where(j // tile == diagonal, (j % tile <= i % tile) & within, see)
        elif form == "strict in the last tile":
            see = see & ((j // tile != diagonal) | (kpos < qpos))
    if mistake == "window_at_tile_border" and left is not None:
        first = begin + one.qpos[0] - left                                 # the first key that the first of its queries sees
        early = (kpos <= qpos) if causal else True
        if form == "first tile not masked":
            see = see | ((j // tile == np.maximum(first, 0) // tile) & early & (kpos >= 0))
        elif form == "begins at the next tile":
            see = see & (j >= -(-first // tile) * tile)
        elif form == "begins with the last query":
            see = see & (j >= (end - 1 + one.qpos[0] - left) // tile * tile)
        elif form == "in whole tiles":
            see = (see | ((j >= first // tile * tile) & early & (kpos >= 0)))
    return see


def scaled_scores(one, options, mistake="", form="", tile=0):
    heads, d = heads_of(one, mistake), one.q.shape[-1]
    scale = options.get("scale", d**-0.5)
    scale = {"scale_missing": 1.0, "scale_twice": scale * scale, "scale_default": d**-0.5, "scale_of_values": one.v.shape[-1]**-0.5,
             "scale_of_padded_width": (1 << (d - 1).bit_length())**-0.5}.get(mistake, scale)
    q, k = one.q, one.k[heads]
    if mistake == "width_tail_lost":
        whole = d // 64 * 64 if d > 64 else d // 32 * 32
        q, k = q[..., :whole], k[..., :whole]
    s = scale * (q @ k.transpose(0, 2, 1))
    cap = options.get("softcap")
    see = visible(one, options, mistake, form, tile)
    if cap and mistake == "softcap_before_scale":
        s = scale * cap * np.tanh(s / scale / cap)
    elif cap and mistake != "softcap_missing":
        s = cap * np.tanh(s / cap)
    if one.bias is not None and mistake != "bias_missing":
        s = s + {"bias_of_first_head": one.bias[:1], "bias_scaled": one.bias * scale}.get(mistake, one.bias)
    return np.where(see, s, -cap if cap and mistake == "softcap_after_mask" else -np.inf)


def sinks_of(one, mistake):
    if one.sinks is None or mistake == "sink_missing":
        return None
    h, g = one.q.shape[0], one.k.shape[0]
    sinks = one.sinks[np.arange(h) // (h // g)] if mistake == "sink_of_key_head" else one.sinks
    return sinks[:, None, None]


def factors(s, tile, mistake, form):
    """By what the weights of each tile are multiplied at the end: those of the output, and those of the sum."""
    tops = s.max(-1)                                       # (h, n, tiles)
    running = np.maximum.accumulate(tops, -1)
    with np.errstate(invalid="ignore", over="ignore"):
        def exp(x):
            return np.nan_to_num(np.exp(x), nan=1.0, posinf=np.inf)
        before = np.concatenate([running[..., :1], running[..., :-1]], -1)

        def after(alpha):                                  # the product over all later tiles
            alpha = np.concatenate([alpha[..., 1:], np.ones_like(alpha[..., :1])], -1)
            return np.cumprod(alpha[..., ::-1], -1)[..., ::-1]
        right, none = after(exp(before - running)), np.ones_like(running)
        if mistake == "not_rescaled":
            return running, *{"": (none, none), "the output": (none, right), "the sum": (right, none)}[form]
        if form == "upside down":
            wrong = after(exp(running - before))
        elif form == "by the maximum of the new tile":
            wrong = after(exp(before - tops))
        elif form == "by the factor of the tile before":
            alpha = exp(before - running)
            wrong = after(np.concatenate([none[..., :1], alpha[..., :-1]], -1))
        else:                                              # "weights by the maximum of the tile"
            return tops, right, right
        return running, wrong, wrong


class Results:
    """Output (h, n, e), log of the sum (h, n), weights, and weights of the sinks."""


def attend(one, options, mistake="", form="", tile=0, noise=None):
    s, sinks = scaled_scores(one, options, mistake, form, tile), sinks_of(one, mistake)
    top = s.max(-1, keepdims=True)
    if sinks is not None:
        top = np.maximum(top, sinks)
    top = np.where(np.isfinite(top), top, 0)
    if mistake == "exp2_without_log2e":
        p = np.exp2(s - top)
    elif mistake == "maximum_missing":                     # in float32, where it shows
        with np.errstate(over="ignore"):
            p, top = np.exp(s.astype(np.float32)).astype(float), 0 * top
    else:
        p = np.exp(s - top)
    sum_p = p
    if mistake in ("not_rescaled", "rescaled_by_wrong_maximum"):
        h, n, m = s.shape
        tiles = -(-m // tile)
        t = np.full((h, n, tiles * tile), -np.inf)
        t[..., :m] = s
        t = t.reshape(h, n, tiles, tile)
        maxima, of_output, of_sum = factors(t, tile, mistake, form)
        maxima = np.where(np.isfinite(maxima), maxima, 0)[..., None]
        with np.errstate(over="ignore", invalid="ignore"):
            weights = np.exp(t - maxima)
            p, sum_p = ((weights * f[..., None]).reshape(h, n, -1)[..., :m] for f in (of_output, of_sum))
    sink = 0 * top if sinks is None else np.exp(sinks - top)
    if mistake == "sink_in_each_tile":
        sink = sink * -(-s.shape[-1] // tile)
    total = sum_p.sum(-1, keepdims=True) + sink
    result = Results()
    result.seen, result.sink = total > 0, sink
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        if mistake == "empty_row_not_a_number":
            result.seen = np.ones_like(total, bool)
        result.p = np.where(result.seen, p / (1 if mistake == "not_divided" else total), 1 / one.m if mistake == "empty_row_mean" else 0)
        result.sink = np.where(total > 0, sink / total, 0)
        noisy = result.p if noise is None else result.p * (1 + noise.standard_normal(p.shape))
        result.output = noisy @ one.v[heads_of(one, mistake)]
        result.log_sum = (np.log(total) + (0 if mistake == "log_sum_without_maximum" else top))[..., 0]
    if mistake == "value_tail_lost":
        result.output[..., min(one.q.shape[-1], one.v.shape[-1] // 2):] = 0
    if mistake == "tail_lost" and form == "of queries" and one.n > tile:
        result.output[:, one.n // tile * tile:] = 0
    result.raw = s
    return result


def gradients(one, options, mistake="", form="", tile=0, noise=None):
    """By name, of all that is given; those of keys and values by their heads."""
    r, heads, d = attend(one, options, mistake, form, tile), heads_of(one, mistake), one.q.shape[-1]
    scale, cap = options.get("scale", d**-0.5), options.get("softcap")
    p, grad, k, v = r.p, one.grad, one.k[heads], one.v[heads]
    if mistake == "backward_not_masked":
        p = np.exp(scaled_scores(one, {name: value for name, value in options.items() if name not in ("causal", "left_window")}) - r.log_sum[..., None])
    if mistake == "backward_log_base_2":
        p = np.exp(r.raw - r.log_sum[..., None] / math.log(2))
    if mistake == "backward_not_divided":
        p = p * np.exp(r.log_sum[..., None] - np.where(np.isfinite(r.raw.max(-1, keepdims=True)), r.raw.max(-1, keepdims=True), 0))
    output, rough = r.output, (lambda x: x) if noise is None else (lambda x: x * (1 + noise.standard_normal(x.shape)))
    output = rough(output)
    delta = (grad * output).sum(-1, keepdims=True)
    if mistake == "delta_missing":
        delta = 0 * delta
    if mistake == "delta_of_other_sign":
        delta = -delta
    if mistake == "delta_of_one_tile":                     # rowsum(P dP) of a tile in place of that of all
        by_tile = p * (grad @ v.transpose(0, 2, 1))
        m = one.m
        whole = np.add.reduceat(by_tile, np.arange(0, m, tile), -1)
        delta = np.repeat(whole, tile, -1)[..., :m]
    ds = p * (grad @ v.transpose(0, 2, 1) - delta)
    p, ds = rough(p), rough(ds)
    scored = ds                                            # before the cap
    if cap and mistake != "backward_softcap_missing":
        plain = scaled_scores(one.changed(bias=None), {"scale": scale}, mistake if mistake.startswith("group") else "")
        scored = ds * (1 - np.tanh(plain / cap)**2)
    if mistake == "backward_last_tile_alone" and form == "dq":
        scored_q = np.where(np.arange(one.m) >= (one.m - 1) // tile * tile, scored, 0)
    else:
        scored_q = scored
    rows = np.ones(one.n, bool)
    if mistake == "backward_last_tile_alone" and form == "dk":
        rows = np.arange(one.n) >= (one.n - 1) // tile * tile
    if mistake == "backward_tail_lost":
        if form == "of keys":
            scored_q = np.where(np.arange(one.m) < one.m // tile * tile, scored, 0)
        else:
            rows = np.arange(one.n) < one.n // tile * tile
    dq = scale * (scored_q @ k)
    masked = scored * rows[:, None]
    dk, dv = scale * (masked.transpose(0, 2, 1) @ one.q), (p * rows[:, None]).transpose(0, 2, 1) @ grad
    if mistake == "backward_tail_lost" and form == "of keys":
        whole = (np.arange(one.m) < one.m // tile * tile)[:, None]
        dk, dv = dk * whole, dv * whole
    if mistake == "backward_scale_missing":
        dq, dk = (dq / scale, dk) if form == "dq" else (dq, dk / scale) if form == "dk" else (dq / scale, dk / scale)
    if mistake == "backward_scale_twice":
        dq, dk = (dq * scale, dk) if form == "dq" else (dq, dk * scale) if form == "dk" else (dq * scale, dk * scale)
    g = one.k.shape[0]
    gdk, gdv = np.zeros(one.k.shape), np.zeros(one.v.shape)
    if mistake == "groups_not_summed":
        for head in range(len(heads))[:: 1 if form == "the last" else -1]:
            gdk[heads[head]], gdv[heads[head]] = dk[head], dv[head]
    else:
        np.add.at(gdk, heads, dk)
        np.add.at(gdv, heads, dv)
    if mistake == "groups_averaged":
        gdk, gdv = gdk / (len(heads) // g), gdv / (len(heads) // g)
    grads = {"grad.queries": dq, "grad.keys": gdk, "grad.values": gdv}
    if one.bias is not None:
        grads["grad.bias"] = ds * (scale if mistake == "backward_bias_scaled" else 1)
    if one.sinks is not None:
        whole = -(r.sink * delta).sum((-1, -2)) if np.ndim(delta) else 0
        grads["grad.sinks"] = -whole if mistake == "backward_sinks_sign" else -r.sink.sum((-1, -2)) if mistake == "backward_sinks_without_delta" else whole
    return grads


# Right kernels, in tiles, for the tolerance. Sums are kept in float32, or in the type where rough is set.
def in_order(a, b):
    """a @ b, with sums of one number after the other."""
    total = np.zeros((*a.shape[:-1], b.shape[-1]), a.dtype)
    for i in range(a.shape[-1]):
        total += a[..., i:i + 1] * b[..., i:i + 1, :]
    return total


def in_tiles(one, options, kind, tile, round_p, two, rough=False, times=np.matmul):
    work = np.float64 if kind == "float64" else np.float32
    short = (lambda x: rounded(x, kind)) if round_p else (lambda x: x)
    kept = (lambda x: rounded(x, kind)) if rough else (lambda x: x)
    heads, d = heads_of(one, ""), one.q.shape[-1]
    q, k, v = one.q.astype(work), one.k[heads].astype(work), one.v[heads].astype(work)
    scale, cap, see = work(options.get("scale", d**-0.5)), options.get("softcap"), visible(one, options)
    to_two = work(math.log2(math.e)) if two else work(1)
    exp = np.exp2 if two else np.exp
    h, n, m = q.shape[0], one.n, one.m
    top, total, acc = np.full((h, n, 1), -np.inf, work), np.zeros((h, n, 1), work), np.zeros((h, n, v.shape[-1]), work)
    if one.sinks is not None:
        top, total = np.broadcast_to(one.sinks[:, None, None].astype(work) * to_two, (h, n, 1)).copy(), np.ones((h, n, 1), work)
    for at in range(0, m, tile):
        part = slice(at, min(at + tile, m))
        s = kept(times(q, k[:, part].transpose(0, 2, 1))) * scale
        if cap:
            s = work(cap) * np.tanh(s / work(cap))
        if one.bias is not None:
            s = s + one.bias[:, :, part].astype(work)
        s = np.where(see[:, part], kept(s) * to_two, work(-np.inf))
        new = np.maximum(top, s.max(-1, keepdims=True))
        safe = np.where(np.isfinite(new), new, work(0))
        alpha, p = exp(np.where(np.isfinite(top), top - safe, work(-np.inf))), exp(s - safe)
        total, acc, top = kept(total * alpha + p.sum(-1, keepdims=True, dtype=work)), kept(acc * alpha + times(short(p), v[:, part])), new
    with np.errstate(invalid="ignore", divide="ignore"):
        output = np.where(total > 0, acc / total, 0)
        log_sum = (np.log(total) + np.where(np.isfinite(top), top, 0) / to_two)[..., 0]
    return rounded(output, kind).astype(float), log_sum.astype(float), (q, k, v, work, scale, cap, see, heads, short, kept)


def in_tiles_backward(one, options, kind, tile, round_p, two, rough=False, times=np.matmul):
    output, log_sum, (q, k, v, work, scale, cap, see, heads, short, kept) = in_tiles(one, options, kind, tile, round_p, two, times=times)
    grad, lse, out = one.grad.astype(work), log_sum.astype(work)[..., None], output.astype(work)
    delta = (grad * out).sum(-1, keepdims=True, dtype=work)
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    dbias = np.zeros(np.shape(see), work) if one.bias is None else np.zeros(one.bias.shape, work)
    for i in range(0, one.n, tile):
        a = slice(i, min(i + tile, one.n))
        for j in range(0, one.m, tile):
            b = slice(j, min(j + tile, one.m))
            s = kept(times(q[:, a], k[:, b].transpose(0, 2, 1))) * scale
            slope = work(1)
            if cap:
                t = np.tanh(s / work(cap))
                s, slope = work(cap) * t, 1 - t * t
            if one.bias is not None:
                s = s + one.bias[:, a, b].astype(work)
            with np.errstate(invalid="ignore", over="ignore"):
                p = np.where(see[a, b], np.exp(s - np.where(np.isfinite(lse[:, a]), lse[:, a], 0)), work(0))
            ds = p * (times(grad[:, a], v[:, b].transpose(0, 2, 1)) - delta[:, a])
            if one.bias is not None:
                dbias[:, a, b] = ds
            ds = short(ds * slope)
            dq[:, a] = kept(dq[:, a] + times(ds, k[:, b]))
            dk[:, b] = kept(dk[:, b] + times(ds.transpose(0, 2, 1), q[:, a]))
            dv[:, b] = kept(dv[:, b] + times(short(p).transpose(0, 2, 1), grad[:, a]))
    g = one.k.shape[0]
    gdk, gdv = np.zeros((g, *k.shape[1:]), work), np.zeros((g, *v.shape[1:]), work)
    np.add.at(gdk, heads, dk * scale)
    np.add.at(gdv, heads, dv)
    grads = {"grad.queries": dq * scale, "grad.keys": gdk, "grad.values": gdv}
    if one.bias is not None:
        grads["grad.bias"] = dbias
    if one.sinks is not None:
        sink = np.exp(one.sinks[:, None, None].astype(work) - lse)
        grads["grad.sinks"] = -(sink * delta).sum((-1, -2), dtype=work)
    return {name: rounded(value, kind).astype(float) for name, value in grads.items()}


# Layouts: what is given, and how it comes down to sequences; and the results of sequences in the layout.
class Case:
    def __init__(self, layout, sizes, parameters, seeds, grads=False, swap=False):
        self.layout, self.sizes, self.options, self.inputs, self.arrays = layout, sizes, parameters, {}, {}
        self.seeds, self.grads = seeds, grads
        self.sequences = getattr(self, layout)()
        z = sizes
        if "bias" in parameters["with"]:
            bias = self.rule("bias", (z["h"], z["n"], z["m"]))
            for one in self.sequences:
                one.bias = bias
        if "sinks" in parameters["with"]:
            sinks = self.rule("sinks", (z["h"],))
            for one in self.sequences:
                one.sinks = sinks

    def rule(self, name, shape):
        seed = next(self.seeds)
        self.inputs[name], self.arrays[name] = {"shape": list(shape), "rule": seed}, by_rule(seed, shape)
        return self.arrays[name]

    def whole(self, name, values):
        values = np.asarray(values)
        self.inputs[name] = {"shape": list(values.shape), "values": values.ravel().tolist(), "type": "int64"}
        self.arrays[name] = values
        return values

    def with_grads(self, sequences, grad):
        for one, part in zip(sequences, grad):
            one.grad = part
        return sequences

    def bhnd(self):
        b, h, g, n, m, d, e = (self.sizes[x] for x in "bhgnmde")
        q, k, v = self.rule("queries", (b, h, n, d)), self.rule("keys", (b, g, m, d)), self.rule("values", (b, g, m, e))

        def beyond(x, i):  # the rows after each head's
            flat = np.concatenate([x.reshape(-1, x.shape[-1]), np.zeros((256, x.shape[-1]))])
            return np.stack([flat[(i * g + head + 1) * m:][:256] for head in range(g)])
        sequences = [Sequence(q[i], k[i], v[i], (beyond(k, i), beyond(v, i))) for i in range(b)]
        return self.with_grads(sequences, self.rule("grad.output", (b, h, n, e))) if self.grads else sequences

    def bnhd(self):
        b, h, g, n, m, d, e = (self.sizes[x] for x in "bhgnmde")
        q, k, v = self.rule("queries", (b, n, h, d)), self.rule("keys", (b, m, g, d)), self.rule("values", (b, m, g, e))

        def beyond(x, i):
            flat = np.concatenate([x.reshape(-1, g, x.shape[-1]), np.zeros((256, g, x.shape[-1]))])
            return flat[(i + 1) * m:][:256].transpose(1, 0, 2)
        sequences = [Sequence(q[i].transpose(1, 0, 2), k[i].transpose(1, 0, 2), v[i].transpose(1, 0, 2), (beyond(k, i), beyond(v, i))) for i in range(b)]
        return self.with_grads(sequences, self.rule("grad.output", (b, n, h, e)).transpose(0, 2, 1, 3)) if self.grads else sequences

    def qkv(self):
        b, h, n, d = (self.sizes[x] for x in "bhnd")
        both = self.rule("qkv", (b, n, 3, h, d)).transpose(2, 0, 3, 1, 4)
        sequences = [Sequence(both[0, i], both[1, i], both[2, i], (np.zeros((h, 256, d)),) * 2) for i in range(b)]
        return self.with_grads(sequences, self.rule("grad.output", (b, n, h, d)).transpose(0, 2, 1, 3)) if self.grads else sequences

    def rows(self):
        h, g, d, e = (self.sizes[x] for x in "hgde")
        counts, key_counts = self.sizes["ns"], self.sizes["ms"]
        begins, key_begins = (np.cumsum([0, *x]).tolist() for x in (counts, key_counts))
        q, k, v = self.rule("queries", (begins[-1], h, d)), self.rule("keys", (key_begins[-1], g, d)), self.rule("values", (key_begins[-1], g, e))
        self.whole("cu_seqlens_queries", begins), self.whole("cu_seqlens_keys", key_begins)
        grad = self.rule("grad.output", (begins[-1], h, e)) if self.grads else None

        def of(x, a, c):
            return x[a:c].transpose(1, 0, 2)

        def beyond(x, a):
            return np.concatenate([x[a:a + 256], np.zeros((256, *x.shape[1:]))])[:256].transpose(1, 0, 2)
        return [Sequence(of(q, *queries), of(k, *keys), of(v, *keys), (beyond(k, keys[1]), beyond(v, keys[1])), grad=of(grad, *queries) if self.grads else None)
                for queries, keys in zip(zip(begins, begins[1:]), zip(key_begins, key_begins[1:]))]

    def pages(self, mistake="", form=""):
        b, h, g, n, d, e, size = (self.sizes[x] for x in "bhgndes")
        lengths = self.sizes["ms"]
        most = max(-(-m // size) for m in lengths) + 1
        pages = b * most + 1
        if not mistake:
            order = np.argsort(rule_bits(next(self.seeds), pages)).tolist()
            self.rule("queries", (b, n, h, d)), self.rule("key_pages", (pages, size, g, d)), self.rule("value_pages", (pages, size, g, e))
            self.whole("block_table", [[order[i * most + j] for j in range(most)] for i in range(b)])
            self.whole("lengths", lengths)
            if self.grads:
                raise ValueError("pages have no backward pass")
        a = self.arrays
        sequences = []
        for i in range(b):
            table = a["block_table"][0 if mistake == "block_table_of_first_row" else i]
            if mistake == "block_table_ignored":
                table = np.arange(i * most, i * most + most)
            k, v = (a[name][table].reshape(-1, g, a[name].shape[-1]).transpose(1, 0, 2) for name in ("key_pages", "value_pages"))
            m = lengths[i]
            if mistake == "page_too_many":
                m = -(-m // size) * size + (size if form == "one more" or m % size == 0 else 0)
            if mistake == "page_too_few":
                m = max((-(-m // size) - 1) * size, 1)
            one = Sequence(a["queries"][i].transpose(1, 0, 2), k[:, :m], v[:, :m], (k[:, m:], v[:, m:]), last=lengths[i])
            if mistake == "page_too_many":
                one.kpos = np.where(np.arange(m) < lengths[i], np.arange(m), 0)  # seen whatever the mask says
            sequences.append(one)
        return sequences

    def ring(self):
        """Slot j holds the last token whose position is j modulo the size of the ring."""
        b, h, g, d, e, size = (self.sizes[x] for x in "bhgdes")
        lengths = self.whole("lengths", self.sizes["ms"])
        q, k, v = self.rule("queries", (b, h, 1, d)), self.rule("key_ring", (b, g, size, d)), self.rule("value_ring", (b, g, size, e))
        slots = np.arange(size)
        sequences = []
        for i, length in enumerate(lengths):
            last = (length - 1 - slots) // size * size + slots
            sequences.append(Sequence(q[i], k[i], v[i], None, np.where(last >= 0, last, -1), length))
        return sequences

    # The results of all sequences as the layout has them.
    def output(self, parts):
        if self.layout in ("bhnd", "ring"):
            return np.stack(parts)
        if self.layout == "rows":
            return np.concatenate([part.transpose(1, 0, 2) for part in parts])
        return np.stack([part.transpose(1, 0, 2) for part in parts])

    def log_sum(self, parts):
        return np.concatenate(parts, -1) if self.layout == "rows" else np.stack(parts)

    def gradients(self, parts):
        q, k, v = ([part[f"grad.{name}"] for part in parts] for name in ("queries", "keys", "values"))
        if self.layout == "qkv":
            result = {"grad.qkv": np.stack([self.output(q), self.output(k), self.output(v)], 2)}
        else:
            result = {"grad.queries": self.output(q), "grad.keys": self.output(k), "grad.values": self.output(v)}
        for name in ("grad.bias", "grad.sinks"):
            if name in parts[0]:
                result[name] = np.sum([part[name] for part in parts], 0)
        return result


# What a case keeps of a result.
def places_of(shape):
    size, width = math.prod(shape), shape[-1]
    if size <= KEPT_PLACES:
        return list(range(size))
    rows = np.unique(np.linspace(0, size // width - 1, 8).astype(int))
    columns = np.unique(np.linspace(0, width - 1, max(1, KEPT_PLACES // len(rows))).astype(int))
    return [int(row * width + column) for row in rows for column in columns]


def block_of(shape):
    width = shape[-1] if len(shape) > 1 else 1
    rows = math.prod(shape) // width
    return width * max(1, -(-rows // KEPT_SUMS))


def kept_of(x):
    flat, block = np.ravel(x), block_of(x.shape)
    with np.errstate(invalid="ignore"):
        signed = flat * signs(flat.size)
        sums = [signed[at:at + block].sum() for at in range(0, flat.size, block)]
    return np.concatenate([flat[places_of(x.shape)], sums])


def own_size(x):
    flat, block = np.ravel(x), block_of(x.shape)
    return np.concatenate([np.abs(flat[places_of(x.shape)]), [np.linalg.norm(flat[at:at + block]) for at in range(0, flat.size, block)]])


def off(found, right, scale, unit):
    """In roundings."""
    with np.errstate(invalid="ignore"):
        distance = np.abs(found - right) / (unit * scale)
    return np.where((found == right) | (np.isnan(found) & np.isnan(right)), 0, np.where(np.isnan(distance), np.inf, distance))


def short(value, digits):
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return float(f"{value:.{digits}g}") if digits else float(value)


class Maker:
    def __init__(self, file, name):
        self.file, self.name = file, name

    def results(self, case, mistake="", form="", tile=0, noise=None, sequences=None):
        sequences = sequences or case.sequences
        if self.file["function"] == "attention_kernel_backward":
            return case.gradients([gradients(one, case.options, mistake, form, tile, noise) for one in sequences])
        parts = [attend(one, case.options, mistake, form, tile, noise) for one in sequences]
        result = {"output": case.output([part.output for part in parts])}
        if self.file["function"] == "attention_kernel_log_sum":
            result["log_sum"] = case.log_sum([part.log_sum for part in parts])
        return result

    def by_kernel(self, case, kind, tile, round_p, two, rough=False, times=np.matmul):
        if self.file["function"] == "attention_kernel_backward":
            return case.gradients([in_tiles_backward(one, case.options, kind, tile, round_p, two, rough, times) for one in case.sequences])
        parts = [in_tiles(one, case.options, kind, tile, round_p, two, rough, times) for one in case.sequences]
        result = {"output": case.output([part[0] for part in parts])}
        if self.file["function"] == "attention_kernel_log_sum":
            result["log_sum"] = case.log_sum([part[1] for part in parts])
        return result

    def outputs(self, case):
        right = self.results(case)
        kept = {name: kept_of(x) for name, x in right.items()}
        rng, draws = np.random.default_rng(1), 12
        noise = {name: np.zeros(x.size) for name, x in kept.items()}
        for _ in range(draws):
            other = self.results(case, noise=rng)
            for name in kept:
                with np.errstate(invalid="ignore"):
                    noise[name] += np.nan_to_num(kept_of(other[name]) - kept[name])**2 / draws
        scale = {name: np.sqrt(own_size(right[name])**2 + 0.33 * noise[name]) for name in kept}
        if "log_sum" in kept:  # which is float32 in each type
            scale["log_sum"] = np.where(np.isfinite(kept["log_sum"]), np.maximum(np.abs(kept["log_sum"]), 4.0), 4.0)
            scale["log_sum"][len(places_of(right["log_sum"].shape)):] = 4 * block_of(right["log_sum"].shape)**0.5 + own_size(
                np.where(np.isfinite(right["log_sum"]), right["log_sum"], 0))[len(places_of(right["log_sum"].shape)):]
        for name in kept:
            floor = 0.02 * np.median(scale[name][scale[name] > 0]) if np.any(scale[name] > 0) else 1.0
            scale[name] = np.array([float(f"{max(one, floor):.2g}") for one in scale[name]])
        entries = {}
        for name, x in right.items():
            entries[name] = {"shape": list(x.shape), "places": places_of(x.shape), "block": block_of(x.shape),
                             "values": [short(one, 0) for one in kept[name]], "scale": scale[name].tolist(), "roundings": {}, "rough": {}}
        for kind in UNITS:
            short_type = kind in ("float16", "bfloat16")
            ways = [(16, True, False), (64, True, True), (128, True, False), (1024, True, False)] + ([(64, False, False)] if short_type else [(64, False, False, False, in_order)])
            for way in ways:
                self.measure(entries, kept, scale, self.by_kernel(case, kind, *way), kind, "roundings")
            if short_type:
                for way in [(16, True, False), (64, True, False)]:
                    self.measure(entries, kept, scale, self.by_kernel(case, kind, *way, rough=True), kind, "rough")
        for name, entry in entries.items():
            entry["roundings"] = {kind: float(f"{max(ROOM[kind] * most, 0.5 * self.unit(name, kind) / UNITS[kind]):.2g}") for kind, most in entry["roundings"].items()}
            entry["rough"] = {kind: float(f"{ROOM[kind] * most:.2g}") for kind, most in entry["rough"].items()}
        return right, kept, scale, entries

    @staticmethod
    def unit(name, kind):  # a log of the sum is float32 in each type
        return UNITS["float32"] if name == "log_sum" and kind != "float64" else UNITS[kind]

    def measure(self, entries, kept, scale, found, kind, which):
        for name, x in found.items():
            most = float(off(kept_of(x), kept[name], scale[name], UNITS[kind]).max())
            entries[name][which][kind] = max(most, entries[name][which].get(kind, 0))

    def wrong_results(self, case):
        """Each mistake in each form, with each size of tiles."""
        backward = self.file["function"] == "attention_kernel_backward"
        for mistake, forms, in_tiles_too, part in FORMS:
            if part == "backward" and not backward or part == "forward" and backward:
                continue
            for form in forms:
                for tile in TILES if in_tiles_too else (0,):
                    sequences = None
                    if mistake == "tail_lost":
                        sequences = [one if one.m < tile or form == "of queries" else
                                     one.changed(k=one.k[:, :one.m // tile * tile], v=one.v[:, :one.m // tile * tile], kpos=one.kpos[:one.m // tile * tile],
                                                 bias=None if one.bias is None else one.bias[..., :one.m // tile * tile]) for one in case.sequences]
                        if backward and form != "of queries":
                            continue
                    elif mistake == "tail_not_masked":
                        if backward or case.layout == "ring" or "bias" in case.options["with"] or (form == "next rows" and not case.sequences[0].beyond):
                            continue
                        sequences = [self.with_tail(one, tile, form) for one in case.sequences]
                    elif mistake in ("page_too_many", "page_too_few", "block_table_of_first_row", "block_table_ignored"):
                        if case.layout != "pages":
                            continue
                        sequences = case.pages(mistake, form)
                    elif mistake in ("ring_slot_as_position", "ring_not_full"):
                        if case.layout != "ring":
                            continue
                        sequences = [self.in_ring(one, mistake, form) for one in case.sequences]
                    elif mistake in ("sequences_mixed", "sequence_border_one_off"):
                        if case.layout != "rows" or backward:
                            continue
                        sequences = self.over_borders(case, mistake)
                    try:
                        yield mistake, form, tile, self.results(case, mistake, form, tile, sequences=sequences)
                    except (ValueError, IndexError):
                        continue

    def with_tail(self, one, tile, form):
        extra = -one.m % tile
        k, v = ((x[:, :extra] if form == "next rows" else np.zeros((x.shape[0], extra, x.shape[2]))) for x in (one.beyond or (one.k, one.v)))
        k, v = (np.concatenate([x, np.zeros((x.shape[0], extra - x.shape[1], x.shape[2]))], 1) for x in (k, v))
        return one.changed(k=np.concatenate([one.k, k], 1), v=np.concatenate([one.v, v], 1), kpos=np.concatenate([one.kpos, np.full(extra, one.qpos[0])]))

    def in_ring(self, one, mistake, form):
        size = one.m
        if mistake == "ring_not_full":
            return one.changed(kpos=np.where(one.kpos < 0, 0, one.kpos))
        last = one.qpos[-1] % size if form == "of both" else one.qpos[-1]
        return one.changed(kpos=np.where(one.kpos < 0, -1, np.arange(size)), qpos=np.array([last]))

    def over_borders(self, case, mistake):
        k, v = (case.arrays[name].transpose(1, 0, 2) for name in ("keys", "values"))
        begins = case.arrays["cu_seqlens_keys"]
        if mistake == "sequences_mixed":
            sequences = []
            for i, one in enumerate(case.sequences):
                sequences.append(one.changed(k=k, v=v, kpos=np.arange(k.shape[1]), qpos=one.qpos + int(begins[i])))
            return sequences
        return [one.changed(k=np.concatenate([one.k, x[:, :1]], 1), v=np.concatenate([one.v, y[:, :1]], 1), kpos=np.append(one.kpos, 0))
                for one, (x, y) in zip(case.sequences, (one.beyond for one in case.sequences))]

    def case(self, id_, comment, case):
        right, kept, scale, entries = self.outputs(case)
        wrong, seen = {}, set()
        for mistake, form, tile, found in self.wrong_results(case):
            fingers = fingerprint(found, kept, scale, entries)
            key = json.dumps([mistake, fingers])
            if fingers is None or key in seen:  # other tiles that give the same
                continue
            seen.add(key)
            text = ", ".join([form] * bool(form) + [f"tiles of {tile}"] * bool(tile))
            wrong.setdefault(mistake, []).append({"form": text, **fingers})
        return {"id": id_, "comment": comment, "result": "valid", "flags": sorted(wrong), "inputs": case.inputs, "outputs": entries,
                "accepted": self.accepted(right, kept, scale, entries), "wrong": wrong}

    def accepted(self, right, kept, scale, entries):
        if "log_sum" not in right:
            return {}
        other = kept_of(right["log_sum"] / math.log(2))
        return {"log_base_2": [{"form": "", "log_sum": {"at": list(range(other.size)), "values": [short(one, 9) for one in other]}}]}


def fingerprint(found, kept, scale, entries):
    fingers, most = {}, 0.0
    for name, right in kept.items():
        mine = kept_of(found[name])
        roundings = off(mine, right, scale[name], UNITS["float32"]) / entries[name]["roundings"]["float32"]
        if roundings.max() <= 1:
            continue
        most = max(most, roundings.max())
        order = np.argsort(-np.minimum(roundings, 1e30), kind="stable")
        furthest = order[:FINGERS // 2].tolist()
        spread = [int(at) for at in np.linspace(0, mine.size - 1, FINGERS - len(furthest)).astype(int)]
        at = sorted({*furthest, *spread})
        fingers[name] = {"at": at, "values": [short(mine[one], 7) for one in at]}
    return fingers if most > CAUGHT else None


RESCALED = ("upside down", "by the maximum of the new tile", "by the factor of the tile before", "weights by the maximum of the tile")
# Mistakes: their forms, whether tiles matter, and in which pass they are made. Those of tiles come last: what gives the same numbers is said in this order.
FORMS = [
    ("window_off_by_one", ("one more", "one less"), False, ""),
    *((name, ("",), False, "") for name in (
        "causal_missing", "causal_top_left", "causal_strict", "causal_next", "window_missing", "scale_missing", "scale_twice", "scale_default",
        "scale_of_values", "scale_of_padded_width", "softcap_missing", "softcap_before_scale", "softcap_after_mask", "bias_missing",
        "bias_of_first_head", "bias_scaled", "sink_missing", "sink_of_key_head", "group_by_remainder", "width_tail_lost")),
    *((name, ("",), False, "forward") for name in (
        "exp2_without_log2e", "maximum_missing", "not_divided", "value_tail_lost", "log_sum_without_maximum", "empty_row_not_a_number", "empty_row_mean",
        "sequences_mixed", "sequence_border_one_off", "block_table_of_first_row", "block_table_ignored", "page_too_few", "ring_not_full")),
    ("page_too_many", ("the rest of the last", "one more"), False, "forward"),
    ("ring_slot_as_position", ("of keys", "of both"), False, "forward"),
    ("groups_not_summed", ("the last", "the first"), False, "backward"),
    ("backward_scale_missing", ("dq", "dk", "both"), False, "backward"),
    ("backward_scale_twice", ("dq", "dk", "both"), False, "backward"),
    *((name, ("",), False, "backward") for name in (
        "delta_missing", "delta_of_other_sign", "groups_averaged", "backward_not_masked", "backward_log_base_2", "backward_not_divided",
        "backward_softcap_missing", "backward_bias_scaled", "backward_sinks_sign", "backward_sinks_without_delta")),
    ("not_rescaled", ("", "the output", "the sum"), True, "forward"),
    ("rescaled_by_wrong_maximum", RESCALED, True, "forward"),
    ("tail_not_masked", ("zeros", "next rows"), True, "forward"),
    ("tail_lost", ("of keys", "of queries"), True, "forward"),
    ("causal_border_of_tile", ("last tile lost", "number of tiles rounded down", "only the last tile masked", "last tile not masked",
                               "by the places in the tile", "strict in the last tile"), True, ""),
    ("window_at_tile_border", ("first tile not masked", "begins at the next tile", "begins with the last query", "in whole tiles"), True, ""),
    ("sink_in_each_tile", ("",), True, "forward"),
    ("backward_last_tile_alone", ("dq", "dk"), True, "backward"),
    ("backward_tail_lost", ("of keys", "of queries"), True, "backward"),
    ("delta_of_one_tile", ("",), True, "backward"),
]


# Merging of two halves by the logs of their sums.
class Merge:
    def __init__(self, sizes, parameters, seeds):
        self.options, self.inputs, self.arrays, self.seeds = parameters, {}, {}, seeds
        b, h, n, e = (sizes[x] for x in "bhne")
        for which in ("first", "second"):
            Case.rule(self, f"{which}_output", (b, h, n, e))
            Case.rule(self, f"{which}_log_sum", (b, h, n))
        if sizes.get("empty"):  # the second half of the first queries has no key
            logs = self.arrays["second_log_sum"]
            logs[:, :, :sizes["empty"]] = -np.inf
            self.inputs["second_log_sum"] = {"shape": list(logs.shape), "values": [short(one, 0) for one in logs.ravel()]}

    def merged(self, mistake="", kind="float64", two=False, noise=None):
        work = np.float64 if kind == "float64" else np.float32
        a, b = (rounded(self.arrays[f"{which}_output"], kind).astype(work) for which in ("first", "second"))
        if noise is not None:
            a, b = (x * (1 + noise.standard_normal(x.shape)) for x in (a, b))
        la, lb = (self.arrays[f"{which}_log_sum"].astype(work)[..., None] for which in ("first", "second"))
        base = work(2 if self.options["base"] == 2 else math.e)
        if mistake == "merge_by_the_other_base":
            base = work(math.e if self.options["base"] == 2 else 2)
        log = np.log(base)
        top = np.maximum(la, lb)
        with np.errstate(invalid="ignore", divide="ignore"):
            wa, wb = (np.exp2((x - top) * np.log2(base)) if two else np.exp((x - top) * log) for x in (la, lb))
            if mistake == "merge_swapped":
                wa, wb = wb, wa
            if mistake == "merge_averaged":
                wa, wb = np.ones_like(wa), np.ones_like(wb)
            if mistake == "merge_by_the_logs":
                wa, wb = la, lb
            total = wa + wb
            output = a * (wa / total) + b * (wb / total) if two else (a * wa + b * wb) / (1 if mistake == "merge_not_divided" else total)
            logs = top + np.log(total) / log
            if mistake == "merge_log_of_the_maximum":
                logs = top
            if mistake == "merge_logs_added":
                logs = la + lb
        return {"output": rounded(output, kind).astype(float), "log_sum": logs[..., 0].astype(float)}


class MergeMaker(Maker):
    def results(self, case, mistake="", form="", tile=0, noise=None, sequences=None):
        return case.merged(mistake, noise=noise)

    def by_kernel(self, case, kind, tile, round_p, two, rough=False, times=np.matmul):
        found = case.merged("", kind, two)
        return {name: rounded(x, kind).astype(float) for name, x in found.items()} if rough else found

    def wrong_results(self, case):
        for name in ("merge_by_the_other_base", "merge_swapped", "merge_averaged", "merge_by_the_logs", "merge_not_divided", "merge_log_of_the_maximum",
                     "merge_logs_added"):
            yield name, "", 0, self.results(case, name)

    def accepted(self, right, kept, scale, entries):
        return {}


def sized(text, **others):
    """b3 h4 g2 n17 m33 d64 e64; e is d where it is not said, g is h."""
    sizes = {part[0]: int(part[1:]) for part in text.split()}
    sizes = {"b": 1, **sizes, **others}
    sizes.setdefault("g", sizes.get("h"))
    sizes.setdefault("e", sizes.get("d"))
    return sizes


CAUSAL = {"causal": "bottom-right"}
# Files: function, title, and groups: comment, layout, parameters, inputs beside, sizes.
PLAN = {
    "kernel_sizes": ("attention_kernel", "Widths, queries and keys at the edges of tiles", [
        ("one query", "bhnd", {}, [], ["h2 n1 m1 d32", "h2 n1 m15 d64", "b3 h2 n1 m127 d80", "h4 g1 n1 m257 d128", "h2 n1 m513 d256", "h8 g2 n1 m512 d64"]),
        ("no mask", "bhnd", {}, [], ["h2 n2 m16 d32", "h2 n17 m17 d64", "b3 h2 n2 m31 d80", "h2 n64 m33 d128", "h1 n130 m65 d256", "h2 n17 m129 d64", "b2 h1 n64 m256 d32"]),
        ("wide values", "bhnd", {}, [], ["h2 n17 m63 d64 e128", "h2 n2 m255 d192 e128"]),
        ("large scores", "bhnd", {"scale": 4}, [], ["h2 n17 m129 d32"])]),
    "kernel_causal": ("attention_kernel", "Causal, with the corner at the bottom right", [
        ("as many keys as queries", "bhnd", CAUSAL, [], ["h2 n17 m17 d32", "b3 h2 n64 m64 d64", "h2 n130 m130 d80"]),
        ("more keys", "bhnd", CAUSAL, [], ["h2 n2 m65 d64", "h2 n17 m32 d128", "h1 n64 m128 d256", "h2 n130 m257 d64", "h2 n64 m511 d32", "h4 g1 n17 m513 d64", "h2 n2 m129 d80"]),
        ("fewer keys: the first queries see none, and give 0", "bhnd", CAUSAL, [], ["h2 n64 m33 d64", "h2 n17 m16 d32"])]),
    "kernel_groups": ("attention_kernel", "Several heads of queries for one of keys", [
        ("groups", "bhnd", CAUSAL, [], ["h8 g8 n17 m33 d32", "h8 g2 n17 m65 d64", "b3 h8 g1 n2 m63 d64", "h16 g2 n17 m129 d32"])]),
    "kernel_scores": ("attention_kernel", "Windows, caps, biases and sinks", [
        ("a window", "bhnd", {**CAUSAL, "left_window": 16}, [], ["h2 n17 m65 d64", "h2 n64 m64 d32"]),
        ("a wide window", "bhnd", {**CAUSAL, "left_window": 100}, [], ["h2 n130 m257 d64", "h2 n17 m513 d80"]),
        ("a cap", "bhnd", {**CAUSAL, "softcap": 2}, [], ["h2 n17 m65 d64", "h2 n64 m129 d128"]),
        ("a bias", "bhnd", {}, ["bias"], ["h2 n17 m65 d64", "h2 n2 m129 d32"]),
        ("sinks", "bhnd", CAUSAL, ["sinks"], ["h4 g2 n17 m65 d64", "h8 g2 n2 m257 d64"]),
        ("sinks and a window", "bhnd", {**CAUSAL, "left_window": 31}, ["sinks"], ["h4 g2 n64 m129 d64"])]),
    "kernel_layouts": ("attention_kernel", "Other layouts, and packed rows", [
        ("heads after tokens", "bnhd", CAUSAL, [], ["b3 h4 g2 n17 m33 d64", "b2 h2 n64 m129 d32"]),
        ("queries, keys and values packed", "qkv", CAUSAL, [], ["b2 h2 n65 d64", "b3 h2 n17 d80"]),
        ("packed rows", "rows", {}, [], [sized("h2 d64", ns=[17, 1, 64], ms=[33, 129, 16])]),
        ("packed rows, causal", "rows", CAUSAL, [], [sized("h4 g2 d64", ns=[17, 2, 64], ms=[17, 65, 130]), sized("h2 d32", ns=[1, 1, 1], ms=[31, 257, 64])]),
        ("packed rows and a window", "rows", {**CAUSAL, "left_window": 16}, [], [sized("h2 d64", ns=[33, 2], ms=[33, 129])])]),
    "kernel_pages": ("attention_kernel", "Pages and a ring", [
        ("pages, one query", "pages", CAUSAL, [], [sized("b3 h4 g2 n1 d64 s16", ms=[33, 1, 127]), sized("b2 h8 g1 n1 d128 s64", ms=[64, 200])]),
        ("pages, several queries", "pages", CAUSAL, [], [sized("b3 h2 n17 d64 s16", ms=[17, 65, 128])]),
        ("a ring", "ring", CAUSAL, [], [sized("b3 h4 g2 d64 s64", ms=[63, 64, 201])]),
        ("a ring that is larger than the window", "ring", {**CAUSAL, "left_window": 40}, [], [sized("b3 h2 d64 s64", ms=[30, 100, 129])])]),
    "kernel_log_sum": ("attention_kernel_log_sum", "The log of the sum", [
        ("no mask", "bhnd", {}, [], ["h2 n2 m33 d64", "b3 h4 g1 n1 m257 d128"]),
        ("causal", "bhnd", CAUSAL, [], ["h2 n17 m65 d64", "h2 n64 m129 d80"]),
        ("sinks", "bhnd", CAUSAL, ["sinks"], ["h4 g2 n17 m65 d64"]),
        ("large scores", "bhnd", {"scale": 4}, [], ["h2 n17 m65 d32"]),
        ("packed rows", "rows", CAUSAL, [], [sized("h2 d64", ns=[17, 1, 33], ms=[17, 129, 33])])]),
    "kernel_backward": ("attention_kernel_backward", "The gradients", [
        ("no mask", "bhnd", {}, [], ["h2 n17 m33 d64", "h1 n64 m130 d128", "h2 n2 m257 d32"]),
        ("causal", "bhnd", CAUSAL, [], ["h2 n17 m17 d32", "h2 n64 m65 d80", "h1 n130 m257 d64", "h2 n130 m130 d32"]),
        ("groups", "bhnd", CAUSAL, [], ["b3 h4 g1 n17 m33 d64", "h8 g2 n17 m65 d32"]),
        ("wide values", "bhnd", CAUSAL, [], ["h2 n17 m33 d64 e128"]),
        ("a window", "bhnd", {**CAUSAL, "left_window": 20}, [], ["h2 n64 m64 d64"]),
        ("a cap", "bhnd", {**CAUSAL, "softcap": 2}, [], ["h2 n17 m33 d64"]),
        ("a bias for all sequences", "bhnd", {}, ["bias"], ["b3 h2 n17 m33 d64"]),
        ("sinks", "bhnd", CAUSAL, ["sinks"], ["b2 h4 g2 n17 m33 d64"]),
        ("heads after tokens", "bnhd", CAUSAL, [], ["b2 h4 g2 n17 m33 d64"]),
        ("packed rows", "rows", CAUSAL, [], [sized("h2 d64", ns=[17, 33, 2], ms=[17, 33, 65])]),
        ("queries, keys and values packed", "qkv", CAUSAL, [], ["b2 h2 n33 d32"])]),
    "kernel_merge": ("merge_kernel", "Two halves of the keys, merged", [
        ("natural logs", None, {"base": "e"}, [], ["b1 h2 n17 e64", "b3 h2 n2 e128"]),
        ("logs to the base 2", None, {"base": 2}, [], ["b1 h2 n17 e64"]),
        ("an empty half", None, {"base": "e"}, [], [sized("b1 h2 n17 e32", empty=5)])]),
}


def words_of(sizes):
    names = {"b": "sequences", "h": "heads", "g": "heads of keys", "n": "queries", "m": "keys", "d": "wide", "e": "wide values", "s": "in a page",
             "ns": "queries", "ms": "keys"}
    return ", ".join(f"{' '.join(map(str, sizes[name])) if isinstance(sizes[name], list) else sizes[name]} {names[name]}"
                     for name in names if name in sizes and sizes[name] is not None)


def make(name, seed=1):
    function, title, groups = PLAN[name]
    file = {"schema": "vectors_kernels_1", "version": "1.1.0", "function": function, "title": title, "about": ABOUT[function], "notes": {}, "groups": []}
    seeds = count(1000 * (list(PLAN).index(name) + 1) + 100_000 * (seed - 1))
    for comment, layout, parameters, beside, all_sizes in groups:
        group = {"comment": comment, "parameters": {**({"layout": layout} if layout else {}), **parameters}, "cases": []}
        for sizes in all_sizes:
            sizes = sized(sizes) if isinstance(sizes, str) else sizes
            id_ = f"{name}/{len(file['groups']) + 1}/{len(group['cases']) + 1}"
            if layout:
                case = Case(layout, sizes, {**parameters, "with": beside}, seeds, grads=function.endswith("backward"))
                group["cases"].append(Maker(file, name).case(id_, words_of(sizes), case))
            else:
                group["cases"].append(MergeMaker(file, name).case(id_, words_of(sizes), Merge(sizes, parameters, seeds)))
        file["groups"].append(group)
    names = {mistake for group in file["groups"] for case in group["cases"] for mistake in case["wrong"]}
    file["notes"] = {mistake: dict(zip(("sentence", "why", "seen"), NOTES[mistake])) for mistake in NOTES if mistake in names}
    return file


def text_of(file):
    """A line for each alternative, and for each list of numbers."""
    def lines(value, indent):
        line = json.dumps(value, ensure_ascii=False)
        is_short = len(line) + indent <= 120 or not isinstance(value, (dict, list)) or (isinstance(value, list) and not isinstance(value[0], (dict, list)))
        if is_short or "form" in value:
            return line
        parts = [f"{json.dumps(key, ensure_ascii=False)}: {lines(one, indent + 1)}" for key, one in value.items()] if isinstance(value, dict) else \
            [lines(one, indent + 1) for one in value]
        margin, (begin, end) = " " * (indent + 1), "{}" if isinstance(value, dict) else "[]"
        return begin + "\n" + ",\n".join(margin + part for part in parts) + "\n" + " " * indent + end
    return lines(file, 0) + "\n"


def main(folder, seed=1):
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name in PLAN:
        (Path(folder) / f"{name}.json").write_text(text_of(make(name, int(seed))), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
