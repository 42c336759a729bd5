"""Lesson 9: feed-forward network and layer norm, in NumPy: the lines of its page in their order, and the numbers that they start from.

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

# ---- what is given

keep('x', np.array([[1, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1.5]], float), given)
keep('hidden_weights', np.array([[1, 0, -1, 0.5, 0, 1], [0, 1, 1, -0.5, 1, 0], [1, -1, 0, 0, 0.5, -1], [-1, 0, 1, 1, 0, 0.5]], float), given)
keep('hidden_bias', np.array([0, 0.5, 0, -0.5, 0, 0.25], float), given)
keep('output_weights', np.array([
    [0.5, 0, 0, -0.5],
    [0, 0.5, -1, 0],
    [0.25, 0, 0.5, 0],
    [0, -0.5, 0, 1],
    [1, 0, 0, 0.25],
    [0, 0.25, 0.5, 0],
], float), given)
keep('output_bias', np.array([0, 0.1, 0, -0.1], float), given)
keep('gain', np.array([1, 2, 1, 0.5], float), given)
keep('bias', np.array([0, 0, 1, 0], float), given)
keep('epsilon.token', np.array([1.001, 0.999, 1.001, 0.999], float), given)
keep('cost.d_model', np.array(512), given)
keep('cost.d_ff', np.array(2048), given)

# ---- 1. The feed-forward network

feed_forward_hidden = x @ hidden_weights + hidden_bias
feed_forward_activated = np.maximum(feed_forward_hidden, 0)
feed_forward_output = feed_forward_activated @ output_weights + output_bias

show('feed_forward.hidden', feed_forward_hidden, [
    [2.0000, -0.5000, -1.0000, 0.0000, 0.5000, 0.2500],
    [-2.0000, 2.5000, 4.0000, 0.5000, 2.0000, 1.2500],
    [0.5000, 0.5000, 1.5000, 1.0000, 1.5000, 1.0000],
])
show('feed_forward.activated', feed_forward_activated, [
    [2.0000, 0.0000, 0.0000, 0.0000, 0.5000, 0.2500],
    [0.0000, 2.5000, 4.0000, 0.5000, 2.0000, 1.2500],
    [0.5000, 0.5000, 1.5000, 1.0000, 1.5000, 1.0000],
])
show('feed_forward.output', feed_forward_output, [
    [1.5000, 0.1625, 0.1250, -0.9750],
    [3.0000, 1.4125, 0.1250, 0.9000],
    [2.1250, 0.1000, 0.7500, 1.0250],
])

# ---- 2. GELU instead of ReLU

from math import erf

def gelu(u):
    return 0.5 * u * (1 + np.vectorize(erf)(u / np.sqrt(2)))

def gelu_tanh(u):
    return 0.5 * u * (1 + np.tanh(np.sqrt(2 / np.pi) * (u + 0.044715 * u**3)))

feed_forward_gelu_activated = gelu(feed_forward_hidden)
feed_forward_gelu_tanh_activated = gelu_tanh(feed_forward_hidden)
feed_forward_gelu_tanh_largest_difference = np.max(np.abs(
    feed_forward_gelu_tanh_activated - feed_forward_gelu_activated))

show('feed_forward.gelu.activated', feed_forward_gelu_activated, [
    [1.9545, -0.1543, -0.1587, 0.0000, 0.3457, 0.1497],
    [-0.0455, 2.4845, 3.9999, 0.3457, 1.9545, 1.1179],
    [0.3457, 0.3457, 1.3998, 0.8413, 1.3998, 0.8413],
])
show('feed_forward.gelu_tanh.activated', feed_forward_gelu_tanh_activated, [
    [1.9546, -0.1543, -0.1588, 0.0000, 0.3457, 0.1497],
    [-0.0454, 2.4849, 3.9999, 0.3457, 1.9546, 1.1177],
    [0.3457, 0.3457, 1.3996, 0.8412, 1.3996, 0.8412],
])
show('feed_forward.gelu_tanh.largest_difference', feed_forward_gelu_tanh_largest_difference, 4.399e-04)

# ---- 2. GELU instead of ReLU

convolution_kernel = hidden_weights[None, :, :]
convolution_hidden = x @ convolution_kernel[0] + hidden_bias

show('convolution.hidden', convolution_hidden, [
    [2.0000, -0.5000, -1.0000, 0.0000, 0.5000, 0.2500],
    [-2.0000, 2.5000, 4.0000, 0.5000, 2.0000, 1.2500],
    [0.5000, 0.5000, 1.5000, 1.0000, 1.5000, 1.0000],
])

# ---- 3. The residual connection

residual = x + feed_forward_output

show('residual', residual, [
    [2.5000, 0.1625, 1.1250, -0.9750],
    [3.0000, 3.4125, 0.1250, 2.9000],
    [3.1250, 1.1000, 1.7500, 2.5250],
])

# ---- 4. Layer norm

norm_mean = residual.mean(axis=-1)
norm_variance = ((residual - norm_mean[:, None]) ** 2).mean(axis=-1)
norm_normalized = (residual - norm_mean[:, None]) / np.sqrt(norm_variance[:, None] + 1e-5)
norm_output = norm_normalized * gain + bias

show('norm.mean', norm_mean, [0.7031, 2.3594, 2.1250])
show('norm.variance', norm_variance, [1.6288, 1.7010, 0.5878])
show('norm.normalized', norm_normalized, [
    [1.4079, -0.4236, 0.3306, -1.3149],
    [0.4912, 0.8075, -1.7132, 0.4145],
    [1.3043, -1.3369, -0.4891, 0.5217],
])
show('norm.output', norm_output, [
    [1.4079, -0.8472, 1.3306, -0.6574],
    [0.4912, 1.6149, -0.7132, 0.2073],
    [1.3043, -2.6738, 0.5109, 0.2609],
])

# ---- 5. Norm after the sum, or before the block

def layer_norm(x):
    mean = x.mean(axis=-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5)

def feed_forward(x):
    return np.maximum(x @ hidden_weights + hidden_bias, 0) @ output_weights + output_bias

def bare_block(x):
    return dict(output=x + feed_forward(x))

def post_block(x):
    total = x + feed_forward(x)
    return dict(sum=total, output=layer_norm(total))

def pre_block(x):
    normalized = layer_norm(x)
    return dict(normalized=normalized, output=x + feed_forward(normalized))

# ---- 5. Norm after the sum, or before the block

def six_blocks(kind, block):
    y = x
    for number in range(1, 7):
        steps = block(y)
        y = steps["output"]
        steps["size"] = np.sqrt(np.mean(y**2))
        for name, value in steps.items():
            keep(f"{kind}.block.{number}.{name}", value)

six_blocks("bare", bare_block)
six_blocks("post", post_block)
six_blocks("pre", pre_block)

show('bare.block.1.size', bare_block_1_size, 2.1981)
show('bare.block.2.size', bare_block_2_size, 4.4498)
show('bare.block.3.size', bare_block_3_size, 8.7825)
show('bare.block.4.size', bare_block_4_size, 17.4727)
show('bare.block.5.size', bare_block_5_size, 36.6366)
show('bare.block.6.size', bare_block_6_size, 80.1158)
show('post.block.1.size', post_block_1_size, 1.0000)
show('post.block.2.size', post_block_2_size, 1.0000)
show('post.block.3.size', post_block_3_size, 1.0000)
show('post.block.4.size', post_block_4_size, 1.0000)
show('post.block.5.size', post_block_5_size, 1.0000)
show('post.block.6.size', post_block_6_size, 1.0000)
show('pre.block.1.size', pre_block_1_size, 1.8729)
show('pre.block.2.size', pre_block_2_size, 2.8683)
show('pre.block.3.size', pre_block_3_size, 3.9572)
show('pre.block.4.size', pre_block_4_size, 5.0830)
show('pre.block.5.size', pre_block_5_size, 6.2238)
show('pre.block.6.size', pre_block_6_size, 7.3719)

# ---- Where a layer's parameters are

cost_attention = 4 * cost_d_model**2 + 4 * cost_d_model
cost_feed_forward = 2 * cost_d_model * cost_d_ff + cost_d_ff + cost_d_model
cost_norms = 2 * 2 * cost_d_model
cost_share = cost_feed_forward / (cost_feed_forward + cost_attention + cost_norms)

show('cost.attention', cost_attention, 1050624)
show('cost.feed_forward', cost_feed_forward, 2099712)
show('cost.norms', cost_norms, 2048)
show('cost.share', cost_share, 0.6661)

# ---- What goes wrong without it

bessel_variance = residual.var(axis=1, ddof=1)
bessel_ratio = np.sqrt(bessel_variance / residual.var(axis=1))

show('bessel.ratio', bessel_ratio, [1.1547, 1.1547, 1.1547])

# ---- What goes wrong without it

epsilon_mean = epsilon_token.mean()
epsilon_variance = ((epsilon_token - epsilon_mean) ** 2).mean()
epsilon_inside = (epsilon_token - epsilon_mean) / np.sqrt(epsilon_variance + 1e-5)
epsilon_outside = (epsilon_token - epsilon_mean) / (np.sqrt(epsilon_variance) + 1e-5)

show('epsilon.inside', epsilon_inside, [0.3015, -0.3015, 0.3015, -0.3015])
show('epsilon.outside', epsilon_outside, [0.9901, -0.9901, 0.9901, -0.9901])

print("all as on the page")
