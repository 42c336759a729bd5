#!/usr/bin/env python3
"""What ONNX's operator Attention gives for numbers of our own, in all its modes, by ONNX's reference implementation.

    onnx_attention.py    writes tests/golden/onnx_attention.npz

It needs the package onnx in a version that has the windows of Attention, of opset 25 (1.23 and later, or its source tree).
generate.py does not run it, since that package is on few machines; the file is what it wrote with 1.23.2. Each case (case.py) has,
of all steps, those that are results of the operator.
"""

from pathlib import Path

import numpy as np
from onnx.reference.ops.op_attention import _compute_attention

from case import case, flags
from generate import write

RANDOM = np.random.RandomState(20)
B, H, G, N, M, P, DK, DV = 2, 4, 2, 3, 5, 2, 4, 3


def numbers(*shape):
    return np.round(RANDOM.standard_normal(shape) * 64) / 64


def packed(heads):
    b, h, n, d = heads.shape
    return heads.transpose(0, 2, 1, 3).reshape(b, n, h * d)


def booleans(*shape):
    mask = RANDOM.random_sample(shape) < 0.6
    mask[..., 1, :] = False  # a query that can attend to nothing
    return mask


def inputs():
    given = {"q": numbers(B, H, N, DK), "k": numbers(B, H, M, DK), "v": numbers(B, H, M, DV),
             "kg": numbers(B, G, M, DK), "vg": numbers(B, G, M, DV),
             "past_k": numbers(B, H, P, DK), "past_v": numbers(B, H, P, DV),
             "past_kg": numbers(B, G, P, DK), "past_vg": numbers(B, G, P, DV)}
    given |= {f"{name}3": packed(given[name]) for name in ("q", "k", "v", "kg", "vg")}
    given |= {"bool_nm": booleans(N, M), "bool_bnm": booleans(B, 1, N, M), "bool_bhnm": booleans(B, H, N, M),
              "add_nm": numbers(N, M), "add_bnm": numbers(B, 1, N, M), "add_bhnm": numbers(B, H, N, M),
              "add_hnm": numbers(H, N, M), "add_short": numbers(B, H, N, M - 1),
              "add_past": numbers(N, P + M), "bool_past": booleans(B, 1, N, P + M),
              "lengths": np.array([4, 2]), "few": np.array([5, 1])}
    given["add_nm"][0, 2] = -np.inf
    return given


# Each: the arrays q, k, v, mask, past_k, past_v, lengths that go in (- for none), and the operator's attributes.
HEADS = {"q_num_heads": H, "kv_num_heads": H}
GROUPS = {"q_num_heads": H, "kv_num_heads": G}
CASES = {
    "heads": ("q k v - - - -", {}),
    "scale": ("q k v - - - -", {"scale": 0.3}),
    "softcap": ("q k v - - - -", {"softcap": 0.75}),
    "groups": ("q kg vg - - - -", {}),
    "one_group_of_values": ("q kg vg bool_nm - - -", {"softcap": 1.5, "is_causal": 1}),
    "bool_nm": ("q k v bool_nm - - -", {}),
    "bool_bnm": ("q k v bool_bnm - - -", {}),
    "bool_bhnm": ("q k v bool_bhnm - - -", {}),
    "add_nm": ("q k v add_nm - - -", {}),
    "add_bnm": ("q k v add_bnm - - -", {}),
    "add_bhnm": ("q k v add_bhnm - - -", {}),
    "add_hnm": ("q k v add_hnm - - -", {}),
    "causal": ("q k v - - - -", {"is_causal": 1}),
    "causal_add_bhnm": ("q k v add_bhnm - - -", {"is_causal": 1}),
    "causal_bool_bnm": ("q k v bool_bnm - - -", {"is_causal": 1}),
    "past": ("q k v - past_k past_v -", {}),
    "past_add": ("q k v add_past past_k past_v -", {"qk_matmul_output_mode": 2}),
    "past_causal": ("q k v - past_k past_v -", {"is_causal": 1}),
    "past_groups_causal": ("q kg vg bool_past past_kg past_vg -", {"is_causal": 1}),
    "lengths": ("q k v - - - lengths", {}),
    "lengths_add_short": ("q k v add_short - - lengths", {}),
    "lengths_causal": ("q k v - - - lengths", {"is_causal": 1}),
    "lengths_causal_few": ("q kg vg bool_bhnm - - few", {"is_causal": 1}),
    "mode_0": ("q k v add_nm - - -", {"qk_matmul_output_mode": 0}),
    "mode_1": ("q k v add_nm - - -", {"softcap": 0.75, "qk_matmul_output_mode": 1}),
    "mode_2": ("q k v add_nm - - -", {"softcap": 0.75, "qk_matmul_output_mode": 2}),
    "mode_2_bool": ("q k v bool_bhnm - - -", {"qk_matmul_output_mode": 2}),
    "mode_3": ("q k v bool_nm - - -", {"qk_matmul_output_mode": 3}),
    "packed": ("q3 k3 v3 - - - -", HEADS),
    "packed_groups": ("q3 kg3 vg3 - - - -", GROUPS),
    "packed_bool_bhnm": ("q3 k3 v3 bool_bhnm - - -", HEADS),
    "packed_causal": ("q3 kg3 vg3 - - - -", {"is_causal": 1, "scale": 0.3} | GROUPS),
    "packed_past": ("q3 kg3 vg3 add_past past_kg past_vg -", {"softcap": 0.75, "qk_matmul_output_mode": 1} | GROUPS),
    "window": ("q k v - - - -", {"left_window_size": 1, "right_window_size": 1}),
    "window_left": ("q kg vg bool_nm - - -", {"left_window_size": 0}),
    "window_right_add": ("q k v add_bhnm - - -", {"right_window_size": 0}),
    "window_causal": ("q k v - - - -", {"left_window_size": 1, "is_causal": 1}),
    "window_past": ("q kg vg bool_past past_kg past_vg -", {"left_window_size": 2, "right_window_size": 1}),
    "window_lengths": ("q k v - - - lengths", {"left_window_size": 1, "right_window_size": 1}),
    "window_lengths_causal": ("q k v - - - lengths", {"left_window_size": 1, "is_causal": 1}),
    "packed_window": ("q3 kg3 vg3 - - - -", {"left_window_size": 1} | GROUPS),
    "packed_window_past": ("q3 kg3 vg3 - past_kg past_vg -", {"left_window_size": 2, "right_window_size": 0} | GROUPS),
    "packed_window_lengths": ("q3 k3 v3 - - - few", {"right_window_size": 0} | HEADS),
    "packed_lengths": ("q3 k3 v3 - - - lengths", {"is_causal": 1, "qk_matmul_output_mode": 3} | HEADS),
}


def run_of(attributes, has_lengths):
    causal = ("causal-by-length" if has_lengths else "causal-top-left") if "is_causal" in attributes else None
    names = ("scale", "softcap", "left_window_size", "right_window_size", "q_num_heads")
    scale, softcap, left, right, heads = (attributes.get(name) for name in names)
    return "attention" + flags(heads=heads, scale=scale, softcap=softcap, left_window=left, right_window=right, mask=causal)


def results():
    given, golden = inputs(), {}
    for name, (arrays, attributes) in CASES.items():
        words = arrays.split()
        q, k, v, mask, past_k, past_v, lengths = (given.get(array) for array in words)
        with np.errstate(invalid="ignore"):
            y, present_key, present_value, qk = _compute_attention(
                q, k, v, attn_mask=mask, past_key=past_k, past_value=past_v, nonpad_kv_seqlen=lengths, **attributes)
        group = "group_" if words[1].startswith("kg") else ""
        steps = {"output": y} | ({} if past_k is None else {f"{group}keys": present_key, f"{group}values": present_value})
        if "qk_matmul_output_mode" in attributes:
            is_added = mask is not None and mask.dtype != bool
            steps[["scaled", "capped", "biased" if is_added else "masked", "weights"][attributes["qk_matmul_output_mode"]]] = qk
        masks = "bias" if words[3] in ("add_bnm", "add_hnm") else "mask"  # either name does
        taken = dict(zip(("queries", "keys", "values", masks, "past_keys", "past_values", "lengths"), (q, k, v, mask, past_k, past_v, lengths)))
        taken = {name: array for name, array in taken.items() if array is not None}
        golden |= case(name, run_of(attributes, lengths is not None), taken, steps)
    return golden


if __name__ == "__main__":
    write(Path(__file__).resolve().parent / "onnx_attention.npz", results())
