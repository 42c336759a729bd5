"""What differential attention has to give, step by step, and its gradients, by PyTorch in float64.

It is computed as the paper's own program does (multihead_diffattn.py of microsoft/unilm), on tensors with an axis of heads and one
of the two maps: twice as many heads of queries and keys as of values, and neighbours are subtracted. Its rotary positions are left
out. The output is held against the paper's equations 1 to 3, a head at a time.

The cases are called KIND.INPUT.MASK. The gradients are those of the sum of the outputs, each times `seed`, by autograd. See case.py
for what a case is.
"""

import math

import torch

from case import case, flags, within
from layers import Masking, expect, numbers

D_MODEL, EPSILON = 6, 1e-5


def random_weights(heads, d_k, d_v, biased):
    """Queries and keys of a head: d_k features of its first map, then d_k of its second."""
    sizes = {"query": (D_MODEL, 2 * heads * d_k), "key": (D_MODEL, 2 * heads * d_k), "value": (D_MODEL, heads * d_v), "output": (heads * d_v, D_MODEL)}
    weights = {}
    for i, (role, size) in enumerate(sizes.items()):
        weights[f"{role}_weights"] = numbers(*size, seed=100 * heads + i)
        if biased:
            weights[f"{role}_bias"] = numbers(size[1], seed=100 * heads + 10 + i)
    weights |= {f"lambda_{name}": numbers(d_k, seed=20 + i, scale=0.5) for i, name in enumerate(("q1", "k1", "q2", "k2"))}
    return weights | {"norm.gain": numbers(d_v, seed=30)}


def mapped(steps, role, x, weights):
    names = [name for name in (f"{role}_weights", f"{role}_bias") if name in weights]
    steps |= {name: weights[name] for name in names}
    steps[role] = torch.nn.functional.linear(x, weights[names[0]].T, weights[names[1]] if names[1:] else None)
    return steps[role]


def attention(x, weights, mask, heads, lambda_init, scale=None):
    steps = {"x": x} | mask.steps
    split = lambda packed, count: packed.unflatten(-1, (count, -1)).transpose(-2, -3)  # (..., count, n, d)
    queries, keys = (split(mapped(steps, role, x, weights), 2 * heads).unflatten(-3, (heads, 2)) for role in ("query", "key"))
    values = split(mapped(steps, "value", x, weights), heads)
    lambdas = {name: weights[f"lambda_{name}"] for name in ("q1", "k1", "q2", "k2")}
    steps |= {f"lambda_{name}": vector for name, vector in lambdas.items()}
    steps["lambda_full"] = torch.exp(lambdas["q1"] @ lambdas["k1"]) - torch.exp(lambdas["q2"] @ lambdas["k2"]) + lambda_init
    steps["norm.gain"] = weights["norm.gain"]

    scores = queries @ keys.transpose(-1, -2)  # (..., heads, 2, n, m)
    scaled = scores * (1 / math.sqrt(queries.shape[-1]) if scale is None else scale)
    allowed = mask.allowed
    if allowed is not None:
        allowed = allowed[..., None, None, :, :] if allowed.dim() == 3 else allowed
    masked = scaled if allowed is None else scaled.masked_fill(~allowed, -math.inf)
    maps = torch.softmax(masked, dim=-1)
    difference = maps[..., 0, :, :] - steps["lambda_full"] * maps[..., 1, :, :]
    context = difference @ values
    mean_square = context.pow(2).mean(-1)
    normalized = context * torch.rsqrt(mean_square + EPSILON)[..., None]
    normed = normalized * weights["norm.gain"]
    rescaled = normed * (1 - lambda_init)
    for head in range(heads):
        inside = {}
        for i, which in enumerate(("first", "second")):
            of = lambda tensor: tensor[..., head, i, :, :]
            part = {"queries": of(queries), "keys": of(keys), "scores": of(scores), "scaled": of(scaled)}
            part |= {} if allowed is None else {"masked": of(masked)}
            inside |= within(which, part | {"weights": of(maps)})
        of = lambda tensor: tensor[..., head, :, :]
        inside |= {"weights": of(difference), "values": of(values), "context": of(context)}
        norm = {"x": of(context), "mean_square": mean_square[..., head, :], "normalized": of(normalized)}
        inside |= within("norm", norm | {"gain": weights["norm.gain"], "output": of(normed)})
        steps |= within(f"head.{head}", inside | {"rescaled": of(rescaled)})
    steps["merged"] = rescaled.transpose(-2, -3).flatten(-2)
    mapped(steps, "output", steps["merged"], weights)
    return steps


def by_the_paper(x, weights, mask, heads, lambda_init, scale=None):
    """The output."""
    of = lambda role: torch.tensor_split(x @ weights[f"{role}_weights"] + weights.get(f"{role}_bias", 0), heads, dim=-1)
    factor = sum(sign * math.exp(sum(weights[f"lambda_q{i}"] * weights[f"lambda_k{i}"])) for i, sign in ((1, 1), (2, -1))) + lambda_init
    hidden = 0 if mask.allowed is None else torch.zeros(mask.allowed.shape, dtype=x.dtype).masked_fill(~mask.allowed, -math.inf)
    results = []
    for q, k, v in zip(of("query"), of("key"), of("value")):
        d = q.shape[-1] // 2
        first, second = (
            torch.softmax(q[..., part] @ k[..., part].mT * (d**-0.5 if scale is None else scale) + hidden, dim=-1) for part in (slice(0, d), slice(d, 2 * d)))  # fmt: skip
        head = first @ v - factor * (second @ v)
        results.append(head / (head.square().mean(-1, keepdim=True) + EPSILON).sqrt() * weights["norm.gain"] * (1 - lambda_init))
    return torch.cat(results, dim=-1) @ weights["output_weights"] + weights.get("output_bias", 0)


def gradients(x, weights, *others, **options):
    """Of the input and of every weight."""
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in ({"x": x} | weights).items()}
    output = attention(leaves["x"], leaves, *others, **options)["output"]
    seed = numbers(*output.shape, seed=99)
    (output * seed).sum().backward()
    return {"seed": seed} | {f"grad.{name}": leaf.grad for name, leaf in leaves.items()}


def state_of(weights):
    """Under the names of the paper's own program."""
    names = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
    state = {}
    for role, name in names.items():
        state[f"{name}.weight"] = weights[f"{role}_weights"].T
        if f"{role}_bias" in weights:
            state[f"{name}.bias"] = weights[f"{role}_bias"]
    return state | {name: array for name, array in weights.items() if name.startswith("lambda")} | {"subln.weight": weights["norm.gain"]}


KINDS = {
    "h2": ("sequence.all sequence.causal batch.given batch.padding", {}),
    "one_head": ("sequence.causal", {"heads": 1}),
    "one_token": ("sequence.all", {"n": 1}),
    "narrow_values": ("batch.causal", {"heads": 3, "d_v": 1, "biased": False}),
    "eighth_layer": ("sequence.causal", {"lambda_init": 0.7265}),
    "scaled": ("batch.joined", {"scale": 0.25, "biased": False}),
}


def cases_of(kind, form, heads=2, d_k=2, d_v=4, n=4, biased=True, lambda_init=0.2, scale=None):
    of, mask = form.split(".")
    sequences = None if of == "sequence" else 3
    masking = Masking(mask, n, n, sequences)
    weights = random_weights(heads, d_k, d_v, biased)
    x = numbers(*([] if sequences is None else [sequences]), n, D_MODEL, seed=n + heads)
    given = (weights, masking)
    options = {"heads": heads, "lambda_init": lambda_init, "scale": scale}
    steps = attention(x, *given, **options)
    expect(steps["output"], by_the_paper(x, *given, **options))
    run = "differential-attention" + flags(heads=heads, lambda_init=None if lambda_init == 0.2 else lambda_init, scale=scale, mask=masking.flag)
    return case(f"{kind}.{form}", run, {"x": x} | masking.input(), steps, state_of(weights), gradients(x, *given, **options))


def cases():
    golden = {}
    for kind, (forms, options) in KINDS.items():
        for form in forms.split():
            golden |= cases_of(kind, form, **options)
    return golden
