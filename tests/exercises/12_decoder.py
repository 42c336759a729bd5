"""Exercise 12, done: a decoder layer, made of given parts."""

from numpy_parts import feed_forward, layer_norm, multi_head_attention


def my_decoder_layer(x, memory, weights, heads):
    context = multi_head_attention(x, x, weights, "self_attn", heads, causal=True)
    y = layer_norm(x + context, weights, "norm1")
    context = multi_head_attention(y, memory, weights, "multihead_attn", heads)
    z = layer_norm(y + context, weights, "norm2")
    return layer_norm(z + feed_forward(z, weights), weights, "norm3")
