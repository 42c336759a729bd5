"""Exercise 12, done: a decoder layer, made of given parts."""

from numpy_parts import feed_forward, layer_norm, multi_head_attention  # see lessons/numpy_parts.py


def my_decoder_layer(x, memory, weights, heads):
    y = layer_norm(x + multi_head_attention(x, x, weights, "self_attn", heads, causal=True), weights, "norm1")
    z = layer_norm(y + multi_head_attention(y, memory, weights, "multihead_attn", heads), weights, "norm2")
    return layer_norm(z + feed_forward(z, weights), weights, "norm3")
