"""Lesson 11: a stack of six encoder layers, in NumPy: the lines of its page in their order, and the numbers that they start from.

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

keep('tokens', drawn(11, 0, (2, 20, 512), 1.0), given)
keep('lengths', np.array([20, 13]), given)
keep('layers.0.self_attn.query_weights', drawn(11, 20480, (512, 512), 0.0625), given)
keep('layers.0.self_attn.query_bias', drawn(11, 282624, (512,), 0.0625), given)
keep('layers.0.self_attn.key_weights', drawn(11, 283136, (512, 512), 0.0625), given)
keep('layers.0.self_attn.key_bias', drawn(11, 545280, (512,), 0.0625), given)
keep('layers.0.self_attn.value_weights', drawn(11, 545792, (512, 512), 0.0625), given)
keep('layers.0.self_attn.value_bias', drawn(11, 807936, (512,), 0.0625), given)
keep('layers.0.self_attn.output_weights', drawn(11, 808448, (512, 512), 0.0625), given)
keep('layers.0.self_attn.output_bias', drawn(11, 1070592, (512,), 0.0625), given)
keep('layers.0.norm1.gain', np.full((512,), 1, float), given)
keep('layers.0.norm1.bias', np.full((512,), 0, float), given)
keep('layers.0.feed_forward.hidden_weights', drawn(11, 1071104, (512, 2048), 0.0625), given)
keep('layers.0.feed_forward.hidden_bias', drawn(11, 2119680, (2048,), 0.0625), given)
keep('layers.0.feed_forward.output_weights', drawn(11, 2121728, (2048, 512), 0.03125), given)
keep('layers.0.feed_forward.output_bias', drawn(11, 3170304, (512,), 0.03125), given)
keep('layers.0.norm2.gain', np.full((512,), 1, float), given)
keep('layers.0.norm2.bias', np.full((512,), 0, float), given)
keep('layers.1.self_attn.query_weights', drawn(11, 3170816, (512, 512), 0.0625), given)
keep('layers.1.self_attn.query_bias', drawn(11, 3432960, (512,), 0.0625), given)
keep('layers.1.self_attn.key_weights', drawn(11, 3433472, (512, 512), 0.0625), given)
keep('layers.1.self_attn.key_bias', drawn(11, 3695616, (512,), 0.0625), given)
keep('layers.1.self_attn.value_weights', drawn(11, 3696128, (512, 512), 0.0625), given)
keep('layers.1.self_attn.value_bias', drawn(11, 3958272, (512,), 0.0625), given)
keep('layers.1.self_attn.output_weights', drawn(11, 3958784, (512, 512), 0.0625), given)
keep('layers.1.self_attn.output_bias', drawn(11, 4220928, (512,), 0.0625), given)
keep('layers.1.norm1.gain', np.full((512,), 1, float), given)
keep('layers.1.norm1.bias', np.full((512,), 0, float), given)
keep('layers.1.feed_forward.hidden_weights', drawn(11, 4221440, (512, 2048), 0.0625), given)
keep('layers.1.feed_forward.hidden_bias', drawn(11, 5270016, (2048,), 0.0625), given)
keep('layers.1.feed_forward.output_weights', drawn(11, 5272064, (2048, 512), 0.03125), given)
keep('layers.1.feed_forward.output_bias', drawn(11, 6320640, (512,), 0.03125), given)
keep('layers.1.norm2.gain', np.full((512,), 1, float), given)
keep('layers.1.norm2.bias', np.full((512,), 0, float), given)
keep('layers.2.self_attn.query_weights', drawn(11, 6321152, (512, 512), 0.0625), given)
keep('layers.2.self_attn.query_bias', drawn(11, 6583296, (512,), 0.0625), given)
keep('layers.2.self_attn.key_weights', drawn(11, 6583808, (512, 512), 0.0625), given)
keep('layers.2.self_attn.key_bias', drawn(11, 6845952, (512,), 0.0625), given)
keep('layers.2.self_attn.value_weights', drawn(11, 6846464, (512, 512), 0.0625), given)
keep('layers.2.self_attn.value_bias', drawn(11, 7108608, (512,), 0.0625), given)
keep('layers.2.self_attn.output_weights', drawn(11, 7109120, (512, 512), 0.0625), given)
keep('layers.2.self_attn.output_bias', drawn(11, 7371264, (512,), 0.0625), given)
keep('layers.2.norm1.gain', np.full((512,), 1, float), given)
keep('layers.2.norm1.bias', np.full((512,), 0, float), given)
keep('layers.2.feed_forward.hidden_weights', drawn(11, 7371776, (512, 2048), 0.0625), given)
keep('layers.2.feed_forward.hidden_bias', drawn(11, 8420352, (2048,), 0.0625), given)
keep('layers.2.feed_forward.output_weights', drawn(11, 8422400, (2048, 512), 0.03125), given)
keep('layers.2.feed_forward.output_bias', drawn(11, 9470976, (512,), 0.03125), given)
keep('layers.2.norm2.gain', np.full((512,), 1, float), given)
keep('layers.2.norm2.bias', np.full((512,), 0, float), given)
keep('layers.3.self_attn.query_weights', drawn(11, 9471488, (512, 512), 0.0625), given)
keep('layers.3.self_attn.query_bias', drawn(11, 9733632, (512,), 0.0625), given)
keep('layers.3.self_attn.key_weights', drawn(11, 9734144, (512, 512), 0.0625), given)
keep('layers.3.self_attn.key_bias', drawn(11, 9996288, (512,), 0.0625), given)
keep('layers.3.self_attn.value_weights', drawn(11, 9996800, (512, 512), 0.0625), given)
keep('layers.3.self_attn.value_bias', drawn(11, 10258944, (512,), 0.0625), given)
keep('layers.3.self_attn.output_weights', drawn(11, 10259456, (512, 512), 0.0625), given)
keep('layers.3.self_attn.output_bias', drawn(11, 10521600, (512,), 0.0625), given)
keep('layers.3.norm1.gain', np.full((512,), 1, float), given)
keep('layers.3.norm1.bias', np.full((512,), 0, float), given)
keep('layers.3.feed_forward.hidden_weights', drawn(11, 10522112, (512, 2048), 0.0625), given)
keep('layers.3.feed_forward.hidden_bias', drawn(11, 11570688, (2048,), 0.0625), given)
keep('layers.3.feed_forward.output_weights', drawn(11, 11572736, (2048, 512), 0.03125), given)
keep('layers.3.feed_forward.output_bias', drawn(11, 12621312, (512,), 0.03125), given)
keep('layers.3.norm2.gain', np.full((512,), 1, float), given)
keep('layers.3.norm2.bias', np.full((512,), 0, float), given)
keep('layers.4.self_attn.query_weights', drawn(11, 12621824, (512, 512), 0.0625), given)
keep('layers.4.self_attn.query_bias', drawn(11, 12883968, (512,), 0.0625), given)
keep('layers.4.self_attn.key_weights', drawn(11, 12884480, (512, 512), 0.0625), given)
keep('layers.4.self_attn.key_bias', drawn(11, 13146624, (512,), 0.0625), given)
keep('layers.4.self_attn.value_weights', drawn(11, 13147136, (512, 512), 0.0625), given)
keep('layers.4.self_attn.value_bias', drawn(11, 13409280, (512,), 0.0625), given)
keep('layers.4.self_attn.output_weights', drawn(11, 13409792, (512, 512), 0.0625), given)
keep('layers.4.self_attn.output_bias', drawn(11, 13671936, (512,), 0.0625), given)
keep('layers.4.norm1.gain', np.full((512,), 1, float), given)
keep('layers.4.norm1.bias', np.full((512,), 0, float), given)
keep('layers.4.feed_forward.hidden_weights', drawn(11, 13672448, (512, 2048), 0.0625), given)
keep('layers.4.feed_forward.hidden_bias', drawn(11, 14721024, (2048,), 0.0625), given)
keep('layers.4.feed_forward.output_weights', drawn(11, 14723072, (2048, 512), 0.03125), given)
keep('layers.4.feed_forward.output_bias', drawn(11, 15771648, (512,), 0.03125), given)
keep('layers.4.norm2.gain', np.full((512,), 1, float), given)
keep('layers.4.norm2.bias', np.full((512,), 0, float), given)
keep('layers.5.self_attn.query_weights', drawn(11, 15772160, (512, 512), 0.0625), given)
keep('layers.5.self_attn.query_bias', drawn(11, 16034304, (512,), 0.0625), given)
keep('layers.5.self_attn.key_weights', drawn(11, 16034816, (512, 512), 0.0625), given)
keep('layers.5.self_attn.key_bias', drawn(11, 16296960, (512,), 0.0625), given)
keep('layers.5.self_attn.value_weights', drawn(11, 16297472, (512, 512), 0.0625), given)
keep('layers.5.self_attn.value_bias', drawn(11, 16559616, (512,), 0.0625), given)
keep('layers.5.self_attn.output_weights', drawn(11, 16560128, (512, 512), 0.0625), given)
keep('layers.5.self_attn.output_bias', drawn(11, 16822272, (512,), 0.0625), given)
keep('layers.5.norm1.gain', np.full((512,), 1, float), given)
keep('layers.5.norm1.bias', np.full((512,), 0, float), given)
keep('layers.5.feed_forward.hidden_weights', drawn(11, 16822784, (512, 2048), 0.0625), given)
keep('layers.5.feed_forward.hidden_bias', drawn(11, 17871360, (2048,), 0.0625), given)
keep('layers.5.feed_forward.output_weights', drawn(11, 17873408, (2048, 512), 0.03125), given)
keep('layers.5.feed_forward.output_bias', drawn(11, 18921984, (512,), 0.03125), given)
keep('layers.5.norm2.gain', np.full((512,), 1, float), given)
keep('layers.5.norm2.bias', np.full((512,), 0, float), given)
keep('parameters.base.layers', np.array(6), given)
keep('parameters.base.d', np.array(512), given)
keep('parameters.base.d_ff', np.array(2048), given)
keep('parameters.base.vocabulary', np.array(37000), given)
keep('parameters.gpt2.layers', np.array(12), given)
keep('parameters.gpt2.d', np.array(768), given)
keep('parameters.gpt2.d_ff', np.array(3072), given)
keep('parameters.gpt2.vocabulary', np.array(50257), given)
keep('parameters.gpt2.context', np.array(1024), given)

# ---- 1. Inputs: tokens, positions, mask

frequencies = 10000 ** (-2 * np.arange(256) / 512)
angles = np.outer(np.arange(20), frequencies)
positions = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(20, 512)
x = tokens + positions
padding = np.arange(20) < lengths[:, None]
mask = np.repeat(padding[:, None, :], 20, axis=1)

show('positions[0][:24]', positions[0][:24], [0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1])
show('x[0][0][:24]', x[0][0][:24], [
    -0.3675, 0.5247, 0.2761, 1.0092, -0.6696, 1.1039, -0.7990, 1.5600, -0.3191, 1.9144, -0.6724, 0.5085,
    0.8234, 1.9423, 0.9039, 0.4912, 0.2200, 1.8215, 0.4367, 1.5764, -0.6451, 1.6277, 0.5184, 0.9115,
])

# ---- 3. The functions of one layer

def linear(scope, name, x):
    return x @ given[f"{scope}.{name}_weights"] + given[f"{scope}.{name}_bias"]

def layer_norm(scope, x):
    mean = keep(f"{scope}.mean", x.mean(axis=-1))
    variance = keep(f"{scope}.variance", ((x - mean[..., None]) ** 2).mean(axis=-1))
    normalized = keep(f"{scope}.normalized",
                      (x - mean[..., None]) / np.sqrt(variance[..., None] + 1e-5))
    return keep(f"{scope}.output",
                normalized * given[f"{scope}.gain"] + given[f"{scope}.bias"])

def softmax(a):
    e = np.exp(a - a.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)

def multi_head(scope, x, mask, heads):
    query = keep(f"{scope}.query", linear(scope, "query", x))
    key = keep(f"{scope}.key", linear(scope, "key", x))
    value = keep(f"{scope}.value", linear(scope, "value", x))
    contexts = []
    for i in range(heads):
        d_k = query.shape[-1] // heads
        columns = slice(i * d_k, (i + 1) * d_k)
        head = f"{scope}.head.{i}"
        queries = keep(f"{head}.queries", query[..., columns])
        keys = keep(f"{head}.keys", key[..., columns])
        values = keep(f"{head}.values", value[..., columns])
        scores = keep(f"{head}.scores", queries @ np.swapaxes(keys, -1, -2))
        scaled = keep(f"{head}.scaled", scores / np.sqrt(d_k))
        masked = keep(f"{head}.masked", np.where(mask, scaled, -np.inf))
        weights = keep(f"{head}.weights", softmax(masked))
        contexts.append(keep(f"{head}.context", weights @ values))
    merged = keep(f"{scope}.merged", np.concatenate(contexts, axis=-1))
    return keep(f"{scope}.output", linear(scope, "output", merged))

def feed_forward(scope, x):
    hidden = keep(f"{scope}.hidden", linear(scope, "hidden", x))
    activated = keep(f"{scope}.activated", np.maximum(hidden, 0))
    return keep(f"{scope}.output", linear(scope, "output", activated))

# ---- 4. Six layers

def encoder_layer(scope, x, mask, heads):
    attended = multi_head(f"{scope}.self_attn", x, mask, heads)
    residual1 = keep(f"{scope}.residual1", x + attended)
    between = layer_norm(f"{scope}.norm1", residual1)
    fed = feed_forward(f"{scope}.feed_forward", between)
    residual2 = keep(f"{scope}.residual2", between + fed)
    return layer_norm(f"{scope}.norm2", residual2)

def encoder(x, mask, layers, heads):
    for i in range(layers):
        x = encoder_layer(f"layers.{i}", x, mask, heads)
    return x

result = encoder(x, mask, layers=6, heads=8)
assert np.array_equal(result, layers_5_norm2_output)

show('layers.0.norm2.output[0][0][:24]', layers_0_norm2_output[0][0][:24], [
    -2.6666, 0.6001, -0.9698, 1.2430, -1.1004, 0.2074, -2.1013, 1.1302, -0.3582, 1.2363, -1.0286,
    -0.4872, 0.3644, 1.6668, 0.2279, -1.0685, -0.8727, 0.8492, -0.1497, 0.9349, -1.1716, 1.2541, -1.2063,
    -0.1230,
])
show('layers.1.norm2.output[0][0][:24]', layers_1_norm2_output[0][0][:24], [
    -2.0435, 0.6968, -0.9125, 0.6419, -1.0934, -0.7247, -2.0190, 1.4922, -0.2281, 1.2325, -1.0338,
    0.0776, 1.0595, 0.9494, -0.5852, -0.5040, -0.8296, 0.8740, -0.1974, 0.6407, -0.9249, 1.1105, -1.5347,
    0.6286,
])
show('layers.3.self_attn.head.5.weights[0][0]', layers_3_self_attn_head_5_weights[0][0], [
    0.0361, 0.0341, 0.1710, 0.0227, 0.0333, 0.0192, 0.0485, 0.0330, 0.0204, 0.0290, 0.0321, 0.0251,
    0.0419, 0.0538, 0.0837, 0.0582, 0.0570, 0.0309, 0.0633, 0.1067,
])
show('layers.3.norm2.output[0][0][:24]', layers_3_norm2_output[0][0][:24], [
    -0.5912, 0.2591, -0.3536, -1.2808, -0.4977, -0.5857, -1.6590, 0.7479, 0.7309, 0.2343, -0.7915,
    -0.0894, 0.7555, 1.5085, -0.2015, 0.3596, 0.1235, 0.7880, -0.0449, 0.1739, -1.7761, 1.3020, -1.1917,
    1.5946,
])
show('layers.5.norm2.output[0][0][:24]', layers_5_norm2_output[0][0][:24], [
    -0.1329, -0.5715, -0.4205, -1.1351, -1.0865, -0.4498, -1.8157, -0.0993, 0.5693, -0.1464, 0.5952,
    1.0503, 0.0090, 1.6740, 0.2419, 1.4655, 1.4594, 0.2868, 1.2706, -0.8356, -1.5556, 0.1883, -1.7523,
    0.9504,
])

# ---- The base Transformer (2017)

def parts(model):
    d, d_ff, vocabulary = (given[f"parameters.{model}.{size}"]
                           for size in ("d", "d_ff", "vocabulary"))
    keep(f"parameters.{model}.attention", 4 * (d ** 2 + d))
    keep(f"parameters.{model}.feed_forward", 2 * d * d_ff + d_ff + d)
    keep(f"parameters.{model}.norm", 2 * d)
    keep(f"parameters.{model}.table", vocabulary * d)

# ---- The base Transformer (2017)

parts("base")
parameters_base_encoder_layer = (parameters_base_attention + parameters_base_feed_forward
                                 + 2 * parameters_base_norm)
parameters_base_decoder_layer = (2 * parameters_base_attention
                                 + parameters_base_feed_forward
                                 + 3 * parameters_base_norm)
parameters_base_encoder = parameters_base_layers * parameters_base_encoder_layer
parameters_base_decoder = parameters_base_layers * parameters_base_decoder_layer
parameters_base_total = (parameters_base_encoder + parameters_base_decoder
                         + parameters_base_table)

show('parameters.base.attention', parameters_base_attention, 1050624)
show('parameters.base.feed_forward', parameters_base_feed_forward, 2099712)
show('parameters.base.norm', parameters_base_norm, 1024)
show('parameters.base.table', parameters_base_table, 18944000)
show('parameters.base.encoder_layer', parameters_base_encoder_layer, 3152384)
show('parameters.base.decoder_layer', parameters_base_decoder_layer, 4204032)
show('parameters.base.encoder', parameters_base_encoder, 18914304)
show('parameters.base.decoder', parameters_base_decoder, 25224192)
show('parameters.base.total', parameters_base_total, 63082496)

# ---- GPT-2 small (2019)

parts("gpt2")
parameters_gpt2_positions = parameters_gpt2_context * parameters_gpt2_d
parameters_gpt2_layer = (parameters_gpt2_attention + parameters_gpt2_feed_forward
                         + 2 * parameters_gpt2_norm)
parameters_gpt2_total = (parameters_gpt2_layers * parameters_gpt2_layer
                         + parameters_gpt2_norm + parameters_gpt2_table
                         + parameters_gpt2_positions)

show('parameters.gpt2.attention', parameters_gpt2_attention, 2362368)
show('parameters.gpt2.feed_forward', parameters_gpt2_feed_forward, 4722432)
show('parameters.gpt2.norm', parameters_gpt2_norm, 1536)
show('parameters.gpt2.table', parameters_gpt2_table, 38597376)
show('parameters.gpt2.positions', parameters_gpt2_positions, 786432)
show('parameters.gpt2.layer', parameters_gpt2_layer, 7087872)
show('parameters.gpt2.total', parameters_gpt2_total, 124439808)

print("all as on the page")
