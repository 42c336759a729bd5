#!/usr/bin/env python3
"""What restricted and talking-heads attention have to give, step by step, by NumPy and PyTorch in float64; and the steps
of the lessons on them.

Restricted attention is computed as its authors describe it, on all pairs: scores (n, n) under a mask. What the steps of
the band are is then read off it, column by column. Talking heads are computed on tensors with an axis of heads, as the
paper's program does; with identities for both mixtures they have to be PyTorch's nn.MultiheadAttention.

The cases are called restricted.SIZES.NEIGHBOURHOOD and talking_heads.KIND.INPUT.MASK. generate.py writes the files.
"""

import numpy as np
import torch
from torch import nn

from case import case, flags, numbers, within


def softmax(x):
    """Zeros where all of a row is minus infinity."""
    return torch.softmax(torch.from_numpy(np.asarray(x, float)), dim=-1).nan_to_num(0.0).numpy()


# --------------------------------------------------------------------------------------------------------- restricted


def is_neighbour(distance, radius, stride, past):
    near = radius is not None and abs(distance) <= radius
    in_step = stride is not None and distance % stride == 0
    return (near or in_step) and not (past and distance > 0)


def band_of(n, radius=None, stride=None, past=False):
    """The distances that occur, in order; and for each token and distance the place, and whether a token is there."""
    distances = np.array([d for d in range(1 - n, n) if is_neighbour(d, radius, stride, past)])
    places = np.add.outer(np.arange(n), distances)
    mask = np.logical_and(places >= 0, places < n)
    return {"distances": distances, "places": places, "mask": mask, "neighbours": np.where(mask, places, 0)}


def restricted(queries, keys, values, scale=None, **neighbourhood):
    """The steps, the band's numbers read off a full matrix."""
    n, d_k = keys.shape
    band = band_of(n, **neighbourhood)
    scale = 1 / np.sqrt(d_k) if scale is None else scale
    full = queries @ keys.T
    pairs = np.array([[is_neighbour(j - i, **{"radius": None, "stride": None, "past": False} | neighbourhood) for j in range(n)] for i in range(n)])
    all_weights = softmax(np.where(pairs, full * scale, -np.inf))
    on_band = lambda matrix, otherwise: np.where(band["mask"], np.take_along_axis(matrix, band["neighbours"], axis=1), otherwise)
    scores = on_band(full, 0)
    return {"queries": queries, "keys": keys, "values": values} | band | {
        "scores": scores,
        "scaled": scores * scale,
        "masked": on_band(full * scale, -np.inf),
        "weights": on_band(all_weights, 0),
        "context": all_weights @ values,
    }  # fmt: skip


SIZES = {"one": (1, 2, 3), "two": (2, 1, 1), "few": (5, 3, 4), "odd": (9, 5, 7), "long": (23, 4, 3)}
NEIGHBOURHOODS = {
    "alone": {"radius": 0},
    "next": {"radius": 1},
    "wide": {"radius": 6},  # beyond the ends of most
    "past": {"radius": 2, "past": True},
    "strided": {"stride": 3},
    "every": {"stride": 1},
    "strided_past": {"stride": 4, "past": True},
    "union": {"radius": 1, "stride": 4},
    "union_past": {"radius": 2, "stride": 3, "past": True},
    "union_overlapping": {"radius": 4, "stride": 2},
    "scaled": {"radius": 2, "scale": 0.25},
}


def restricted_cases():
    for sizes, (n, d_k, d_v) in SIZES.items():
        for name, options in NEIGHBOURHOODS.items():
            given = numbers(n, d_k, seed=n), numbers(n, d_k, seed=100 + n), numbers(n, d_v, seed=200 + n)
            past, rest = options.get("past"), {flag: value for flag, value in options.items() if flag != "past"}
            run = "restricted-attention" + flags(**rest, mask="causal" if past else None)
            steps = restricted(*given, **options)
            yield f"restricted.{sizes}.{name}", run, dict(zip(("queries", "keys", "values"), given)), steps


# ------------------------------------------------------------------------------------------------------ talking heads


def linear(role, output, x, weight, bias):
    learned = {f"{role}_weights": weight} | ({} if bias is None else {f"{role}_bias": bias})
    return learned | {output: x @ weight + (0 if bias is None else bias)}


def split(packed, heads):
    """From ((b,) n, h d) to (h, (b,) n, d)."""
    return np.stack(np.split(packed, heads, axis=-1))


def talking_heads(x, maps, scores, weights, mask=None, scale=None):
    """@param maps  by role: weight and bias; there may be no output
    @param scores  P_l, (h_k, h)
    @param weights  P_w, (h, h_v)"""
    (h_k, h), h_v = scores.shape, weights.shape[1]
    steps = {"x": x} | ({} if mask is None else {"mask": mask})
    for role in ("query", "key", "value"):
        steps |= linear(role, role, x, *maps[role])
    steps |= {"talking_scores": scores, "talking_weights": weights}
    queries, keys, values = split(steps["query"], h_k), split(steps["key"], h_k), split(steps["value"], h_v)
    compared = np.einsum("h...nk,h...mk->h...nm", queries, keys)
    scaled = compared * (1 / np.sqrt(keys.shape[-1]) if scale is None else scale)
    mixed_scores = np.einsum("h...,hg->g...", scaled, scores)
    masked = mixed_scores if mask is None else np.where(mask, mixed_scores, -np.inf)
    proportions = softmax(masked)
    mixed_weights = np.einsum("h...,hg->g...", proportions, weights)
    contexts = np.einsum("h...nm,h...mv->h...nv", mixed_weights, values)
    for i in range(h_k):
        steps |= within(f"head.{i}", {"queries": queries[i], "keys": keys[i], "scores": compared[i], "scaled": scaled[i]})
    for i in range(h):
        steps[f"head.{i}.mixed_scores"] = mixed_scores[i]
        if mask is not None:
            steps[f"head.{i}.masked"] = masked[i]
        steps[f"head.{i}.weights"] = proportions[i]
    for i in range(h_v):
        steps |= within(f"head.{i}", {"mixed_weights": mixed_weights[i], "values": values[i], "context": contexts[i]})
    steps["merged"] = np.concatenate(list(contexts), axis=-1)
    if "output" not in maps:
        return steps | {"output": steps["merged"]}
    return steps | linear("output", "output", steps["merged"], *maps["output"])


def drawn_maps(d_model, h_d_k, h_d_v, biased=True, output=True, seed=0):
    sizes = {"query": (d_model, h_d_k), "key": (d_model, h_d_k), "value": (d_model, h_d_v)}
    if output:
        sizes["output"] = (h_d_v, d_model)
    return {role: (numbers(*size, seed=seed + i), numbers(size[1], seed=seed + 10 + i) if biased else None) for i, (role, size) in enumerate(sizes.items())}


def mask_of(kind, n, batch):
    if kind == "causal":
        return np.tril(np.ones((n, n), bool))
    if kind == "padding":
        return np.broadcast_to(np.arange(n) < np.array([n, 1, 2])[:, None, None], (3, n, n)).copy()
    if kind == "starved":  # the first query can attend to nothing
        mask = np.ones((n, n), bool)
        mask[0] = False
        return mask
    return None


def talking_heads_case(form, mask, h_k=2, h=2, h_v=2, n=4, biased=True, output=True, scale=None, identities=False):
    d_model = 6
    maps = drawn_maps(d_model, 6 if not h_k == 4 else 8, 6 if not h_v == 4 else 8, biased, output, seed=h_k * 100 + h)
    batch = () if form == "sequence" else (3,)
    x = numbers(*batch, n, d_model, seed=n + len(batch))
    mixtures = (np.eye(h_k, h), np.eye(h, h_v)) if identities else (numbers(h_k, h, seed=31), numbers(h, h_v, seed=32))
    allowed = mask_of(mask, n, batch)
    steps = talking_heads(x, maps, *mixtures, allowed, scale)
    if identities:
        expect_multi_head(x, maps, h, steps)
    given = {"x": x} | ({} if allowed is None else {"mask": allowed[:, None] if allowed.ndim == 3 else allowed})
    run = "talking-heads-attention" + flags(scale=scale) if output else None  # which needs an output map
    return run, given, steps, state_of(maps) | dict(zip(("talking_scores", "talking_weights"), mixtures))


def state_of(maps):
    """An nn.Linear each."""
    names = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
    state = {}
    for role, (weight, bias) in maps.items():
        state |= {f"{names[role]}.weight": weight.T} | ({} if bias is None else {f"{names[role]}.bias": bias})
    return state


def expect_multi_head(x, maps, heads, steps):
    """Heads that don't talk are PyTorch's."""
    module = nn.MultiheadAttention(x.shape[-1], heads, batch_first=True).double()
    module.load_state_dict({
        "in_proj_weight": torch.from_numpy(np.concatenate([maps[role][0].T for role in ("query", "key", "value")])),
        "in_proj_bias": torch.from_numpy(np.concatenate([maps[role][1] for role in ("query", "key", "value")])),
        "out_proj.weight": torch.from_numpy(maps["output"][0].T.copy()),
        "out_proj.bias": torch.from_numpy(maps["output"][1]),
    })  # fmt: skip
    tokens = torch.from_numpy(x)
    found = module(tokens, tokens, tokens)[0].detach().numpy()
    np.testing.assert_allclose(steps["output"], found, rtol=1e-12, atol=1e-12)


TALKING_HEADS = {
    "h2": ("sequence.all sequence.causal sequence.starved batch.all batch.padding batch.causal", {}),
    "h3": ("sequence.all batch.padding", {"h_k": 3, "h": 3, "h_v": 3, "n": 5}),
    "one_head": ("sequence.causal", {"h_k": 1, "h": 1, "h_v": 1}),
    "one_token": ("sequence.all", {"n": 1}),
    "of_each_kind": ("sequence.causal batch.padding", {"h_k": 2, "h": 5, "h_v": 3}),
    "more_comparisons": ("sequence.all", {"h_k": 4, "h": 2, "h_v": 1, "biased": False}),
    "side_by_side": ("sequence.all", {"h_k": 2, "h": 3, "h_v": 4, "output": False}),
    "scaled": ("sequence.causal", {"scale": 0.25}),
    "identities": ("sequence.all batch.all", {"h_k": 3, "h": 3, "h_v": 3, "identities": True}),
}


def talking_heads_cases():
    for kind, (forms, options) in TALKING_HEADS.items():
        for form in forms.split():
            yield f"talking_heads.{kind}.{form}", *talking_heads_case(*form.split("."), **options)


def cases():
    golden = {}
    for of in restricted_cases():
        golden |= case(*of, result="context")
    for of in talking_heads_cases():
        golden |= case(*of)
    return golden


# ---------------------------------------------------------------------------------------------------------- lesson 20

TOKENS = np.array([[1, 0, 1], [0, 2, 0], [1, 1, 1], [2, 0, 0], [0, 1, 2], [1, 2, 0], [0, 0, 1], [2, 1, 1]], float)


def masked_attention(x, mask):
    """The steps of scaled dot-product self-attention under a mask (n, n)."""
    scores = np.einsum("nd,md->nm", x, x)
    scaled = scores / np.sqrt(x.shape[1])
    masked = np.where(mask, scaled, -np.inf)
    weights = softmax(masked)
    context = np.einsum("nm,md->nd", weights, x)
    return {"queries": x, "keys": x, "values": x, "scores": scores, "scaled": scaled, "masked": masked, "weights": weights, "context": context}


def reach(mask):
    """The outputs of three layers with and without a change of the first token, and how many differ."""
    golden, before, after = {"mask": mask}, TOKENS, TOKENS + np.eye(8, 1)
    for layer in range(1, 4):
        before, after = (masked_attention(x, mask)["context"] for x in (before, after))
        moved = np.any(np.abs(after - before) > 1e-9, axis=1)
        golden |= within(f"layer.{layer}", {"before": before, "after": after, "reached": moved.sum()})
    return golden


def pairs_and_columns(n, radius=None, stride=None):
    """How many pairs are compared, and how many columns the band has, counted one by one."""
    distances = [d for d in range(1 - n, n) if is_neighbour(d, radius, stride, False)]
    return sum(n - abs(d) for d in distances), n * len(distances)


def lesson_20():
    steps = restricted(TOKENS, TOKENS, TOKENS, radius=1)
    golden = {"tokens": TOKENS} | {name: array for name, array in steps.items() if name not in ("queries", "keys", "values")}
    apart = np.abs(np.subtract.outer(np.arange(8), np.arange(8)))
    near, far = apart <= 1, np.mod(apart, 3) == 0
    full = masked_attention(TOKENS, near)
    golden |= within("full", {"mask": near} | full | {"wasted": np.mean(full["weights"] == 0)})
    golden |= within("strided", restricted(TOKENS, TOKENS, TOKENS, stride=3))
    golden |= within("both", restricted(TOKENS, TOKENS, TOKENS, radius=1, stride=3))
    even = restricted(np.zeros_like(TOKENS), TOKENS, TOKENS, radius=1)
    kernel = np.full(3, 1 / 3)
    convolution = np.stack([np.convolve(TOKENS[:, i], kernel, mode="valid") for i in range(3)], axis=1)
    golden |= within("even", even | {"convolution": convolution})

    golden["reach.changed"] = TOKENS + np.eye(8, 1)
    for name, mask in {"local": near, "strided": far, "both": np.logical_or(near, far)}.items():
        golden |= within(f"reach.{name}", reach(mask))

    n, d, r = np.array([256, 1024, 4096, 16384]), 64, 64
    counted = {"full": [], "local": [], "strided": []}
    for size in n.tolist():
        counted["full"].append((size * size, size * size))
        counted["local"].append(pairs_and_columns(size, radius=r))
        counted["strided"].append(pairs_and_columns(size, stride=int(np.sqrt(size))))
    multiplications = {name: np.array([pairs * 2 * d + 2 * columns for pairs, columns in counts]) for name, counts in counted.items()}
    exponents = {f"{name}_exponent": np.log(of[-1] / of[0]) / np.log(64) for name, of in multiplications.items()}
    mib = {f"{name}_mib": 8 * np.array([columns for _, columns in counted[name]]) / 2**20 for name in ("full", "local")}
    golden |= within("cost", {"n": n, "d": d, "r": r} | multiplications | exponents | mib)
    return golden


# ---------------------------------------------------------------------------------------------------------- lesson 22

INPUTS = np.array([[1, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1]], float)
QUERY_WEIGHTS = np.array([[1, 0, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [0, 2, 1, 2]], float)
KEY_WEIGHTS = np.array([[0, 1, 1, 0], [1, 0, -1, 1], [0, 1, 2, 0], [1, 1, 0, -1]], float)
VALUE_WEIGHTS = np.array([[0, 2, 1, 0], [0, 3, 0, 1], [1, 0, 3, 0], [1, 1, 0, 2]], float)
OUTPUT_WEIGHTS = np.array([[1, 0, 0.5, 0], [0, 1, 0, -0.5], [0.5, 0, 1, 0], [0, -0.5, 0, 1]])
TALKING_SCORES = np.array([[0.75, 0.5], [0.25, -0.5]])
TALKING_WEIGHTS = np.array([[1, 0.25], [-0.5, 0.75]])


def eliminated(form):
    """The form less one product of a column and a row after the other, and how many it takes: NumPy's rank."""
    rank = np.linalg.matrix_rank(form)
    steps, rest, pivots = {}, form, [np.abs(form).max()]
    for i in range(1, rank + 1):
        sizes = np.abs(rest)
        row, column = np.argwhere(sizes >= 0.99 * sizes.max())[0]
        rest = rest - np.outer(rest[:, column], rest[row] / rest[row, column])
        pivots.append(np.abs(rest).max())
        steps[f"step.{i}.rest"] = rest
    np.testing.assert_allclose(rest, 0, atol=1e-12)
    assert np.linalg.svd(form)[1][rank - 1] > 0.01  # a rank that no rounding decides
    return steps | {"pivots": np.array(pivots), "rank": rank}


def lesson_22():
    given = {"query_weights": QUERY_WEIGHTS, "key_weights": KEY_WEIGHTS, "value_weights": VALUE_WEIGHTS, "output_weights": OUTPUT_WEIGHTS}
    mixtures = {"talking_scores": TALKING_SCORES, "talking_weights": TALKING_WEIGHTS}
    golden = {"inputs": INPUTS} | given | mixtures
    form = lambda columns: np.einsum("ik,jk->ij", QUERY_WEIGHTS[:, columns], KEY_WEIGHTS[:, columns])
    forms = [form(slice(0, 2)), form(slice(2, 4))]
    comparison = lambda form: np.einsum("ni,ij,mj->nm", INPUTS, form, INPUTS)
    for head, own in enumerate(forms):
        columns = slice(2 * head, 2 * head + 2)
        steps = {"query_weights": QUERY_WEIGHTS[:, columns], "key_weights": KEY_WEIGHTS[:, columns], "form": own, "scores": comparison(own)}
        golden |= within(f"head.{head}", steps | eliminated(own))
        assert golden[f"head.{head}.rank"] == 2
    golden |= within("sum", {"form": form(slice(0, 4))} | eliminated(form(slice(0, 4))))

    values, scores = np.array([[0, 0], [1, 0], [0, 1]], float), np.array([[0, 8, 0], [0, 0, 8]], float)
    weights, joint = softmax(scores), softmax(scores.sum(axis=0))
    golden |= within("two", {
        "values": values, "scores": scores, "weights": weights, "apart": np.diag(weights @ values), "sum": scores.sum(axis=0),
        "joint": joint, "together": joint @ values,
    })  # fmt: skip

    output = 0
    for head, own in enumerate(forms):
        columns = slice(2 * head, 2 * head + 2)
        weights = softmax(comparison(own) / np.sqrt(2))
        map = VALUE_WEIGHTS[:, columns] @ OUTPUT_WEIGHTS[columns]
        says = np.einsum("nm,mi,io->no", weights, INPUTS, map)
        golden |= within(f"head.{head}", {"value_weights": VALUE_WEIGHTS[:, columns], "map": map, "weights": weights, "says": says})
        output = output + says
    golden["output"] = output
    golden |= within("cost", {"d_model": 512, "h": 8, "d_k": 64, "full": 2 * 8 * 512 * 512, "narrow": 2 * 8 * 2 * 512 * 64, "talking": 2 * 8 * 8})

    maps = {role: (array, None) for role, array in zip(("query", "key", "value", "output"), given.values())}
    steps = talking_heads(INPUTS, maps, TALKING_SCORES, TALKING_WEIGHTS)
    for into in range(2):
        mixed = np.einsum("h,hij->ij", TALKING_SCORES[:, into], np.stack(forms))
        golden |= within(f"mixed.{into}", {"form": mixed} | eliminated(mixed))
        golden[f"mixed.{into}.scores"] = comparison(mixed)
        golden[f"mixed.{into}.weights"] = softmax(comparison(mixed) / np.sqrt(2))
        np.testing.assert_allclose(golden[f"mixed.{into}.weights"], steps[f"head.{into}.weights"], rtol=1e-12)
    golden |= within("talking", {"x": INPUTS} | given | mixtures)  # named before the function is called
    return golden | within("talking", steps)
