#!/usr/bin/env python3
"""The solved exercises pass the vectors of the functions that they are part of: exercises_test.py

What an exercise leaves out, such as the product with the values, is done here by a line of NumPy.
"""

import importlib.util
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "lessons")]
from attn import vectors  # noqa: E402
import numpy_parts  # noqa: E402


def solved(number):
    path = next((ROOT / "tests" / "exercises").glob(f"{number:02}_*.py"))
    specification = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def only(condition):
    if not condition:
        raise NotImplementedError


def scaled(queries, keys):
    return queries @ keys.T / np.sqrt(keys.shape[1])


def all_queries(queries, keys, values, score):
    only(score == "dot" and queries.ndim == 2)
    return solved(2).my_attention(queries, keys, values)


def normalised(scores):
    return np.array([solved(3).my_softmax(row) for row in scores])


def learned(queries, keys, values, weights, score):
    def of_pair(query, key):
        if score == "additive":
            return solved(4).my_additive_score(query, key, *(weights[name] for name in ("query_weights", "key_weights", "score_weights")))
        return solved(4).my_bilinear_score(query, key, weights["bilinear_weights"])
    only(score in ("additive", "bilinear"))
    return numpy_parts.softmax(np.array([[of_pair(query, key) for key in keys] for query in queries])) @ values


def masked(queries, keys, values, causal):
    only(queries.ndim == 2 and len(queries) == len(keys))
    return solved(5).my_masked_weights(scaled(queries, keys), len(keys)) @ values


def placed(x, layout, first=0):
    only(layout == "interleaved")
    return x + np.array([[solved(8).my_sinusoid(first + i, k, x.shape[1]) for k in range(x.shape[1])] for i in range(len(x))])


def normed(x, weights, epsilon=1e-5):
    return solved(9).my_normalized(x, epsilon) * weights["weight"] + weights["bias"]


def decoded(x, memory, weights, heads, norm, activation, causal):
    only(norm == "post" and activation == "relu")
    return solved(12).my_decoder_layer(x, memory, weights, heads)


def softmax_derived(**given):
    return solved(14).my_score_gradient(numpy_parts.softmax(given["scores"]), given["grad.output"])


def loss_derived(**given):
    return given["grad.output"] * solved(15).my_loss_gradient(given["logits"], given["targets"])


def rotated(x, rotary_layout, rotary_base=10000, first=0):
    only(rotary_layout == "pairs" and x.ndim == 2)
    frequencies = rotary_base ** (-np.arange(0, x.shape[1], 2) / x.shape[1])
    turned = [solved(16).my_turned_pair(x[:, 2 * i:2 * i + 2], (first + np.arange(len(x))) * frequency) for i, frequency in enumerate(frequencies)]
    return np.concatenate(turned, axis=1)


def cached(queries, keys, values, past_keys, past_values, causal):
    only(len(queries) == 1)
    return solved(17).my_cached_attention(queries, keys, values, past_keys, past_values)[0]


def recurrent(x, weights):
    hidden = cell = np.zeros(weights["weight_hh_l0"].shape[1])
    rows = []
    for token in x:
        hidden, cell = solved(21).my_lstm_step(token, hidden, cell, weights["weight_ih_l0"].T, weights["bias_ih_l0"], weights["weight_hh_l0"].T,
                                               weights["bias_hh_l0"])
        rows.append(hidden)
    return np.array(rows)


def windowed(queries, keys, values, causal, left_window, kept=0):
    mask = solved(25).my_window_mask(len(queries), len(keys), left_window + 1, kept)
    return numpy_parts.softmax(np.where(mask, scaled(queries, keys), -np.inf)) @ values


def mixed(x, weights, top, normalization="sum"):
    def expert(token, name):
        gate, up = (weights[f"{name}.{one}_proj.weight"] @ token for one in ("gate", "up"))
        return weights[f"{name}.down_proj.weight"] @ (gate / (1 + np.exp(-gate)) * up)

    def mixture(token):
        shared = np.zeros_like(token)
        if "shared_expert.up_proj.weight" in weights:
            shared = expert(token, "shared_expert") / (1 + np.exp(-weights["shared_expert_gate.weight"][0] @ token))
        logits = weights["router.weight"] @ token
        outputs = np.array([expert(token, f"experts.{i}") for i in range(len(logits))])
        return solved(26).my_mixture(logits, outputs, shared, top, normalization == "sum")
    only(normalization in ("sum", "none"))
    return np.array([mixture(token) for token in x])


EXERCISES = {2: ("attention", all_queries), 3: ("softmax", normalised), 4: ("attention", learned), 5: ("attention", masked), 8: ("positions", placed),
             9: ("layer_norm", normed), 12: ("decoder_layer", decoded), 14: ("softmax_backward", softmax_derived),
             15: ("cross_entropy_backward", loss_derived), 16: ("rotary", rotated), 17: ("attention", cached), 21: ("lstm", recurrent),
             25: ("attention", windowed), 26: ("experts", mixed)}


def main():
    total = 0
    for number, (name, function) in EXERCISES.items():
        results = [one for one in vectors.check(function, name) if not one.is_left_out]
        for one in results:
            if one.message:
                print(f"exercise {number}: {one.id}: {one.message}")
                return 1
        if not results:
            print(f"exercise {number}: none of the vectors of {name} is one that it computes")
            return 1
        total += len(results)
    print(f"{len(EXERCISES)} exercises pass {total} cases")
    return 0


if __name__ == "__main__":
    sys.exit(main())
