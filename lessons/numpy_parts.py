"""Parts of a Transformer in NumPy, for the exercises that put them together.

Weights are a dictionary of arrays under PyTorch's names, such as "norm1.weight"; `name` is what stands before the last word,
"norm1". PyTorch keeps the weight of a linear map as (out, in). The lessons' pages run these lines, too.
"""

import numpy as np


def softmax(scores):
    """Along the last axis; zeros where every score is minus infinity."""
    largest = scores.max(axis=-1, keepdims=True)
    exponentials = np.exp(scores - np.where(largest == -np.inf, 0, largest))
    total = exponentials.sum(axis=-1, keepdims=True)
    return exponentials / np.where(total == 0, 1, total)


def linear(x, weights, name):
    """x @ weight.T + bias: (n, in) -> (n, out)"""
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def layer_norm(x, weights, name, epsilon=1e-5):
    """(n, d_model) -> (n, d_model)"""
    mean = x.mean(axis=-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon) * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def feed_forward(x, weights, name=""):
    """linear2(relu(linear1(x))): (n, d_model) -> (n, d_model)"""
    return linear(np.maximum(linear(x, weights, f"{name}linear1"), 0), weights, f"{name}linear2")


def multi_head_attention(x, memory, weights, name, heads, causal=False):
    """The tokens x attend to the tokens of memory: (n, d_model), (m, d_model) -> (n, d_model)"""
    n, d_model = x.shape
    m, d_k = len(memory), d_model // heads
    query_weight, key_weight, value_weight = weights[f"{name}.in_proj_weight"].reshape(3, d_model, d_model)
    query_bias, key_bias, value_bias = weights[f"{name}.in_proj_bias"].reshape(3, d_model)
    queries = (x @ query_weight.T + query_bias).reshape(n, heads, d_k).transpose(1, 0, 2)  # (h, n, d_k)
    keys = (memory @ key_weight.T + key_bias).reshape(m, heads, d_k).transpose(1, 0, 2)
    values = (memory @ value_weight.T + value_bias).reshape(m, heads, d_k).transpose(1, 0, 2)
    scaled = queries @ keys.transpose(0, 2, 1) / np.sqrt(d_k)
    allowed = (np.arange(m) <= np.arange(n)[:, None] + (m - n)) | (causal == False)  # noqa: E712, an array or a bool
    contexts = softmax(np.where(allowed, scaled, -np.inf)) @ values
    return linear(contexts.transpose(1, 0, 2).reshape(n, d_model), weights, f"{name}.out_proj")


def embed(ids, table):
    """Rows of the table times sqrt(d_model), plus sinusoidal positions: (n) -> (n, d_model)"""
    d_model = table.shape[1]
    angles = np.arange(len(ids))[:, None] / 10000 ** (2 * np.arange(d_model // 2) / d_model)
    positions = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(len(ids), d_model)
    return table[ids] * np.sqrt(d_model) + positions


def predict_next(source, target, weights, heads):
    """For each target token, the logits of the token after it: ids (m), ids (n) -> (n, vocabulary)

    The Transformer has one layer on either side, with each norm after its block.
    """
    table, encoder, decoder = weights["table"], "transformer.encoder.layers.0.", "transformer.decoder.layers.0."
    x = embed(np.asarray(source), table)
    x = layer_norm(x + multi_head_attention(x, x, weights, f"{encoder}self_attn", heads), weights, f"{encoder}norm1")
    memory = layer_norm(x + feed_forward(x, weights, encoder), weights, f"{encoder}norm2")

    y = embed(np.asarray(target), table)
    y = layer_norm(y + multi_head_attention(y, y, weights, f"{decoder}self_attn", heads, causal=True), weights, f"{decoder}norm1")
    y = layer_norm(y + multi_head_attention(y, memory, weights, f"{decoder}multihead_attn", heads), weights, f"{decoder}norm2")
    return layer_norm(y + feed_forward(y, weights, decoder), weights, f"{decoder}norm3") @ table.T
