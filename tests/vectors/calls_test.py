#!/usr/bin/env python3
"""What the vectors say of a mistake with a cache is what attn.check_calls() means by its name: calls_test.py

The wrong results of attention_calls, beam_attention_calls, padded_attention_calls and multi_head_attention_calls were made by formulas. Here each mistake is made once more, by its
decision of the small decoder of attn.calls_mistakes, whose attention gets the numbers of the case.
"""

import json
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "vectors" / "runners")]
from attn.calls_mistakes import MISTAKES  # noqa: E402
from attn.calls_reference import Decoder  # noqa: E402
from check import given_to, scopes_of  # noqa: E402


def decoder_of(parameters, made):
    """One layer of attention alone, with the mistake; learned positions are not looked at there."""
    options = {"positions": parameters.get("positions", "learned"), "layers": 1, "d": 2, "heads": parameters.get("heads", 1),
               "window": parameters.get("left_window", -1) + 1, "kept": parameters.get("kept", 0)}
    decoder = made(**options)
    if options["positions"] == "alibi":  # the slopes of the paper, where the decoder has steeper ones
        bias, ratio = decoder.bias, 2.0 ** (np.arange(1, 3) - 8 * np.arange(1, 3) / 2)
        decoder.bias = lambda *given: bias(*given) * ratio[:, None, None]
    return decoder


def results(function, parameters, case, made):
    """The outputs of all calls, by name."""
    decoder, found = decoder_of(parameters, made), {}
    for request in scopes_of(case):
        state = None
        for scope in request:
            given = given_to(case, {}, scope)
            if function == "multi_head_attention_calls":
                x = given["x"]
                decoder.weights[0].update({name: given["weights"][f"{name}_proj.weight"].T for name in "qkvo"})
            else:  # queries, keys and values side by side, and each taken out again
                x = np.concatenate([array for name, array in given.items() if name.rstrip("s") in ("query", "querie", "key", "value")], -1)
                decoder.weights[0].update(zip("qkvo", [*np.split(np.eye(6), 3, axis=1), np.eye(2)]))
            tokens = x.reshape(-1, *x.shape[-2:])
            state = decoder.start(len(tokens)) if state is None else decoder.reorder(state, given["rows"]) if "rows" in given else state
            now = given.get("attention_mask", np.ones(tokens.shape[:2], bool))
            real = np.concatenate([state.real, now], 1)
            counted = state.count[:, None] + np.cumsum(now, 1) - 1
            order = np.where(now, counted, -1)
            places = decoder.places(state, order, np.maximum(counted, 0) if "attention_mask" in given else None, 0)
            if "position_table" in given:
                tokens = tokens + np.concatenate([given["position_table"][places]] * 2 + [np.zeros((*places.shape, 2))], -1)
            output = decoder.attend(state, 0, tokens, order, places, None) @ decoder.weights[0]["o"] * now[..., None]
            state.real, state.calls, state.prompt = real, state.calls + 1, state.prompt or tokens.shape[1]
            found[scope + "output"] = output.reshape(*x.shape[:-2], *output.shape[-2:])
    return found


def compare(what, found, expected):
    for name, numbers in expected.items():
        largest = max(1, np.max(np.abs(numbers)))
        assert np.allclose(found[name].ravel(), numbers, rtol=0, atol=2e-6 * largest), f"{what}: {name} is {found[name].ravel()}, expected {numbers}"


def main():
    by_id, compared = {mistake.id: mistake for mistake in MISTAKES}, set()
    for name in ("attention_calls", "beam_attention_calls", "padded_attention_calls", "multi_head_calls"):
        file = json.loads((ROOT / "vectors" / "cases" / f"{name}.json").read_text())
        for group in file["groups"]:
            for case in group["cases"]:
                right = {output: entry["values"] for output, entry in case["outputs"].items()}
                compare(case["id"], results(file["function"], group["parameters"], case, Decoder), right)
                for id_, wrong in case["wrong"].items():
                    compare(f"{case['id']}: {id_}", results(file["function"], group["parameters"], case, by_id[id_].made), {**right, **wrong})
                    compared.add(id_)
    assert len(compared) >= 37, f"{len(compared)} mistakes were compared, expected 37"
    print(f"{len(compared)} mistakes give in the decoder of attn.check_calls() what the vectors have of them")
    return 0


if __name__ == "__main__":
    sys.exit(main())
