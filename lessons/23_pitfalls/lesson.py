"""Lesson 23: well-known mistakes, right beside wrong, in NumPy: the lines of its page in their order, and the numbers that they start from.

It runs as it is, prints what the page shows, and stops where a number is another. Made of lesson.md by script/docs --pages.
"""

import numpy as np

given, mine = {}, {}   # steps by name: those given, and those computed here

def keep(path, array, among=mine):
    # norm1.output is also the variable norm1_output
    among[path] = globals()[path.replace(".", "_")] = array
    return array

def show(name, array, expected):
    """Prints a step, which has to be what the lesson's page shows."""
    array = np.asarray(array)
    print(f"{name}: {np.array2string(array, precision=4, suppress_small=True, separator=', ')}")
    assert array.shape == np.shape(expected), f"{name} has the shape {array.shape}, the page shows {np.shape(expected)}"
    assert np.allclose(array, expected, rtol=6e-4, atol=6e-5, equal_nan=True), f"{name} is not what the page shows: {expected}"

def drawn(seed, first, shape, scale):
    """Numbers of the sequence of that seed, from number `first` on: uniform between -scale and scale, by SplitMix64."""
    z = np.uint64(seed) + np.arange(first + 1, first + 1 + np.prod(shape), dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return scale * (((z ^ (z >> np.uint64(31))) >> np.uint64(40)) * 2.0**-23 - 1).reshape(shape)

# ---- what is given

keep('x', drawn(12, 0, (4, 4), 1.0), given)
keep('memory', drawn(12, 16, (5, 4), 1.0), given)
keep('rotary.query_weights', drawn(12, 36, (4, 4), 1.0), given)
keep('rotary.query_bias', drawn(12, 52, (4,), 1.0), given)
keep('rotary.key_weights', drawn(12, 56, (4, 4), 1.0), given)
keep('rotary.key_bias', drawn(12, 72, (4,), 1.0), given)
keep('rotary.value_weights', drawn(12, 76, (4, 4), 1.0), given)
keep('rotary.value_bias', drawn(12, 92, (4,), 1.0), given)
keep('rotary.output_weights', drawn(12, 96, (4, 4), 1.0), given)
keep('rotary.output_bias', drawn(12, 112, (4,), 1.0), given)
keep('alibi.query_weights', given['rotary.query_weights'], given)
keep('alibi.query_bias', given['rotary.query_bias'], given)
keep('alibi.key_weights', given['rotary.key_weights'], given)
keep('alibi.key_bias', given['rotary.key_bias'], given)
keep('alibi.value_weights', given['rotary.value_weights'], given)
keep('alibi.value_bias', given['rotary.value_bias'], given)
keep('alibi.output_weights', given['rotary.output_weights'], given)
keep('alibi.output_bias', given['rotary.output_bias'], given)
keep('cached.query_weights', given['rotary.query_weights'], given)
keep('cached.query_bias', given['rotary.query_bias'], given)
keep('cached.key_weights', given['rotary.key_weights'], given)
keep('cached.key_bias', given['rotary.key_bias'], given)
keep('cached.value_weights', given['rotary.value_weights'], given)
keep('cached.value_bias', given['rotary.value_bias'], given)
keep('cached.output_weights', given['rotary.output_weights'], given)
keep('cached.output_bias', given['rotary.output_bias'], given)
keep('post.self_attn.query_weights', given['rotary.query_weights'], given)
keep('post.self_attn.query_bias', given['rotary.query_bias'], given)
keep('post.self_attn.key_weights', given['rotary.key_weights'], given)
keep('post.self_attn.key_bias', given['rotary.key_bias'], given)
keep('post.self_attn.value_weights', given['rotary.value_weights'], given)
keep('post.self_attn.value_bias', given['rotary.value_bias'], given)
keep('post.self_attn.output_weights', given['rotary.output_weights'], given)
keep('post.self_attn.output_bias', given['rotary.output_bias'], given)
keep('post.norm1.gain', drawn(12, 174, (4,), 1.0), given)
keep('post.norm1.bias', drawn(12, 178, (4,), 1.0), given)
keep('post.feed_forward.hidden_weights', drawn(12, 116, (4, 6), 1.0), given)
keep('post.feed_forward.hidden_bias', drawn(12, 140, (6,), 1.0), given)
keep('post.feed_forward.output_weights', drawn(12, 146, (6, 4), 1.0), given)
keep('post.feed_forward.output_bias', drawn(12, 170, (4,), 1.0), given)
keep('post.norm2.gain', drawn(12, 182, (4,), 1.0), given)
keep('post.norm2.bias', drawn(12, 186, (4,), 1.0), given)
keep('pre.norm1.gain', given['post.norm1.gain'], given)
keep('pre.norm1.bias', given['post.norm1.bias'], given)
keep('pre.self_attn.query_weights', given['rotary.query_weights'], given)
keep('pre.self_attn.query_bias', given['rotary.query_bias'], given)
keep('pre.self_attn.key_weights', given['rotary.key_weights'], given)
keep('pre.self_attn.key_bias', given['rotary.key_bias'], given)
keep('pre.self_attn.value_weights', given['rotary.value_weights'], given)
keep('pre.self_attn.value_bias', given['rotary.value_bias'], given)
keep('pre.self_attn.output_weights', given['rotary.output_weights'], given)
keep('pre.self_attn.output_bias', given['rotary.output_bias'], given)
keep('pre.norm2.gain', given['post.norm2.gain'], given)
keep('pre.norm2.bias', given['post.norm2.bias'], given)
keep('pre.feed_forward.hidden_weights', given['post.feed_forward.hidden_weights'], given)
keep('pre.feed_forward.hidden_bias', given['post.feed_forward.hidden_bias'], given)
keep('pre.feed_forward.output_weights', given['post.feed_forward.output_weights'], given)
keep('pre.feed_forward.output_bias', given['post.feed_forward.output_bias'], given)

# ---- Step by step: six right computations

from math import erf

def keep_all(scope, **steps):
    for name, value in steps.items():
        keep(f"{scope}.{name}", value)

def weights_of(scope, *names):
    return [given[f"{scope}.{name}"] for name in names]

def wrong(scope, **steps):
    for mistake, value in steps.items():
        keep(f"{scope}.mistakes.{mistake}.mistaken", value)

def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)

def interleave(a, b):
    return np.stack([a, b], axis=-1).reshape(len(a), -1)

def rotate(x, angles):
    a, b = x[:, ::2], x[:, 1::2]
    cos, sin = np.cos(angles), np.sin(angles)
    return interleave(a * cos - b * sin, a * sin + b * cos)

def gelu(x):
    return 0.5 * x * (1 + np.vectorize(erf)(x / np.sqrt(2)))

def attention(scope, x, memory, heads, mask=None, positions=None):
    def project(name, tokens):
        weights, bias = weights_of(scope, f"{name}_weights", f"{name}_bias")
        return tokens @ weights + bias
    query = project("query", x)
    key, value = project("key", memory), project("value", memory)
    keep_all(scope, query=query, key=key, value=value)
    contexts, d_k = [], query.shape[1] // heads
    for head in range(heads):
        at, part = f"{scope}.head.{head}", slice(head * d_k, (head + 1) * d_k)
        queries, keys, values = query[:, part], key[:, part], value[:, part]
        if positions == "rotary":
            frequencies = 10000.0 ** (-2 * np.arange(d_k // 2) / d_k)
            angles = np.outer(np.arange(len(x)), frequencies)
            for name, rows in (("query", queries), ("key", keys)):
                keep_all(f"{at}.rotary_{name}", x=rows, frequencies=frequencies,
                         angles=angles, output=rotate(rows, angles))
            queries, keys = rotate(queries, angles), rotate(keys, angles)
        scores = queries @ keys.T
        scaled = scores / np.sqrt(d_k)
        if positions == "alibi":
            distance = np.abs(np.arange(len(x))[:, None] - np.arange(len(memory)))
            bias = -(2.0 ** (-8 * (head + 1) / heads)) * distance
            keep_all(at, bias=bias, biased=scaled + bias)
            compared = scaled + bias
        elif mask is not None:
            compared = keep(f"{at}.masked", np.where(mask, scaled, -np.inf))
        else:
            compared = scaled
        weights = softmax(compared)
        keep_all(at, queries=queries, keys=keys, values=values, scores=scores,
                 scaled=scaled, weights=weights, context=weights @ values)
        contexts.append(weights @ values)
    merged = np.concatenate(contexts, axis=1)
    weights, bias = weights_of(scope, "output_weights", "output_bias")
    keep_all(scope, merged=merged, output=merged @ weights + bias)
    return merged @ weights + bias

def norm(scope, x):
    gain, bias = weights_of(scope, "gain", "bias")
    mean, variance = x.mean(axis=-1), x.var(axis=-1)
    normalized = (x - mean[:, None]) / np.sqrt(variance[:, None] + 1e-5)
    keep_all(scope, mean=mean, variance=variance, normalized=normalized,
             output=normalized * gain + bias)
    return normalized * gain + bias

def feed_forward(scope, x, activation):
    w1, b1 = weights_of(scope, "hidden_weights", "hidden_bias")
    w2, b2 = weights_of(scope, "output_weights", "output_bias")
    hidden = x @ w1 + b1
    keep_all(scope, hidden=hidden, activated=activation(hidden),
             output=activation(hidden) @ w2 + b2)
    return activation(hidden) @ w2 + b2

# ---- Step by step: six right computations

sines_frequencies = 10000.0 ** (-2 * np.arange(3) / 6)
sines_angles = np.outer(np.arange(5), sines_frequencies)
sines_positions = interleave(np.sin(sines_angles), np.cos(sines_angles))

attention("rotary", x, x, 1, positions="rotary")
rotary_angles = rotary_head_0_rotary_query_angles
attention("alibi", x, x, 2, positions="alibi")

cached_x = x[0:2]
# the last query can attend to every key
cached_causal = np.arange(5) <= np.arange(2)[:, None] + (5 - 2)
attention("cached", cached_x, memory, 1, cached_causal)

post_causal = np.arange(4) <= np.arange(4)[:, None]
post_residual1 = x + attention("post.self_attn", x, x, 2, post_causal)
post_normed = norm("post.norm1", post_residual1)
relu = lambda x: np.maximum(x, 0)
post_residual2 = post_normed + feed_forward("post.feed_forward", post_normed, relu)
norm("post.norm2", post_residual2)

pre_normed = norm("pre.norm1", x)
pre_residual1 = x + attention("pre.self_attn", pre_normed, pre_normed, 2)
pre_normed2 = norm("pre.norm2", pre_residual1)
pre_output = pre_residual1 + feed_forward("pre.feed_forward", pre_normed2, gelu)

show('sines.frequencies', sines_frequencies, [1.0000, 0.0464, 0.0022])
show('sines.angles', sines_angles, [
    [0.0000, 0.0000, 0.0000],
    [1.0000, 0.0464, 0.0022],
    [2.0000, 0.0928, 0.0043],
    [3.0000, 0.1392, 0.0065],
    [4.0000, 0.1857, 0.0086],
])
show('sines.positions[0]', sines_positions[0], [0, 1, 0, 1, 0, 1])
show('rotary.query', rotary_query, [
    [-1.3239, 0.6783, -0.0614, -0.9593],
    [-0.7730, 0.5262, -0.4526, 0.6266],
    [-0.7797, 0.5551, -1.4350, 1.0417],
    [0.1346, -0.1617, -1.1405, 1.6852],
])
show('rotary.value', rotary_value, [
    [-0.1346, -0.8259, 0.3533, 0.3152],
    [-1.5701, -0.7521, 0.7811, 0.9718],
    [-1.7907, 0.5196, 0.8119, 1.4790],
    [-1.7399, 0.5800, 1.6338, 1.2090],
])
show('rotary.head.0.rotary_query.output', rotary_head_0_rotary_query_output, [
    [-1.3239, 0.6783, -0.0614, -0.9593],
    [-0.8604, -0.3661, -0.4589, 0.6220],
    [-0.1802, -0.9400, -1.4556, 1.0128],
    [-0.1104, 0.1790, -1.1906, 1.6502],
])
show('rotary.head.0.scaled', rotary_head_0_scaled, [
    [-0.3994, -1.7339, -0.0365, -0.5467],
    [-0.0187, -0.6682, -0.2155, -0.2384],
    [0.3865, -0.3518, 0.1544, -0.2902],
    [-0.5105, -0.4553, -0.6464, -0.0912],
])
show('rotary.head.0.weights', rotary_head_0_weights, [
    [0.2806, 0.0739, 0.4034, 0.2422],
    [0.3178, 0.1660, 0.2610, 0.2551],
    [0.3598, 0.1720, 0.2853, 0.1829],
    [0.2247, 0.2374, 0.1961, 0.3417],
])
show('rotary.head.0.context', rotary_head_0_context, [
    [-1.2974, 0.0627, 0.8800, 1.0496],
    [-1.2147, -0.1037, 0.8707, 0.9560],
    [-1.1475, -0.1722, 0.7919, 0.9236],
    [-1.3488, -0.0641, 0.9824, 1.0048],
])
show('rotary.output', rotary_output, [
    [-1.2217, -1.5892, 0.0386, -1.1619],
    [-1.3329, -1.3219, -0.1689, -1.1041],
    [-1.3001, -1.1838, -0.2159, -0.9780],
    [-1.4343, -1.5000, -0.1359, -1.2947],
])
show('alibi.head.0.bias', alibi_head_0_bias, [
    [0.0000, -0.0625, -0.1250, -0.1875],
    [-0.0625, 0.0000, -0.0625, -0.1250],
    [-0.1250, -0.0625, 0.0000, -0.0625],
    [-0.1875, -0.1250, -0.0625, 0.0000],
])
show('alibi.head.0.queries', alibi_head_0_queries, [[-1.3239, 0.6783], [-0.7730, 0.5262], [-0.7797, 0.5551], [0.1346, -0.1617]])
show('alibi.head.0.scaled', alibi_head_0_scaled, [
    [-0.9000, -1.0462, 0.8295, 0.4586],
    [-0.6478, -0.7864, 0.4848, 0.2643],
    [-0.6763, -0.8260, 0.4891, 0.2660],
    [0.1787, 0.2314, -0.0847, -0.0442],
])
show('alibi.merged', alibi_merged, [
    [-1.5910, 0.3016, 0.8036, 1.0234],
    [-1.5221, 0.1963, 0.9251, 0.9925],
    [-1.5496, 0.2363, 0.8953, 0.9997],
    [-1.2974, -0.1661, 0.9907, 0.9982],
])
show('cached.causal', cached_causal, [[True, True, True, True, False], [True, True, True, True, True]])
show('cached.head.0.masked', cached_head_0_masked, [[-0.5172, -0.2881, -0.4494, -0.0127, -np.inf], [-0.3598, -0.3059, -0.2398, -0.4917, -0.0882]])
show('cached.head.0.weights', cached_head_0_weights, [[0.2007, 0.2523, 0.2147, 0.3323, 0.0000], [0.1862, 0.1965, 0.2099, 0.1632, 0.2443]])
show('post.self_attn.head.0.masked', post_self_attn_head_0_masked, [
    [-0.9000, -np.inf, -np.inf, -np.inf],
    [-0.6478, -0.7864, -np.inf, -np.inf],
    [-0.6763, -0.8260, 0.4891, -np.inf],
    [0.1787, 0.2314, -0.0847, -0.0442],
])
show('post.residual1', post_residual1, [
    [-1.0557, 1.4623, -1.6608, 0.8193],
    [-0.7999, -0.5893, -1.5747, 0.0046],
    [-1.5721, -2.3948, 1.0595, -0.8002],
    [-1.2287, -2.1311, -0.1060, -1.8068],
])
show('post.norm1.mean', post_norm1_mean, [-0.1087, -0.7398, -0.9269, -1.3182])
show('post.norm1.variance', post_norm1_variance, [1.6587, 0.3194, 1.6332, 0.5943])
show('post.norm1.normalized', post_norm1_normalized, [
    [-0.7353, 1.2198, -1.2051, 0.7206],
    [-0.1064, 0.2664, -1.4773, 1.3173],
    [-0.5049, -1.1486, 1.5543, 0.0991],
    [0.1160, -1.0546, 1.5724, -0.6339],
])
show('post.norm1.output', post_norm1_output, [
    [-0.7521, 0.3706, -0.4185, 0.4239],
    [-0.4822, -0.1640, -0.5216, 0.1119],
    [-0.6532, -0.9575, 0.6265, 0.7488],
    [-0.3867, -0.9048, 0.6334, 1.1320],
])
show('post.feed_forward.hidden', post_feed_forward_hidden, [
    [-0.8213, -0.9315, 0.3642, -0.6112, -0.4470, -0.7793],
    [-1.2026, -0.2601, 0.1551, -0.0286, -0.3422, -0.7524],
    [-1.0645, -0.3974, 1.4476, 0.5636, -0.6421, -1.1662],
    [-0.7099, -0.7292, 1.4525, 0.9133, -1.0288, -1.5530],
])
show('post.feed_forward.activated', post_feed_forward_activated, [
    [0.0000, 0.0000, 0.3642, 0.0000, 0.0000, 0.0000],
    [0.0000, 0.0000, 0.1551, 0.0000, 0.0000, 0.0000],
    [0.0000, 0.0000, 1.4476, 0.5636, 0.0000, 0.0000],
    [0.0000, 0.0000, 1.4525, 0.9133, 0.0000, 0.0000],
])
show('pre.residual1', pre_residual1, [
    [-0.3327, -1.2891, 0.3874, 0.2408],
    [0.1594, -2.4866, 0.1093, -0.0716],
    [-0.8775, -2.8569, 1.7615, -0.2376],
    [-0.2783, -3.0453, 1.1065, -1.2625],
])
show('pre.feed_forward.activated', pre_feed_forward_activated, [
    [-0.0895, 0.0390, 0.2657, 0.3436, -0.1190, -0.1624],
    [-0.0236, -0.1068, 1.0911, 0.0424, 0.0043, -0.1402],
    [-0.1147, -0.1320, 0.5761, 0.6375, -0.1682, -0.1070],
    [-0.0564, -0.1690, 1.4299, 0.4402, -0.1600, -0.0618],
])

# ---- Positions

angles, cos, sin = rotary_angles, np.cos(rotary_angles), np.sin(rotary_angles)
a, b = rotary_query[:, :2], rotary_query[:, 2:]
wrong("sines",
      positions_exponent=10000.0 ** (-4 * np.arange(3) / 6),
      positions_from_one=np.outer(np.arange(5) + 1, sines_frequencies),
      positions_cos_first=interleave(np.cos(sines_angles), np.sin(sines_angles)),
      positions_halves=np.hstack([np.sin(sines_angles), np.cos(sines_angles)]))
wrong("rotary.head.0.rotary_query",
      rotary_layout=np.concatenate([a * cos - b * sin, a * sin + b * cos], axis=1),
      rotary_sign=rotate(rotary_query, -angles))
wrong("alibi.head.0", alibi_sign=-alibi_head_0_bias)

show('sines.mistakes.positions_exponent.mistaken', sines_mistakes_positions_exponent_mistaken, [1.0000, 0.0022, 0.0000])
show('sines.mistakes.positions_from_one.mistaken', sines_mistakes_positions_from_one_mistaken, [
    [1.0000, 0.0464, 0.0022],
    [2.0000, 0.0928, 0.0043],
    [3.0000, 0.1392, 0.0065],
    [4.0000, 0.1857, 0.0086],
    [5.0000, 0.2321, 0.0108],
])
show('sines.mistakes.positions_cos_first.mistaken[0]', sines_mistakes_positions_cos_first_mistaken[0], [1, 0, 1, 0, 1, 0])
show('sines.mistakes.positions_halves.mistaken[0]', sines_mistakes_positions_halves_mistaken[0], [0, 0, 0, 1, 1, 1])
show('rotary.head.0.rotary_query.mistakes.rotary_layout.mistaken', rotary_head_0_rotary_query_mistakes_rotary_layout_mistaken, [
    [-1.3239, 0.6783, -0.0614, -0.9593],
    [-0.0368, 0.5199, -0.8950, 0.6318],
    [1.6293, 0.5341, -0.1118, 1.0526],
    [0.0277, -0.2121, 1.1481, 1.6795],
])
show('rotary.head.0.rotary_query.mistakes.rotary_sign.mistaken', rotary_head_0_rotary_query_mistakes_rotary_sign_mistaken, [
    [-1.3239, 0.6783, -0.0614, -0.9593],
    [0.0251, 0.9347, -0.4463, 0.6311],
    [0.8292, 0.4780, -1.4139, 1.0702],
    [-0.1560, 0.1411, -1.0895, 1.7186],
])
show('alibi.head.0.mistakes.alibi_sign.mistaken', alibi_head_0_mistakes_alibi_sign_mistaken, [
    [0.0000, 0.0625, 0.1250, 0.1875],
    [0.0625, 0.0000, 0.0625, 0.1250],
    [0.1250, 0.0625, 0.0000, 0.0625],
    [0.1875, 0.1250, 0.0625, 0.0000],
])

# ---- Projections and heads

wrong("rotary",
      qkv_swapped=x @ rotary_key_weights + rotary_key_bias,
      weight_transposed=x @ rotary_query_weights.T + rotary_query_bias,
      output_map_missing=rotary_merged)
wrong("alibi.head.0",
      heads_unpermuted_split=alibi_query.reshape(2, 4, 2)[0],
      heads_interleaved=alibi_query[:, 0::2])
wrong("alibi",
      heads_unpermuted_merge=np.concatenate([alibi_head_0_context,
                                             alibi_head_1_context]).reshape(4, 4))

show('rotary.mistakes.qkv_swapped.mistaken', rotary_mistakes_qkv_swapped_mistaken, [
    [0.2803, -1.3295, -0.0488, -0.4909],
    [0.1402, -1.9075, 1.2664, 0.5567],
    [-0.8834, 0.0052, -0.4297, -0.9596],
    [-0.5091, -0.0375, 0.6285, 0.3542],
])
show('rotary.mistakes.weight_transposed.mistaken', rotary_mistakes_weight_transposed_mistaken, [
    [-0.9922, -1.0301, -0.6997, 0.4122],
    [-0.0172, -0.5157, -0.0355, -0.6915],
    [0.2489, 0.5787, -0.5947, 0.0845],
    [-0.0413, 1.2085, -0.5310, -0.0728],
])
show('rotary.mistakes.output_map_missing.mistaken', rotary_mistakes_output_map_missing_mistaken, [
    [-1.2974, 0.0627, 0.8800, 1.0496],
    [-1.2147, -0.1037, 0.8707, 0.9560],
    [-1.1475, -0.1722, 0.7919, 0.9236],
    [-1.3488, -0.0641, 0.9824, 1.0048],
])
show('alibi.head.0.mistakes.heads_unpermuted_split.mistaken', alibi_head_0_mistakes_heads_unpermuted_split_mistaken, [[-1.3239, 0.6783], [-0.0614, -0.9593], [-0.7730, 0.5262], [-0.4526, 0.6266]])
show('alibi.head.0.mistakes.heads_interleaved.mistaken', alibi_head_0_mistakes_heads_interleaved_mistaken, [[-1.3239, -0.0614], [-0.7730, -0.4526], [-0.7797, -1.4350], [0.1346, -1.1405]])
show('alibi.mistakes.heads_unpermuted_merge.mistaken', alibi_mistakes_heads_unpermuted_merge_mistaken, [
    [-1.5910, 0.3016, -1.5221, 0.1963],
    [-1.5496, 0.2363, -1.2974, -0.1661],
    [0.8036, 1.0234, 0.9251, 0.9925],
    [0.8953, 0.9997, 0.9907, 0.9982],
])

# ---- The scale

wrong("rotary.head.0",
      no_scale=rotary_head_0_scores,
      scale_d_k=rotary_head_0_scores / 4,
      scale_inverse=rotary_head_0_scores * np.sqrt(4))
wrong("alibi.head.0", scale_d_model=alibi_head_0_scores / np.sqrt(4))

show('rotary.head.0.mistakes.no_scale.mistaken', rotary_head_0_mistakes_no_scale_mistaken, [
    [-0.7989, -3.4678, -0.0730, -1.0933],
    [-0.0373, -1.3365, -0.4310, -0.4769],
    [0.7730, -0.7036, 0.3088, -0.5804],
    [-1.0210, -0.9105, -1.2929, -0.1824],
])
show('rotary.head.0.mistakes.scale_d_k.mistaken', rotary_head_0_mistakes_scale_d_k_mistaken, [
    [-0.1997, -0.8669, -0.0183, -0.2733],
    [-0.0093, -0.3341, -0.1078, -0.1192],
    [0.1933, -0.1759, 0.0772, -0.1451],
    [-0.2552, -0.2276, -0.3232, -0.0456],
])
show('rotary.head.0.mistakes.scale_inverse.mistaken', rotary_head_0_mistakes_scale_inverse_mistaken, [
    [-1.5977, -6.9356, -0.1461, -2.1867],
    [-0.0746, -2.6730, -0.8621, -0.9538],
    [1.5461, -1.4073, 0.6177, -1.1608],
    [-2.0419, -1.8211, -2.5858, -0.3648],
])
show('alibi.head.0.mistakes.scale_d_model.mistaken', alibi_head_0_mistakes_scale_d_model_mistaken, [
    [-0.6364, -0.7398, 0.5865, 0.3243],
    [-0.4581, -0.5561, 0.3428, 0.1869],
    [-0.4782, -0.5841, 0.3459, 0.1881],
    [0.1263, 0.1636, -0.0599, -0.0312],
])

# ---- Masks

mask, scaled = cached_causal, cached_head_0_scaled
wrong("cached",
      causal_strict=np.arange(5) < np.arange(2)[:, None] + 3,
      causal_next=np.arange(5) <= np.arange(2)[:, None] + 3 + 1,
      causal_top_left=np.arange(5) <= np.arange(2)[:, None])
wrong("cached.head.0",
      mask_inverted=np.where(mask, -np.inf, scaled),
      mask_zero=np.where(mask, scaled, 0),
      mask_finite=np.where(mask, scaled, -1e4),
      mask_added=scaled + mask,
      mask_after_softmax=np.where(mask, softmax(scaled), 0))
wrong("post.self_attn.head.0",
      mask_transposed=np.where(post_causal.T, post_self_attn_head_0_scaled, -np.inf))

show('cached.mistakes.causal_strict.mistaken', cached_mistakes_causal_strict_mistaken, [[True, True, True, False, False], [True, True, True, True, False]])
show('cached.mistakes.causal_next.mistaken', cached_mistakes_causal_next_mistaken, [[True, True, True, True, True], [True, True, True, True, True]])
show('cached.mistakes.causal_top_left.mistaken', cached_mistakes_causal_top_left_mistaken, [[True, False, False, False, False], [True, True, False, False, False]])
show('cached.head.0.mistakes.mask_inverted.mistaken', cached_head_0_mistakes_mask_inverted_mistaken, [[-np.inf, -np.inf, -np.inf, -np.inf, 0.8365], [-np.inf, -np.inf, -np.inf, -np.inf, -np.inf]])
show('cached.head.0.mistakes.mask_zero.mistaken', cached_head_0_mistakes_mask_zero_mistaken, [[-0.5172, -0.2881, -0.4494, -0.0127, 0.0000], [-0.3598, -0.3059, -0.2398, -0.4917, -0.0882]])
show('cached.head.0.mistakes.mask_finite.mistaken', cached_head_0_mistakes_mask_finite_mistaken, [[-0.5172, -0.2881, -0.4494, -0.0127, -10000.0000], [-0.3598, -0.3059, -0.2398, -0.4917, -0.0882]])
show('cached.head.0.mistakes.mask_added.mistaken', cached_head_0_mistakes_mask_added_mistaken, [[0.4828, 0.7119, 0.5506, 0.9873, 0.8365], [0.6402, 0.6941, 0.7602, 0.5083, 0.9118]])
show('cached.head.0.mistakes.mask_after_softmax.mistaken', cached_head_0_mistakes_mask_after_softmax_mistaken, [[0.1129, 0.1420, 0.1208, 0.1870, 0.0000], [0.1862, 0.1965, 0.2099, 0.1632, 0.2443]])
show('post.self_attn.head.0.mistakes.mask_transposed.mistaken', post_self_attn_head_0_mistakes_mask_transposed_mistaken, [
    [-0.9000, -1.0462, 0.8295, 0.4586],
    [-np.inf, -0.7864, 0.4848, 0.2643],
    [-np.inf, -np.inf, 0.4891, 0.2660],
    [-np.inf, -np.inf, -np.inf, -0.0442],
])

# ---- Softmax and the average

wrong("rotary.head.0",
      softmax_axis=softmax(rotary_head_0_scaled.T).T,
      softmax_all=np.exp(rotary_head_0_scaled) / np.exp(rotary_head_0_scaled).sum(),
      softmax_missing=rotary_head_0_scaled,
      softmax_twice=softmax(rotary_head_0_weights),
      weights_transposed=rotary_head_0_weights.T @ rotary_head_0_values)

show('rotary.head.0.mistakes.softmax_axis.mistaken', rotary_head_0_mistakes_softmax_axis_mistaken, [
    [0.1801, 0.0871, 0.2786, 0.1912],
    [0.2635, 0.2529, 0.2329, 0.2602],
    [0.3952, 0.3470, 0.3372, 0.2471],
    [0.1612, 0.3129, 0.1514, 0.3015],
])
show('rotary.head.0.mistakes.softmax_all.mistaken', rotary_head_0_mistakes_softmax_all_mistaken, [
    [0.0548, 0.0144, 0.0788, 0.0473],
    [0.0802, 0.0419, 0.0659, 0.0644],
    [0.1202, 0.0575, 0.0953, 0.0611],
    [0.0490, 0.0518, 0.0428, 0.0746],
])
show('rotary.head.0.mistakes.softmax_missing.mistaken', rotary_head_0_mistakes_softmax_missing_mistaken, [
    [-0.3994, -1.7339, -0.0365, -0.5467],
    [-0.0187, -0.6682, -0.2155, -0.2384],
    [0.3865, -0.3518, 0.1544, -0.2902],
    [-0.5105, -0.4553, -0.6464, -0.0912],
])
show('rotary.head.0.mistakes.softmax_twice.mistaken', rotary_head_0_mistakes_softmax_twice_mistaken, [
    [0.2560, 0.2082, 0.2894, 0.2464],
    [0.2672, 0.2295, 0.2524, 0.2509],
    [0.2782, 0.2305, 0.2582, 0.2331],
    [0.2434, 0.2465, 0.2365, 0.2736],
])
show('rotary.head.0.mistakes.weights_transposed.mistaken', rotary_head_0_mistakes_weights_transposed_mistaken, [
    [-1.5721, -0.1535, 1.0067, 1.2012],
    [-0.9916, 0.0412, 0.6833, 0.7260],
    [-1.3163, -0.2675, 0.8985, 1.0399],
    [-1.3553, -0.0987, 0.9917, 1.0079],
])

# ---- Residuals, norm and feed-forward

rows, u = post_residual1, pre_feed_forward_hidden
mean, variance = rows.mean(axis=-1, keepdims=True), rows.var(axis=-1, keepdims=True)
wrong("post", residual_missing=post_self_attn_output)
wrong("pre", residual_after_norm=pre_norm1_output + pre_self_attn_output)
wrong("post.feed_forward",
      norm_skipped=(rows @ post_feed_forward_hidden_weights
                    + post_feed_forward_hidden_bias),
      relu_missing=post_feed_forward_hidden,
      gelu_for_relu=gelu(post_feed_forward_hidden))
wrong("post.norm1",
      norm_all_tokens=np.full(4, rows.mean()),
      norm_bessel=rows.var(axis=-1, ddof=1),
      norm_epsilon_outside=(rows - mean) / (np.sqrt(variance) + 1e-5),
      norm_epsilon_value=(rows - mean) / np.sqrt(variance + 1e-12),
      norm_no_affine=post_norm1_normalized)
wrong("pre.feed_forward",
      gelu_tanh=0.5 * u * (1 + np.tanh(np.sqrt(2 / np.pi) * (u + 0.044715 * u**3))))

show('post.mistakes.residual_missing.mistaken', post_mistakes_residual_missing_mistaken, [
    [-1.2139, 0.5833, -1.1302, 0.0096],
    [-1.5043, -0.1775, -0.8533, -0.4964],
    [-1.2062, -1.6749, 0.1889, -1.1535],
    [-1.4820, -1.2651, -0.3066, -1.1762],
])
show('pre.mistakes.residual_after_norm.mistaken', pre_mistakes_residual_after_norm_mistaken, [
    [-1.0559, -1.9409, 0.3851, -0.2088],
    [-0.4899, -2.7906, 0.4011, -0.1935],
    [-1.2259, -3.1344, 1.4407, -0.0597],
    [-0.5226, -3.1784, 1.2966, 0.5594],
])
show('post.feed_forward.mistakes.norm_skipped.mistaken', post_feed_forward_mistakes_norm_skipped_mistaken, [
    [-1.0766, -1.9430, 0.0203, -1.2831, -0.4540, -1.2711],
    [-2.8185, 0.1591, 0.2917, 0.4056, 0.1464, -1.2515],
    [-3.1237, 1.7453, 2.0274, 0.2861, 0.9430, 0.1066],
    [-3.6645, 2.5809, 0.5921, 0.1409, 1.4260, 0.6556],
])
show('post.feed_forward.mistakes.relu_missing.mistaken', post_feed_forward_mistakes_relu_missing_mistaken, [
    [-0.8213, -0.9315, 0.3642, -0.6112, -0.4470, -0.7793],
    [-1.2026, -0.2601, 0.1551, -0.0286, -0.3422, -0.7524],
    [-1.0645, -0.3974, 1.4476, 0.5636, -0.6421, -1.1662],
    [-0.7099, -0.7292, 1.4525, 0.9133, -1.0288, -1.5530],
])
show('post.feed_forward.mistakes.gelu_for_relu.mistaken', post_feed_forward_mistakes_gelu_for_relu_mistaken, [
    [-0.1690, -0.1638, 0.2339, -0.1654, -0.1464, -0.1698],
    [-0.1378, -0.1034, 0.0871, -0.0140, -0.1253, -0.1700],
    [-0.1528, -0.1373, 1.3406, 0.4022, -0.1672, -0.1420],
    [-0.1696, -0.1699, 1.3462, 0.7484, -0.1562, -0.0935],
])
show('post.norm1.mistakes.norm_all_tokens.mistaken', post_norm1_mistakes_norm_all_tokens_mistaken, [-0.7734, -0.7734, -0.7734, -0.7734])
show('post.norm1.mistakes.norm_bessel.mistaken', post_norm1_mistakes_norm_bessel_mistaken, [2.2116, 0.4258, 2.1776, 0.7924])
show('post.norm1.mistakes.norm_epsilon_outside.mistaken', post_norm1_mistakes_norm_epsilon_outside_mistaken, [
    [-0.7353, 1.2198, -1.2051, 0.7206],
    [-0.1064, 0.2664, -1.4773, 1.3173],
    [-0.5049, -1.1486, 1.5543, 0.0991],
    [0.1160, -1.0546, 1.5724, -0.6339],
])
show('post.norm1.mistakes.norm_epsilon_value.mistaken', post_norm1_mistakes_norm_epsilon_value_mistaken, [
    [-0.7353, 1.2198, -1.2051, 0.7206],
    [-0.1064, 0.2664, -1.4773, 1.3173],
    [-0.5049, -1.1486, 1.5544, 0.0991],
    [0.1161, -1.0546, 1.5724, -0.6339],
])
show('post.norm1.mistakes.norm_no_affine.mistaken', post_norm1_mistakes_norm_no_affine_mistaken, [
    [-0.7353, 1.2198, -1.2051, 0.7206],
    [-0.1064, 0.2664, -1.4773, 1.3173],
    [-0.5049, -1.1486, 1.5543, 0.0991],
    [0.1160, -1.0546, 1.5724, -0.6339],
])
show('pre.feed_forward.mistakes.gelu_tanh.mistaken', pre_feed_forward_mistakes_gelu_tanh_mistaken, [
    [-0.0897, 0.0390, 0.2657, 0.3436, -0.1190, -0.1625],
    [-0.0233, -0.1068, 1.0908, 0.0424, 0.0043, -0.1404],
    [-0.1150, -0.1320, 0.5761, 0.6375, -0.1682, -0.1073],
    [-0.0564, -0.1690, 1.4297, 0.4402, -0.1600, -0.0618],
])

print("all as on the page")
