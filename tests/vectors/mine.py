"""Attention of one sequence, at once and in several calls, with a mistake where the variable MISTAKE names one."""

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


last = None  # the state of the last call


def attention_calls(queries, keys, values, state, causal, left_window=math.inf, kept=0):
    global last
    if state is None:
        empty = (np.zeros((0, keys.shape[1])), np.zeros((0, values.shape[1])), 0)
        state = (*last[:2], 0) if mistake == "last_request" and last else empty
    past_keys, past_values, calls = state
    all_keys, all_values = np.concatenate([past_keys, keys]), np.concatenate([past_values, values])
    n, m = len(queries), len(all_keys)
    row, key, past = np.arange(n)[:, None], np.arange(m), m - n
    left = left_window + ({"window_one_long": 1, "window_one_short": -1}.get(mistake, 0) if calls else 0)
    early = key <= row + past
    if mistake == "mask_skipped_with_cache" or mistake == "chunk_unmasked" and calls:
        early = early | True
    if mistake == "mask_at_first_key" or mistake == "chunk_masked_top_left" and n > 1:
        early = early & (key <= row)
    if mistake == "cache_ignored" or mistake == "chunk_sees_itself_alone" and n > 1:
        early = early & (key >= past)
    near = key >= row + past - left
    if mistake == "ring_written_first":
        near = near & ((key >= past) | (key > m - left_window - 2))
    scores = np.where(early & (near | (key < kept)), queries @ all_keys.T / math.sqrt(keys.shape[1]), -np.inf)
    output = softmax(scores) @ all_values
    if mistake == "cache_overwritten":
        all_keys, all_values = keys, values
    if mistake == "token_stored_twice" and not calls:
        all_keys, all_values = np.concatenate([all_keys, keys[-1:]]), np.concatenate([all_values, values[-1:]])
    last = all_keys, all_values, calls + 1
    return output, last


def padded_attention_calls(query, key, value, attention_mask, position_table, state):
    real, keys, values = state or (attention_mask[:, :0], key[:, :0], value[:, :0])
    past, is_later = real.shape[1], state is not None
    real = np.concatenate([real, attention_mask], 1)
    m, places = real.shape[1], np.maximum(np.cumsum(real, 1)[:, past:] - 1, 0)
    if mistake == "padding_counted" or mistake == "steps_at_padded_length" and is_later:
        places = np.broadcast_to(np.arange(past, m), places.shape)
    if mistake == "positions_of_first_row":
        places = np.broadcast_to(places[:1], places.shape)
    keys, values = np.concatenate([keys, key + position_table[places]], 1), np.concatenate([values, value], 1)
    seen = {"padding_not_masked": real | True, "padding_seen_later": real | (np.arange(m) < past), "mask_of_first_row": real[:1]}.get(mistake, real)
    can = attention_mask[:, :, None] & seen[:, None] & (np.arange(m) <= np.arange(past, m)[:, None])
    scores = (query + position_table[places]) @ keys.swapaxes(1, 2) / math.sqrt(key.shape[2])
    return softmax(np.where(can, scores, -np.inf)) @ values, (real, keys, values)
