#!/usr/bin/env python3
"""Makes the golden of multi-head latent attention: every step, plain and absorbed, all at once and after a cache.

    latent_attention.py    holds the steps against transformers' own modules, then writes tests/golden/latent_attention.npz

Each case is the attention of DeepSeek-V2 or DeepSeek-V3 with fixed weights, computed by PyTorch's own operations in float64, a
step at a time, in the order of the traces. Where transformers is there (5.12.1 was), the result is held against the module
itself, whose casts to float32 are to float64 here (tests/families/double.py); Debian's PyTorch is enough to make the golden.

The cases are called MODEL-FORM-INPUT: deepseek_v3-absorbed-batch. See case.py for what a case is.
"""

import json
import math
import sys
from pathlib import Path

import torch

from case import case, flags, within
from layers import mapped, numbers

D_MODEL, HEADS, TOKENS, PAST = 8, 2, 5, 3
PLAIN, ROTARY, VALUE, LATENT, QUERY_LATENT = 2, 4, 3, 6, 7  # d_n, d_r, d_v, d_c, d_q; V2 of 5.12.1 needs even d_n and d_c
EPSILON = 1e-6
YARN = {"rope_type": "yarn", "rope_theta": 50.0, "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 4.0,
        "beta_slow": 0.5}  # fmt: skip
DEFAULT = {"rope_type": "default", "rope_theta": 100.0}

# Each: what its queries and biases are, how pairs lie, its rotary positions, and whether the scale has mscale^2, as DeepSeek-V3's.
MODELS = {
    "deepseek_v2": {"query_latent": True, "bias": True, "layout": "pairs", "rope": DEFAULT, "scales": False},
    "deepseek_v2_lite": {"query_latent": False, "bias": False, "layout": "pairs",
                         "rope": YARN | {"mscale": 0.707, "mscale_all_dim": 0.5}, "scales": False},
    "deepseek_v3": {"query_latent": True, "bias": False, "layout": "pairs",
                    "rope": YARN | {"mscale": 1.0, "mscale_all_dim": 1.0}, "scales": True},
    "deepseek_v3_halves": {"query_latent": False, "bias": True, "layout": "halves", "rope": DEFAULT, "scales": True},
}  # fmt: skip


def random_weights(model, seed):
    draw = iter(range(seed, seed + 1000))

    def linear(d_in, d_out, has_bias=False):
        made = {"weight": numbers(d_in, d_out, seed=next(draw), scale=0.75)}
        return made | ({"bias": numbers(d_out, seed=next(draw), scale=0.75)} if has_bias else {})

    d_k, bias = PLAIN + ROTARY, model["bias"]
    weights = {"query": linear(QUERY_LATENT if model["query_latent"] else D_MODEL, HEADS * d_k)}
    if model["query_latent"]:
        weights["query_latent"] = linear(D_MODEL, QUERY_LATENT, bias)
        weights["query_norm"] = numbers(QUERY_LATENT, seed=next(draw))
    weights["compressed"] = linear(D_MODEL, LATENT + ROTARY, bias)
    weights["latent_norm"] = numbers(LATENT, seed=next(draw))
    weights["key_value"] = linear(LATENT, HEADS * (PLAIN + VALUE))
    weights["output"] = linear(HEADS * VALUE, D_MODEL, bias)
    return weights


# ------------------------------------------------------------------------------------------------------- step by step


def normalized(steps, scope, x, gain):
    mean_square = (x * x).mean(dim=-1)
    result = x / torch.sqrt(mean_square[..., None] + EPSILON)
    inside = {"x": x, "mean_square": mean_square, "normalized": result, "gain": gain, "output": result * gain}
    steps |= within(scope, inside)
    return inside["output"]


def frequencies_of(rope):
    """And the steps that lead to them."""
    unscaled = rope["rope_theta"] ** (-2 * torch.arange(ROTARY // 2, dtype=torch.float64) / ROTARY)
    if rope["rope_type"] == "default":
        return unscaled, {}
    turns = lambda count: ROTARY * math.log(rope["original_max_position_embeddings"] / (count * 2 * math.pi)) / (2 * math.log(rope["rope_theta"]))
    low = max(math.floor(turns(rope["beta_fast"])), 0)
    high = min(math.ceil(turns(rope["beta_slow"])), ROTARY - 1)
    width = 0.001 if low == high else high - low
    ramp = 1 - ((torch.arange(ROTARY // 2, dtype=torch.float64) - low) / width).clamp(0, 1)
    scalars = {"low": torch.tensor(float(low)), "high": torch.tensor(float(high))}
    return unscaled * ramp + unscaled / rope["factor"] * (1 - ramp), {"unscaled": unscaled} | scalars | {"ramp": ramp}


def mscale_of(factor, mscale):
    return 0.1 * mscale * math.log(factor) + 1


def rotated(steps, scope, x, model, first):
    rope = model["rope"]
    frequencies, before = frequencies_of(rope)
    angles = torch.outer(torch.arange(first, first + x.shape[-2], dtype=torch.float64), frequencies)
    inside = {"x": x} | before | {"frequencies": frequencies, "angles": angles}
    factor = 1.0
    if rope["rope_type"] == "yarn":
        factor = mscale_of(rope["factor"], rope["mscale"]) / mscale_of(rope["factor"], rope["mscale_all_dim"])
        inside["attention_factor"] = torch.tensor(factor, dtype=torch.float64)
    pairs = ROTARY // 2
    left, right = (x[..., ::2], x[..., 1::2]) if model["layout"] == "pairs" else (x[..., :pairs], x[..., pairs:])
    turned = left * angles.cos() - right * angles.sin(), left * angles.sin() + right * angles.cos()
    joined = torch.stack(turned, dim=-1).flatten(-2) if model["layout"] == "pairs" else torch.cat(turned, dim=-1)
    inside["output"] = factor * joined
    steps |= within(scope, inside)
    return inside["output"]


def scale_of(model):
    scale = (PLAIN + ROTARY) ** -0.5
    all_dim = model["rope"].get("mscale_all_dim", 0)
    return scale * mscale_of(model["rope"]["factor"], all_dim) ** 2 if model["scales"] and all_dim else scale


def latents_of(steps, x, weights, model, past):
    """The latents of all tokens, and the key that all heads share."""
    compressed = mapped(steps, x, "compressed", weights["compressed"])
    latent = normalized(steps, "latent_norm", compressed[..., :LATENT], weights["latent_norm"])
    if past:
        steps |= {"past_latent": past[0], "new_latent": latent}
        latent = torch.cat([past[0], latent], dim=-2)
    steps["latent"] = latent
    key = rotated(steps, "rotary_key", compressed[..., LATENT:], model, past[0].shape[-2] if past else 0)
    if past:
        steps |= {"past_shared_key": past[1], "new_shared_key": key}
        key = torch.cat([past[1], key], dim=-2)
    steps["shared_key"] = key
    return latent, key


def attention(x, weights, model, is_absorbed, is_causal, past=None):
    """@return the steps, and what a cache keeps"""
    m = x.shape[-2] + (past[0].shape[-2] if past else 0)
    mask = torch.ones(x.shape[-2], m, dtype=torch.bool).tril(m - x.shape[-2])
    steps = {"x": x} | ({"causal": mask, "mask": mask} if is_causal else {})
    if "query_latent" in weights:
        compressed = mapped(steps, x, "query_latent", weights["query_latent"])
        query = mapped(steps, normalized(steps, "query_norm", compressed, weights["query_norm"]), "query", weights["query"])
    else:
        query = mapped(steps, x, "query", weights["query"])
    latent, key = latents_of(steps, x, weights, model, past)
    up = weights["key_value"]["weight"]
    if is_absorbed:
        latent_keys = steps["latent_keys"] = torch.cat([latent, key], dim=-1)
        steps["key_value_weights"] = up
    else:
        key_value = mapped(steps, latent, "key_value", weights["key_value"])

    contexts = []
    for head in range(HEADS):
        inside = {}
        of_query = query.unflatten(-1, (HEADS, -1))[..., head, :]
        plain, turning = of_query[..., :PLAIN], of_query[..., PLAIN:]
        turned = rotated(inside, "rotary_query", turning, model, m - x.shape[-2])
        columns = slice(head * (PLAIN + VALUE), (head + 1) * (PLAIN + VALUE))
        if is_absorbed:
            to_keys = inside["key_weights"] = up[:, columns][:, :PLAIN]
            absorbed = inside["absorbed"] = plain @ to_keys.T
            queries = inside["queries"] = torch.cat([absorbed, turned], dim=-1)
            keys, values = inside["keys"], inside["values"] = latent_keys, latent
        else:
            queries = inside["queries"] = torch.cat([plain, turned], dim=-1)
            of_head = key_value[..., columns]
            keys = inside["keys"] = torch.cat([of_head[..., :PLAIN], key], dim=-1)
            values = inside["values"] = of_head[..., PLAIN:]
        scores = inside["scores"] = queries @ keys.transpose(-1, -2)
        scaled = inside["scaled"] = scores * scale_of(model)
        if is_causal:
            scaled = inside["masked"] = scaled.masked_fill(~mask, -math.inf)
        inside["weights"] = torch.softmax(scaled, dim=-1)
        context = inside["context"] = inside["weights"] @ values
        if is_absorbed:
            inside["value_weights"] = up[:, columns][:, PLAIN:]
            context = inside["mapped"] = context @ inside["value_weights"]
        contexts.append(context)
        steps |= within(f"head.{head}", inside)
    merged = steps["merged"] = torch.cat(contexts, dim=-1)
    mapped(steps, merged, "output", weights["output"])
    return steps, (latent, key)


# ----------------------------------------------------------------------------------------- the modules of Hugging Face's


def state_of(weights):
    names = {"query": "q_proj", "compressed": "kv_a_proj_with_mqa", "key_value": "kv_b_proj", "output": "o_proj"}
    state = {"kv_a_layernorm.weight": weights["latent_norm"]}
    if "query_latent" in weights:
        names |= {"query": "q_b_proj", "query_latent": "q_a_proj"}
        state["q_a_layernorm.weight"] = weights["query_norm"]
    for ours, theirs in names.items():
        state[f"{theirs}.weight"] = weights[ours]["weight"].T
        if "bias" in weights[ours]:
            state[f"{theirs}.bias"] = weights[ours]["bias"]
    return state


def modules_of(name, model):
    """The attention of transformers, and its rotary positions."""
    if name.startswith("deepseek_v2"):
        from transformers.models.deepseek_v2 import configuration_deepseek_v2 as configuration, modeling_deepseek_v2 as modeling
        version, members = "V2", {}
    else:
        from transformers.models.deepseek_v3 import configuration_deepseek_v3 as configuration, modeling_deepseek_v3 as modeling
        version, members = "V3", {"rope_interleave": model["layout"] == "pairs"}
    config = getattr(configuration, f"Deepseek{version}Config")(
        hidden_size=D_MODEL, num_attention_heads=HEADS, num_key_value_heads=HEADS, qk_nope_head_dim=PLAIN, qk_rope_head_dim=ROTARY,
        v_head_dim=VALUE, kv_lora_rank=LATENT, q_lora_rank=QUERY_LATENT if model["query_latent"] else None,
        attention_bias=model["bias"], rope_parameters=dict(model["rope"]), max_position_embeddings=64, **members)  # fmt: skip
    config._attn_implementation = "eager"
    return getattr(modeling, f"Deepseek{version}Attention")(config, 0).double().eval(), getattr(modeling, f"Deepseek{version}RotaryEmbedding")(config)


def held_against(modules, x, is_causal, steps):
    """@param x  all tokens; the steps are those of the last of them"""
    attend, rotary = modules
    batch = x if x.dim() == 3 else x[None]
    n = batch.shape[1]
    positions = rotary(batch, torch.arange(n)[None])
    mask = torch.zeros(1, 1, n, n).masked_fill(~torch.ones(n, n, dtype=torch.bool).tril(), -math.inf) if is_causal else None
    with torch.no_grad():
        output, weights = attend(hidden_states=batch, position_embeddings=positions, attention_mask=mask)
    assert output.dtype == weights.dtype == torch.float64
    found = steps["output"]
    torch.testing.assert_close(output[:, n - found.shape[-2] :].reshape(found.shape), found, rtol=1e-12, atol=1e-12)


# -------------------------------------------------------------------------------------------------------------- cases


def run_of(model, form, is_causal):
    rope = model["rope"]
    scaling = {name: value for name, value in rope.items() if name != "rope_theta"} if rope["rope_type"] != "default" else None
    return "latent-attention" + flags(
        heads=HEADS, mask="causal" if is_causal else None, rotary_base=rope["rope_theta"], rotary_layout=model["layout"],
        rotary_scaling=scaling and json.dumps(scaling, separators=(",", ":")), scale=scale_of(model) if model["scales"] else None,
        epsilon=EPSILON, absorbed=form.endswith("absorbed"))  # fmt: skip


def cases(modules_of=None):
    golden = {}
    for i, (name, model) in enumerate(MODELS.items()):
        weights = random_weights(model, 100 * i)
        modules = modules_of and modules_of(name, model)
        if modules:
            modules[0].load_state_dict(state_of(weights))
        for kind, shape in (("sequence", (TOKENS, D_MODEL)), ("batch", (2, TOKENS, D_MODEL))):
            x = numbers(*shape, seed=50 + i)
            _, past = attention(x[..., :PAST, :], weights, model, False, True)
            forms = {
                "plain": attention(x, weights, model, False, kind == "batch"),
                "absorbed": attention(x, weights, model, True, kind == "batch"),
                "cached": attention(x[..., PAST:, :], weights, model, False, True, past),
                "cached_absorbed": attention(x[..., PAST:, :], weights, model, True, True, past),
            }
            for form, (steps, _) in forms.items():
                if modules:
                    held_against(modules, x, form.startswith("cached") or kind == "batch", steps)
                given = {part: steps[part] for part in ("x", "past_latent", "past_shared_key") if part in steps}
                run = run_of(model, form, "causal" in steps)
                golden |= case(f"{name}-{form}-{kind}", run, given, steps, state_of(weights))
    return golden


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "families"))
    import double

    double.everywhere()
    import transformers

    golden = cases(modules_of)
    print(f"latent_attention: {len(MODELS)} modules of transformers {transformers.__version__} give the same")
    from generate import difference, write

    path = Path(__file__).resolve().parent / "latent_attention.npz"
    if difference(path, golden):
        write(path, golden)
        print(f"{path.name}: now written")
