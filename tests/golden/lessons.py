"""What every step of lessons 5 to 11 has to give, by PyTorch and NumPy in float64.

generate.py calls these functions and writes what they return.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

import layers
import small_model
from case import within
from layers import sinusoids

HERE = Path(__file__).resolve().parent
LESSONS = HERE.parent.parent / "lessons"
sys.path.insert(0, str(HERE.parent / "oracle"))
import planted

INPUTS = np.array([[1, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1]], float)
QUERY_WEIGHTS = np.array([[1, 0, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [0, 2, 1, 2]], float)
KEY_WEIGHTS = np.array([[0, 1, 1, 0], [1, 0, -1, 1], [0, 1, 1, 0], [1, 1, 0, -1]], float)
VALUE_WEIGHTS = np.array([[0, 2, 1, 0], [0, 3, 0, 1], [1, 0, 3, 0], [1, 1, 0, 2]], float)
OUTPUT_WEIGHTS = np.array([[1, 0, 0.5, 0], [0, 1, 0, -0.5], [0.5, 0, 1, 0], [0, -0.5, 0, 1]])
UP_WEIGHTS = np.array([[1, 0, -1, 0.5, 0, 1], [0, 1, 1, -0.5, 1, 0], [1, -1, 0, 0, 0.5, -1], [-1, 0, 1, 1, 0, 0.5]])
UP_BIAS = np.array([0, 0.5, 0, -0.5, 0, 0.25])
DOWN_WEIGHTS = np.array([[0.5, 0, 0, -0.5], [0, 0.5, -1, 0], [0.25, 0, 0.5, 0], [0, -0.5, 0, 1], [1, 0, 0, 0.25], [0, 0.25, 0.5, 0]])
DOWN_BIAS = np.array([0, 0.1, 0, -0.1])


def softmax(x, axis=-1):
    return torch.softmax(torch.from_numpy(np.array(x, float)), dim=axis).numpy()


def as_arrays(steps):
    return {name: tensor.detach().numpy() for name, tensor in steps.items()}


def attend(queries, keys, values):
    """The steps of scaled dot-product attention, inputs first."""
    scores = np.einsum("nk,mk->nm", queries, keys)
    scaled = scores / np.sqrt(keys.shape[1])
    weights = softmax(scaled)
    context = np.einsum("nm,mv->nv", weights, values)
    return {"queries": queries, "keys": keys, "values": values, "scores": scores, "scaled": scaled, "weights": weights, "context": context}


# ------------------------------------------------------------------------------------------------------------ lesson 5


def masking():
    tokens = np.array([[[1, 0, 2], [0, 2, 1], [2, 1, 0], [1, 1, 1]], [[2, 0, 1], [1, 2, 0], [3, 3, 3], [3, 3, 3]]], float)
    lengths = np.array([4.0, 2])
    scores = np.einsum("bnd,bmd->bnm", tokens, tokens)
    scaled = scores / np.sqrt(3)
    padding = np.arange(4) < lengths[:, None]
    mask = np.broadcast_to(padding[:, None, :], (2, 4, 4)).copy()

    # PyTorch's own masking, and its whole attention with the mask turned round.
    masked = torch.from_numpy(scaled).masked_fill(~torch.from_numpy(mask), -np.inf)
    weights = torch.softmax(masked, dim=-1)
    context = (weights @ torch.from_numpy(tokens)).numpy()
    one_head = torch.nn.MultiheadAttention(3, 1, bias=False, batch_first=True, dtype=torch.float64)
    one_head.load_state_dict({"in_proj_weight": torch.eye(3, dtype=torch.float64).repeat(3, 1), "out_proj.weight": torch.eye(3, dtype=torch.float64)})
    x = torch.from_numpy(tokens)
    np.testing.assert_allclose(context, one_head(x, x, x, key_padding_mask=~torch.from_numpy(padding))[0].detach().numpy(), rtol=1e-12)
    golden = {
        "tokens": tokens, "lengths": lengths, "scores": scores, "scaled": scaled, "padding": padding, "mask": mask,
        "masked": masked.numpy(), "weights": weights.numpy(), "context": context,
    }  # fmt: skip

    zeroed = np.where(mask, scaled, 0)
    unmasked = softmax(scaled)
    after = unmasked * mask
    golden |= within("zeroed", {"scores": zeroed, "weights": softmax(zeroed)})
    golden |= within("after", {"unmasked": unmasked, "weights": after, "row_sums": after.sum(axis=-1)})

    lowered = scaled - 1e12 * ~mask
    golden |= within("large", {"masked": lowered, "weights": softmax(lowered)})
    replaced = np.array([-100001.0, -100002, -100000])
    golden |= within("finite", {"scores": np.array([-100001.0, -100002, -100003]), "masked": replaced, "weights": softmax(replaced)})
    moved = (np.array([1, 2, 3], np.float32) + np.float32(1e10)).astype(np.float32).astype(float)
    golden |= within("float32", {"scores": np.array([1.0, 2, 3]), "moved": moved, "weights": softmax(moved)})
    golden["queries.context"] = context * padding[:, :, None]

    causal = np.tril(np.ones((4, 4), bool))
    hidden = np.where(causal, scaled[0], -np.inf)
    golden |= within("causal_only", {"tokens": tokens[0], "causal": causal, "scaled": scaled[0], "masked": hidden, "weights": softmax(hidden)})
    golden["bottom_right.causal"] = np.tril(np.ones((2, 4), bool), 2)
    golden["top_left.causal"] = np.tril(np.ones((2, 4), bool))
    both = causal & padding[:, None, :]
    golden |= within("both", {"causal": causal, "lengths": lengths, "padding": padding, "mask": both, "weights": softmax(np.where(both, scaled, -np.inf))})
    nothing = np.full(3, -np.inf)
    return golden | within("nothing", {"masked": nothing, "naive": softmax(nothing), "weights": np.zeros(3)})


# ------------------------------------------------------------------------------------------------------------ lesson 6


def multi_head():
    golden = {"inputs": INPUTS, "query_weights": QUERY_WEIGHTS, "key_weights": KEY_WEIGHTS, "value_weights": VALUE_WEIGHTS, "output_weights": OUTPUT_WEIGHTS}
    contexts = []
    for head in range(2):
        own = {name: golden[name][:, 2 * head : 2 * head + 2] for name in ("query_weights", "key_weights", "value_weights")}
        steps = attend(*(INPUTS @ weights for weights in own.values()))
        contexts.append(steps["context"])
        golden |= within(f"head.{head}", own | steps)
    merged = np.hstack(contexts)

    # PyTorch's own heads, which it cuts out of one product by view and transpose.
    module = torch.nn.MultiheadAttention(4, 2, bias=False, batch_first=True, dtype=torch.float64)
    packed = np.vstack([QUERY_WEIGHTS.T, KEY_WEIGHTS.T, VALUE_WEIGHTS.T])
    module.load_state_dict({"in_proj_weight": torch.from_numpy(packed), "out_proj.weight": torch.from_numpy(OUTPUT_WEIGHTS.T.copy())})
    x = torch.from_numpy(INPUTS)[None]
    output = module(x, x, x)[0][0].detach().numpy()
    np.testing.assert_allclose(merged @ OUTPUT_WEIGHTS, output, rtol=1e-12)

    golden |= {"merged": merged, "output": output}
    for head in range(2):
        golden[f"heard.{head}.output"] = contexts[head] @ OUTPUT_WEIGHTS[2 * head : 2 * head + 2]

    query, key, value = (torch.from_numpy(INPUTS @ weights) for weights in (QUERY_WEIGHTS, KEY_WEIGHTS, VALUE_WEIGHTS))
    queries, keys, values = (packed.view(3, 2, 2).transpose(0, 1) for packed in (query, key, value))
    scores = queries @ keys.transpose(1, 2)
    scaled = scores / 2**0.5
    weights = torch.softmax(scaled, dim=-1)
    context = weights @ values
    steps = {
        "query": query, "key": key, "value": value, "queries": queries, "keys": keys, "values": values, "scores": scores, "scaled": scaled,
        "weights": weights, "context": context, "merged": context.transpose(0, 1).contiguous().view(3, 4), "reshaped": context.contiguous().view(3, 4),
    }  # fmt: skip
    golden |= within("packed", {name: tensor.numpy() for name, tensor in steps.items()})
    golden |= within("cost", {"h": 2, "loop_products": 11, "packed_products": 6, "multiplications": 4 * 3 * 4 * 4 + 2 * 3 * 3 * 4, "n": 100, "d_model": 512})
    return golden | within("cost.one", cost_of_heads(1)) | within("cost.eight", cost_of_heads(8))


def cost_of_heads(h, n=100, d_model=512):
    """PyTorch's parameters, and the multiplications of each head's products, one by one."""
    module = torch.nn.MultiheadAttention(d_model, h, bias=False)
    d_k = module.head_dim
    products = h * [*3 * [(n, d_model, d_k)], (n, d_k, n), (n, n, d_k)] + [(n, h * d_k, d_model)]
    return {
        "h": h, "d_k": d_k, "parameters": sum(p.numel() for p in module.parameters()),
        "multiplications": sum(rows * inner * columns for rows, inner, columns in products), "exponentials": h * n * n,
    }  # fmt: skip


# ------------------------------------------------------------------------------------------------------------ lesson 7


def self_and_cross():
    passage = np.array([[2, 0, 1], [0, 1, 0], [1, 2, 0], [0, 0, 3], [1, 1, 1]], float)
    question = np.array([[1, 0, 2], [0, 3, 0], [2, 1, 0]], float)
    answers = np.array([[1, 0], [0, 1], [1, 1]], float)
    backwards = question[::-1].copy()
    golden = {"passage": passage, "question": question}
    golden |= within("self", attend(passage, passage, passage))
    golden |= within("cross", attend(passage, question, question))
    golden["answers"] = answers
    golden |= within("sizes", attend(passage, question, answers))
    golden["shuffled.order"] = np.array([2.0, 1, 0])
    golden |= within("shuffled", attend(passage, backwards, backwards))
    return golden | within("apart", attend(passage, backwards, question))


# ------------------------------------------------------------------------------------------------------------ lesson 8


def positions():
    tokens = np.array([[1, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1], [2, 0, 0, 1]], float)
    order = np.array([3, 0, 1, 2])
    table = np.array([[0.5, -0.25, 0, 0.75], [-1, 0.5, 0.25, 0], [0.25, 1, -0.5, -0.75], [0, -0.5, 1, 0.25], [0.75, 0, -1, 0.5], [-0.25, 0.75, 0.5, -1]])
    golden = {"tokens": tokens, "order": order.astype(float)}
    self_attention = lambda x: {"x": x} | attend(x, x, x)
    golden |= within("bag.straight", self_attention(tokens)) | within("bag.turned", self_attention(tokens[order]))
    golden |= within("sentence", shuffled_sentence())

    interleaved, halves = sinusoids(4, 4), sinusoids(4, 4, halves=True)
    places = np.array([0, 2, 1, 3])
    embedded = interleaved["positions"]
    golden |= interleaved | within("map", sinusoids(100, 64))
    golden |= within("halves", halves | {"order": places.astype(float), "reordered": halves["positions"][:, places]})
    golden |= within("added.straight", self_attention(tokens + embedded)) | within("added.turned", self_attention(tokens[order] + embedded))
    golden |= within("beside", self_attention(np.hstack([tokens, embedded])))
    golden |= {"table": table} | within("learned", {"table": table, "positions": table[:4], "embedded": tokens + table[:4]})

    # The shift is solved for from many positions, rather than built of sines and cosines.
    many = sinusoids(64, 4)["positions"]
    matrix = np.linalg.lstsq(many[:-2], many[2:], rcond=None)[0]
    exact = np.kron(np.diag([1.0, 0]), rotation(2.0)) + np.kron(np.diag([0, 1.0]), rotation(0.02))
    np.testing.assert_allclose(matrix, exact, atol=1e-9)
    back = np.argsort(places)
    golden |= within("shift", {"angles": np.array([2.0, 0.02]), "by_halves": exact[np.ix_(back, back)], "matrix": exact, "moved": embedded[2:]})
    return golden | within("odd", sinusoids(4, 5, base=100.0))


def shuffled_sentence():
    """The small model's words, two of them exchanged: attention among them with and without the model's positions."""
    model = small_model.small_model()
    tokens, placed = model["tokens"], model["position_embedding.positions"]
    order = np.array([4, 1, 2, 3, 0, 5, 6])
    self_attention = lambda x: {"x": x} | attend(x, x, x)
    steps = {"tokens": tokens, "positions": placed, "order": order}
    steps |= within("without.straight", self_attention(tokens)) | within("without.turned", self_attention(tokens[order]))
    steps |= within("with.straight", self_attention(tokens + placed)) | within("with.turned", self_attention(tokens[order] + placed))
    steps["with.change"] = np.abs(steps["with.turned.context"] - steps["with.straight.context"][order]).max()
    return steps


def rotation(angle):
    """Of a row (sine, cosine): both a step further."""
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


# ----------------------------------------------------------------------------------------------------------- lesson 16


def rotary_and_alibi():
    tokens = np.array([[1, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1], [2, 0, 0, 1]], float)
    same = np.repeat(tokens[:1], 4, axis=0)
    turned = as_arrays(layers.rotary(torch.from_numpy(same), "pairs"))
    golden = {"tokens": tokens, "turned.x": same} | within("added", added_positions(same))
    golden |= within("turned", turned | {"scores": turned["output"] @ turned["output"].T})
    golden |= within("with_rotary", by_place(tokens, "rotary_pairs"))
    golden["slopes"] = 0.5 ** np.arange(1, 9)
    return golden | within("with_alibi", by_place(tokens, "alibi"))


def added_positions(x):
    """Sinusoids that are added to the tokens, and the scores of the sums."""
    n, d = x.shape
    frequencies = 10000.0 ** (-np.arange(0, d, 2) / d)
    angles = np.arange(n)[:, None] * frequencies
    positions = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(n, d)
    output = x + positions
    return {"x": x, "frequencies": frequencies, "angles": angles, "positions": positions, "output": output, "scores": output @ output.T}


def by_place(tokens, positions):
    """Two heads without weights of their own: an identity for each map, and no output map."""
    eye = torch.eye(4, dtype=torch.float64)
    steps = layers.multi_head({"x": torch.from_numpy(tokens)}, {"in_proj_weight": eye.repeat(3, 1), "out_proj.weight": eye}, 2, positions=positions)
    in_front = {"x": steps.pop("x")} | {f"{name}_weights": steps.pop(f"{name}_weights") for name in ("query", "key", "value")}
    del steps["output_weights"]
    return as_arrays(in_front | steps)


# ------------------------------------------------------------------------------------------------------------ lesson 9


def layer_norm(x, gain=None, bias=None, epsilon=1e-5):
    """The steps of layer norm, held against PyTorch's."""
    mean, variance = x.mean(axis=-1), x.var(axis=-1)
    normalized = (x - mean[..., None]) / np.sqrt(variance + epsilon)[..., None]
    tensors = [None if array is None else torch.from_numpy(array) for array in (gain, bias)]
    output = F.layer_norm(torch.from_numpy(x), x.shape[-1:], *tensors, eps=epsilon).numpy()
    np.testing.assert_allclose(normalized * (1 if gain is None else gain) + (0 if bias is None else bias), output, rtol=1e-11, atol=1e-13)
    learned = {name: array for name, array in (("gain", gain), ("bias", bias)) if array is not None}
    return {"x": x, "mean": mean, "variance": variance, "normalized": normalized} | learned | {"output": output}


def feed_forward(x):
    hidden = F.linear(torch.from_numpy(x), torch.from_numpy(UP_WEIGHTS.T.copy()), torch.from_numpy(UP_BIAS))
    activated = F.relu(hidden)
    output = F.linear(activated, torch.from_numpy(DOWN_WEIGHTS.T.copy()), torch.from_numpy(DOWN_BIAS))
    return {"hidden": hidden.numpy(), "activated": activated.numpy(), "output": output.numpy()}


def feed_forward_and_norm():
    x = np.array([[1, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1.5]])
    gain, bias = np.array([1.0, 2, 1, 0.5]), np.array([0.0, 0, 1, 0])
    golden = {"x": x, "hidden_weights": UP_WEIGHTS, "hidden_bias": UP_BIAS, "output_weights": DOWN_WEIGHTS, "output_bias": DOWN_BIAS}
    fed = feed_forward(x)
    golden |= within("feed_forward", fed)
    exact, nearly = (F.gelu(torch.from_numpy(fed["hidden"]), approximate=way).numpy() for way in ("none", "tanh"))
    golden |= {"feed_forward.gelu.activated": exact, "feed_forward.gelu_tanh.activated": nearly}
    golden["feed_forward.gelu_tanh.largest_difference"] = np.abs(exact - nearly).max()

    kernel = torch.from_numpy(UP_WEIGHTS.T.copy())[:, :, None]  # (d_ff, d_model, width)
    convolved = F.conv1d(torch.from_numpy(x.T.copy())[None], kernel, torch.from_numpy(UP_BIAS))[0].T.numpy()
    golden |= within("convolution", {"kernel": UP_WEIGHTS[None], "hidden": convolved})

    residual = x + fed["output"]
    normed = layer_norm(residual, gain, bias)
    golden |= {"residual": residual, "gain": gain, "bias": bias} | within("norm", normed)
    golden |= within("bessel", {"variance": residual.var(axis=1, ddof=1), "ratio": np.full(3, np.sqrt(4 / 3))})
    token = np.array([1.001, 0.999, 1.001, 0.999])
    distances = token - token.mean()
    epsilon = {"token": token, "mean": token.mean(), "variance": token.var()}
    epsilon |= {"inside": distances / np.sqrt(token.var() + 1e-5), "outside": distances / (token.std() + 1e-5)}
    golden |= within("epsilon", epsilon)

    bare = post = pre = x
    for depth in range(1, 7):
        plain = {"x": bare, "output": bare + feed_forward(bare)["output"]}
        total = post + feed_forward(post)["output"]
        behind = {"x": post, "sum": total, "output": layer_norm(total)["output"]}
        normalized = layer_norm(pre)["output"]
        in_front = {"x": pre, "normalized": normalized, "output": pre + feed_forward(normalized)["output"]}
        bare, post, pre = plain["output"], behind["output"], in_front["output"]
        golden |= within(f"bare.block.{depth}", plain) | within(f"post.block.{depth}", behind) | within(f"pre.block.{depth}", in_front)
        golden[f"bare.block.{depth}.size"] = np.sqrt(np.mean(bare**2))
        golden[f"post.block.{depth}.size"] = np.sqrt(np.mean(post**2))
        golden[f"pre.block.{depth}.size"] = np.sqrt(np.mean(pre**2))

    layer = torch.nn.TransformerEncoderLayer(512, 8, 2048)
    counted = lambda prefix: sum(p.numel() for name, p in layer.named_parameters() if name.startswith(prefix))
    feed, attention, norms = counted("linear"), counted("self_attn"), counted("norm")
    return golden | within("cost", {"d_model": 512, "d_ff": 2048, "feed_forward": feed, "attention": attention, "norms": norms, "share": feed / (feed + attention + norms)})


# ---------------------------------------------------------------------------------------------------- lessons 10 and 11


def as_tensors(state):
    return {name: torch.from_numpy(np.array(array, float)) for name, array in state.items()}


def state_of_layer(maps, feed, norms):
    """A state_dict of nn.TransformerEncoderLayer. maps and feed: (weight, bias) each, (in, out) as in the lessons."""
    state = {"self_attn.in_proj_weight": np.hstack([weight for weight, _ in maps[:3]]).T, "self_attn.out_proj.weight": maps[3][0].T}
    if maps[0][1] is not None:
        state |= {"self_attn.in_proj_bias": np.concatenate([bias for _, bias in maps[:3]]), "self_attn.out_proj.bias": maps[3][1]}
    for i, (weight, bias) in enumerate(feed, 1):
        state |= {f"linear{i}.weight": weight.T, f"linear{i}.bias": bias}
    for i, (gain, bias) in enumerate(norms, 1):
        state |= {f"norm{i}.weight": gain, f"norm{i}.bias": bias}
    return as_tensors(state)


def layer_steps(x, state, heads, placement="post", mask=None):
    """The steps of an encoder layer, which have to end in what PyTorch's module gives."""
    d_ff, d_model = state["linear1.weight"].shape
    steps = layers.encoder_layer(x, state, placement, "relu", heads, mask)
    module = layers.new_layer(d_model, heads, d_ff, placement, "relu").double()
    zeros = {"self_attn.in_proj_bias": torch.zeros(3 * d_model), "self_attn.out_proj.bias": torch.zeros(d_model)}
    module.load_state_dict(zeros | state)
    padding = None if mask is None else ~mask[:, 0]
    torch.testing.assert_close(steps["output"], module(x, src_key_padding_mask=padding), rtol=1e-12, atol=1e-12)
    return steps


def encoder_layer():
    gain2, zeros = np.array([1.0, 2, 1, 0.5]), np.zeros(4)
    maps = {"query_weights": QUERY_WEIGHTS, "key_weights": KEY_WEIGHTS, "value_weights": VALUE_WEIGHTS, "output_weights": OUTPUT_WEIGHTS}
    golden = {"x": INPUTS} | maps | {"up_weights": UP_WEIGHTS, "up_bias": UP_BIAS, "down_weights": DOWN_WEIGHTS, "down_bias": DOWN_BIAS}
    golden |= {"gain1": np.ones(4), "bias1": zeros, "gain2": gain2, "bias2": zeros}
    feed = [(UP_WEIGHTS, UP_BIAS), (DOWN_WEIGHTS, DOWN_BIAS)]
    state = state_of_layer([(weight, None) for weight in maps.values()], feed, [(np.ones(4), zeros), (gain2, zeros)])
    x = torch.from_numpy(INPUTS)
    # In the lesson, weights are named when a block begins, not where they are first used.
    golden |= named_first(as_arrays(layer_steps(x, state, 2)))
    golden |= within("pre", as_arrays(layer_steps(x, state, 2, "pre")))
    golden |= within("six", six_layers(x, state)) | within("rounded", rounded_layers(golden))

    stored = as_tensors(np.load(LESSONS / "10_encoder_layer" / "pytorch.npz"))
    x, expected = stored.pop("x"), stored.pop("output")
    steps = layer_steps(x, stored, 2)
    torch.testing.assert_close(steps["output"], expected, rtol=1e-12, atol=1e-12)
    return golden | within("pytorch", as_arrays(steps))


def six_layers(x, state):
    """The size of the tokens before and after each of six layers with the same weights, without norms and with them."""
    attention, feed = (layers.inside(prefix, state) for prefix in ("self_attn.", "linear"))

    def without_norms(tokens):
        between = tokens + layers.multi_head({"x": tokens}, attention, 2)["output"]
        return between + F.linear(F.relu(F.linear(between, feed["1.weight"], feed["1.bias"])), feed["2.weight"], feed["2.bias"])

    def sizes(layer, tokens):
        found = []
        for _ in range(7):
            found.append(tokens.square().mean().sqrt().item())
            tokens = layer(tokens)
        return np.array(found)

    with_norms = lambda placement: lambda tokens: layers.encoder_layer(tokens, state, placement, "relu", 2, None)["output"]
    return {"none": sizes(without_norms, x), "pre": sizes(with_norms("pre"), x), "post": sizes(with_norms("post"), x)}


def rounded_layers(given):
    """The layer with each step rounded by PyTorch to a type of fewer digits, and the first norm of large tokens."""
    large = 512 * given["x"]
    result = {"large": large}
    for name in ("float32", "bfloat16", "float16"):
        rounded = lambda array: torch.from_numpy(np.asarray(array)).to(getattr(torch, name)).double().numpy()
        norm = lambda x, gain, bias: rounded_norm(x, gain, bias, rounded)
        query, key, value = (rounded(given["x"] @ given[f"{part}_weights"]) for part in ("query", "key", "value"))
        contexts = []
        for head in (slice(0, 2), slice(2, 4)):
            scaled = rounded(rounded(query[:, head] @ key[:, head].T) / np.sqrt(2))
            contexts.append(rounded(rounded(torch.softmax(torch.from_numpy(scaled), -1)) @ value[:, head]))
        attended = rounded(np.hstack(contexts) @ given["output_weights"])
        between = norm(rounded(given["x"] + attended), given["gain1"], given["bias1"])
        hidden = rounded(between @ given["up_weights"] + given["up_bias"])
        fed = rounded(rounded(np.maximum(hidden, 0)) @ given["down_weights"] + given["down_bias"])
        output = norm(rounded(between + fed), given["gain2"], given["bias2"])
        error = np.abs(output - given["norm2.output"]).max()
        result |= within(name, {"output": output, "error": error, "large_norm": norm(large, given["gain1"], given["bias1"])})
    return result


def rounded_norm(x, gain, bias, rounded):
    mean = rounded(x.mean(-1))[:, None]
    variance = rounded(((x - mean) ** 2).mean(-1))[:, None]
    return rounded(rounded((x - mean) / np.sqrt(variance + 1e-5)) * gain + bias)


def named_first(steps):
    """The steps with each block's weights right behind its x."""
    learned = lambda path: path.endswith(("_weights", "_bias", ".gain", ".bias"))
    result = {}
    for path, array in steps.items():
        if path == "x":
            continue
        result.setdefault(path, array)
        if path.endswith(".x"):
            result |= {other: steps[other] for other in steps if other.startswith(path[:-1]) and learned(other)}
    return result


def encoder_stack():
    d, heads, d_ff, n = 512, 8, 2048, 20
    numbers = planted.SplitMix(11)
    tokens, lengths = numbers(2, n, d), np.array([20.0, 13])
    places = sinusoids(n, d)
    x = torch.from_numpy(tokens + places["positions"])
    padding = np.arange(n) < lengths[:, None]
    mask = np.broadcast_to(padding[:, None, :], (2, n, n)).copy()
    golden = {"tokens": tokens, "lengths": lengths} | places | {"x": x.numpy(), "padding": padding, "mask": mask}
    states = []
    for i in range(6):
        maps = [(numbers(d, d, scale=2**-4), numbers(d, scale=2**-4)) for _ in range(4)]
        feed = [(numbers(d, d_ff, scale=2**-4), numbers(d_ff, scale=2**-4)), (numbers(d_ff, d, scale=2**-5), numbers(d, scale=2**-5))]
        state = state_of_layer(maps, feed, [(np.ones(d), np.zeros(d))] * 2)
        steps = layer_steps(x, state, heads, mask=torch.from_numpy(mask))
        golden |= within(f"layers.{i}", as_arrays(steps))
        x = steps["output"]
        states.append(state)
    golden |= {"output": x.numpy()}
    golden["unmasked_change"] = unmasked_change(torch.from_numpy(golden["x"]), torch.from_numpy(lengths), states, heads)
    return golden | within("parameters", parameters_of_models())


def unmasked_change(x, lengths, states, heads):
    """Per sentence, how far real tokens' outputs move without a mask when the padding becomes 100."""
    other = torch.where((torch.arange(x.shape[1]) < lengths[:, None])[..., None], x, torch.tensor(100.0, dtype=x.dtype))
    for state in states:
        x, other = (layers.encoder_layer(tokens, state, "post", "relu", heads, None)["output"] for tokens in (x, other))
    return np.array([np.abs((other - x)[b, : int(length)].numpy()).max() for b, length in enumerate(lengths)])


def parameters_of_models():
    """Counted in PyTorch's modules."""
    counted = lambda *modules: sum(parameter.numel() for module in modules for parameter in module.parameters())

    def parts(count, d, heads, d_ff, vocabulary):
        layer = torch.nn.TransformerEncoderLayer(d, heads, d_ff, device="meta")
        table = torch.nn.Embedding(vocabulary, d, device="meta")
        sizes = {"layers": count, "d": d, "d_ff": d_ff, "vocabulary": vocabulary}
        feed = counted(layer.linear1, layer.linear2)
        return layer, sizes | {"attention": counted(layer.self_attn), "feed_forward": feed, "norm": counted(layer.norm1), "table": counted(table)}

    layer, base = parts(6, 512, 8, 2048, 37000)
    encoder, decoder = torch.nn.TransformerEncoder(layer, 6), torch.nn.TransformerDecoder(torch.nn.TransformerDecoderLayer(512, 8, 2048, device="meta"), 6)
    base |= {"encoder_layer": counted(layer), "decoder_layer": counted(decoder.layers[0]), "encoder": counted(encoder), "decoder": counted(decoder)}
    base["total"] = counted(encoder, decoder) + base["table"]

    layer, small = parts(12, 768, 12, 3072, 50257)
    places, norm = torch.nn.Embedding(1024, 768, device="meta"), torch.nn.LayerNorm(768, device="meta")
    small |= {"context": 1024, "positions": counted(places), "layer": counted(layer)}
    small["total"] = counted(torch.nn.TransformerEncoder(layer, 12, norm=norm), places) + small["table"]
    return within("base", base) | within("gpt2", small)


# ----------------------------------------------------------------------------------------------------------- lesson 23


def exhibits(drawn):
    """The steps of the museum's exhibits as they should be, by PyTorch; the state_dict has the maps of one layer."""
    maps = [(drawn[f"{name}_weights"], drawn[f"{name}_bias"]) for name in ("query", "key", "value", "output")]
    feed = [(drawn["up_weights"], drawn["up_bias"]), (drawn["down_weights"], drawn["down_bias"])]
    state = state_of_layer(maps, feed, [(drawn["gain1"], drawn["bias1"]), (drawn["gain2"], drawn["bias2"])])
    attention = layers.inside("self_attn.", state)
    x, memory = torch.from_numpy(drawn["x"]), torch.from_numpy(drawn["memory"])
    causal = torch.ones(4, 4, dtype=torch.bool).tril()
    by_cache = torch.ones(2, 5, dtype=torch.bool).tril(3)

    def masked(steps, allowed):
        """The mask is made when the tokens are known."""
        in_front = [name for name in steps if name in ("x", "memory")]
        return {name: steps[name] for name in in_front} | {"causal": allowed, "mask": allowed} | {name: steps[name] for name in steps if name not in in_front}

    return {
        "sines": {name: torch.from_numpy(array) for name, array in sinusoids(5, 6).items()},
        "rotary": layers.multi_head({"x": x}, attention, 1, positions="rotary_pairs"),
        "alibi": layers.multi_head({"x": x}, attention, 2, positions="alibi"),
        "cached": masked(layers.multi_head({"x": x[:2], "memory": memory}, attention, 1, by_cache), by_cache),
        "post": masked(layers.encoder_layer(x, state, "post", "relu", 2, causal), causal),
        "pre": layers.encoder_layer(x, state, "pre", "gelu", 2, None),
    }  # fmt: skip


def pitfalls():
    drawn = planted.drawn_weights()
    golden = {"x": drawn["x"], "memory": drawn["memory"]}
    for scope, steps in exhibits(drawn).items():
        golden |= within(scope, as_arrays(steps))
        for path, array in planted.Program().run(scope).items():  # the other program is right, as long as nothing is planted
            np.testing.assert_allclose(array, golden[path], rtol=1e-11, atol=1e-13)
    for mistake in planted.MISTAKES:
        exhibit, wrong = planted.planted(mistake)
        right = planted.Program().run(exhibit)
        # The input of a block is another name of what it comes from: the first step that differs is inside the block.
        computed = {p: array for p, array in right.items() if not p.endswith(".x") or "rotary" in p}
        path = planted.first_difference(computed, wrong)
        scope = f"{path.rpartition('.')[0]}.mistakes.{mistake}"
        golden |= {f"{scope}.right": golden[path], f"{scope}.mistaken": wrong[path]}
        last = list(right)[-1]
        golden[f"changes.{mistake}"] = np.abs(right[last] - wrong[last]).max()
    return golden
