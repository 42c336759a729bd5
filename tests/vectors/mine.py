"""Attention of one sequence, with a mistake where the variable MISTAKE names one."""

import math
import os

import numpy as np

mistake = os.environ.get("MISTAKE", "")


def softmax(rows, sink=None, axis=-1):
    largest = np.max(rows, axis=axis, keepdims=True, initial=-np.inf if sink is None else sink)
    powers = np.exp(rows - np.where(largest == -np.inf, 0, largest))
    total = powers.sum(axis=axis, keepdims=True) + (0 if sink is None else np.exp(sink - largest))
    return powers / np.where(total == 0, 1, total)


def allowed(n, m, causal, left_window, right_window, kept, mask):
    row, key = np.arange(n)[:, None], np.arange(m)
    first = m - n if causal == "bottom-right" else 0
    place, diagonal = row + first * (mistake != "window_top_left"), row + first * (mistake != "causal_top_left")
    early = key <= diagonal + (mistake == "causal_next") - (mistake == "causal_strict") if causal else np.full((n, m), True)
    near = (key >= place - left_window - (mistake == "window_off_by_one")) & (key <= place + right_window) | (mistake == "window_missing")
    if mistake == "sink_tokens_early":
        return early & near | (key < kept)
    near = near | (key < kept) & (mistake != "sink_tokens_missing")
    return near & early & (True if mask is None else mask)


def attention(queries, keys, values, causal=None, left_window=None, right_window=None, kept=0, mask=None, bias=None, sinks=None, scale=None,
              softcap=None):
    if queries.ndim != 2:
        raise NotImplementedError("one sequence only")
    (n, d), m = queries.shape, len(keys)
    root = math.sqrt(d)
    scale = {"no_scale": 1, "scale_d_k": 1 / d, "scale_inverse": root, "scale_default": 1 / root}.get(mistake, scale or 1 / root)
    scores = scale * queries @ (keys.reshape(d, m) if mistake == "keys_reshaped" else keys.T)
    scores = softcap * np.tanh(scores / softcap) if softcap else scores
    scores = scores if bias is None else scores + bias
    is_masked = mask is not None or causal or left_window is not None
    can = allowed(n, m, causal, math.inf if left_window is None else left_window, math.inf if right_window is None else right_window, kept, mask)
    can = can.T if mistake == "mask_transposed" and n == m else can
    can = ~can if mistake == "mask_inverted" and is_masked else can
    fill = {"mask_zero": 0, "mask_finite": -100}.get(mistake, -np.inf)
    if mistake == "mask_added":
        scores = scores + (can if is_masked else 0)
    elif mistake not in ("mask_missing", "mask_after_softmax"):
        scores = np.where(can, scores, fill)
    with np.errstate(all="ignore"):
        usual = softmax(scores, None if sinks is None or mistake == "sink_missing" else sinks[0])
        weights = {"softmax_axis": lambda: softmax(scores, axis=0), "softmax_all": lambda: softmax(scores, axis=(0, 1)),
                   "softmax_missing": lambda: scores, "softmax_unnormalized": lambda: np.exp(scores), "softmax_twice": lambda: softmax(usual),
                   "softmax_sigmoid": lambda: 1 / (1 + np.exp(-scores)), "softmax_log": lambda: np.log(usual),
                   "softmax_over_one": lambda: np.ones_like(scores), "mask_after_softmax": lambda: usual * can,
                   "weights_transposed": lambda: usual.T if n == m else usual}.get(mistake, lambda: usual)()
        output = weights @ values
        return {"more_axes": output[None], "imaginary": output + 1j, "not_a_number": output * np.nan}.get(mistake, output)
