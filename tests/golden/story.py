"""Makes the golden of lesson 17: the small model's story by PyTorch, pairs of bytes, and the lesson's tiny Llama by NumPy."""

import json
import sys
from pathlib import Path

import numpy as np

import small_model
from case import within
from llama import gated_feed_forward, llama, rms_norm, softmax

HERE = Path(__file__).resolve().parent
LESSON = HERE.parent.parent / "lessons" / "17_story"
sys.path.insert(0, str(HERE.parent / "oracle"))
import planted


def tiny_weights(numbers, vocabulary, d_model=8, heads=4, groups=2, d_k=2, d_ff=12, layers=2):
    """As the lesson draws them."""
    embedding = numbers(vocabulary, d_model)
    gain = lambda: 1 + numbers(d_model, scale=0.25)
    drawn = []
    for _ in range(layers):
        widths = {
            "self_attn.query": (d_model, heads * d_k), "self_attn.key": (d_model, groups * d_k),
            "self_attn.value": (d_model, groups * d_k), "self_attn.output": (heads * d_k, d_model),
            "feed_forward.gate": (d_model, d_ff), "feed_forward.up": (d_model, d_ff), "feed_forward.down": (d_ff, d_model),
        }  # fmt: skip
        drawn.append({role: numbers(*shape) for role, shape in widths.items()} | {"norm1.gain": gain(), "norm2.gain": gain()})
    return {"embedding": embedding, "layers": drawn, "gain": gain(), "output": None}


def next_of(logits, temperature, draw):
    """The likeliest id at temperature 0; else the id in whose share of [0, 1) the drawn number falls."""
    if temperature == 0:
        return int(np.argmax(logits))
    shares = np.cumsum(softmax(logits / temperature))
    return int(np.searchsorted(shares, (draw(1)[0] + 1) / 2, side="right"))


def continued(temperature, longest=40, seed=7):
    """The sentence continued by PyTorch's small model to the end of the story, and the logits of all its words."""
    ids, draw = small_model.sentence_ids(), planted.SplitMix(seed)
    while ids[-1] != 0 and len(ids) < longest:
        ids.append(next_of(small_model.small_model(ids)["logits"][-1], temperature, draw))
    return {"temperature": temperature, "ids": np.array(ids), "logits": small_model.small_model(ids)["logits"]}


def small_story():
    steps = {}
    for i, temperature in enumerate((0, 1, 3)):
        steps |= within(f"written.{i}", continued(temperature))
        if i == 0:
            logits, temperatures = steps["written.0.logits"][len(small_model.sentence_ids()) - 1], np.array([0.25, 0.5, 1, 2, 4])
            divided = np.outer(1 / temperatures, logits)
            probabilities = np.exp(divided) / np.exp(divided).sum(axis=1)[:, None]
            steps |= within("temperature", {"logits": logits, "temperatures": temperatures, "divided": divided, "probabilities": probabilities})
    return steps


def byte_pairs(text, merges):
    """Learned on bytes objects: each word a list of its tokens, the first of which has the space in front."""
    words = [[bytes([byte]) for byte in b" " + word] for word in text.encode().split()]
    numbers = {bytes([i]): i for i in range(256)}
    in_order = lambda: np.array([numbers[token] for word in words for token in word])
    steps = {"bytes": in_order()}
    for k in range(1, merges + 1):
        pairs = [pair for word in words for pair in zip(word, word[1:])]
        left, right = max(pairs, key=pairs.count)  # the first of those that are as frequent
        numbers[left + right] = 255 + k
        for word in words:
            for i in range(len(word) - 2, -1, -1):
                if i + 1 < len(word) and word[i : i + 2] == [left, right]:
                    word[i : i + 2] = [left + right]
        found = {"pair": np.array([numbers[left], numbers[right]]), "token": 255 + k, "count": pairs.count((left, right)), "ids": in_order()}
        steps |= within(f"merge.{k}", found)
    return steps


def sizes(weights, heads, groups):
    """Sizes of the tiny model and of Llama 3 8B, counted from shapes."""
    vocabulary, d_model = weights["embedding"].shape
    first = weights["layers"][0]
    own = {"d_model": d_model, "heads": heads, "groups": groups, "d_k": first["self_attn.query"].shape[1] // heads,
           "d_ff": first["feed_forward.up"].shape[1], "layers": len(weights["layers"]), "vocabulary": vocabulary}  # fmt: skip
    llama3 = {"d_model": 4096, "heads": 32, "groups": 8, "d_k": 128, "d_ff": 14336, "layers": 32, "vocabulary": 128256}
    rows = []
    for s in (own, llama3):
        kept = np.zeros((2, 1, s["d_k"]))  # a key and a value of one head
        in_layer = [s["heads"] * s["d_k"]] * 3 + [s["d_model"], s["d_ff"], s["d_model"]]  # query, key, value, output, up, down
        rows.append(s | {
            "cache_2017": s["layers"] * s["heads"] * kept.size, "cache_today": s["layers"] * s["groups"] * kept.size,
            "gib_2017": s["layers"] * s["heads"] * kept.size * 8192 * 2 / 2**30, "gib_today": s["layers"] * s["groups"] * kept.size * 8192 * 2 / 2**30,
            "norm_biases": sum([s["d_model"]] * (2 * s["layers"] + 1)), "biases": s["layers"] * sum(in_layer),
            "network_2017": s["d_model"] * s["d_ff"] + s["d_ff"] * s["d_model"],
            "network_today": s["d_model"] * s["d_ff"] + s["d_model"] * s["d_ff"] + s["d_ff"] * s["d_model"],
            "table": s["vocabulary"] * s["d_model"],
        })  # fmt: skip
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def story(seed=28, written=8):
    """Greedily, each token by a pass over all before it."""
    tokens = json.loads((LESSON / "tokens.json").read_text())["tokens"]
    prompt = [tokens.index(token) for token in ("<s>", "▁the", "▁cat", "▁sat", "▁on")]
    weights = tiny_weights(planted.SplitMix(seed), len(tokens))
    ids = list(prompt)
    for _ in range(written):
        steps, _ = llama(np.array(ids, float), weights, 4, 2, "pairs")
        ids.append(int(np.argmax(steps["logits"][-1])))
    steps, _ = llama(np.array(ids, float), weights, 4, 2, "pairs")

    # The parts, on the prompt.
    first = weights["layers"][0]
    embedded = weights["embedding"][prompt]
    norm = rms_norm(embedded, first["norm1.gain"])
    network = gated_feed_forward(norm["output"], *(first[f"feed_forward.{role}"] for role in ("gate", "up", "down")))
    golden = small_story() | within("byte_pairs", byte_pairs(" the red ball the red hat the ball", 6))
    golden |= {"embedding": weights["embedding"], "parts.ids": np.array(prompt, float), "parts.embedded": embedded}
    golden |= within("parts.norm", norm)
    golden["parts.mean_share"] = embedded.mean(axis=1) ** 2 / (embedded**2).mean(axis=1)
    golden |= within("parts.network", network) | within("sizes", sizes(weights, 4, 2))
    return golden | {name: array for name, array in steps.items() if name != "embedding"}
