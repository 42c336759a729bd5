"""What every step of lesson 14 has to give: the gradients by PyTorch's autograd in float64.

generate.py calls lesson_14() and writes what it returns.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

import layers
import small_model
from case import within

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "oracle"))
import planted

INPUTS = [[1, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1]]
MAPS = {
    "query_weights": [[1, 0, 1], [1, 0, 0], [0, 0, 1], [0, 1, 1]],
    "key_weights": [[0, 0, 1], [1, 1, 0], [0, 1, 0], [1, 1, 0]],
    "value_weights": [[0, 2, 0], [0, 3, 0], [1, 0, 3], [1, 1, 0]],
}
TARGET = [[1, 6, 2], [2, 7, 1], [2, 6, 1]]


def tensor(numbers):
    return torch.tensor(numbers, dtype=torch.float64)


def attend(given):
    """The steps from the inputs to the loss."""
    parts = (("queries", "query"), ("keys", "key"), ("values", "value"))
    steps = {name: given["inputs"] @ given[f"{part}_weights"] for name, part in parts}
    steps["scores"] = steps["queries"] @ steps["keys"].T
    steps["scaled"] = steps["scores"] / steps["keys"].shape[1] ** 0.5
    steps["weights"] = torch.softmax(steps["scaled"], dim=-1)
    steps["output"] = steps["weights"] @ steps["values"]
    return steps | {"loss": (steps["output"] - given["target"]).square().sum() / 2}


def gradients_of(loss, steps, names):
    return dict(zip(names, torch.autograd.grad(loss, [steps[name] for name in names], retain_graph=True, allow_unused=True)))


# ------------------------------------------------------------------------------------------------ the worked example


def worked_example():
    given = {"inputs": tensor(INPUTS)} | {name: tensor(numbers) for name, numbers in MAPS.items()} | {"target": tensor(TARGET)}
    for name in ("inputs", *MAPS):
        given[name].requires_grad_()
    steps = attend(given)
    everything = given | steps
    names = ["output", "values", "weights", "scaled", "scores", "queries", "keys", *MAPS, "inputs"]
    d = gradients_of(steps["loss"], everything, names)

    # The inputs three times, so that each use has a gradient of its own.
    copies = {name: given["inputs"].detach().clone().requires_grad_() for name in ("queries", "keys", "values")}
    queries, keys, values = (copies[name] @ given[weights] for name, weights in zip(copies, MAPS))
    again = torch.softmax(queries @ keys.T / 3**0.5, dim=-1) @ values
    parts = gradients_of((again - given["target"]).square().sum() / 2, copies, list(copies))
    total = d.pop("inputs")
    torch.testing.assert_close(total, sum(parts.values()), rtol=1e-12, atol=1e-12)

    golden = everything | within("grad", d) | within("grad.inputs.from", parts) | {"grad.inputs": total}
    jacobian = torch.autograd.functional.jacobian(lambda row: torch.softmax(row, dim=-1), steps["scaled"][0])
    golden |= within("row", {"mean": steps["weights"][0] @ d["weights"][0], "jacobian": jacobian, "scaled": d["scaled"][0]})
    for name in ("query_weights", "inputs"):
        golden |= within(f"differences.{name}", differences(given, name))
    moved = {name: given[name] - 0.01 * d[name] for name in MAPS}
    golden |= within("step", {"rate": 0.01} | moved | {"loss": attend(given | moved)["loss"]})
    return golden, d, parts


def differences(given, name):
    """The loss on both sides of the first number of a matrix."""
    first = torch.zeros_like(given[name])
    first[0, 0] = 1
    golden = {"first": first}
    for scope, h in (("tenth", 0.1), ("hundredth", 0.01)):
        golden[f"{scope}.h"] = h
        losses = []
        for side, sign in (("above", 1), ("below", -1)):
            moved = given[name] + sign * h * first
            losses.append(attend(given | {name: moved})["loss"])
            golden |= within(f"{scope}.{side}", {name: moved, "loss": losses[-1]})
        golden[f"{scope}.slope"] = (losses[0] - losses[1]) / (2 * h)
    return golden


def padded(steps):
    """The last token is padding, and not in the loss."""
    leaf = {name: steps[name].detach().requires_grad_() for name in ("queries", "keys", "values")}
    leaf["scaled"] = leaf["queries"] @ leaf["keys"].T / 3**0.5
    mask = torch.tensor([True, True, False]).repeat(3, 1)
    masked = leaf["scaled"].masked_fill(~mask, -torch.inf)
    weights = torch.softmax(masked, dim=-1)
    output = weights @ leaf["values"]
    loss = (output - steps["target"])[:2].square().sum() / 2
    golden = {"mask": mask, "masked": masked, "weights": weights, "output": output, "loss": loss}
    names = ["output", "values", "weights", "masked", "scaled", "keys"]
    return within("padded", leaf | golden) | within("grad.padded", gradients_of(loss, leaf | golden, names))


def mistakes(steps, d, parts):
    slopes = steps["weights"] * (1 - steps["weights"]) * d["weights"]
    to_map = lambda scores: steps["inputs"].T @ scores @ steps["keys"]
    return {
        "wrong.diagonal.scaled": slopes, "wrong.diagonal.query_weights": to_map(slopes / 3**0.5),
        "wrong.unscaled.query_weights": to_map(d["scaled"]), "wrong.overwritten.inputs": parts["values"],
    }  # fmt: skip


# ------------------------------------------------------------------------------------------------ what reaches where


def saturation():
    draw = planted.SplitMix(14)
    given = {"queries": draw(32, 1024, scale=3**0.5), "keys": draw(32, 1024, scale=3**0.5), "arriving": draw(32, 32, scale=3**0.5)}
    given = {name: torch.from_numpy(array) for name, array in given.items()}
    golden = dict(given)
    for d_k in (1, 4, 16, 64, 256, 1024):
        scores = given["queries"][:, :d_k] @ given["keys"][:, :d_k].T
        for scope, divisor in (("unscaled", 1), ("scaled", d_k**0.5)):
            leaf = (scores / divisor).requires_grad_()
            weights = torch.softmax(leaf, dim=-1)
            (reached,) = torch.autograd.grad((weights * given["arriving"]).sum(), leaf)
            norms = torch.linalg.vector_norm(reached, dim=1)
            steps = {"scores": leaf, "weights": weights, "reached": reached, "norms": norms}
            steps |= {"mean": norms.mean(), "stuck": (norms < 0.01).double().mean()}
            golden |= within(f"d_k.{d_k}.{scope}", steps)
    return within("random", golden)


def depth():
    recipes = {
        "post": (True, "after"), "pre": (True, "before"), "residual_only": (True, ""), "norm_only": (False, "after"),
        "neither": (False, ""),
    }  # fmt: skip
    golden = {}
    for count in (6, 24):
        for name, (residual, norm) in recipes.items():
            norms, spreads = through_stack(count, residual, norm, 14)
            golden |= within(f"depth.{count}.{name}", {"norms": norms, "spreads": spreads, "ratio": norms[0] / norms[-1]})
    for name, (residual, norm) in recipes.items():
        if norm:
            others = [through_stack(24, residual, norm, seed)[0] for seed in range(9)]
            golden[f"depth.others.{name}.ratios"] = torch.sort(torch.stack([one[0] / one[-1] for one in others])).values
    return golden


def through_stack(count, residual, norm, seed, n=8, d=32, d_ff=64):
    """At each layer's input and at the end: the gradient's norm, and how much of the tokens differs between them."""
    draw = planted.SplitMix(seed)
    glorot = lambda rows, columns: torch.from_numpy(draw(rows, columns, scale=(6 / (rows + columns)) ** 0.5))
    normalized = lambda x: F.layer_norm(x, (d,))
    arriving = torch.from_numpy(draw(n, d))
    arriving = arriving / arriving.norm()
    x = torch.from_numpy(draw(n, d, scale=3**0.5)).requires_grad_()
    inputs = [x]
    for _ in range(count):
        query, key, value, output = (glorot(d, d) for _ in range(4))
        hidden, down = glorot(d, d_ff), glorot(d_ff, d)
        attention = lambda y: torch.softmax(y @ query @ (y @ key).T / d**0.5, dim=-1) @ y @ value @ output
        for block in (attention, lambda y: F.relu(y @ hidden) @ down):
            y = block(normalized(x) if norm == "before" else x)
            y = x + y if residual else y
            x = normalized(y) if norm == "after" else y
        inputs.append(x)
    end = normalized(x) if norm == "before" else x
    norms = [grad.norm() for grad in torch.autograd.grad(end, inputs, arriving)]
    return torch.stack(norms), torch.stack([(x - x.mean(dim=0)).norm() / x.norm() for x in inputs])


def words(scope, text, after, word):
    """The cross-entropy of a word, and its gradient at each word's row of the table."""
    config = json.loads((small_model.FOLDER / "config.json").read_text())
    state = {name: array.double() for name, array in small_model.load_safetensors(small_model.FOLDER / "model.safetensors").items()}
    ids = torch.tensor([config["vocabulary"].index(each) for each in text.split()])
    wanted, n = config["vocabulary"].index(word), len(ids)
    table = state["token_embedding.weight"]
    tokens = table[ids].requires_grad_()
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    embedded = tokens + state["position_embedding.weight"][:n]
    steps = layers.encoder(embedded, state, config["layers"], "pre", "relu", config["heads"], causal)
    all_logits = steps["norm.output"] @ table.T
    with torch.no_grad():
        layers.expect(all_logits, small_model.module_logits(embedded, state, config, causal))
    logits = all_logits[after]
    loss = F.cross_entropy(logits, torch.tensor(wanted))
    at_logits, at_tokens = torch.autograd.grad(loss, (logits, tokens))
    golden = {"logits": logits, "probabilities": torch.softmax(logits, dim=-1), "loss": loss}
    golden = within(scope, golden) | within(f"grad.{scope}", {"logits": at_logits, "tokens": at_tokens})
    return golden | {f"{scope}.norms": torch.linalg.vector_norm(at_tokens, dim=1)}


def lesson_14():
    golden, d, parts = worked_example()
    steps = dict(golden)
    golden |= saturation() | padded(steps) | depth()
    sentence = "Lily had a red ball . She"
    golden |= words("words.she", sentence, 5, "She") | words("words.he", sentence, 5, "He")
    golden |= words("words.kite", sentence + " took the", 8, "kite") | mistakes(steps, d, parts)
    return {name: step.detach().numpy() if torch.is_tensor(step) else np.array(step) for name, step in golden.items()}
