"""Makes the golden of lesson 25: caches of published models, masks of windows, and two decoders under them.

By PyTorch in float64; the decoders step by step as in small_model.py, whose logits are held against PyTorch's modules.
"""

import json

import numpy as np
import torch

from layers import within
from small_model import FOLDER, decoder

ECHO = FOLDER.parent / "echo"
STORY = "Lily had a red ball . She took the ball to the park . The ball was red . Then"
LETTERS = "<begin> s u r y t ? t l c w ! w ! w z"
WIDTH, KEPT = 6, 1
HEAD = "layers.0.self_attn.head.0"


def ids_of(text, folder):
    vocabulary = json.loads((folder / "config.json").read_text())["vocabulary"]
    return [vocabulary.index(word) for word in text.split()]


def published():
    """Of Mistral 7B v0.1, Gemma 2 9B, Gemma 3 27B and gpt-oss-20b, counted layer by layer; the last of a cycle has no window."""
    names = ("layers", "windowed", "window", "groups", "d_k")
    models = [(32, 0, 4096, 8, 128), (42, 2, 4096, 8, 256), (62, 6, 1024, 16, 128), (24, 2, 128, 8, 64)]
    tokens, rows, every, counts, reach = 131072, [], [], [], []
    for layers, cycle, window, groups, d_k in models:
        has_window = [cycle == 0 or (layer + 1) % cycle != 0 for layer in range(layers)]
        rows.append(sum(window if short else tokens for short in has_window))
        every.append(sum(tokens for _ in has_window))
        counts.append((layers, sum(has_window), window, groups, d_k))
        reach.append(sum(window - 1 for short in has_window if short))
    rows, every, steps = np.array(rows), np.array(every), dict(zip(names, np.array(counts).T))
    number_bytes = np.array([2 * 2 * groups * d_k for _, _, _, groups, d_k in counts])  # of keys and values, two bytes each
    gib = lambda kept: kept * number_bytes / 2**30
    return steps | {"tokens": tokens, "rows": rows, "every_row": every, "bytes": number_bytes, "gib": gib(rows),
                    "gib_without": gib(every), "reach": np.array(reach)}  # fmt: skip


def masks(n):
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    near = torch.ones(n, n, dtype=torch.bool).triu(1 - WIDTH)
    first = torch.zeros(n, n, dtype=torch.bool)
    first[:, :KEPT] = True
    return {"causal": causal, "window": near, "window_mask": causal & near, "first_mask": causal & (near | first)}


def read(ids, file, mask=None):
    steps = decoder(ids, file, mask)
    given = {} if mask is None else {"given_mask": mask.numpy()}
    return steps | given | {"chances": torch.softmax(torch.from_numpy(steps["logits"]), dim=-1).numpy()}


def attended(queries, keys, values, mask):
    scores = queries @ keys.T
    scaled = scores / np.sqrt(keys.shape[-1])
    masked = np.where(mask, scaled, -np.inf)
    weights = torch.softmax(torch.from_numpy(masked), dim=-1).numpy()
    return {"queries": queries, "keys": keys, "values": values, "mask": mask, "scores": scores, "scaled": scaled, "masked": masked, "weights": weights, "context": weights @ values}


def chunk(window, whole):
    queries, keys, values = (window[f"{HEAD}.{name}"] for name in ("queries", "keys", "values"))
    m = len(keys)
    n = (m + 3) // 4
    parts = {"causal": torch.ones(n, m, dtype=torch.bool).tril(m - n).numpy(), "window": torch.ones(n, m, dtype=torch.bool).triu(m - n + 1 - WIDTH).numpy()}
    right = {"queries": queries[-n:]} | parts | attended(queries[-n:], keys, values, parts["causal"] & parts["window"])
    np.testing.assert_allclose(right["context"], window[f"{HEAD}.context"][-n:], rtol=1e-12)
    wrong = attended(queries[-n:], keys, values, whole[:n])
    return right | within("top_left", wrong) | {"width": [WIDTH], "off": np.abs(wrong["context"] - right["context"]).max()}


def echo():
    ids = ids_of(LETTERS, ECHO)
    of_text = masks(len(ids))
    plain, with_sink = ECHO / "model.safetensors", ECHO / "with_sink.safetensors"
    runs = {
        "all": read(ids, plain), "window": read(ids, plain, of_text["window_mask"]), "with_first": read(ids, plain, of_text["first_mask"]),
        "sink": read(ids, with_sink), "sink_in_window": read(ids, with_sink, of_text["window_mask"]),
    }  # fmt: skip
    change = lambda a, b: np.abs(runs[a]["chances"] - runs[b]["chances"]).max(axis=1)
    steps = {"ids": ids, "width": [WIDTH], "kept": [KEPT]} | {name: mask.numpy() for name, mask in of_text.items()}
    for name, run in runs.items():
        steps |= within(name, run)
    steps |= {f"{name}.on_first": runs[name][f"{HEAD}.weights"][:, 0] for name in ("all", "sink")}
    return steps | {"lost": change("window", "all"), "back": change("with_first", "all"), "lost_with_sink": change("sink_in_window", "sink")}


def lesson_25():
    ids = ids_of(STORY, FOLDER)
    of_story = masks(len(ids))
    model = FOLDER / "model.safetensors"
    window = read(ids, model, of_story["window_mask"])
    golden = within("published", published()) | {"ids": ids, "width": [WIDTH], "kept": [KEPT]}
    golden |= {name: mask.numpy() for name, mask in of_story.items()}
    golden |= within("all", read(ids, model)) | within("window", window)
    golden |= within("with_first", read(ids, model, of_story["first_mask"]))
    one = of_story["window_mask"].double()
    two = ((one @ one) > 0).double()
    reach = {"one": one.numpy(), "two": two.numpy(), "by_one": one[-1].sum().item(), "by_two": two[-1].sum().item()}
    golden |= within("reach", reach) | {"echo_ids": ids_of(LETTERS, ECHO)} | within("echo", echo())
    golden |= within("chunk", chunk(window, of_story["window_mask"].numpy()))
    return {name: np.asarray(array) for name, array in golden.items()}
