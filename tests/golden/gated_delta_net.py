#!/usr/bin/env python3
"""Makes the golden of the gated DeltaNet: every step, token by token and in chunks, from the beginning and after a cache.

    gated_delta_net.py    holds the steps against transformers' own module, then writes tests/golden/gated_delta_net.npz

Each case is the linear attention of Qwen3-Next with fixed weights, computed by PyTorch's own operations in float64, a step at a
time, in the order of the traces. Where transformers is there (5.12.1 was), outputs, states and the rule in chunks are held against
its Qwen3NextGatedDeltaNet and torch_chunk_gated_delta_rule, whose casts to float32 are to float64 here
(tests/families/double.py); Debian's PyTorch is enough to make the golden.

The cases are called MODEL-FORM-INPUT: grouped-chunks-batch. See case.py for what a case is.
"""

import sys
from pathlib import Path

import torch
import torch.nn.functional as F

from case import case, flags, within
from layers import numbers

D_MODEL, TOKENS, PAST, CHUNK = 6, 5, 3, 2
EPSILON = 1e-6

# Each: heads of keys and of values, the sizes of both, and how many tokens the filters have.
MODELS = {
    "grouped": {"g": 2, "h": 4, "d_k": 3, "d_v": 2, "width": 4},
    "equal": {"g": 2, "h": 2, "d_k": 2, "d_v": 3, "width": 2},
}


def random_weights(model, seed):
    g, h, d_k, d_v, width = (model[name] for name in ("g", "h", "d_k", "d_v", "width"))
    shapes = {
        "query": (D_MODEL, g * d_k), "key": (D_MODEL, g * d_k), "value": (D_MODEL, h * d_v), "gate": (D_MODEL, h * d_v),
        "beta_logits": (D_MODEL, h), "decay_inputs": (D_MODEL, h), "kernel": (2 * g * d_k + h * d_v, 1, width), "dt_bias": (h,),
        "a_log": (h,), "norm": (d_v,), "output": (h * d_v, D_MODEL),
    }  # fmt: skip
    return {name: numbers(*shape, seed=seed + i, scale=0.75) for i, (name, shape) in enumerate(shapes.items())}


# ------------------------------------------------------------------------------------------------------- step by step


def mapped(steps, name, x, weights):
    steps[f"{name}_weights"] = weights
    steps[name] = x @ weights
    return steps[name]


def unit(steps, raw, name, x):
    steps[raw] = x
    steps[name] = x / torch.sqrt((x * x).sum(-1, keepdim=True) + EPSILON)
    return steps[name]


def token(tokens, i):
    return tokens[..., i : i + 1, :]


def step_by_step(steps, tokens, state, beta, log_decay):
    outputs = []
    for i in range(tokens[0].shape[-2]):
        inside = {"previous_state": state}
        query, key, value = (token(of, i) for of in tokens)
        inside |= {"query": query, "key": key, "value": value}
        inside["decayed"] = decayed = token(log_decay, i).exp() * state
        inside["recalled"] = recalled = (decayed * key.transpose(-1, -2)).sum(-2, keepdim=True)
        inside["delta"] = delta = token(beta, i) * (value - recalled)
        inside["state"] = state = decayed + key.transpose(-1, -2) * delta
        inside["output"] = (state * query.transpose(-1, -2)).sum(-2, keepdim=True)
        outputs.append(inside["output"])
        steps |= within(f"step.{i}", inside)
    return torch.cat(outputs, dim=-2), state


def chunk_by_chunk(steps, tokens, state, beta, log_decay):
    outputs = []
    for number, begin in enumerate(range(0, tokens[0].shape[-2], CHUNK)):
        part = slice(begin, begin + CHUNK)
        queries, keys, values = (of[..., part, :] for of in tokens)
        inside = {"previous_state": state, "queries": queries, "keys": keys, "values": values}
        inside["betas"] = betas = beta[..., part, :]
        inside["sums"] = sums = log_decay[..., part, :].cumsum(-2)
        inside["decays"] = decays = (sums - sums.transpose(-1, -2)).tril().exp().tril()
        inside["overlaps"] = overlaps = (betas * (keys @ keys.transpose(-1, -2)) * decays).tril(-1)
        c = keys.shape[-2]
        inverse = torch.eye(c, dtype=torch.float64).expand_as(overlaps).clone()
        inside["row.0.inverse"] = inverse.clone()
        for i in range(1, c):
            inside[f"row.{i}.above"] = inverse.clone()
            inverse[..., i, :i] = -(overlaps[..., i, :i, None] * inverse[..., :i, :i]).sum(-2)
            inside[f"row.{i}.inverse"] = inverse.clone()
        inside["inverse"] = inverse
        torch.testing.assert_close(inverse, torch.linalg.inv(torch.eye(c, dtype=torch.float64) + overlaps), rtol=1e-12, atol=1e-12)
        inside["write_values"] = write_values = inverse @ (betas * values)
        inside["write_keys"] = write_keys = inverse @ (betas * sums.exp() * keys)
        inside["scores"] = scores = queries @ keys.transpose(-1, -2)
        inside["decayed_scores"] = scores = scores * decays
        inside["deltas"] = deltas = write_values - write_keys @ state
        inside["output"] = (queries * sums.exp()) @ state + scores @ deltas
        outputs.append(inside["output"])
        last = sums[..., -1:, :]
        inside["kept"] = kept = last.exp() * state
        inside["state"] = state = kept + (keys * (last - sums).exp()).transpose(-1, -2) @ deltas
        steps |= within(f"chunk.{number}", inside)
    return torch.cat(outputs, dim=-2), state


def delta_net(x, weights, model, in_chunks, past=None):
    """@return the steps, and what a cache keeps"""
    g, h, d_k, d_v, width = (model[name] for name in ("g", "h", "d_k", "d_v", "width"))
    batch, n = x.shape[:-2], x.shape[-2]
    if past is None:
        past = torch.zeros(*batch, width - 1, 2 * g * d_k + h * d_v, dtype=torch.float64), torch.zeros(*batch, h, d_k, d_v, dtype=torch.float64)
    steps = {"x": x}
    maps = [mapped(steps, name, x, weights[name]) for name in ("query", "key", "value")]
    steps["mixed"] = torch.cat(maps, dim=-1)
    steps["past_conv_state"] = past[0]
    padded = steps["padded"] = torch.cat([past[0], steps["mixed"]], dim=-2)
    steps["kernel"] = weights["kernel"]
    columns = padded.reshape(-1, *padded.shape[-2:]).transpose(-1, -2)
    convolved = F.conv1d(columns, weights["kernel"], groups=padded.shape[-1]).transpose(-1, -2)
    steps["convolved"] = convolved = convolved.reshape(*batch, n, -1)
    steps["activated"] = activated = F.silu(convolved)
    steps["conv_state"] = padded[..., n:, :]
    logits = mapped(steps, "beta_logits", x, weights["beta_logits"])
    steps["beta"] = beta = torch.sigmoid(logits)
    inputs = mapped(steps, "decay_inputs", x, weights["decay_inputs"])
    steps["dt_bias"] = weights["dt_bias"]
    steps["time_steps"] = torch.logaddexp(inputs + weights["dt_bias"], torch.zeros_like(inputs))
    steps["a_log"] = weights["a_log"]
    steps["log_decay"] = log_decay = -weights["a_log"].exp() * steps["time_steps"]
    steps["norm.gain"] = weights["norm"]
    steps["past_recurrent_state"] = past[1]

    normalized, states = [], []
    for head in range(h):
        inside, group = {}, head // (h // g)
        queries, keys = (activated[..., first + group * d_k : first + (group + 1) * d_k] for first in (0, g * d_k))
        unit(inside, "raw_queries", "unit_queries", queries)
        inside["queries"] = inside["unit_queries"] / d_k**0.5
        unit(inside, "raw_keys", "keys", keys)
        first = 2 * g * d_k + head * d_v
        inside["values"] = activated[..., first : first + d_v]
        tokens = inside["queries"], inside["keys"], inside["values"]
        follow = chunk_by_chunk if in_chunks else step_by_step
        of_head = slice(head, head + 1)
        context, state = follow(inside, tokens, past[1][..., head, :, :], beta[..., of_head], log_decay[..., of_head])
        inside["context"] = inside["norm.x"] = context
        inside["norm.mean_square"] = (context**2).mean(-1)
        inside["norm.normalized"] = context * torch.rsqrt(inside["norm.mean_square"][..., None] + EPSILON)
        inside["norm.gain"] = weights["norm"]
        inside["norm.output"] = inside["norm.normalized"] * weights["norm"]
        normalized.append(inside["norm.output"])
        states.append(state)
        steps |= within(f"head.{head}", inside)
    merged = steps["merged"] = torch.cat(normalized, dim=-1)
    gate = mapped(steps, "gate", x, weights["gate"])
    steps["gated"] = merged * F.silu(gate)
    mapped(steps, "output", steps["gated"], weights["output"])
    steps["recurrent_state"] = torch.stack(states, dim=-3)
    return steps, (steps["conv_state"], steps["recurrent_state"])


# ------------------------------------------------------------------------------------------- the module of Hugging Face's


def in_groups(maps, groups):
    """Rows of several maps, each divided among groups: [q k v z][q k v z]."""
    return torch.cat([part for parts in zip(*(m.T.chunk(groups) for m in maps)) for part in parts])


def module_of(model, weights):
    from transformers.models.qwen3_next import configuration_qwen3_next, modeling_qwen3_next

    config = configuration_qwen3_next.Qwen3NextConfig(
        hidden_size=D_MODEL, linear_num_key_heads=model["g"], linear_num_value_heads=model["h"], linear_key_head_dim=model["d_k"],
        linear_value_head_dim=model["d_v"], linear_conv_kernel_dim=model["width"], rms_norm_eps=EPSILON, num_hidden_layers=1)  # fmt: skip
    module = modeling_qwen3_next.Qwen3NextGatedDeltaNet(config, 0).double().eval()
    module.load_state_dict({
        "in_proj_qkvz.weight": in_groups([weights[name] for name in ("query", "key", "value", "gate")], model["g"]),
        "in_proj_ba.weight": in_groups([weights[name] for name in ("beta_logits", "decay_inputs")], model["g"]),
        "conv1d.weight": weights["kernel"], "dt_bias": weights["dt_bias"], "A_log": weights["a_log"], "norm.weight": weights["norm"],
        "out_proj.weight": weights["output"].T,
    })  # fmt: skip
    return config, module


def held_against(theirs, x, steps):
    """@param x  all tokens; the steps are those of the last of them"""
    from transformers import DynamicCache

    config, module = theirs
    batch = x if x.dim() == 3 else x[None]
    cache = DynamicCache(config=config)
    with torch.no_grad():
        output = module(batch, cache_params=cache)
    assert output.dtype == torch.float64
    layer = cache.layers[0]
    same = lambda found, expected: torch.testing.assert_close(found.reshape(expected.shape), expected, rtol=1e-12, atol=1e-12)
    same(output[:, -steps["output"].shape[-2] :], steps["output"])
    same(layer.recurrent_states, steps["recurrent_state"])
    width = steps["kernel"].shape[-1]
    same(layer.conv_states[..., -(width - 1) :].transpose(-1, -2), steps["conv_state"])


def rule_held_against(model, steps):
    """The rule itself, in chunks of the same size, from the state before."""
    from transformers.models.qwen3_next.modeling_qwen3_next import torch_chunk_gated_delta_rule

    of = lambda name: torch.stack([steps[f"head.{i}.{name}"] for i in range(model["h"])], dim=-2)
    batch = lambda x, rank: x.reshape(-1, *x.shape[-rank:])
    context, state = torch_chunk_gated_delta_rule(
        batch(of("raw_queries"), 3), batch(of("raw_keys"), 3), batch(of("values"), 3), batch(steps["log_decay"], 2), batch(steps["beta"], 2),
        chunk_size=CHUNK, initial_state=batch(steps["past_recurrent_state"], 3), output_final_state=True, use_qk_l2norm_in_kernel=True)  # fmt: skip
    assert context.dtype == torch.float64
    torch.testing.assert_close(context, batch(of("context"), 3), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(state, batch(steps["recurrent_state"], 3), rtol=1e-12, atol=1e-12)


# -------------------------------------------------------------------------------------------------------------- cases


def state_of(weights):
    """Under the names that attn's files have, with a map each."""
    maps = {"query": "q", "key": "k", "value": "v", "gate": "z", "beta_logits": "b", "decay_inputs": "a"}
    state = {f"in_proj_{theirs}.weight": weights[ours].T for ours, theirs in maps.items()}
    return state | {
        "conv1d.weight": weights["kernel"], "dt_bias": weights["dt_bias"], "A_log": weights["a_log"], "norm.weight": weights["norm"],
        "out_proj.weight": weights["output"].T,
    }  # fmt: skip


def cases(module_of=None):
    golden = {}
    for i, (name, model) in enumerate(MODELS.items()):
        weights = random_weights(model, 100 * i)
        theirs = module_of and module_of(model, weights)
        for kind, shape in (("sequence", (TOKENS, D_MODEL)), ("batch", (2, TOKENS, D_MODEL))):
            x = numbers(*shape, seed=50 + i)
            _, past = delta_net(x[..., :PAST, :], weights, model, False)
            forms = {
                "steps": delta_net(x, weights, model, False),
                "chunks": delta_net(x, weights, model, True),
                "cached_steps": delta_net(x[..., PAST:, :], weights, model, False, past),
                "cached_chunks": delta_net(x[..., PAST:, :], weights, model, True, past),
            }
            for form, (steps, _) in forms.items():
                if theirs:
                    held_against(theirs, x, steps)
                    rule_held_against(model, steps)
                given = {part: steps[part] for part in ("x", "past_conv_state", "past_recurrent_state")}
                run = "gated-delta-net" + flags(key_heads=model["g"] if model["g"] < model["h"] else None, chunk=CHUNK if "chunks" in form else None)
                golden |= case(f"{name}-{form}-{kind}", run, given, steps, state_of(weights))
    return golden


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "families"))
    import double

    double.everywhere()
    import transformers

    golden = cases(module_of)
    print(f"gated_delta_net: {len(MODELS)} modules of transformers {transformers.__version__} give the same")
    from generate import difference, write

    path = Path(__file__).resolve().parent / "gated_delta_net.npz"
    if difference(path, golden):
        write(path, golden)
        print(f"{path.name}: now written")
