#!/usr/bin/env python3
"""Makes the golden of gated attention: every step, all at once and after a cache, and gradients.

    gated_attention.py    holds the steps against transformers' own module, then writes tests/golden/gated_attention.npz

Each case is the full attention of Qwen3-Next with fixed weights, computed by PyTorch's own operations in float64, a step at a time,
in the order of the traces: norms of queries and keys with gain 1 + g, rotary positions of half the features, shared keys and
values, a gate of each feature of the heads. Where transformers is there (5.12.1 was), the result is held against its
Qwen3NextAttention, whose casts to float32 are to float64 here (tests/families/double.py); Debian's PyTorch is enough to make the
golden.

The cases are called FORM-INPUT: cached-batch. The gradients are those of the sum of the outputs, each times `seed`, by autograd. See
case.py for what a case is.
"""

import math
import sys
from pathlib import Path

import torch

from case import case, flags, within
from layers import numbers

D_MODEL, HEADS, GROUPS, WIDTH, ROTARY, TOKENS, PAST = 6, 4, 2, 4, 2, 4, 2
EPSILON, BASE = 1e-6, 100.0


def random_weights(has_bias):
    shapes = {"query": HEADS, "key": GROUPS, "value": GROUPS, "gate": HEADS}
    weights = {f"{name}_weights": numbers(D_MODEL, heads * WIDTH, seed=i) for i, (name, heads) in enumerate(shapes.items())}
    weights["output_weights"] = numbers(HEADS * WIDTH, D_MODEL, seed=10)
    weights |= {f"{name}_norm.gain": numbers(WIDTH, seed=11 + i, scale=0.5) for i, name in enumerate(("query", "key"))}
    if has_bias:
        weights |= {f"{name}_bias": numbers(heads * WIDTH, seed=20 + i) for i, (name, heads) in enumerate(shapes.items())}
        weights["output_bias"] = numbers(D_MODEL, seed=30)
    return weights


def mapped(steps, name, x, weights):
    steps[f"{name}_weights"] = weights[f"{name}_weights"]
    result = x @ weights[f"{name}_weights"]
    if f"{name}_bias" in weights:
        steps[f"{name}_bias"] = weights[f"{name}_bias"]
        result = result + weights[f"{name}_bias"]
    steps[name] = result
    return result


def placed(steps, name, x, gain, first):
    """Normalised, then rotated."""
    inside = {"x": x, "gain": gain}
    inside["mean_square"] = (x**2).mean(-1)
    inside["normalized"] = x / torch.sqrt(inside["mean_square"][..., None] + EPSILON)
    inside["output"] = x = inside["normalized"] * (1 + gain)
    steps |= within(f"{name}_norm", inside)
    frequencies = BASE ** (-torch.arange(0, ROTARY, 2, dtype=torch.float64) / ROTARY)
    angles = torch.outer(torch.arange(first, first + x.shape[-2], dtype=torch.float64), frequencies)
    left, right, rest = x[..., : ROTARY // 2], x[..., ROTARY // 2 : ROTARY], x[..., ROTARY:]
    turned = [left * angles.cos() - right * angles.sin(), left * angles.sin() + right * angles.cos(), rest]
    inside = {"x": x, "frequencies": frequencies, "angles": angles, "output": torch.cat(turned, dim=-1)}
    steps |= within(f"rotary_{name}", inside)
    return inside["output"]


def attention(x, weights, past=None):
    """@return the steps, and what a cache keeps"""
    n, earlier = x.shape[-2], past[0].shape[-2] if past else 0
    mask = torch.ones(n, earlier + n, dtype=torch.bool).tril(earlier)
    steps = {"x": x, "causal": mask, "mask": mask}
    if past:
        steps |= {"past_keys": past[0], "past_values": past[1]}
    query, key, value = (mapped(steps, name, x, weights) for name in ("query", "key", "value"))
    steps |= {f"{name}_norm.gain": weights[f"{name}_norm.gain"] for name in ("query", "key")}

    contexts, all_keys, all_values = [], [], []
    for head in range(HEADS):
        inside, group = {}, head // (HEADS // GROUPS)
        of = lambda tensor, i: tensor[..., i * WIDTH : (i + 1) * WIDTH]
        queries = placed(inside, "query", of(query, head), weights["query_norm.gain"], earlier)
        inside["queries"] = queries
        keys = placed(inside, "key", of(key, group), weights["key_norm.gain"], earlier)
        inside["new_keys" if past else "keys"] = keys
        if past:
            keys = inside["keys"] = torch.cat([of(past[0], group), keys], dim=-2)
            inside["new_values"] = of(value, group)
            values = inside["values"] = torch.cat([of(past[1], group), of(value, group)], dim=-2)
        else:
            values = inside["values"] = of(value, group)
        inside["scores"] = queries @ keys.transpose(-1, -2)
        inside["scaled"] = inside["scores"] / math.sqrt(WIDTH)
        inside["masked"] = inside["scaled"].masked_fill(~mask, -math.inf)
        inside["weights"] = torch.softmax(inside["masked"], dim=-1)
        inside["context"] = inside["weights"] @ values
        contexts.append(inside["context"])
        all_keys.append(keys)
        all_values.append(values)
        steps |= within(f"head.{head}", inside)
    steps["merged"] = torch.cat(contexts, dim=-1)
    gate = mapped(steps, "gate", x, weights)
    steps["gated"] = steps["merged"] * torch.sigmoid(gate)
    mapped(steps, "output", steps["gated"], weights)
    cache = tuple(torch.cat(all[:: HEADS // GROUPS], dim=-1) for all in (all_keys, all_values))
    if past:
        steps |= {"cache_keys": cache[0], "cache_values": cache[1]}
    return steps, cache


def gradients(x, weights, past):
    """Of the input and of every weight."""
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in ({"x": x} | weights).items()}
    output = attention(leaves["x"], leaves, past)[0]["output"]
    seed = numbers(*output.shape, seed=99)
    (output * seed).sum().backward()
    return {"seed": seed} | {f"grad.{name}": leaf.grad for name, leaf in leaves.items()}


# ------------------------------------------------------------------------------------------- the module of Hugging Face's


def module_of(has_bias, weights):
    from transformers.models.qwen3_next import configuration_qwen3_next, modeling_qwen3_next as modeling

    config = configuration_qwen3_next.Qwen3NextConfig(
        hidden_size=D_MODEL, num_attention_heads=HEADS, num_key_value_heads=GROUPS, head_dim=WIDTH, rms_norm_eps=EPSILON,
        attention_bias=has_bias, num_hidden_layers=1, max_position_embeddings=64,
        rope_parameters={"rope_type": "default", "rope_theta": BASE, "partial_rotary_factor": ROTARY / WIDTH})  # fmt: skip
    config._attn_implementation = "eager"
    module = modeling.Qwen3NextAttention(config, 0).double().eval()
    kinds = ("weights", "bias") if has_bias else ("weights",)
    state, turned = {}, lambda of: of.T if of.dim() == 2 else of
    for kind in kinds:
        # Of each head the rows of its queries, then those of its gate.
        rows = [turned(weights[f"{name}_{kind}"]).unflatten(0, (HEADS, 1, WIDTH)) for name in ("query", "gate")]
        theirs = "weight" if kind == "weights" else kind
        state[f"q_proj.{theirs}"] = torch.cat(rows, dim=1).flatten(0, 2)
        for ours, name in (("key", "k_proj"), ("value", "v_proj"), ("output", "o_proj")):
            state[f"{name}.{theirs}"] = turned(weights[f"{ours}_{kind}"])
    state |= {"q_norm.weight": weights["query_norm.gain"], "k_norm.weight": weights["key_norm.gain"]}
    module.load_state_dict(state)
    return module, modeling.Qwen3NextRotaryEmbedding(config)


def held_against(modules, x, steps):
    """@param x  all tokens; the steps are those of the last of them"""
    attend, rotary = modules
    batch = x if x.dim() == 3 else x[None]
    n = batch.shape[1]
    mask = torch.zeros(1, 1, n, n).masked_fill(~torch.ones(n, n, dtype=torch.bool).tril(), -math.inf)
    with torch.no_grad():
        output, _ = attend(hidden_states=batch, position_embeddings=rotary(batch, torch.arange(n)[None]), attention_mask=mask)
    assert output.dtype == torch.float64
    found = steps["output"]
    torch.testing.assert_close(output[:, n - found.shape[-2] :].reshape(found.shape), found, rtol=1e-12, atol=1e-12)


# -------------------------------------------------------------------------------------------------------------- cases


RUN = "multi-head-attention" + flags(
    heads=HEADS, mask="causal", positions="rotary", rotary_base=BASE, rotary_layout="halves", rotary_features=ROTARY, norm_epsilon=EPSILON,
    norm_adds_one=True)  # fmt: skip


def state_of(weights):
    """Under the names that attn's files have."""
    names = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "gate": "g_proj", "output": "out_proj"}
    state = {}
    for name, array in weights.items():
        role, _, kind = name.partition("_")
        if kind == "norm.gain":
            state[f"{role[0]}_norm.weight"] = array
        else:
            state[f"{names[role]}.{'weight' if kind == 'weights' else kind}"] = array.T if kind == "weights" else array
    return state


def cases(module_of=None):
    golden = {}
    for kind, shape, has_bias in (("sequence", (TOKENS, D_MODEL), False), ("batch", (2, TOKENS, D_MODEL), True)):
        weights = random_weights(has_bias)
        modules = module_of and module_of(has_bias, weights)
        x = numbers(*shape, seed=50)
        _, cache = attention(x[..., :PAST, :], weights)
        for form, tokens, past in (("whole", x, None), ("cached", x[..., PAST:, :], cache)):
            steps, _ = attention(tokens, weights, past)
            if modules:
                held_against(modules, x, steps)
            given = {part: steps[part] for part in ("x", "past_keys", "past_values") if part in steps}
            golden |= case(f"{form}-{kind}", RUN, given, steps, state_of(weights), gradients(tokens, weights, past))
    return golden


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "families"))
    import double

    double.everywhere()
    import transformers

    golden = cases(module_of)
    print(f"gated_attention: Qwen3NextAttention of transformers {transformers.__version__} gives the same")
    from generate import difference, write

    path = Path(__file__).resolve().parent / "gated_attention.npz"
    if difference(path, golden):
        write(path, golden)
        print(f"{path.name}: now written")
