"""Makes the golden of lesson 24: what caches keep, shared heads, latent attention plain and absorbed, and a rotation of latents.

By NumPy, from the mathematics. Latent attention itself is held against transformers' modules in latent_attention.py.
"""

import numpy as np
import torch

from case import within

INPUTS = np.array([[1, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1]], float)
QUERY = np.array([[1, 0, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [0, 1, 1, 0]], float)
KEY = np.array([[0, 1, 1, 0], [1, 0, 1, 1], [0, 1, 0, 0], [1, 1, 0, 1]], float)
VALUE = np.array([[0, 2, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0], [1, 1, 0, 2]], float)
LATENT_QUERY = np.array([[1, 0, 0, 1, 0, 1, 1, 0], [0, 1, 1, 0, 1, 0, 0, -1], [1, 1, 0, 0, 0, 1, 0, 1], [0, 0, 1, 1, 1, 1, 0, 0]], float)
DOWN = np.array([[1, 0, 1, 0], [0, 1, 0, 1], [1, -1, 1, 0], [0, 1, 0, -1]], float)
UP = np.array([[1, 0, 1, 0, 0, 2, 0, 1], [1, 1, 0, 1, -1, 0, 2, 0]], float)
LATENT_OUTPUT = np.array([[1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0], [1, 0, 0, 1]], float)


def softmax(x):
    return torch.softmax(torch.from_numpy(x), dim=-1).numpy()


def published():
    """Of Llama 2 7B, Llama 3 8B, Qwen2.5 7B, Falcon 7B, DeepSeek-V2-Lite and DeepSeek-V3, counted layer by layer and head by head."""
    models = [
        (32, 32, 32, 128, 128, 0, 0), (32, 32, 8, 128, 128, 0, 0), (28, 28, 4, 128, 128, 0, 0), (32, 71, 1, 64, 64, 0, 0),
        (27, 16, 0, 192, 128, 512, 64), (61, 128, 0, 192, 128, 512, 64),
    ]  # fmt: skip
    kept, own = [], []
    for layers, heads, groups, d_k, d_v, d_c, d_r in models:
        of_layer = sum(d_k + d_v for _ in range(groups)) + d_c + d_r
        kept.append(sum(of_layer for _ in range(layers)))
        own.append(sum(d_k + d_v for _ in range(layers) for _ in range(heads)))
    kept, own = np.array(kept), np.array(own)
    names = ("layers", "heads", "groups", "d_k", "d_v", "d_c", "d_r")
    steps = dict(zip(names, np.array(models).T))
    return steps | {"numbers": kept, "own": own, "bytes": kept * 2, "gib": kept * 2 * 8192 / 2**30, "share": kept / own}


def multi_head(key, value, output):
    """Two heads, which share a key where there are two columns of it only."""
    steps = {"x": INPUTS, "query_weights": QUERY, "query": INPUTS @ QUERY, "key_weights": key, "key": INPUTS @ key,
             "value_weights": value, "value": INPUTS @ value}  # fmt: skip
    contexts = []
    for head in range(2):
        part = lambda packed: packed[:, 2 * head : 2 * head + 2] if packed.shape[1] == 4 else packed
        queries, keys, values = (part(steps[role]) for role in ("query", "key", "value"))
        scores = queries @ keys.T
        weights = softmax(scores / np.sqrt(2))
        inside = {"queries": queries, "keys": keys, "values": values, "scores": scores, "scaled": scores / np.sqrt(2), "weights": weights}
        contexts.append(weights @ values)
        steps |= within(f"head.{head}", inside | {"context": contexts[-1]})
    merged = np.hstack(contexts)
    return steps | {"merged": merged, "output_weights": output, "output": merged @ output}


def rotated(x):
    """Of two features and one frequency, 1: a turn by the position, as a complex number."""
    turned = (x[:, 0] + 1j * x[:, 1]) * np.exp(1j * np.arange(len(x)))
    angles = np.arange(len(x), dtype=float)[:, None]
    return {"x": x, "frequencies": np.ones(1), "angles": angles, "output": np.stack([turned.real, turned.imag], axis=-1)}


def latent(is_absorbed):
    compressed = INPUTS @ DOWN
    mean_square = (compressed[:, :2] ** 2).mean(axis=-1)
    c = compressed[:, :2] / np.sqrt(mean_square[:, None] + 1e-6)
    normed = {"x": compressed[:, :2], "mean_square": mean_square, "normalized": c, "gain": np.ones(2), "output": c}
    steps = {"x": INPUTS, "query_weights": LATENT_QUERY, "query": INPUTS @ LATENT_QUERY, "compressed_weights": DOWN, "compressed": compressed}
    turned = rotated(compressed[:, 2:])
    steps |= within("latent_norm", normed) | {"latent": c} | within("rotary_key", turned) | {"shared_key": turned["output"]}
    latent_keys = np.hstack([c, turned["output"]])
    steps |= ({"latent_keys": latent_keys} if is_absorbed else {}) | {"key_value_weights": UP}
    steps |= {} if is_absorbed else {"key_value": c @ UP}
    contexts = []
    for head in range(2):
        query, up = steps["query"][:, 4 * head : 4 * head + 4], UP[:, 4 * head : 4 * head + 4]
        turning = rotated(query[:, 2:])
        inside = within("rotary_query", turning)
        if is_absorbed:
            absorbed = query[:, :2] @ up[:, :2].T
            inside |= {"key_weights": up[:, :2], "absorbed": absorbed, "queries": np.hstack([absorbed, turning["output"]]), "keys": latent_keys, "values": c}
        else:
            inside |= {"queries": np.hstack([query[:, :2], turning["output"]]), "keys": np.hstack([c @ up[:, :2], turned["output"]]), "values": c @ up[:, 2:]}
        scores = inside["queries"] @ inside["keys"].T
        weights = softmax(scores / 2)
        context = weights @ inside["values"]
        inside |= {"scores": scores, "scaled": scores / 2, "weights": weights, "context": context}
        if is_absorbed:
            context = context @ up[:, 2:]
            inside |= {"value_weights": up[:, 2:], "mapped": context}
        contexts.append(context)
        steps |= within(f"head.{head}", inside)
    merged = np.hstack(contexts)
    return steps | {"merged": merged, "output_weights": LATENT_OUTPUT, "output": merged @ LATENT_OUTPUT}


def scores_of(queries, keys):
    of_query, of_key = rotated(queries), rotated(keys)
    steps = {"queries": queries, "keys": keys} | within("rotary_query", of_query) | within("rotary_key", of_key)
    return steps | {"scores": of_query["output"] @ of_key["output"].T}


def cost():
    h, d_n, d_r, d_v, d_c, m = 128, 128, 64, 128, 512, 8192
    made = m * (d_c * h * d_n + d_c * h * d_v)
    by_heads = made + sum(m * (d_n + d_r) + m * d_v for _ in range(h))
    absorbed = sum(d_n * d_c + m * (d_c + d_r) + m * d_c + d_c * d_v for _ in range(h))
    return {"h": h, "d_n": d_n, "d_r": d_r, "d_v": d_v, "d_c": d_c, "m": m, "made": made, "by_heads": by_heads, "absorbed": absorbed,
            "ratio": by_heads / absorbed}  # fmt: skip


def lesson_24():
    own = multi_head(KEY, VALUE, np.eye(4))
    mean = lambda packed: np.stack([packed[:, :2], packed[:, 2:]]).mean(axis=0)
    shared = multi_head(mean(KEY), mean(VALUE), np.eye(4))
    plain, absorbed = latent(False), latent(True)
    np.testing.assert_allclose(plain["output"], absorbed["output"], rtol=1e-12)
    golden = within("published", published())
    golden |= {"inputs": INPUTS, "query_weights": QUERY, "key_weights": KEY, "value_weights": VALUE, "output_weights": np.eye(4)}
    golden |= within("own", own) | within("shared", {name: shared[name] for name in ("key_weights", "value_weights")} | shared)
    golden |= {"change": np.abs(shared["output"] - own["output"]).max(), "latent_query_weights": LATENT_QUERY, "down_weights": DOWN}
    golden |= {"latent_gain": np.ones(2), "up_weights": UP, "latent_output_weights": LATENT_OUTPUT}
    golden |= within("plain", plain) | within("absorbed", absorbed)
    query, c, up = absorbed["query"][:, :2], absorbed["latent"], UP[:, :2]
    right, pretended = scores_of(query, c @ up), scores_of(query @ up.T, c)
    golden |= within("rotated", right) | within("pretended", pretended) | {"off": pretended["scores"] - right["scores"]}
    return {name: np.asarray(array) for name, array in (golden | within("cost", cost())).items()}
