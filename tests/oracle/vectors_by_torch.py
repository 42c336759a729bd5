"""The functions of vectors/, by PyTorch in any type: written from the papers and PyTorch's own modules, not from attn.

Each takes the arrays of a case as tensors, weights by their names as a dictionary, and the parameters of its group. Gradients are
autograd's.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu, "gelu-tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu,
               "quick-gelu": lambda x: x * torch.sigmoid(1.702 * x)}


def allowed(n, m, past=0, causal=None, left_window=None, right_window=None, kept=0, mask=None, lengths=None):
    """Which query can attend to which key, or None where all can."""
    place, key = torch.arange(n)[:, None], torch.arange(m)[None, :]
    place = place + (m - n if causal == "bottom-right" else past)  # where the query stands among the keys
    result = torch.ones(n, m, dtype=torch.bool)
    if left_window is not None:
        result = result & (key >= place - left_window)
    if right_window is not None:
        result = result & (key <= place + right_window)
    result = result | (key < kept)
    if causal:
        result = result & (key <= place)
    if mask is not None:
        result = result & mask
    if lengths is not None:
        result = result & (key < lengths[:, None, None, None])
    return result


def weighted(scores, values, can, sinks=None):
    """Softmax over the keys that a query can attend to; zero where there is none."""
    scores = scores.masked_fill(~can, -math.inf)
    if sinks is not None:
        column = sinks.reshape(-1, 1, 1).expand(*scores.shape[:-1], 1) if scores.dim() > 2 else sinks.expand(scores.shape[0], 1)
        weights = torch.softmax(torch.cat([scores, column], -1), -1)[..., :-1]
    else:
        empty = ~can.expand_as(scores).any(-1, keepdim=True)
        weights = torch.softmax(scores.masked_fill(empty, 0.0), -1).masked_fill(empty, 0.0)
    return weights @ values


def scored(queries, keys, weights, score):
    if score == "additive":
        hidden = (queries @ weights["query_weights"])[:, None] + (keys @ weights["key_weights"])[None]
        return torch.tanh(hidden) @ weights["score_weights"]
    if score == "concatenated":
        n, m = len(queries), len(keys)
        pairs = torch.cat([queries[:, None].expand(n, m, -1), keys[None].expand(n, m, -1)], -1)
        return torch.tanh(pairs @ weights["hidden_weights"]) @ weights["score_weights"]
    if score == "bilinear":
        return queries @ weights["bilinear_weights"] @ keys.T
    return queries @ keys.transpose(-1, -2)


def attention(queries, keys, values, weights=None, past_keys=None, past_values=None, bias=None, sinks=None, scale=None, softcap=None,
              score=None, **masks):
    past = 0
    if past_keys is not None:
        past = past_keys.shape[-2]
        keys, values = torch.cat([past_keys, keys], -2), torch.cat([past_values, values], -2)
    if queries.dim() == 4 and queries.shape[1] != keys.shape[1]:
        times = queries.shape[1] // keys.shape[1]
        keys, values = keys.repeat_interleave(times, 1), values.repeat_interleave(times, 1)
    if score in ("additive", "concatenated", "bilinear", "dot"):
        scores = scored(queries, keys, weights, score)
    else:
        scores = queries @ keys.transpose(-1, -2) * (1 / math.sqrt(queries.shape[-1]) if scale is None else scale)
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias
    can = allowed(queries.shape[-2], keys.shape[-2], past, **masks)
    return weighted(scores, values, can, sinks)


def softmax(scores, **masks):
    return weighted(scores, torch.eye(scores.shape[-1], dtype=scores.dtype), allowed(*scores.shape[-2:], **masks))


def layer_norm(x, weights, epsilon=1e-5):
    return F.layer_norm(x, x.shape[-1:], weights["weight"], weights["bias"], epsilon)


def rms_norm(x, weights, epsilon=1e-5):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + epsilon) * weights["weight"]


def feed_forward(x, weights, activation="relu"):
    hidden = ACTIVATIONS[activation](F.linear(x, weights["linear1.weight"], weights["linear1.bias"]))
    return F.linear(hidden, weights["linear2.weight"], weights["linear2.bias"])


def gated_feed_forward(x, weights, activation="silu", limit=None, up_shift=0, prefix=""):
    gate, up = (F.linear(x, weights[f"{prefix}{name}_proj.weight"]) for name in ("gate", "up"))
    if limit is not None:
        gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
    return F.linear(ACTIVATIONS[activation](gate) * (up + up_shift), weights[prefix + "down_proj.weight"])


def positions(x, layout="interleaved", base=10000, first=0):
    n, d = x.shape[-2:]
    angles = torch.arange(first, first + n, dtype=x.dtype)[:, None] * base ** (-torch.arange(0, d, 2, dtype=x.dtype) / d)
    both = torch.sin(angles), torch.cos(angles)
    return x + (torch.stack(both, -1).reshape(n, d) if layout == "interleaved" else torch.cat(both, -1))


def frequencies(d, base, n, scaling):
    """Of rotary positions, and the factor of what is rotated, as transformers computes them from rope_parameters (version 4.57)."""
    scaling = scaling or {}
    kind, factor, original = scaling.get("rope_type"), scaling.get("factor"), scaling.get("original_max_position_embeddings")
    usual = base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    if kind == "linear":
        return usual / factor, 1.0
    if kind == "dynamic":
        longest = scaling["max_position_embeddings"]
        longer = max(n, longest)
        base = base * (factor * longer / longest - (factor - 1)) ** (d / (d - 2))
        return base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d), 1.0
    if kind == "yarn":
        def dimension(rotations):
            return d * math.log(original / (rotations * 2 * math.pi)) / (2 * math.log(base))
        low, high = max(math.floor(dimension(32)), 0), min(math.ceil(dimension(1)), d - 1)
        ramp = ((torch.arange(d // 2, dtype=torch.float64) - low) / (max(high - low, 0.001))).clamp(0, 1)

        def mscale(by):
            return 0.1 * by * math.log(factor) + 1
        attention_factor = mscale(1)
        if scaling.get("mscale") and scaling.get("mscale_all_dim"):
            attention_factor = mscale(scaling["mscale"]) / mscale(scaling["mscale_all_dim"])
        return usual / factor * ramp + usual * (1 - ramp), attention_factor
    if kind == "llama3":
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        smooth = ((original * usual / (2 * math.pi) - low) / (high - low)).clamp(0, 1)
        return (1 - smooth) * usual / factor + smooth * usual, 1.0
    if kind == "longrope":
        factors = scaling["long_factor"] if n > original else scaling["short_factor"]
        return usual / torch.tensor(factors, dtype=torch.float64), math.sqrt(1 + math.log(factor) / math.log(original))
    return usual, 1.0


def rotary(x, rotary_layout="pairs", rotary_base=10000, rotary_features=None, rotary_scaling=None, first=0):
    d, n = rotary_features or x.shape[-1], x.shape[-2]
    by, factor = frequencies(d, rotary_base, first + n, rotary_scaling)
    angles = (torch.arange(first, first + n)[:, None] * by).to(x.dtype)
    turning, kept = x[..., :d], x[..., d:]
    if rotary_layout == "pairs":
        as_complex = torch.view_as_complex(turning.reshape(*turning.shape[:-1], d // 2, 2).contiguous())
        turned = torch.view_as_real(as_complex * torch.polar(torch.ones_like(angles), angles)).flatten(-2)
    else:
        left, right = turning.chunk(2, -1)
        turned = torch.cat([left * angles.cos() - right * angles.sin(), right * angles.cos() + left * angles.sin()], -1)
    return torch.cat([factor * turned, kept], -1)


def multi_head_attention(x, weights, heads, memory=None, past_keys=None, past_values=None, positions=None, scale=None, softcap=None,
                         norm_epsilon=1e-5, norm_adds_one=False, **options):
    memory = x if memory is None else memory
    if "in_proj_weight" in weights:
        q_w, k_w, v_w = weights["in_proj_weight"].chunk(3)
        q_b, k_b, v_b = weights["in_proj_bias"].chunk(3)
        out = weights["out_proj.weight"], weights["out_proj.bias"]
    else:
        q_w, k_w, v_w = (weights[f"{name}_proj.weight"] for name in "qkv")
        q_b = k_b = v_b = None
        out = weights["o_proj.weight"], None
    query, key, value = F.linear(x, q_w, q_b), F.linear(memory, k_w, k_b), F.linear(memory, v_w, v_b)
    width = query.shape[-1] // heads

    def split(rows):
        return rows.unflatten(-1, (-1, width)).transpose(-2, -3)
    queries, keys, values = split(query), split(key), split(value)
    if "q_norm.weight" in weights:
        extra = 1.0 if norm_adds_one else 0.0
        queries = rms_norm(queries, {"weight": weights["q_norm.weight"] + extra}, norm_epsilon)
        keys = rms_norm(keys, {"weight": weights["k_norm.weight"] + extra}, norm_epsilon)
    past = 0 if past_keys is None else past_keys.shape[-2]
    turn = {name: options.pop(name) for name in list(options) if name.startswith("rotary_")}
    if positions == "rotary":
        queries, keys = rotary(queries, first=past, **turn), rotary(keys, first=past, **turn)
    if past:
        keys, values = torch.cat([split(past_keys), keys], -2), torch.cat([split(past_values), values], -2)
    keys, values = (one.repeat_interleave(heads // one.shape[-3], -3) for one in (keys, values))
    n, m = queries.shape[-2], keys.shape[-2]
    scores = queries @ keys.transpose(-1, -2) * (1 / math.sqrt(width) if scale is None else scale)
    if positions == "alibi":
        slopes = 2.0 ** (-8 * torch.arange(1, heads + 1, dtype=x.dtype) / heads)
        distance = (torch.arange(m) - (torch.arange(n) + m - n)[:, None]).abs()
        scores = scores - slopes[:, None, None] * distance
    if "lengths" in options:
        can = allowed(n, m, **options)
    else:
        can = allowed(n, m, past, **options)
    context = weighted(scores, values, can)
    merged = context.transpose(-2, -3).flatten(-2)
    if "g_proj.weight" in weights:
        merged = merged * torch.sigmoid(F.linear(x, weights["g_proj.weight"]))
    return F.linear(merged, *out)


def loaded(module, weights):
    module.to(next(iter(weights.values())).dtype).load_state_dict(weights)
    return module.eval()


def causal_mask(x, causal):
    return torch.ones(x.shape[-2], x.shape[-2], dtype=torch.bool).triu(1) if causal else None


def encoder_layer(x, weights, heads, norm, activation, causal=None):
    layer = nn.TransformerEncoderLayer(x.shape[-1], heads, len(weights["linear1.bias"]), 0.0, activation, batch_first=True, norm_first=norm == "pre")
    return loaded(layer, weights)(x[None], src_mask=causal_mask(x, causal))[0]


def encoder(x, weights, heads):
    layer = nn.TransformerEncoderLayer(x.shape[-1], heads, len(weights["layers.0.linear1.bias"]), 0.0, batch_first=True)
    return loaded(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), weights)(x[None])[0]


def decoder_layer(x, memory, weights, heads, norm, activation, causal=None):
    layer = nn.TransformerDecoderLayer(x.shape[-1], heads, len(weights["linear1.bias"]), 0.0, activation, batch_first=True, norm_first=norm == "pre")
    return loaded(layer, weights)(x[None], memory[None], tgt_mask=causal_mask(x, causal))[0]


def recurrent(cell, x, weights, state):
    rows = []
    for token in x:
        state = cell(token[None], state, *(weights[f"{name}_l0"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")))
        rows.append(state[0] if isinstance(state, tuple) else state)
    return torch.cat(rows)


def gru(x, weights, initial_hidden=None):
    zeros = torch.zeros(1, weights["weight_hh_l0"].shape[1], dtype=x.dtype)
    return recurrent(torch.gru_cell, x, weights, zeros if initial_hidden is None else initial_hidden)


def lstm(x, weights):
    zeros = torch.zeros(1, weights["weight_hh_l0"].shape[1], dtype=x.dtype)
    return recurrent(torch.lstm_cell, x, weights, (zeros, zeros))


def embedding(ids, weights):
    return F.embedding(ids, weights["weight"])


def cross_entropy(logits, targets, label_smoothing=0.0):
    return F.cross_entropy(logits, targets, label_smoothing=label_smoothing)


def experts(x, weights, top, scoring="softmax", normalization="sum", scaling_factor=1.0, weighting="output", groups=None, kept_groups=1,
            group_best=1):
    logits = F.linear(x, weights["router.weight"])
    scores = {"softmax": lambda y: torch.softmax(y, -1), "sigmoid": torch.sigmoid, "logits": lambda y: y}[scoring](logits)
    ranked = scores + weights.get("router.e_score_correction_bias", torch.zeros(()).to(scores))
    if groups:
        grouped = ranked.unflatten(-1, (groups, -1))
        best = grouped.topk(group_best, -1).values.sum(-1)
        keeps = torch.zeros_like(best, dtype=torch.bool).scatter(-1, best.topk(kept_groups, -1).indices, True)
        ranked = grouped.masked_fill(~keeps[..., None], -math.inf).flatten(-2)
    chosen = ranked.topk(top, -1).indices
    share = scores.gather(-1, chosen)
    share = {"sum": lambda y: y / y.sum(-1, keepdim=True), "softmax": lambda y: torch.softmax(y, -1), "none": lambda y: y}[normalization](share)
    share = share * scaling_factor
    rows = []
    for token, indices, parts in zip(x, chosen, share):
        results = [gated_feed_forward(token * part if weighting == "input" else token, weights, prefix=f"experts.{index}.") *
                   (1 if weighting == "input" else part) for index, part in zip(indices.tolist(), parts)]
        rows.append(sum(results))
    output = torch.stack(rows)
    if "shared_expert.up_proj.weight" in weights:
        shared = gated_feed_forward(x, weights, prefix="shared_expert.")
        if "shared_expert_gate.weight" in weights:
            shared = shared * torch.sigmoid(F.linear(x, weights["shared_expert_gate.weight"]))
        output = output + shared
    return output


def latent_attention(x, weights, heads, causal=None, scale=None, absorbed=False, rotary_base=10000, rotary_scaling=None):
    """DeepseekV2Attention of transformers, without a low rank of queries; `absorbed` is how it is computed, not what."""
    n, rank = len(x), len(weights["kv_a_layernorm.weight"])
    down = F.linear(x, weights["kv_a_proj_with_mqa.weight"])
    latent, shared_key = rms_norm(down[:, :rank], {"weight": weights["kv_a_layernorm.weight"]}, 1e-6), down[:, rank:]
    turned = shared_key.shape[1]
    value_width = weights["o_proj.weight"].shape[1] // heads
    queries = F.linear(x, weights["q_proj.weight"]).unflatten(-1, (heads, -1)).transpose(0, 1)
    plain = queries.shape[-1] - turned
    both = F.linear(latent, weights["kv_b_proj.weight"]).unflatten(-1, (heads, plain + value_width)).transpose(0, 1)
    turn = {"rotary_base": rotary_base, "rotary_scaling": rotary_scaling}
    queries = torch.cat([queries[..., :plain], rotary(queries[..., plain:], **turn)], -1)
    keys = torch.cat([both[..., :plain], rotary(shared_key, **turn).expand(heads, n, turned)], -1)
    scores = queries @ keys.transpose(-1, -2) * (1 / math.sqrt(plain + turned) if scale is None else scale)
    context = weighted(scores, both[..., plain:], allowed(n, n, causal=causal))
    return F.linear(context.transpose(0, 1).flatten(1), weights["o_proj.weight"])


def gated_delta_net(x, weights, chunk=None, past_conv_state=None, past_recurrent_state=None):
    """Qwen3NextGatedDeltaNet of transformers, token by token; `chunk` is how it is computed, not what."""
    heads, width = len(weights["A_log"]), len(weights["norm.weight"])
    mixed = torch.cat([F.linear(x, weights[f"in_proj_{name}.weight"]) for name in "qkv"], -1)
    kernel = weights["conv1d.weight"][:, 0]
    before = torch.zeros(kernel.shape[1] - 1, mixed.shape[1]).to(x) if past_conv_state is None else past_conv_state
    padded = torch.cat([before, mixed])
    mixed = F.silu(torch.stack([(padded[i:i + kernel.shape[1]].T * kernel).sum(1) for i in range(len(x))]))
    queries, keys, values = (one.unflatten(-1, (heads, width)) for one in mixed.chunk(3, -1))
    queries, keys = (one / torch.sqrt((one * one).sum(-1, keepdim=True) + 1e-6) for one in (queries, keys))
    queries = queries / math.sqrt(width)
    beta = torch.sigmoid(F.linear(x, weights["in_proj_b.weight"]))
    decay = torch.exp(-weights["A_log"].exp() * F.softplus(F.linear(x, weights["in_proj_a.weight"]) + weights["dt_bias"]))
    state = torch.zeros(heads, width, width).to(x) if past_recurrent_state is None else past_recurrent_state
    rows = []
    for q, k, v, b, g in zip(queries, keys, values, beta, decay):
        state = state * g[:, None, None]
        delta = b[:, None] * (v - torch.einsum("hk,hkv->hv", k, state))
        state = state + torch.einsum("hk,hv->hkv", k, delta)
        rows.append(torch.einsum("hk,hkv->hv", q, state))
    gate = F.linear(x, weights["in_proj_z.weight"]).unflatten(-1, (heads, width))
    result = rms_norm(torch.stack(rows), {"weight": weights["norm.weight"]}, 1e-6) * F.silu(gate)
    return F.linear(result.flatten(-2), weights["out_proj.weight"])


# What attn calls the inputs of a backward pass whose weights it has taken apart, as autograd can differentiate them.
def with_parts(name, weights):
    """The weights as leaves of autograd: their parts by attn's names, maps (in, out), and the weights made of them."""
    parts, again = {}, {}
    if name == "multi_head_attention":
        for one, part in (("q", "query"), ("k", "key"), ("v", "value"), ("o", "output")):
            parts[part + "_weights"] = weights[f"{one}_proj.weight"].T.clone().requires_grad_()
            again[f"{one}_proj.weight"] = parts[part + "_weights"].T
    elif name == "feed_forward":
        for one, part in (("linear1", "hidden"), ("linear2", "output")):
            parts[part + "_weights"] = weights[one + ".weight"].T.clone().requires_grad_()
            parts[part + "_bias"] = weights[one + ".bias"].clone().requires_grad_()
            again.update({one + ".weight": parts[part + "_weights"].T, one + ".bias": parts[part + "_bias"]})
    elif name == "gru":
        for one, part in (("ih", "layers.0.forward.input"), ("hh", "layers.0.forward.recurrent")):
            parts[part + "_weights"] = weights[f"weight_{one}_l0"].T.clone().requires_grad_()
            parts[part + "_bias"] = weights[f"bias_{one}_l0"].clone().requires_grad_()
            again.update({f"weight_{one}_l0": parts[part + "_weights"].T, f"bias_{one}_l0": parts[part + "_bias"]})
    else:
        names = {"layer_norm": {"weight": "gain", "bias": "bias"}, "embedding": {"weight": "table"}}.get(name, {})
        for one, part in names.items():
            again[one] = parts[part] = weights[one].clone().requires_grad_()
    return parts, again


# Several calls: a state comes in, None at first, and goes out. Each of a sequence is computed of all its tokens so far, at once.


def of_all_tokens(whole, sequences):
    """A call of a function by its results for the whole sequence, of which the last rows are new."""
    def call(state, **given):
        n = given[sequences[0]].shape[-2]
        state = {name: torch.cat([state[name], given[name]], -2) if state else given[name] for name in sequences}
        return whole(**{**given, **state})[..., -n:, :], state
    return call


attention_calls = of_all_tokens(attention, ("queries", "keys", "values"))
multi_head_attention_calls = of_all_tokens(multi_head_attention, ("x",))
decoder_layer_calls = of_all_tokens(decoder_layer, ("x",))
gated_delta_net_calls = of_all_tokens(gated_delta_net, ("x",))


def beam_attention_calls(state, queries, keys, values, rows, causal):
    """Row i goes on as row rows[i] did."""
    past = [] if state is None else [one[rows] for one in state]
    keys, values = (torch.cat([*before, new], 1) for before, new in zip((past[:1], past[1:]), (keys, values)))
    return attention(queries, keys, values, causal=causal), (keys, values)


def padded_attention_calls(state, query, key, value, attention_mask, position_table):
    """Each row by itself, of its tokens alone."""
    rows, output = state or [[] for _ in query], torch.zeros(*query.shape[:2], value.shape[-1], dtype=query.dtype)
    for b, is_token in enumerate(attention_mask):
        rows[b] = rows[b] + [(query[b, i], key[b, i], value[b, i]) for i in torch.nonzero(is_token)[:, 0]]
        queries, keys, values = (torch.stack(one) for one in zip(*rows[b]))
        places = position_table[:len(queries)]
        of_row = attention(queries + places, keys + places, values, causal="bottom-right")
        if is_token.any():
            output[b, is_token] = of_row[-int(is_token.sum()):]
    return output, rows


def paged_attention_calls(state, queries, new_keys, new_values, key_pages, value_pages, block_table, past_lengths, causal):
    """Token by token into the pages of its row, and out of them again."""
    key_pages, value_pages, lengths = state or (key_pages.clone(), value_pages.clone(), past_lengths.tolist())
    size, outputs, longer = key_pages.shape[1], [], []
    for row, length in enumerate(lengths):
        pages = block_table[row].tolist()
        for token, (key, value) in enumerate(zip(new_keys[row], new_values[row]), length):
            key_pages[pages[token // size], token % size], value_pages[pages[token // size], token % size] = key, value
        longer.append(length + queries.shape[1])
        keys, values = (torch.stack([pool[pages[token // size], token % size] for token in range(longer[-1])]) for pool in (key_pages, value_pages))
        outputs.append(attention(queries[row], keys, values, causal="bottom-right"))
    return torch.stack(outputs), (key_pages, value_pages, longer)
