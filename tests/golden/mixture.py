"""Makes the golden of lesson 26: networks of published models, and a decoder with mixtures of experts under three routings.

By PyTorch in float64, step by step; a layer's mixture is that of experts.py, which is held against transformers' modules.
"""

import json

import numpy as np
import torch

import experts
import layers
from layers import inside, within
from small_model import FOLDER, load_safetensors

MIXTURE = FOLDER.parent / "mixture"
STORY = "Lily had a red ball . She took the ball to the park ."
TOP, TEMPERATURE, OFF = 2, 1.0, 2


def published():
    """Of Mixtral 8x7B, Qwen3-30B-A3B, gpt-oss-120b and DeepSeek-V3, counted layer by layer and expert by expert."""
    names = ("layers", "experts", "top", "shared", "d_model", "d_ff")
    models = [(32, 8, 2, 0, 4096, 14336), (48, 128, 8, 0, 2048, 768), (36, 128, 4, 0, 2880, 2880), (58, 256, 8, 1, 7168, 2048)]
    each = np.array([sum((d_model * d_ff, d_model * d_ff, d_ff * d_model)) for *_, d_model, d_ff in models])
    count = lambda number: np.array([sum(size for _ in range(model[0]) for _ in range(number(*model))) for size, model in zip(each.tolist(), models)])
    stored = count(lambda _layers, routed, _top, shared, *_: routed + shared)
    used = count(lambda _layers, _routed, top, shared, *_: top + shared)
    return dict(zip(names, np.array(models).T)) | {"each": each, "stored": stored, "used": used, "share": used / stored}


def mixture_of(state, prefix, temperature=1.0, off=None):
    """The weights of a layer's mixture as experts.mixture() has them."""
    maps = lambda expert: {role: {"weight": state[f"{prefix}experts.{expert}.{role}_proj.weight"].T} for role in ("gate", "up", "down")}
    router = state[f"{prefix}router.weight"].T / temperature
    weights = {"router": {"weight": router}, "experts": [maps(expert) for expert in range(router.shape[1])]}
    if off is not None:
        bias = torch.zeros(router.shape[1], dtype=torch.float64)
        bias[off] = -10
        weights["correction_bias"] = bias
    return weights


def read(ids, file, top=2, **routing):
    state = {name: tensor.double() for name, tensor in load_safetensors(file).items()}
    heads = json.loads((MIXTURE / "config.json").read_text())["heads"]
    ids = torch.tensor(ids)
    n, table, positions = len(ids), state["embedding.weight"], state["position_embedding.weight"]
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    x = table[ids] + positions[:n]
    golden = {
        "ids": ids, "embedding": table, "tokens": table[ids], "position_embedding.table": positions, "position_embedding.positions": positions[:n],
        "embedded": x, "causal": causal, "mask": causal,
    }  # fmt: skip
    for i in range(2):
        weights, steps = inside(f"layers.{i}.", state), {"x": x, "mask": causal}
        norm = layers.layer_norm(x, inside("norm1.", weights))
        attention = layers.multi_head({"x": norm["output"]}, inside("self_attn.", weights), heads, causal)
        steps |= within("norm1", norm) | within("self_attn", attention) | {"residual1": x + attention["output"]}
        norm = layers.layer_norm(steps["residual1"], inside("norm2.", weights))
        network = experts.mixture(norm["output"], mixture_of(weights, "feed_forward.", **routing), top, lambda logits: torch.softmax(logits, dim=-1), "sum")
        steps |= within("norm2", norm) | within("feed_forward", network)
        x = steps["output"] = steps["residual1"] + network["output"]
        golden |= within(f"layers.{i}", steps)
    norm = layers.layer_norm(x, inside("norm.", state))
    golden |= within("norm", norm) | {"logits": norm["output"] @ table.T}
    golden["chances"] = torch.softmax(golden["logits"], dim=-1)
    return {name: step.contiguous().numpy() for name, step in golden.items()}


def hand(balanced):
    """The first layer's choice, by sorting, with one expert left out."""
    prefix = "layers.0.feed_forward."
    logits = torch.from_numpy(balanced[prefix + "router_logits"])
    open_to = (logits / TEMPERATURE).index_fill(-1, torch.tensor([OFF]), -torch.inf)
    scores = torch.softmax(open_to, dim=-1)
    chosen = experts.true_at(scores.topk(TOP).indices, scores.shape[-1])
    kept = scores.masked_fill(~chosen, 0.0)
    weights = kept / kept.sum(dim=-1, keepdim=True)
    outputs = np.stack([balanced[f"{prefix}expert.{expert}.output"] for expert in range(scores.shape[-1])])
    steps = {"open": open_to, "scores": scores, "chosen": chosen, "chosen_scores": kept, "weights": weights}
    mixed = np.einsum("ne,end->nd", weights.numpy(), outputs)
    aliases = {"logits": logits, "temperature": torch.tensor([TEMPERATURE]), "off": torch.tensor([OFF])}
    return {name: step.numpy() for name, step in (aliases | steps).items()} | {"mixed": mixed}


def balance(run, layer):
    chosen, scores = (run[f"layers.{layer}.feed_forward.{name}"] for name in ("chosen", "scores"))
    share, score = chosen.sum(axis=0) / chosen.sum(), scores.mean(axis=0)
    return {"share": share, "score": score, "imbalance": len(share) * (share @ score)}


def lesson_26():
    vocabulary = json.loads((MIXTURE / "config.json").read_text())["vocabulary"]
    ids = [vocabulary.index(word) for word in STORY.split()]
    runs = {
        "balanced": read(ids, MIXTURE / "model.safetensors"),
        "changed": read(ids, MIXTURE / "model.safetensors", TOP, temperature=TEMPERATURE, off=OFF),
        "unbalanced": read(ids, MIXTURE / "unbalanced.safetensors"),
    }  # fmt: skip
    golden = within("published", published()) | {"ids": ids, "top": [TOP], "temperature": [TEMPERATURE], "off": [OFF]}
    golden |= within("balanced", runs["balanced"]) | within("changed", runs["changed"])
    golden |= within("hand", hand(runs["balanced"])) | within("unbalanced", runs["unbalanced"])
    for name in ("balanced", "unbalanced"):
        for layer in range(2):
            golden |= within(f"balance.{name}.layer.{layer}", balance(runs[name], layer))
    return {name: np.asarray(array) for name, array in golden.items()}
