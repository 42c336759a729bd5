"""Makes the golden of mixtures of experts: every step, as the models of today have them.

Each case is a block of Hugging Face's transformers with fixed weights, computed once more by PyTorch's own operations in
float64, a step at a time, in the order of the traces. Where transformers is there (5.12.1 was), the result is held against the
block itself, whose casts to float32 are to float64 here; Debian's PyTorch is enough to make the golden.

The cases are called MODEL-INPUT: mixtral-batch. See case.py for what a case is.
"""

import contextlib

import torch
from torch.nn import functional as F

from case import case, flags, within
from layers import mapped, numbers

try:
    import transformers
except ImportError:
    transformers = None

D_MODEL, D_FF = 6, 5
INFINITY = float("inf")


def expect(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


# ------------------------------------------------------------------------------------------------------ step by step


def network(x, weights, limit=None, gpt_oss=False):
    """SwiGLU, as gpt-oss has it or as all others."""
    steps = {"x": x}
    gate = mapped(steps, x, "gate", weights["gate"])
    if limit is not None:
        gate = steps["limited_gate"] = gate.clamp(max=limit)
    activated = steps["activated"] = gate * torch.sigmoid(1.702 * gate) if gpt_oss else F.silu(gate)
    up = mapped(steps, x, "up", weights["up"])
    if limit is not None:
        up = steps["limited_up"] = up.clamp(min=-limit, max=limit)
    steps["gated"] = activated * (up + 1) if gpt_oss else activated * up
    mapped(steps, steps["gated"], "down", weights["down"], "output")
    return steps


def true_at(indices, count):
    return F.one_hot(indices, count).sum(dim=-2) > 0


def mixture(x, weights, top, scores_of, normalization, factor=1, groups=None, weighs_input=False, **of_network):
    """@param groups  how many, how many of them a token has, and how many experts make a group's score"""
    steps = {"x": x}
    logits = mapped(steps, x, "router", weights["router"], "router_logits")
    scores = choice = steps["scores"] = scores_of(logits)
    count = scores.shape[-1]
    if "correction_bias" in weights:
        steps["correction_bias"] = weights["correction_bias"]
        choice = steps["choice_scores"] = scores + weights["correction_bias"]
    if groups:
        grouped = steps["grouped"] = choice.unflatten(-1, (groups[0], -1))
        steps["group_scores"] = grouped.sort(dim=-1, descending=True).values[..., : groups[2]].sum(dim=-1)
        kept = steps["kept_groups"] = true_at(steps["group_scores"].topk(groups[1]).indices, groups[0])
        choice = steps["eligible"] = grouped.masked_fill(~kept[..., None], -INFINITY).flatten(-2)
    indices = choice.topk(top).indices
    steps["chosen"] = true_at(indices, count)

    # The few scores, as models have them, then spread over all experts.
    few = scores.gather(-1, indices)
    spread = lambda values, rest=0.0: torch.full_like(scores, rest).scatter(-1, indices, values)
    steps["chosen_scores"] = spread(few, -INFINITY if normalization == "softmax" else 0.0)
    if normalization == "softmax":
        few = F.softmax(few, dim=-1)
    elif normalization == "sum":
        few = few / few.sum(dim=-1, keepdim=True)
    if normalization != "none":
        steps["normalized"] = spread(few)
    weight = steps["weights"] = spread(few * factor)

    total = torch.zeros_like(x)
    for i, expert in enumerate(weights["experts"]):
        share = weight[..., i, None]
        of_expert = network(x * share if weighs_input else x, expert, **of_network)
        part = of_expert["output"]
        if not weighs_input:
            part = of_expert["weighted"] = share * part
        total = of_expert["mixture"] = total + part
        steps |= within(f"expert.{i}", of_expert)
    output = steps["routed"] = total
    if "shared_expert" in weights:
        of_shared = network(x, weights["shared_expert"], **of_network)
        steps |= within("shared_expert", of_shared)
        shared = of_shared["output"]
        if "shared_expert_gate" in weights:
            logits = mapped(steps, x, "shared_expert_gate", weights["shared_expert_gate"], "shared_expert_gate_logits")
            steps["shared_expert_gate"] = torch.sigmoid(logits)
            shared = steps["gated_shared_expert"] = torch.sigmoid(logits) * shared
        output = total + shared
    return steps | {"output": output}


# ------------------------------------------------------------------------------------- the blocks of Hugging Face's


@contextlib.contextmanager
def float64_everywhere():
    """Inside, what casts to float32 casts to float64."""
    kept = torch.float, torch.float32, torch.Tensor.float
    torch.float = torch.float32 = torch.float64
    torch.Tensor.float = torch.Tensor.double
    try:
        yield
    finally:
        torch.float, torch.float32, torch.Tensor.float = kept


def stacked(weights, roles, part="weight", transposed=True, interleaved=False):
    """One kind of maps of all experts, side by side or interleaved, as one tensor: (experts, out, in), or (experts, in, out)."""

    def joined(expert):
        parts = [expert[role][part] for role in roles]
        both = torch.stack(parts, dim=-1).flatten(-2) if interleaved else torch.cat(parts, dim=-1)
        return both.T if transposed else both

    return torch.stack([joined(expert) for expert in weights["experts"]])


def of_experts(weights):
    return {"experts.gate_up_proj": stacked(weights, ["gate", "up"]), "experts.down_proj": stacked(weights, ["down"])}


def of_network(name, weights):
    return {f"{name}.{role}_proj.weight": weights[role]["weight"].T for role in ("gate", "up", "down")}


def of_gpt_oss(weights):
    kinds = {"gate_up_proj": (["gate", "up"], True), "down_proj": (["down"], False)}
    state = {"router.weight": weights["router"]["weight"].T, "router.bias": weights["router"]["bias"]}
    for name, (roles, interleaved) in kinds.items():
        for part, ending in (("weight", ""), ("bias", "_bias")):
            state[f"experts.{name}{ending}"] = stacked(weights, roles, part, False, interleaved)
    return state


def of_llama4(weights):
    experts = {"experts.gate_up_proj": stacked(weights, ["gate", "up"], transposed=False),
               "experts.down_proj": stacked(weights, ["down"], transposed=False)}  # fmt: skip
    return {"router.weight": weights["router"]["weight"].T} | experts | of_network("shared_expert", weights["shared_expert"])


def of_others(weights, shared=None):
    state = {"gate.weight": weights["router"]["weight"].T} | of_experts(weights)
    if "correction_bias" in weights:
        state["gate.e_score_correction_bias"] = weights["correction_bias"]
    if shared:
        state |= of_network(shared, weights["shared_expert"])
    if "shared_expert_gate" in weights:
        state["shared_expert_gate.weight"] = weights["shared_expert_gate"]["weight"].T
    return state


def block_of(module, block, config, state, **members):
    """A block of transformers with these weights."""
    folder = getattr(transformers.models, module)
    modeling = __import__(f"{folder.__name__}.modeling_{module}", fromlist=[block])
    made = getattr(__import__(f"{folder.__name__}.configuration_{module}", fromlist=[config]), config)(**members)
    made._experts_implementation = "eager"
    result = getattr(modeling, block)(made).double()
    result.load_state_dict(state)
    if module == "deepseek_v2":
        result.num_experts = made.n_routed_experts  # its group-limited choice reads this, and 5.12.1 does not set it
    return result


def held_against(block, steps, x):
    """The result is the block's, in training and in evaluation."""
    batch = x if x.dim() == 3 else x[None]
    with float64_everywhere():
        for is_training in (True, False):
            found = block.train(is_training)(batch)
            found = found[0] if isinstance(found, tuple) else found
            expect(found.reshape(x.shape), steps["output"])


# -------------------------------------------------------------------------------------------------------------- cases


def random_weights(experts, seed, biased=False, shared=False, corrected=False, gated=False):
    draw = iter(range(seed, seed + 1000))

    def linear(d_in, d_out, has_bias=biased, scale=0.75):
        made = {"weight": numbers(d_in, d_out, seed=next(draw), scale=scale)}
        return made | ({"bias": numbers(d_out, seed=next(draw), scale=scale)} if has_bias else {})

    def network_of(scale):
        return {"gate": linear(D_MODEL, D_FF, scale=scale), "up": linear(D_MODEL, D_FF, scale=scale), "down": linear(D_FF, D_MODEL)}

    scale = 3 if biased else 0.75  # gpt-oss's: some gates and ups are beyond the limit
    weights = {"router": linear(D_MODEL, experts), "experts": [network_of(scale) for _ in range(experts)]}
    if corrected:
        weights["correction_bias"] = numbers(experts, seed=next(draw), scale=0.25)
    if shared:
        weights["shared_expert"] = network_of(scale)
    if gated:
        weights["shared_expert_gate"] = linear(D_MODEL, 1)
    return weights


softmax = lambda logits: F.softmax(logits, dim=-1)
SIZES = {"hidden_size": D_MODEL, "hidden_act": "silu", "num_attention_heads": 2}

# Each: its weights, how they are mixed, and the block: module, class, configuration, names of the weights, members.
MODELS = {
    "mixtral": (
        {"experts": 4}, {"top": 2, "scores_of": softmax, "normalization": "sum"},
        ("mixtral", "MixtralSparseMoeBlock", "MixtralConfig", of_others,
         {"intermediate_size": D_FF, "num_local_experts": 4, "num_experts_per_tok": 2})),
    "qwen2_moe": (
        {"experts": 5, "shared": True, "gated": True}, {"top": 3, "scores_of": softmax, "normalization": "none"},
        ("qwen2_moe", "Qwen2MoeSparseMoeBlock", "Qwen2MoeConfig", lambda weights: of_others(weights, "shared_expert"),
         {"moe_intermediate_size": D_FF, "shared_expert_intermediate_size": D_FF, "num_experts": 5, "num_experts_per_tok": 3,
          "norm_topk_prob": False})),
    "qwen3_moe": (
        {"experts": 6}, {"top": 3, "scores_of": softmax, "normalization": "sum"},
        ("qwen3_moe", "Qwen3MoeSparseMoeBlock", "Qwen3MoeConfig", of_others,
         {"moe_intermediate_size": D_FF, "num_experts": 6, "num_experts_per_tok": 3, "norm_topk_prob": True})),
    "gpt_oss": (
        {"experts": 4, "biased": True},
        {"top": 2, "scores_of": lambda logits: logits, "normalization": "softmax", "limit": 7.0, "gpt_oss": True},
        ("gpt_oss", "GptOssMLP", "GptOssConfig", of_gpt_oss,
         {"intermediate_size": D_FF, "num_local_experts": 4, "num_experts_per_tok": 2})),
    "deepseek_v2": (
        {"experts": 6, "shared": True},
        {"top": 3, "scores_of": softmax, "normalization": "none", "factor": 16.0, "groups": (3, 2, 1)},
        ("deepseek_v2", "DeepseekV2Moe", "DeepseekV2Config", lambda weights: of_others(weights, "shared_experts"),
         {"moe_intermediate_size": D_FF, "n_routed_experts": 6, "n_shared_experts": 1, "num_experts_per_tok": 3, "n_group": 3,
          "topk_group": 2, "topk_method": "group_limited_greedy", "routed_scaling_factor": 16.0})),
    "deepseek_v3": (
        {"experts": 8, "shared": True, "corrected": True},
        {"top": 3, "scores_of": torch.sigmoid, "normalization": "sum", "factor": 2.5, "groups": (4, 2, 2)},
        ("deepseek_v3", "DeepseekV3MoE", "DeepseekV3Config", lambda weights: of_others(weights, "shared_experts"),
         {"moe_intermediate_size": D_FF, "n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 3, "n_group": 4,
          "topk_group": 2, "norm_topk_prob": True, "routed_scaling_factor": 2.5})),
    "llama4": (
        {"experts": 4, "shared": True}, {"top": 1, "scores_of": torch.sigmoid, "normalization": "none", "weighs_input": True},
        ("llama4", "Llama4TextMoe", "Llama4TextConfig", of_llama4,
         {"intermediate_size": D_FF, "num_local_experts": 4, "num_experts_per_tok": 1})),
}  # fmt: skip


def state_of(weights):
    """Under the names that attn's files have."""

    def linear(name, of):
        return {f"{name}.weight": of["weight"].T} | ({f"{name}.bias": of["bias"]} if "bias" in of else {})

    def network_of(name, of):
        return {key: array for role in ("gate", "up", "down") for key, array in linear(f"{name}.{role}_proj", of[role]).items()}

    state = linear("router", weights["router"])
    if "correction_bias" in weights:
        state["router.e_score_correction_bias"] = weights["correction_bias"]
    for i, expert in enumerate(weights["experts"]):
        state |= network_of(f"experts.{i}", expert)
    if "shared_expert" in weights:
        state |= network_of("shared_expert", weights["shared_expert"])
    return state | (linear("shared_expert_gate", weights["shared_expert_gate"]) if "shared_expert_gate" in weights else {})


def run_of(top, scores_of, normalization, factor=1, groups=None, weighs_input=False, limit=None, gpt_oss=False):
    scoring = {softmax: "softmax", torch.sigmoid: "sigmoid"}.get(scores_of, "logits")
    count, kept, best = groups or (None, None, None)
    return "experts" + flags(
        top=top, scoring=scoring, normalization=normalization, scaling_factor=factor, groups=count, kept_groups=kept, group_best=best,
        weighting="input" if weighs_input else None, activation="quick-gelu" if gpt_oss else None, limit=limit,
        up_shift=1 if gpt_oss else None)  # fmt: skip


def cases():
    golden = {}
    for i, (model, (of_weights, how, block)) in enumerate(MODELS.items()):
        weights = random_weights(seed=100 * i, **of_weights)
        for name, shape in (("sequence", (5, D_MODEL)), ("batch", (2, 4, D_MODEL))):
            x = numbers(*shape, seed=50 + i)
            steps = mixture(x, weights, **how)
            if transformers:
                module, kind, config, state, members = block
                held_against(block_of(module, kind, config, state(weights), **SIZES, **members), steps, x)
            golden |= case(f"{model}-{name}", run_of(**how), {"x": x}, steps, state_of(weights))
    if transformers:
        print(f"experts: {len(MODELS)} blocks of transformers {transformers.__version__} give the same")
    return golden
