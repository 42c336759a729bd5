"""Makes the golden of the modern decoder and of Keras-style attention: every step, by NumPy in float64.

All heads are computed at once, as tensors (h, n, d): keys and values of a group are repeated for each head of it,
rotary positions are a multiplication of complex numbers or Hugging Face's rotate_half, and the cache is what a model
with all tokens has. What a head has is cut out afterwards.

The words of a case's name are parted by dashes and say what it is, h8 for eight heads, g4 for four key/value heads. See case.py
for what a case is.
"""

import numpy as np

import case
from case import flags, numbers, within


def softmax(x):
    exponentials = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return exponentials / np.sum(exponentials, axis=-1, keepdims=True)


def sigmoid(x):
    return 0.5 + 0.5 * np.tanh(0.5 * x)


# ---------------------------------------------------------------------------------------------------------- functions


def rms_norm(x, gain, epsilon=1e-5):
    mean_square = np.einsum("...d,...d->...", x, x) / x.shape[-1]
    normalized = x * ((mean_square + epsilon) ** -0.5)[..., None]
    return {"x": x, "mean_square": mean_square, "normalized": normalized, "gain": gain, "output": normalized * gain}


def gated_feed_forward(x, gate_weights, up_weights, down_weights):
    gate, up = x @ gate_weights, x @ up_weights
    activated = gate * sigmoid(gate)
    return {
        "x": x, "gate_weights": gate_weights, "gate": gate, "activated": activated, "up_weights": up_weights, "up": up,
        "gated": activated * up, "down_weights": down_weights, "output": (activated * up) @ down_weights,
    }  # fmt: skip


def rotary_angles(n, d, first=0):
    frequencies = np.exp(-np.log(10000.0) * np.arange(0, d, 2) / d)
    return frequencies, np.arange(first, first + n)[:, None] * frequencies


def turned(x, layout, first=0):
    """x: (..., n, d)"""
    angles = rotary_angles(x.shape[-2], x.shape[-1], first)[1]
    if layout == "pairs":
        pairs = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * angles)
        return np.stack([pairs.real, pairs.imag], axis=-1).reshape(x.shape)
    half = x.shape[-1] // 2
    rotated = np.concatenate([-x[..., half:], x[..., :half]], axis=-1)
    return x * np.cos(np.tile(angles, 2)) + rotated * np.sin(np.tile(angles, 2))


def by_heads(packed, heads):
    """(..., n, h d) as (..., h, n, d)."""
    *front, n, width = packed.shape
    return np.swapaxes(packed.reshape(*front, n, heads, width // heads), -2, -3)


def merged_heads(x):
    """(..., h, n, d) as (..., n, h d)."""
    swapped = np.swapaxes(x, -2, -3)
    return swapped.reshape(*swapped.shape[:-2], -1)


def of_rotary(packed_share, layout, first):
    n, d = packed_share.shape[-2:]
    frequencies, angles = rotary_angles(n, d, first)
    steps = {"x": packed_share, "frequencies": frequencies, "angles": angles, "output": turned(packed_share, layout, first)}
    return steps


def attention(x, weights, heads, groups, layout=None, mask=None, past=None):
    """Grouped self-attention.

    @param weights  query, key, value, output: (in, out); query_bias and so on where there are biases
    @param mask     (n, m), true where a query can attend, and whether it is named here: (mask, True)
    @param past     keys and values of the tokens before, (past, g d): the keys turned
    """
    first = 0 if past is None else past[0].shape[0]
    allowed, is_named = mask if mask is not None else (None, False)
    steps = {"x": x} | ({"mask": allowed} if is_named else {})
    steps |= {} if past is None else {"past_keys": past[0], "past_values": past[1]}
    packed = {}
    for role in ("query", "key", "value"):
        steps[f"{role}_weights"] = weights[role]
        packed[role] = x @ weights[role]
        if f"{role}_bias" in weights:
            steps[f"{role}_bias"] = weights[f"{role}_bias"]
            packed[role] = packed[role] + weights[f"{role}_bias"]
        steps[role] = packed[role]

    # All heads at once.
    straight = {role: by_heads(packed[role], heads if role == "query" else groups) for role in packed}
    placed = {role: turned(straight[role], layout, first) if layout and role != "value" else straight[role] for role in packed}
    keys, values = placed["key"], straight["value"]
    if past is not None:
        keys = np.concatenate([by_heads(past[0], groups), keys], axis=-2)
        values = np.concatenate([by_heads(past[1], groups), values], axis=-2)
    all_keys, all_values = (np.repeat(each, heads // groups, axis=-3) for each in (keys, values))
    scores = np.einsum("...nd,...md->...nm", placed["query"], all_keys)
    scaled = scores * all_keys.shape[-1] ** -0.5
    masked = scaled if allowed is None else np.where(allowed, scaled, -np.inf)
    probabilities = softmax(masked)
    contexts = np.einsum("...nm,...md->...nd", probabilities, all_values)

    # What each head has.
    for head in range(heads):
        group = head // (heads // groups)
        of_head = {}
        new = "" if past is None else "new_"
        for role, name, own in (("query", "queries", head), ("key", f"{new}keys", group)):
            share = straight[role][..., own, :, :]
            if layout:
                turning = of_rotary(share, layout, first)
                of_head |= within(f"rotary_{role}", turning)
                share = turning["output"]
            of_head[name] = share
        if past is not None:
            of_head["keys"] = keys[..., group, :, :]
        of_head[f"{new}values"] = straight["value"][..., group, :, :]
        if past is not None:
            of_head["values"] = values[..., group, :, :]
        of_head |= {"scores": scores[..., head, :, :], "scaled": scaled[..., head, :, :]}
        if allowed is not None:
            of_head["masked"] = masked[..., head, :, :]
        of_head |= {"weights": probabilities[..., head, :, :], "context": contexts[..., head, :, :]}
        steps |= within(f"head.{head}", of_head)
    steps["merged"] = merged_heads(contexts)
    steps["output_weights"] = weights["output"]
    output = steps["merged"] @ weights["output"]
    if "output_bias" in weights:
        steps["output_bias"] = weights["output_bias"]
        output = output + weights["output_bias"]
    steps["output"] = output
    return steps, (merged_heads(keys), merged_heads(values))


def with_cache(attended):
    steps, (keys, values) = attended
    return steps | {"cache_keys": keys, "cache_values": values}


def causal_mask(n, m):
    return np.tri(n, m, m - n, dtype=bool)


def llama_layer(x, weights, heads, groups, layout, allowed, past=None, keeps_cache=False):
    def norm(scope, tokens):
        return within(scope, rms_norm(tokens, weights[f"{scope}.gain"]))

    steps = {"x": x} | norm("norm1", x)
    of_attention = {role: weights[f"self_attn.{role}"] for role in ("query", "key", "value", "output")}
    attended = attention(steps["norm1.output"], of_attention, heads, groups, layout, (allowed, False), past)
    steps |= within("self_attn", with_cache(attended) if keeps_cache else attended[0])
    steps["residual1"] = x + steps["self_attn.output"]
    steps |= norm("norm2", steps["residual1"])
    feeding = [weights[f"feed_forward.{role}"] for role in ("gate", "up", "down")]
    steps |= within("feed_forward", gated_feed_forward(steps["norm2.output"], *feeding))
    steps["output"] = steps["residual1"] + steps["feed_forward.output"]
    return steps, attended[1]


def llama(ids, weights, heads, groups, layout, past=None, keeps_cache=False):
    """@param weights  embedding, layers (a list), gain, output (or none where it is tied)"""
    n, first = len(ids), 0 if past is None else past[0][0].shape[0]
    tokens = weights["embedding"][ids.astype(int)]
    allowed = causal_mask(n, first + n)
    steps = {"ids": ids, "embedding": weights["embedding"], "embedded": tokens, "causal": allowed, "mask": allowed}
    caches = []
    for i, of_layer in enumerate(weights["layers"]):
        before = None if past is None else past[i]
        layer, cache = llama_layer(tokens, of_layer, heads, groups, layout, allowed, before, keeps_cache)
        caches.append(cache)
        steps |= within(f"layers.{i}", layer)
        tokens = layer["output"]
    steps |= within("norm", rms_norm(tokens, weights["gain"]))
    if weights["output"] is None:
        steps["logits"] = np.einsum("nd,vd->nv", steps["norm.output"], weights["embedding"])
    else:
        steps |= {"output_weights": weights["output"], "logits": steps["norm.output"] @ weights["output"]}
    return steps, caches


def keras_attention(x, memory, value_memory, weights, heads, value_mask=None, query_mask=None, mask_right=False, penalty=1e10):
    """A mask is a number for each token; without the axis of heads, as the layer's own program has it."""
    steps = {"x": x, "memory": memory, "value_memory": value_memory}
    packed = []
    for role, source in (("query", x), ("key", memory), ("value", value_memory)):
        packed.append(source @ weights[role])
        steps |= {f"{role}_weights": weights[role], role: packed[-1]}
    bias = None
    n, m = x.shape[-2], memory.shape[-2]
    if value_mask is not None:
        steps["value_mask"] = value_mask
        bias = np.repeat((value_mask - 1)[..., None, :] * penalty, n, axis=-2)
    if mask_right:
        bias = (0 if bias is None else bias) - (np.ones((n, m)) - np.tri(n, m)) * penalty
    if bias is not None:
        steps["bias"] = np.broadcast_to(bias, (*x.shape[:-1], m)).copy()
    queries, keys, values = (by_heads(each, heads) for each in packed)
    scores = np.einsum("...nd,...md->...nm", queries, keys)
    scaled = scores / keys.shape[-1] ** 0.5
    named = {"queries": queries, "keys": keys, "values": values, "scores": scores, "scaled": scaled}
    if bias is not None:
        named["biased"] = scaled + steps["bias"][..., None, :, :]
    named["weights"] = softmax(named.get("biased", scaled))
    named["context"] = np.einsum("...nm,...md->...nd", named["weights"], values)
    for head in range(heads):
        steps |= within(f"head.{head}", {name: array[..., head, :, :] for name, array in named.items()})
    steps["merged"] = output = merged_heads(named["context"])
    if query_mask is not None:
        steps["query_mask"] = query_mask
        output = output * query_mask[..., None]
    return steps | {"output": output}


# -------------------------------------------------------------------------------------------------------------- cases


def attention_case(heads, groups, d_model=6, d_k=4, d_v=4, n=5, batch=(), layout=None, causal=False, biased=False):
    widths = {"query": heads * d_k, "key": groups * d_k, "value": groups * d_v}
    weights = {role: numbers(d_model, width, seed=i + d_k, scale=0.5) for i, (role, width) in enumerate(widths.items())}
    weights["output"] = numbers(heads * d_v, d_model, seed=9, scale=0.5)
    if biased:
        weights |= {f"{role}_bias": numbers(weights[role].shape[1], seed=20 + i) for i, role in enumerate(list(weights))}
    x = numbers(*batch, n, d_model, seed=n)
    mask = (causal_mask(n, n), True) if causal else None
    return of_heads(attention(x, weights, heads, groups, layout, mask)[0], weights, heads, layout)


def of_heads(steps, weights, heads, layout):
    """A case of multi-head attention: what it is run with, its input, its steps and its weights."""
    given = {name: steps[name] for name in ("x", "mask", "past_keys", "past_values") if name in steps}
    names = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
    state = {}
    for name, array in weights.items():
        role, _, kind = name.partition("_")
        state[f"{names[role]}.{kind or 'weight'}"] = array if kind else array.T
    return f"multi-head-attention{flags(heads=heads, positions=layout and 'rotary', rotary_layout=layout)}", given, steps, state


def cached_case(heads, groups, past, n, layout):
    """The tokens of one sequence, the first of them before, the others now."""
    d_model, d_k = 7, 4
    widths = {"query": heads * d_k, "key": groups * d_k, "value": groups * 3}
    weights = {role: numbers(d_model, width, seed=30 + i, scale=0.5) for i, (role, width) in enumerate(widths.items())}
    weights["output"] = numbers(heads * 3, d_model, seed=34, scale=0.5)
    x = numbers(past + n, d_model, seed=35)
    whole, _ = attention(x, weights, heads, groups, layout, (causal_mask(past + n, past + n), True))
    _, before = attention(x[:past], weights, heads, groups, layout, (causal_mask(past, past), True))
    attended = attention(x[past:], weights, heads, groups, layout, (causal_mask(n, past + n), True), before)
    np.testing.assert_allclose(attended[0]["output"], whole["output"][past:], rtol=1e-12, atol=1e-12)
    return of_heads(with_cache(attended), weights, heads, layout)


def llama_weights(heads, groups, d_model, d_k, d_ff, layers, vocabulary, tied, seed):
    draw = iter(range(seed, seed + 1000))
    matrix = lambda *shape: numbers(*shape, seed=next(draw), scale=0.5)
    gain = lambda: 1 + numbers(d_model, seed=next(draw), scale=0.25)
    of_layer = lambda: {
        "norm1.gain": gain(), "self_attn.query": matrix(d_model, heads * d_k), "self_attn.key": matrix(d_model, groups * d_k),
        "self_attn.value": matrix(d_model, groups * d_k), "self_attn.output": matrix(heads * d_k, d_model), "norm2.gain": gain(),
        "feed_forward.gate": matrix(d_model, d_ff), "feed_forward.up": matrix(d_model, d_ff), "feed_forward.down": matrix(d_ff, d_model),
    }  # fmt: skip
    return {
        "embedding": matrix(vocabulary, d_model), "layers": [of_layer() for _ in range(layers)], "gain": gain(),
        "output": None if tied else matrix(d_model, vocabulary),
    }  # fmt: skip


def llama_case(heads, groups, layout, tied, past=None, d_model=8, d_k=2, d_ff=5, layers=2, vocabulary=11, n=6):
    weights = llama_weights(heads, groups, d_model, d_k, d_ff, layers, vocabulary, tied, seed=100 * heads + groups)
    ids = np.random.RandomState(heads).randint(0, vocabulary, n).astype(float)
    steps, _ = llama(ids, weights, heads, groups, layout)
    if past is None:
        steps["output"] = steps["logits"]
        return f"llama{flags(heads=heads, rotary_layout=layout)}", {"ids": ids}, steps, llama_state(weights)
    _, caches = llama(ids[:past], weights, heads, groups, layout)
    cached, _ = llama(ids[past:], weights, heads, groups, layout, caches, keeps_cache=True)
    np.testing.assert_allclose(cached["logits"], steps["logits"][past:], rtol=1e-12, atol=1e-12)
    given = {"ids": ids[past:], "heads": np.array([heads])}
    given |= {f"{i}.{name}": array for i, cache in enumerate(caches) for name, array in zip(("keys", "values"), cache)}
    return None, given, cached, llama_state(weights)  # attn run llama takes no cache


def llama_state(weights):
    """Under the names that Hugging Face has."""
    names = {
        "norm1.gain": "input_layernorm", "norm2.gain": "post_attention_layernorm", "self_attn.query": "self_attn.q_proj",
        "self_attn.key": "self_attn.k_proj", "self_attn.value": "self_attn.v_proj", "self_attn.output": "self_attn.o_proj",
        "feed_forward.gate": "mlp.gate_proj", "feed_forward.up": "mlp.up_proj", "feed_forward.down": "mlp.down_proj",
    }  # fmt: skip
    state = {"model.embed_tokens.weight": weights["embedding"], "model.norm.weight": weights["gain"]}
    for i, layer in enumerate(weights["layers"]):
        state |= {f"model.layers.{i}.{names[name]}.weight": array.T for name, array in layer.items()}
    return state | ({} if weights["output"] is None else {"lm_head.weight": weights["output"].T})


def keras_case(heads, batch=(), n=4, m=None, d_v=3, values=None, queries=None, mask_right=False, penalty=1e10):
    d_model, d_memory, d_value = 6, (6 if m is None else 5), (6 if m is None else 7)
    x = numbers(*batch, n, d_model, seed=n)
    memory = x if m is None else numbers(*batch, m, d_memory, seed=50 + m)
    value_memory = x if m is None else numbers(*batch, m, d_value, seed=60 + m)
    weights = {
        "query": numbers(d_model, 2 * heads, seed=70), "key": numbers(d_memory, 2 * heads, seed=71),
        "value": numbers(d_value, d_v * heads, seed=72),
    }  # fmt: skip
    as_mask = lambda lengths, size: None if lengths is None else (np.arange(size) < np.array(lengths)[..., None]).astype(float)
    masks = {"value_mask": as_mask(values, m or n), "query_mask": as_mask(queries, n)}
    steps = keras_attention(x, memory, value_memory, weights, heads, mask_right=mask_right, penalty=penalty, **masks)
    given = {"x": x} | ({} if m is None else {"memory": memory, "value_memory": value_memory})
    given |= {name: mask for name, mask in masks.items() if mask is not None}
    run = "keras-attention" + flags(heads=heads, mask_right=mask_right, penalty=penalty if mask_right else None)
    return run, given, steps, {f"{role}_weights": array for role, array in weights.items()}


def rms_norm_case(*shape):
    x, gain = numbers(*shape, seed=1), 1 + numbers(shape[-1], seed=2, scale=0.25)
    return "rms-norm", {"x": x}, rms_norm(x, gain), {"weight": gain}


def gated_case(*shape, d_ff):
    d = shape[-1]
    x, gate, up, down = numbers(*shape, seed=3), numbers(d, d_ff, seed=4), numbers(d, d_ff, seed=5), numbers(d_ff, d, seed=6)
    state = {f"{role}_proj.weight": array.T for role, array in {"gate": gate, "up": up, "down": down}.items()}
    return "gated-feed-forward", {"x": x}, gated_feed_forward(x, gate, up, down), state


def all_cases():
    """Each case after its name: what it is run with, its input, its steps and its weights."""
    yield "rms_norm-sequence", *rms_norm_case(4, 7)
    yield "rms_norm-batch", *rms_norm_case(3, 2, 5)
    yield "gated_feed_forward-sequence", *gated_case(4, 5, d_ff=3)
    yield "gated_feed_forward-batch", *gated_case(2, 3, 6, d_ff=7)
    yield "attention-h8-g4-none-sequence", *attention_case(8, 4)
    yield "attention-h4-g1-none-sequence-causal", *attention_case(4, 1, d_v=3, causal=True, biased=True)
    yield "attention-h6-g2-pairs-sequence-causal", *attention_case(6, 2, layout="pairs", causal=True)
    yield "attention-h6-g3-halves-batch-causal", *attention_case(6, 3, batch=(2,), layout="halves", causal=True)
    yield "attention-h3-g3-pairs-batch", *attention_case(3, 3, batch=(3,), layout="pairs")
    yield "cached-h4-g2-pairs", *cached_case(4, 2, past=3, n=2, layout="pairs")
    yield "cached-h4-g1-halves", *cached_case(4, 1, past=4, n=1, layout="halves")
    yield "cached-h3-g3-none", *cached_case(3, 3, past=1, n=3, layout=None)
    yield "llama-h8-g4-pairs-tied", *llama_case(8, 4, "pairs", True)
    yield "llama-h4-g1-halves-own", *llama_case(4, 1, "halves", False, d_model=7, d_k=4, d_ff=9, layers=1)
    yield "llama-h3-g3-pairs-tied", *llama_case(3, 3, "pairs", True, d_model=5, layers=3, vocabulary=13, n=1)
    yield "llama-h8-g4-pairs-tied-cached", *llama_case(8, 4, "pairs", True, past=4)
    yield "llama-h4-g1-halves-own-cached", *llama_case(4, 1, "halves", False, past=5, d_model=7, d_k=4, d_ff=9)
    yield "keras-h2-sequence", *keras_case(2)
    yield "keras-h2-sequence-right", *keras_case(2, values=3, queries=3, mask_right=True)
    yield "keras-h3-sequence-cross-right", *keras_case(3, n=3, m=5, mask_right=True, penalty=1e12)
    yield "keras-h1-batch-cross", *keras_case(1, batch=(3,), n=2, m=4, values=[4, 2, 1], queries=[2, 1, 0])
    yield "keras-h2-batch-starved", *keras_case(2, batch=(2,), n=3, values=[2, 0], queries=[2, 3])


def llama_golden():
    """Every case, step by step."""
    golden = {}
    for of in all_cases():
        golden |= case.case(*of)
    return golden
