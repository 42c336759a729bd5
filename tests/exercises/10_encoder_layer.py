"""Exercise 10, done: a pre-norm encoder layer, made of given parts."""

from numpy_parts import feed_forward, layer_norm, multi_head_attention


def my_pre_norm_layer(x, weights, heads):
    normalized = layer_norm(x, weights, "norm1")
    y = x + multi_head_attention(normalized, normalized, weights, "self_attn", heads)
    return y + feed_forward(layer_norm(y, weights, "norm2"), weights)
