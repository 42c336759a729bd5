"""Lesson 17: a story, and what has changed since 2017, in NumPy: the lines of its page in their order, and the numbers that they start from.

It runs as it is, prints what the page shows, and stops where a number is another. Made of lesson.md by script/docs --pages.
"""

from pathlib import Path

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

stored = np.load(Path(__file__).with_name("lesson.npz"))
for path in stored.files:
    array = stored[path]
    keep(path, array.astype(float) if array.dtype == np.float32 else array, given)
keep('temperature.temperatures', np.array([0.25, 0.5, 1, 2, 4], float), given)
keep('byte_pairs.merge.1.pair', np.array([32, 116]), given)
keep('byte_pairs.merge.2.pair', np.array([256, 104]), given)
keep('byte_pairs.merge.3.pair', np.array([257, 101]), given)
keep('byte_pairs.merge.4.pair', np.array([32, 114]), given)
keep('byte_pairs.merge.4.ids', np.array([
    258, 259, 101, 100, 32, 98, 97, 108, 108, 258, 259, 101, 100, 32, 104, 97, 116, 258, 32, 98, 97, 108,
    108,
]), given)
keep('byte_pairs.merge.5.pair', np.array([259, 101]), given)
keep('byte_pairs.merge.5.ids', np.array([258, 260, 100, 32, 98, 97, 108, 108, 258, 260, 100, 32, 104, 97, 116, 258, 32, 98, 97, 108, 108]), given)
keep('byte_pairs.merge.6.pair', np.array([260, 100]), given)
keep('byte_pairs.merge.6.ids', np.array([258, 261, 32, 98, 97, 108, 108, 258, 261, 32, 104, 97, 116, 258, 32, 98, 97, 108, 108]), given)
keep('embedding', drawn(28, 0, (40, 8), 1.0), given)
keep('parts.ids', np.array([1, 8, 11, 13, 25]), given)
keep('parts.norm.gain', np.array([
    1.0433019995689392, 1.166536420583725, 1.1610636413097382, 1.0741591155529022, 0.9324854612350464,
    0.9884499907493591, 0.9588505029678345, 0.9492363333702087,
], float), given)
keep('parts.network.gate_weights', drawn(28, 512, (8, 12), 1.0), given)
keep('parts.network.up_weights', drawn(28, 608, (8, 12), 1.0), given)
keep('parts.network.down_weights', drawn(28, 704, (12, 8), 1.0), given)
keep('sizes.d_model', np.array([8, 4096]), given)
keep('sizes.heads', np.array([4, 32]), given)
keep('sizes.groups', np.array([2, 8]), given)
keep('sizes.d_k', np.array([2, 128]), given)
keep('sizes.d_ff', np.array([12, 14336]), given)
keep('sizes.layers', np.array([2, 32]), given)
keep('sizes.vocabulary', np.array([40, 128256]), given)
keep('ids', np.array([1, 8, 11, 13, 25, 11, 27, 19, 38, 25, 8, 8, 25]), given)
keep('layers.0.norm1.gain', given['parts.norm.gain'], given)
keep('layers.0.self_attn.query_weights', drawn(28, 320, (8, 8), 1.0), given)
keep('layers.0.self_attn.key_weights', drawn(28, 384, (8, 4), 1.0), given)
keep('layers.0.self_attn.value_weights', drawn(28, 416, (8, 4), 1.0), given)
keep('layers.0.self_attn.output_weights', drawn(28, 448, (8, 8), 1.0), given)
keep('layers.0.norm2.gain', np.array([
    0.8558616936206818, 1.0626386106014252, 1.2190344035625458, 1.1069698631763458, 0.8514571189880371,
    1.2118362188339233, 0.7512144148349762, 1.2399882078170776,
], float), given)
keep('layers.0.feed_forward.gate_weights', given['parts.network.gate_weights'], given)
keep('layers.0.feed_forward.up_weights', given['parts.network.up_weights'], given)
keep('layers.0.feed_forward.down_weights', given['parts.network.down_weights'], given)
keep('layers.1.norm1.gain', np.array([
    1.209909737110138, 1.0648630261421204, 0.8377752900123596, 1.0839259624481201, 1.2230054438114166,
    0.9333639144897461, 0.9803452491760254, 0.7597095668315887,
], float), given)
keep('layers.1.self_attn.query_weights', drawn(28, 816, (8, 8), 1.0), given)
keep('layers.1.self_attn.key_weights', drawn(28, 880, (8, 4), 1.0), given)
keep('layers.1.self_attn.value_weights', drawn(28, 912, (8, 4), 1.0), given)
keep('layers.1.self_attn.output_weights', drawn(28, 944, (8, 8), 1.0), given)
keep('layers.1.norm2.gain', np.array([
    0.935349315404892, 0.7678742706775665, 1.1208593547344208, 1.195078432559967, 1.076633334159851,
    1.2274335324764252, 0.9629984498023987, 1.0202882885932922,
], float), given)
keep('layers.1.feed_forward.gate_weights', drawn(28, 1008, (8, 12), 1.0), given)
keep('layers.1.feed_forward.up_weights', drawn(28, 1104, (8, 12), 1.0), given)
keep('layers.1.feed_forward.down_weights', drawn(28, 1200, (12, 8), 1.0), given)
keep('norm.gain', np.array([
    1.0839717388153076, 1.099545955657959, 0.8843057453632355, 1.207103818655014, 1.1529973149299622,
    1.0612491071224213, 1.1151220500469208, 1.1452841758728027,
], float), given)

# ---- What temperature does

def softmax(x):
    exponentials = np.exp(x - x.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)

temperature_logits = written_0_logits[6]
temperature_divided = temperature_logits / temperature_temperatures[:, None]
temperature_probabilities = softmax(temperature_divided)

show('temperature.logits[:24]', temperature_logits[:24], [
    -3.8283, -3.3537, 0.9923, 0.2634, 2.0374, 0.8317, -0.8058, 0.0310, -1.1892, -1.8481, 4.0239, 3.0127,
    3.0980, 0.5290, 2.1049, -2.0367, 1.9937, -5.0397, -3.7395, -0.7693, -0.1897, -0.5944, 1.3474, 1.6442,
])
show('temperature.probabilities[0][:24]', temperature_probabilities[0][:24], [
    3.125e-28, 2.086e-27, 7.395e-20, 4.007e-21, 4.836e-18, 3.890e-20, 5.564e-23, 1.582e-21, 1.201e-23,
    8.604e-25, 1.366e-14, 2.393e-16, 3.365e-16, 1.160e-20, 6.335e-18, 4.047e-25, 4.060e-18, 2.457e-30,
    4.458e-28, 6.438e-23, 6.541e-22, 1.296e-22, 3.061e-19, 1.004e-18,
])

# ---- How byte pairs are learned

def most_frequent(ids, begins):
    counts = {}
    for left, right in zip(ids, ids[1:]):
        if right not in begins:
            counts[left, right] = counts.get((left, right), 0) + 1
    pair = max(counts, key=counts.get)  # the first of equally frequent ones
    return pair, counts[pair]

def joined(ids, pair, token):
    after = []
    for each in ids:
        if after and (after[-1], each) == pair:
            after[-1] = token
        else:
            after.append(each)
    return after

def learn(ids, merges):
    ids, learned = ids.tolist(), []
    begins = {32}  # the tokens that begin with a space: no pair ends with one
    for k in range(merges):
        pair, count = most_frequent(ids, begins)
        ids = joined(ids, pair, 256 + k)
        if pair[0] in begins:
            begins.add(256 + k)
        learned.append((np.array(pair), count, np.array(ids)))
    return learned

learned = learn(byte_pairs_bytes, 6)
byte_pairs_merge_1_pair, byte_pairs_merge_1_count, byte_pairs_merge_1_ids = learned[0]
byte_pairs_merge_2_pair, byte_pairs_merge_2_count, byte_pairs_merge_2_ids = learned[1]
byte_pairs_merge_3_pair, byte_pairs_merge_3_count, byte_pairs_merge_3_ids = learned[2]
byte_pairs_merge_4_pair, byte_pairs_merge_4_count, byte_pairs_merge_4_ids = learned[3]
byte_pairs_merge_5_pair, byte_pairs_merge_5_count, byte_pairs_merge_5_ids = learned[4]
byte_pairs_merge_6_pair, byte_pairs_merge_6_count, byte_pairs_merge_6_ids = learned[5]

show('byte_pairs.merge.1.pair', byte_pairs_merge_1_pair, [32, 116])
show('byte_pairs.merge.1.ids[:24]', byte_pairs_merge_1_ids[:24], [
    256, 104, 101, 32, 114, 101, 100, 32, 98, 97, 108, 108, 256, 104, 101, 32, 114, 101, 100, 32, 104,
    97, 116, 256,
])
show('byte_pairs.merge.2.pair', byte_pairs_merge_2_pair, [256, 104])
show('byte_pairs.merge.2.ids[:24]', byte_pairs_merge_2_ids[:24], [
    257, 101, 32, 114, 101, 100, 32, 98, 97, 108, 108, 257, 101, 32, 114, 101, 100, 32, 104, 97, 116,
    257, 101, 32,
])
show('byte_pairs.merge.3.pair', byte_pairs_merge_3_pair, [257, 101])
show('byte_pairs.merge.3.ids[:24]', byte_pairs_merge_3_ids[:24], [
    258, 32, 114, 101, 100, 32, 98, 97, 108, 108, 258, 32, 114, 101, 100, 32, 104, 97, 116, 258, 32, 98,
    97, 108,
])
show('byte_pairs.merge.4.pair', byte_pairs_merge_4_pair, [32, 114])
show('byte_pairs.merge.4.ids', byte_pairs_merge_4_ids, [
    258, 259, 101, 100, 32, 98, 97, 108, 108, 258, 259, 101, 100, 32, 104, 97, 116, 258, 32, 98, 97, 108,
    108,
])
show('byte_pairs.merge.5.pair', byte_pairs_merge_5_pair, [259, 101])
show('byte_pairs.merge.5.ids', byte_pairs_merge_5_ids, [258, 260, 100, 32, 98, 97, 108, 108, 258, 260, 100, 32, 104, 97, 116, 258, 32, 98, 97, 108, 108])
show('byte_pairs.merge.6.pair', byte_pairs_merge_6_pair, [260, 100])
show('byte_pairs.merge.6.ids', byte_pairs_merge_6_ids, [258, 261, 32, 98, 97, 108, 108, 258, 261, 32, 104, 97, 116, 258, 32, 98, 97, 108, 108])
show('byte_pairs.merge.1.count', byte_pairs_merge_1_count, 3)
show('byte_pairs.merge.2.count', byte_pairs_merge_2_count, 3)
show('byte_pairs.merge.3.count', byte_pairs_merge_3_count, 3)
show('byte_pairs.merge.4.count', byte_pairs_merge_4_count, 2)
show('byte_pairs.merge.5.count', byte_pairs_merge_5_count, 2)
show('byte_pairs.merge.6.count', byte_pairs_merge_6_count, 2)

# ---- What each part since 2017 changed

sizes_cache_2017 = 2 * sizes_layers * sizes_heads * sizes_d_k
sizes_cache_today = 2 * sizes_layers * sizes_groups * sizes_d_k
sizes_norm_biases = (2 * sizes_layers + 1) * sizes_d_model
in_layer = 3 * sizes_heads * sizes_d_k + sizes_d_ff + 2 * sizes_d_model
sizes_biases = sizes_layers * in_layer
sizes_network_2017 = 2 * sizes_d_model * sizes_d_ff
sizes_network_today = 3 * sizes_d_model * sizes_d_ff
sizes_table = sizes_vocabulary * sizes_d_model

show('sizes.cache_2017', sizes_cache_2017, [32, 262144])
show('sizes.cache_today', sizes_cache_today, [16, 65536])
show('sizes.biases', sizes_biases, [104, 1114112])
show('sizes.network_2017', sizes_network_2017, [192, 117440512])
show('sizes.network_today', sizes_network_today, [288, 176160768])
show('sizes.table', sizes_table, [320, 525336576])

# ---- RMSNorm

parts_embedded = embedding[parts_ids]

def rms_norm(x, gain):
    return x / np.sqrt(np.mean(x**2, axis=-1)[..., None] + 1e-5) * gain

parts_norm_mean_square = np.mean(parts_embedded**2, axis=-1)
parts_norm_normalized = parts_embedded / np.sqrt(parts_norm_mean_square[:, None] + 1e-5)
parts_norm_output = rms_norm(parts_embedded, parts_norm_gain)

show('parts.norm.mean_square', parts_norm_mean_square, [0.3462, 0.5164, 0.5165, 0.3679, 0.5306])
show('parts.norm.output[0]', parts_norm_output[0], [1.1327, -0.7426, -0.2826, 0.3583, 1.0169, -0.5013, -1.3882, -1.5606])

# ---- SwiGLU

def silu(x):
    return x / (1 + np.exp(-x))

parts_network_gate = parts_norm_output @ parts_network_gate_weights
parts_network_activated = silu(parts_network_gate)
parts_network_up = parts_norm_output @ parts_network_up_weights
parts_network_gated = parts_network_activated * parts_network_up
parts_network_output = parts_network_gated @ parts_network_down_weights

show('parts.network.gate[0]', parts_network_gate[0], [1.4595, -0.2328, 0.1123, 1.2553, 1.4773, 0.4372, 1.0973, -0.2836, -0.1023, -1.5145, 0.9009, 0.3808])
show('parts.network.activated[0]', parts_network_activated[0], [1.1843, -0.1029, 0.0593, 0.9769, 1.2028, 0.2656, 0.8227, -0.1218, -0.0485, -0.2730, 0.6407, 0.2262])
show('parts.network.up[0]', parts_network_up[0], [
    0.0934, -3.0051, 0.8741, 3.5835, -0.0078, 0.0676, 1.5171, 0.7872, -0.0037, 2.1852, -0.3928, -2.4425,
])

# ---- The whole model in one pass

def norm_of(path, x):
    mean_square = keep(f"{path}.mean_square", np.mean(x**2, axis=-1))
    normalized = keep(f"{path}.normalized", x / np.sqrt(mean_square[:, None] + 1e-5))
    return keep(f"{path}.output", normalized * given[f"{path}.gain"])

def rotary(path, x):
    n, d = keep(f"{path}.x", x).shape
    frequencies = keep(f"{path}.frequencies", 10000.0 ** (-2 * np.arange(d // 2) / d))
    angles = keep(f"{path}.angles", np.outer(np.arange(n), frequencies))
    even, odd, cos, sin = x[:, ::2], x[:, 1::2], np.cos(angles), np.sin(angles)
    pairs = [even * cos - odd * sin, even * sin + odd * cos]
    return keep(f"{path}.output", np.stack(pairs, axis=-1).reshape(n, d))

def head_of(path, queries, keys, values):
    queries = rotary(f"{path}.rotary_query", queries)
    keys = rotary(f"{path}.rotary_key", keys)
    values = keep(f"{path}.values", values)
    scores = keep(f"{path}.scores", queries @ keys.T)
    scaled = keep(f"{path}.scaled", scores / np.sqrt(keys.shape[-1]))
    masked = keep(f"{path}.masked", np.where(causal, scaled, -np.inf))
    weights = keep(f"{path}.weights", softmax(masked))
    return keep(f"{path}.context", weights @ values)

def attention(path, x, heads=4, groups=2):
    query, key, value = [keep(f"{path}.{role}", x @ given[f"{path}.{role}_weights"])
                         for role in ("query", "key", "value")]
    d_k = query.shape[1] // heads
    contexts = []
    for head in range(heads):
        own, group = slice(head * d_k, (head + 1) * d_k), head // (heads // groups)
        shared = slice(group * d_k, (group + 1) * d_k)
        contexts.append(head_of(f"{path}.head.{head}",
                                query[:, own], key[:, shared], value[:, shared]))
    merged = keep(f"{path}.merged", np.concatenate(contexts, axis=1))
    return keep(f"{path}.output", merged @ given[f"{path}.output_weights"])

def swiglu(path, x):
    gate = keep(f"{path}.gate", x @ given[f"{path}.gate_weights"])
    activated = keep(f"{path}.activated", silu(gate))
    up = keep(f"{path}.up", x @ given[f"{path}.up_weights"])
    gated = keep(f"{path}.gated", activated * up)
    return keep(f"{path}.output", gated @ given[f"{path}.down_weights"])

def layer(path, x):
    attended = attention(f"{path}.self_attn", norm_of(f"{path}.norm1", x))
    residual1 = keep(f"{path}.residual1", x + attended)
    fed = swiglu(f"{path}.feed_forward", norm_of(f"{path}.norm2", residual1))
    return keep(f"{path}.output", residual1 + fed)

# ---- The whole model in one pass

embedded = embedding[ids]
causal = np.arange(len(ids)) <= np.arange(len(ids))[:, None]
first = layer("layers.0", embedded)
second = layer("layers.1", first)
logits = norm_of("norm", second) @ embedding.T

show('layers.0.self_attn.head.0.rotary_query.x[0]', layers_0_self_attn_head_0_rotary_query_x[0], [-1.5837, 2.4636])
show('layers.0.self_attn.head.0.rotary_key.x[0]', layers_0_self_attn_head_0_rotary_key_x[0], [0.8550, 0.6358])
show('layers.0.self_attn.head.1.rotary_query.x[0]', layers_0_self_attn_head_1_rotary_query_x[0], [2.3692, 1.0102])
show('layers.0.self_attn.head.1.rotary_key.x[0]', layers_0_self_attn_head_1_rotary_key_x[0], [0.8550, 0.6358])
show('layers.0.self_attn.head.2.rotary_query.x[0]', layers_0_self_attn_head_2_rotary_query_x[0], [-1.9032, 1.4516])
show('layers.0.self_attn.head.2.rotary_key.x[0]', layers_0_self_attn_head_2_rotary_key_x[0], [0.9501, -1.7083])
show('layers.0.self_attn.head.3.rotary_query.x[0]', layers_0_self_attn_head_3_rotary_query_x[0], [0.2440, 0.4408])
show('layers.0.self_attn.head.3.rotary_key.x[0]', layers_0_self_attn_head_3_rotary_key_x[0], [0.9501, -1.7083])
show('logits[0][:24]', logits[0][:24], [
    1.0273, 1.2470, 0.2897, 0.2945, -1.6717, 0.4091, -0.9355, -0.0930, 3.2998, 1.0361, -0.9752, 1.1865,
    2.0250, -0.5358, -1.5461, -2.4960, -1.6077, -1.8661, -0.0550, 2.2522, -1.7519, -1.9885, -1.4566,
    0.0087,
])

print("all as on the page")
