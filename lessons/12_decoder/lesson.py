"""Lesson 12: one decoder layer, in NumPy: the lines of its page in their order, and the numbers that they start from.

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

keep('memory', np.array([[1, -1, 0.5, -0.5], [-1.5, 0, 0.5, 1], [0, 1.5, -1, -0.5]], float), given)
keep('start', np.full((4,), 1, float), given)
keep('wanted', np.array([[1, 0, 2, 0], [0, 1, -1, 2], [2, 1, 0, -1], [-1, 0, 1, 0.5]], float), given)
keep('self_attn.query_weights', drawn(13, 0, (4, 4), 1.0), given)
keep('self_attn.query_bias', drawn(13, 16, (4,), 0.5), given)
keep('self_attn.key_weights', drawn(13, 20, (4, 4), 1.0), given)
keep('self_attn.key_bias', drawn(13, 36, (4,), 0.5), given)
keep('self_attn.value_weights', drawn(13, 40, (4, 4), 1.0), given)
keep('self_attn.value_bias', drawn(13, 56, (4,), 0.5), given)
keep('self_attn.output_weights', drawn(13, 60, (4, 4), 1.0), given)
keep('self_attn.output_bias', drawn(13, 76, (4,), 0.5), given)
keep('norm1.gain', np.full((4,), 1, float), given)
keep('norm1.bias', np.full((4,), 0, float), given)
keep('cross_attn.query_weights', drawn(13, 80, (4, 4), 1.0), given)
keep('cross_attn.query_bias', drawn(13, 96, (4,), 0.5), given)
keep('cross_attn.key_weights', drawn(13, 100, (4, 4), 1.0), given)
keep('cross_attn.key_bias', drawn(13, 116, (4,), 0.5), given)
keep('cross_attn.value_weights', drawn(13, 120, (4, 4), 1.0), given)
keep('cross_attn.value_bias', drawn(13, 136, (4,), 0.5), given)
keep('cross_attn.output_weights', drawn(13, 140, (4, 4), 1.0), given)
keep('cross_attn.output_bias', drawn(13, 156, (4,), 0.5), given)
keep('norm2.gain', np.full((4,), 1, float), given)
keep('norm2.bias', np.full((4,), 0, float), given)
keep('feed_forward.hidden_weights', drawn(13, 160, (4, 6), 1.0), given)
keep('feed_forward.hidden_bias', drawn(13, 184, (6,), 0.5), given)
keep('feed_forward.output_weights', drawn(13, 190, (6, 4), 1.0), given)
keep('feed_forward.output_bias', drawn(13, 214, (4,), 0.5), given)
keep('norm3.gain', np.full((4,), 1, float), given)
keep('norm3.bias', np.full((4,), 0, float), given)
keep('changed.self_attn.query_weights', given['self_attn.query_weights'], given)
keep('changed.self_attn.query_bias', given['self_attn.query_bias'], given)
keep('changed.self_attn.key_weights', given['self_attn.key_weights'], given)
keep('changed.self_attn.key_bias', given['self_attn.key_bias'], given)
keep('changed.self_attn.value_weights', given['self_attn.value_weights'], given)
keep('changed.self_attn.value_bias', given['self_attn.value_bias'], given)
keep('changed.self_attn.output_weights', given['self_attn.output_weights'], given)
keep('changed.self_attn.output_bias', given['self_attn.output_bias'], given)
keep('changed.norm1.gain', np.full((4,), 1, float), given)
keep('changed.norm1.bias', np.full((4,), 0, float), given)
keep('changed.cross_attn.query_weights', given['cross_attn.query_weights'], given)
keep('changed.cross_attn.query_bias', given['cross_attn.query_bias'], given)
keep('changed.cross_attn.key_weights', given['cross_attn.key_weights'], given)
keep('changed.cross_attn.key_bias', given['cross_attn.key_bias'], given)
keep('changed.cross_attn.value_weights', given['cross_attn.value_weights'], given)
keep('changed.cross_attn.value_bias', given['cross_attn.value_bias'], given)
keep('changed.cross_attn.output_weights', given['cross_attn.output_weights'], given)
keep('changed.cross_attn.output_bias', given['cross_attn.output_bias'], given)
keep('changed.norm2.gain', np.full((4,), 1, float), given)
keep('changed.norm2.bias', np.full((4,), 0, float), given)
keep('changed.feed_forward.hidden_weights', given['feed_forward.hidden_weights'], given)
keep('changed.feed_forward.hidden_bias', given['feed_forward.hidden_bias'], given)
keep('changed.feed_forward.output_weights', given['feed_forward.output_weights'], given)
keep('changed.feed_forward.output_bias', given['feed_forward.output_bias'], given)
keep('changed.norm3.gain', np.full((4,), 1, float), given)
keep('changed.norm3.bias', np.full((4,), 0, float), given)
keep('swapped.query_weights', given['cross_attn.query_weights'], given)
keep('swapped.query_bias', given['cross_attn.query_bias'], given)
keep('swapped.key_weights', given['cross_attn.key_weights'], given)
keep('swapped.key_bias', given['cross_attn.key_bias'], given)
keep('swapped.value_weights', given['cross_attn.value_weights'], given)
keep('swapped.value_bias', given['cross_attn.value_bias'], given)
keep('swapped.output_weights', given['cross_attn.output_weights'], given)
keep('swapped.output_bias', given['cross_attn.output_bias'], given)
keep('padded.self_attn.query_weights', given['self_attn.query_weights'], given)
keep('padded.self_attn.query_bias', given['self_attn.query_bias'], given)
keep('padded.self_attn.key_weights', given['self_attn.key_weights'], given)
keep('padded.self_attn.key_bias', given['self_attn.key_bias'], given)
keep('padded.self_attn.value_weights', given['self_attn.value_weights'], given)
keep('padded.self_attn.value_bias', given['self_attn.value_bias'], given)
keep('padded.self_attn.output_weights', given['self_attn.output_weights'], given)
keep('padded.self_attn.output_bias', given['self_attn.output_bias'], given)
keep('padded.norm1.gain', np.full((4,), 1, float), given)
keep('padded.norm1.bias', np.full((4,), 0, float), given)
keep('padded.cross_attn.query_weights', given['cross_attn.query_weights'], given)
keep('padded.cross_attn.query_bias', given['cross_attn.query_bias'], given)
keep('padded.cross_attn.key_weights', given['cross_attn.key_weights'], given)
keep('padded.cross_attn.key_bias', given['cross_attn.key_bias'], given)
keep('padded.cross_attn.value_weights', given['cross_attn.value_weights'], given)
keep('padded.cross_attn.value_bias', given['cross_attn.value_bias'], given)
keep('padded.cross_attn.output_weights', given['cross_attn.output_weights'], given)
keep('padded.cross_attn.output_bias', given['cross_attn.output_bias'], given)
keep('padded.norm2.gain', np.full((4,), 1, float), given)
keep('padded.norm2.bias', np.full((4,), 0, float), given)
keep('padded.feed_forward.hidden_weights', given['feed_forward.hidden_weights'], given)
keep('padded.feed_forward.hidden_bias', given['feed_forward.hidden_bias'], given)
keep('padded.feed_forward.output_weights', given['feed_forward.output_weights'], given)
keep('padded.feed_forward.output_bias', given['feed_forward.output_bias'], given)
keep('padded.norm3.gain', np.full((4,), 1, float), given)
keep('padded.norm3.bias', np.full((4,), 0, float), given)

# ---- 1. The input: the target, shifted right

x = np.concatenate([start[None, :], wanted[:3]])

show('x', x, [[1, 1, 1, 1], [1, 0, 2, 0], [0, 1, -1, 2], [2, 1, 0, -1]])

# ---- 2. Causal self-attention

def linear(scope, name, x):
    return x @ given[f"{scope}.{name}_weights"] + given[f"{scope}.{name}_bias"]

def softmax(a):
    e = np.exp(a - a.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)

def multi_head(scope, x, memory, mask=None, heads=2):
    query = keep(f"{scope}.query", linear(scope, "query", x))
    key = keep(f"{scope}.key", linear(scope, "key", memory))
    value = keep(f"{scope}.value", linear(scope, "value", memory))
    contexts = []
    for i in range(heads):
        head, d_k = f"{scope}.head.{i}", query.shape[-1] // heads
        columns = slice(i * d_k, (i + 1) * d_k)
        queries = keep(f"{head}.queries", query[:, columns])
        keys = keep(f"{head}.keys", key[:, columns])
        values = keep(f"{head}.values", value[:, columns])
        scores = keep(f"{head}.scores", queries @ keys.T)
        scaled = keep(f"{head}.scaled", scores / np.sqrt(d_k))
        if mask is not None:
            scaled = keep(f"{head}.masked", np.where(mask, scaled, -np.inf))
        weights = keep(f"{head}.weights", softmax(scaled))
        contexts.append(keep(f"{head}.context", weights @ values))
    merged = keep(f"{scope}.merged", np.hstack(contexts))
    return keep(f"{scope}.output", linear(scope, "output", merged))

def layer_norm(scope, x):
    mean = keep(f"{scope}.mean", x.mean(axis=-1))
    variance = keep(f"{scope}.variance", ((x - mean[:, None]) ** 2).mean(axis=-1))
    normalized = keep(f"{scope}.normalized",
                      (x - mean[:, None]) / np.sqrt(variance[:, None] + 1e-5))
    return keep(f"{scope}.output",
                normalized * given[f"{scope}.gain"] + given[f"{scope}.bias"])

# ---- 2. Causal self-attention

causal = np.arange(4) <= np.arange(4)[:, None]
residual1 = x + multi_head("self_attn", x, x, causal)
layer_norm("norm1", residual1)

show('causal', causal, [
    [True, False, False, False],
    [True, True, False, False],
    [True, True, True, False],
    [True, True, True, True],
])
show('self_attn.head.0.weights', self_attn_head_0_weights, [
    [1.0000, 0.0000, 0.0000, 0.0000],
    [0.5171, 0.4829, 0.0000, 0.0000],
    [0.1621, 0.7527, 0.0852, 0.0000],
    [0.0159, 0.0047, 0.9058, 0.0737],
])
show('norm1.output', norm1_output, [
    [-1.6227, 0.8431, -0.0298, 0.8095],
    [-1.6462, 0.7073, 0.8872, 0.0518],
    [-0.4214, 0.2583, -1.2864, 1.4495],
    [1.4950, -0.3198, 0.1095, -1.2847],
])

# ---- 3. Cross-attention: queries from the target, keys and values from the memory

residual2 = norm1_output + multi_head("cross_attn", norm1_output, memory)
layer_norm("norm2", residual2)

show('cross_attn.query', cross_attn_query, [
    [2.0898, -0.4622, 1.2727, -0.6499],
    [1.0973, -0.3480, 0.6230, -1.2653],
    [2.4498, -0.1601, 1.2007, 0.9681],
    [-1.4052, 1.9251, -2.6935, -0.1203],
])
show('cross_attn.key', cross_attn_key, [
    [-0.3233, -0.8917, 2.0824, 0.3002],
    [0.1969, -0.1221, -1.1988, 0.1739],
    [-0.7775, 0.6356, -0.3671, -1.0795],
])
show('cross_attn.value', cross_attn_value, [
    [-1.6848, -0.0066, -0.5932, -0.1441],
    [1.8556, 0.8543, 1.1944, -0.7124],
    [0.5616, 0.5902, -1.3783, 0.0962],
])
show('cross_attn.head.0.weights', cross_attn_head_0_weights, [
    [0.3347, 0.5614, 0.1038],
    [0.3674, 0.4552, 0.1774],
    [0.2747, 0.6200, 0.1052],
    [0.0655, 0.1114, 0.8230],
])

# ---- 4. Feed-forward network

def feed_forward(scope, x):
    hidden = keep(f"{scope}.hidden", linear(scope, "hidden", x))
    activated = keep(f"{scope}.activated", np.maximum(hidden, 0))
    return keep(f"{scope}.output", linear(scope, "output", activated))

residual3 = norm2_output + feed_forward("feed_forward", norm2_output)
layer_norm("norm3", residual3)

show('norm3.output', norm3_output, [
    [0.2779, 0.6333, -1.7019, 0.7907],
    [0.7854, 1.1932, -0.9564, -1.0221],
    [0.1745, -0.3761, -1.2790, 1.4806],
    [1.3692, -0.2665, 0.2991, -1.4018],
])

# ---- 5. The second mask: padding of the source

def decoder_layer(scope, x, mask, memory_mask):
    attended = multi_head(f"{scope}.self_attn", x, x, mask)
    a = layer_norm(f"{scope}.norm1", keep(f"{scope}.residual1", x + attended))
    attended = multi_head(f"{scope}.cross_attn", a, memory, memory_mask)
    b = layer_norm(f"{scope}.norm2", keep(f"{scope}.residual2", a + attended))
    residual3 = keep(f"{scope}.residual3", b + feed_forward(f"{scope}.feed_forward", b))
    return layer_norm(f"{scope}.norm3", residual3)

padded_memory_mask = np.repeat((np.arange(3) < 2)[None, :], 4, axis=0)
result = decoder_layer("padded", x, causal, padded_memory_mask)

show('padded.memory_mask', padded_memory_mask, [[True, True, False], [True, True, False], [True, True, False], [True, True, False]])
show('padded.cross_attn.head.0.weights', padded_cross_attn_head_0_weights, [
    [0.3735, 0.6265, 0.0000],
    [0.4466, 0.5534, 0.0000],
    [0.3070, 0.6930, 0.0000],
    [0.3704, 0.6296, 0.0000],
])

# ---- Without the causal mask

changed_another = -x[3:4]
changed_x = np.concatenate([x[:3], changed_another])
other = decoder_layer("changed", changed_x, causal, None)
change = np.abs(other - norm3_output).max(axis=1)

show('change', change, [0.0000, 0.0000, 0.0000, 2.3748])

# ---- Queries from the memory

assert multi_head("swapped", memory, norm1_output).shape == (3, 4)

show('swapped.output', swapped_output, [
    [-1.0992, -1.5267, 0.4888, 0.7079],
    [0.3924, -0.7869, 0.8021, 1.1964],
    [-1.5139, -2.2157, 1.0116, 1.1629],
])

print("all as on the page")
