"""Makes the golden of lesson 28: the small model on one sequence in one call and in several, in a ring, and with eight mistakes.

By PyTorch in float64. What a call sees and keeps is decided pair by pair, token by token; the logits of one call are held against
PyTorch's modules, as in small_model.py.
"""

import json
from typing import NamedTuple

import numpy as np
import torch
from torch.nn import functional as F

from case import within
from small_model import FOLDER, load_safetensors, small_model

TEXT = "Lily had a red ball . She took the ball to the park . The ball was"
ENDS, WIDTH, KEPT = [6, 7, 11, 17], 6, 1
LAYERS, HEADS = 2, 4


class Call(NamedTuple):
    begin: int
    end: int
    width: int
    kept: int

    @property
    def is_first(self):
        return self.begin == 0

    @property
    def is_single(self):
        return self.end - self.begin == 1


def sees(call, query, key, i, j):
    """Whether the call's token i, which is `query` in the sequence, sees key j, which is `key` there."""
    return key <= query and (query - key < call.width or key < call.kept)


RIGHT = {
    "position": lambda call, token: token,
    "sees": sees,
    "stays": lambda call, token: token in [*range(call.kept), *range(call.end - call.width, call.end)],
}
MISTAKES = {
    "mask_skipped_with_cache": {"sees": lambda call, *pair: sees(call, *pair) if call.is_single else True},
    "chunk_masked_top_left": {"sees": lambda call, query, key, i, j: sees(call, query, key, i, j) and (call.is_single or j <= i)},
    "positions_restart": {"position": lambda call, token: token - call.begin},
    "positions_one_ahead": {"position": lambda call, token: token if call.is_first else token + 1},
    "positions_stand_still": {"position": lambda call, token: token if call.is_first else call.begin},
    "cache_overwritten": {"stays": lambda call, token: token in range(call.begin, call.end)},
    "ring_written_first": {"sees": lambda call, query, key, i, j: sees(call, query, key, i, j) and (
        key in [*range(call.kept), *range(call.begin, call.end), *range(call.end - call.width, call.end)])},
    "first_tokens_overwritten": {"stays": lambda call, token: token in range(call.end - call.width - call.kept, call.end)},
}  # fmt: skip
OF_RING = ("ring_written_first", "first_tokens_overwritten")


def weights():
    """Under the lesson's names."""
    state = {name: tensor.double() for name, tensor in load_safetensors(FOLDER / "model.safetensors").items()}
    found = {"tokens": state["token_embedding.weight"], "positions": state["position_embedding.weight"]}
    for i in range(LAYERS):
        of = lambda name: state[f"layers.{i}.{name}"]
        maps = dict(zip(("query", "key", "value"), zip(of("self_attn.in_proj_weight").chunk(3), of("self_attn.in_proj_bias").chunk(3))))
        for name, theirs in (("output", "self_attn.out_proj"), ("hidden", "linear1"), ("back", "linear2")):
            maps[name] = (of(f"{theirs}.weight"), of(f"{theirs}.bias"))
        norms = {name: {f"{name}_gain": of(f"{name}.weight"), f"{name}_bias": of(f"{name}.bias")} for name in ("norm1", "norm2")}
        layer = norms["norm1"]
        for name, (weight, bias) in maps.items():
            layer |= (norms["norm2"] if name == "hidden" else {}) | {f"{name}_weights": weight.T, f"{name}_bias": bias}
        found |= within(f"layers.{i}", layer)
    return found | {"norm_gain": state["norm.weight"], "norm_bias": state["norm.bias"]}


MODEL = weights()


def linear(layer, name, x):
    return F.linear(x, MODEL[f"layers.{layer}.{name}_weights"].T, MODEL[f"layers.{layer}.{name}_bias"])


def norm(name, x):
    return F.layer_norm(x, x.shape[-1:], MODEL[f"{name}_gain"], MODEL[f"{name}_bias"], 1e-5)


def heads(x):
    return torch.stack(x.chunk(HEADS, dim=1))


def one_call(ids, call, stored, rules):
    """stored: by token, of each layer its key and value; what goes is deleted from it, and what comes is added"""
    new = list(range(call.begin, call.end))
    keys = [*stored, *new]
    mask = torch.tensor([[rules["sees"](call, query, key, i, j) for j, key in enumerate(keys)] for i, query in enumerate(new)])
    positions = torch.tensor([rules["position"](call, token) for token in new])
    x = MODEL["tokens"][torch.tensor(ids)[new]] + MODEL["positions"][positions]
    steps = {"order": new, "key_order": keys, "positions": positions, "mask": mask, "embedded": x}
    rows = {token: [] for token in new}
    for layer in range(LAYERS):
        y = norm(f"layers.{layer}.norm1", x)
        queries, new_keys, new_values = (linear(layer, name, y) for name in ("query", "key", "value"))
        for row, token in enumerate(new):
            rows[token].append((new_keys[row], new_values[row]))
        everything = [*stored.values(), *rows.values()]
        all_keys, all_values = (torch.stack([row[layer][part] for row in everything]) for part in (0, 1))
        scores = heads(queries) @ heads(all_keys).transpose(1, 2) / (queries.shape[1] / HEADS) ** 0.5
        shares = torch.softmax(scores.masked_fill(~mask, -torch.inf), dim=-1)
        context = torch.cat(list(torch.bmm(shares, heads(all_values))), dim=1)
        attended = x + linear(layer, "output", context)
        z = norm(f"layers.{layer}.norm2", attended)
        hidden = F.relu(linear(layer, "hidden", z))
        x = attended + linear(layer, "back", hidden)
        of_layer = {"norm1": y, "queries": queries, "keys": new_keys, "values": new_values, "all_keys": all_keys, "all_values": all_values,
                    "scores": scores, "weights": shares, "context": context,
                    "attended": attended, "norm2": z, "hidden": hidden, "output": x}  # fmt: skip
        steps |= within(f"layers.{layer}", of_layer)
    stored |= rows
    left = [token for token in keys if rules["stays"](call, token)]
    steps |= {"norm": norm("norm", x), "rows": [keys.index(token) for token in left], "stored": left}
    for token in set(stored) - set(left):
        del stored[token]
    return steps | {"logits": F.linear(steps["norm"], MODEL["tokens"])}


def read(ids, ends, seen, rules):
    stored, steps, logits = {}, {}, []
    for i, (begin, end) in enumerate(zip([0, *ends], ends)):
        found = one_call(ids, Call(begin, end, *seen), stored, RIGHT | rules)
        steps |= within(f"call.{i}", found)
        logits.append(found["logits"])
    return steps | {"logits": torch.cat(logits)}


def compared(found, whole):
    off = abs(found["logits"] - whole["logits"]).max(dim=1).values
    return found | {"off": off, "next": torch.softmax(found["logits"][-1], dim=0)}


def mistakes(ids):
    n, prompt, steps = len(ids), ENDS[0], {}
    schedules = [list(range(1, n + 1)), list(range(prompt, n + 1)), [*range(prompt, n, 4), n], [prompt, n]]
    for name, rules in MISTAKES.items():
        seen = (WIDTH, KEPT) if name in OF_RING else (n, 0)
        whole = read(ids, [n], seen, {})["logits"]
        for ends in schedules:
            torch.testing.assert_close(read(ids, ends, seen, {})["logits"], whole, rtol=1e-10, atol=1e-10)
        found = [read(ids, ends, seen, rules)["logits"] for ends in schedules]
        off = torch.stack([abs(one - whole).max(dim=1).values for one in found])
        between = abs(found[1] - found[2]).max(dim=1).values[None]
        steps |= within(name, {"off": off, "wrong": (off > 1e-9).sum(dim=1),
                               "chance": torch.stack([torch.softmax(one[-1], dim=0)[whole[-1].argmax()] for one in found]),
                               "between": between, "apart": (between > 1e-9).sum()})  # fmt: skip
    return steps


def cost():
    """Of Llama 3.1 8B, whose texts are written token by token."""
    lengths = [128, 1024, 8192, 131072]
    layers, groups, d_k = 32, 8, 128
    token_bytes = sum(2 * groups * d_k * 2 for _ in range(layers))  # keys and values, of two bytes
    return {"n": lengths, "layers": layers, "groups": groups, "d_k": d_k, "bytes": token_bytes, "gib": np.array(lengths) * token_bytes / 2**30,
            "tokens": lengths, "tokens_again": [sum(range(n + 1)) for n in lengths], "scores": [sum(range(n + 1)) for n in lengths],
            "scores_again": [sum(t * t for t in range(n + 1)) for n in lengths]}  # fmt: skip


def corners():
    n, m = ENDS[-1] - ENDS[-2], ENDS[-1]
    whole = torch.ones(m, m, dtype=torch.bool).tril()
    masks = {"bottom_right": whole[-n:], "top_left": whole[:n]}
    return masks | {"seen": masks["bottom_right"].sum(dim=1), "seen_from_top_left": masks["top_left"].sum(dim=1)}


def lesson_28():
    vocabulary = json.loads((FOLDER / "config.json").read_text())["vocabulary"]
    ids = [vocabulary.index(word) for word in TEXT.split()]
    n = len(ids)
    golden = {"ids": ids, "ends": ENDS, "width": [WIDTH], "kept": [KEPT], "mistake": [0]} | within("model", MODEL)
    whole, near = read(ids, [n], (n, 0), {}), read(ids, [n], (WIDTH, KEPT), {})
    np.testing.assert_allclose(whole["logits"], small_model(ids)["logits"], rtol=1e-10, atol=1e-10)
    golden |= within("at_once", whole) | within("calls", compared(read(ids, ENDS, (n, 0), {}), whole)) | within("corners", corners()) | within("cost", cost())
    golden |= within("ring.at_once", near) | within("ring.calls", compared(read(ids, ENDS, (WIDTH, KEPT), {}), near)) | within("mistakes", mistakes(ids))
    return {name: np.asarray(array) for name, array in golden.items()}
