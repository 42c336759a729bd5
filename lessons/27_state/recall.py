"""Measures how many pairs of keys and values a state recalls, beside attention with softmax.

    recall.py [FOLDER]

Keys and values are random rows of length 1, of d features each; every pair is written, every key is asked for, and its value is
recalled where it is the nearest of all values to what comes back. Once every key is new, once each is written twice, the second
time with another value, which is what should come back. Writes recall.json to FOLDER, by default its own.
"""

import json
import sys
from pathlib import Path

import numpy as np

SIZES, PAIRS, TRIALS = (8, 16, 32, 64), (4, 8, 16, 32, 64), 200
SHARPNESS = 16  # what scores of attention are multiplied by


def unit_rows(source, *shape):
    rows = source.standard_normal(shape)
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def summed(keys, values):
    return keys.T @ values


def corrected(keys, values):
    state = np.zeros((keys.shape[1], values.shape[1]))
    for key, value in zip(keys, values):
        state += np.outer(key, value - key @ state)
    return state


def attended(queries, keys, values):
    weights = np.exp(SHARPNESS * (queries @ keys.T - 1))
    return weights / weights.sum(axis=1, keepdims=True) @ values


def share_recalled(back, values):
    """Of all values, the wanted ones are the last."""
    nearest = np.argmax(back @ values.T, axis=1)
    return float(np.mean(nearest == np.arange(len(values) - len(back), len(values))))


def shares(d, pairs, writes, source):
    """Of each rule, the share of keys whose last value is recalled; each key is written `writes` times."""
    keys, values = unit_rows(source, pairs, d), unit_rows(source, writes * pairs, d)
    written = np.tile(keys, (writes, 1))
    return {
        "sum": share_recalled(keys @ summed(written, values), values),
        "delta": share_recalled(keys @ corrected(written, values), values),
        "attention": share_recalled(attended(keys, written, values), values),
    }


def main(arguments):
    if len(arguments) > 1 or arguments[:1] == ["--help"]:
        print(__doc__, file=sys.stderr)
        return 2
    folder = Path(arguments[0]) if arguments else Path(__file__).resolve().parent
    found = {"trials": TRIALS}
    for name, writes in (("once", 1), ("twice", 2)):
        found[name] = {}
        for d in SIZES:
            found[name][d] = {}
            for pairs in PAIRS:
                source = np.random.RandomState(1000 * d + pairs)
                trials = [shares(d, pairs, writes, source) for _ in range(TRIALS)]
                found[name][d][pairs] = {rule: float(np.mean([trial[rule] for trial in trials])) for rule in trials[0]}
                print(name, d, pairs, {rule: round(share, 3) for rule, share in found[name][d][pairs].items()}, flush=True)
    (folder / "recall.json").write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
