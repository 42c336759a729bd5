#!/usr/bin/env python3
"""Writes an encoder layer of drawn weights as ONNX, for bench/fast/onnx_runtime.js: bench/fast/encoder_onnx.py FOLDER

FOLDER/plain.onnx has attention as the operators of ONNX, FOLDER/fused.onnx as MultiHeadAttention, ONNX Runtime's own.
Needs python3-onnx.
"""

import math
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from rows import D_FF, D_MODEL, FEATURES, HEADS

RNG = np.random.default_rng(0)


class Graph:
    """Nodes and constants in the order in which they are asked for."""

    def __init__(self):
        self.nodes, self.constants = [], []

    def add(self, operator, *inputs, outputs=1, **attributes):
        """A node. @return the name of its output, or of its outputs"""
        names = [f"t{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(operator, [self.name_of(value) for value in inputs], names, **attributes))
        return names[0] if outputs == 1 else names

    def name_of(self, value):
        if isinstance(value, str):
            return value
        self.constants.append(numpy_helper.from_array(np.asarray(value), f"c{len(self.constants)}"))
        return self.constants[-1].name

    def linear(self, x, d_in, d_out):
        weight = (RNG.standard_normal((d_in, d_out)) / math.sqrt(d_in)).astype(np.float32)
        return self.add("Add", self.add("MatMul", x, weight), RNG.standard_normal(d_out).astype(np.float32))

    def norm(self, x):
        gain, bias = np.ones(D_MODEL, np.float32), np.zeros(D_MODEL, np.float32)
        return self.add("LayerNormalization", x, gain, bias, axis=-1)


def plain(graph, query, key, value):
    heads = [
        graph.add("Transpose", graph.add("Reshape", x, np.array([0, 0, HEADS, FEATURES])), perm=order)
        for x, order in ((query, [0, 2, 1, 3]), (key, [0, 2, 3, 1]), (value, [0, 2, 1, 3]))
    ]  # fmt: skip
    scores = graph.add("Mul", graph.add("MatMul", heads[0], heads[1]), np.float32(1 / math.sqrt(FEATURES)))
    context = graph.add("MatMul", graph.add("Softmax", scores, axis=-1), heads[2])
    return graph.add("Reshape", graph.add("Transpose", context, perm=[0, 2, 1, 3]), np.array([0, 0, D_MODEL]))


def fused(graph, *query_key_value):
    return graph.add("MultiHeadAttention", *query_key_value, domain="com.microsoft", num_heads=HEADS)


def layer(attend):
    graph = Graph()
    together = graph.linear("x", D_MODEL, 3 * D_MODEL)
    query_key_value = graph.add("Split", together, np.array([D_MODEL] * 3), outputs=3, axis=2)
    attended = graph.linear(attend(graph, *query_key_value), D_MODEL, D_MODEL)
    normed = graph.norm(graph.add("Add", "x", attended))
    hidden = graph.add("Relu", graph.linear(normed, D_MODEL, D_FF))
    output = graph.norm(graph.add("Add", normed, graph.linear(hidden, D_FF, D_MODEL)))
    axes = ["b", "n", D_MODEL]
    made = helper.make_graph(graph.nodes, "encoder_layer", [helper.make_tensor_value_info("x", TensorProto.FLOAT, axes)],
                             [helper.make_tensor_value_info(output, TensorProto.FLOAT, axes)], graph.constants)
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(made, opset_imports=domains, ir_version=8)


if __name__ == "__main__":
    for attend in (plain, fused):
        onnx.save(layer(attend), str(Path(sys.argv[1]) / f"{attend.__name__}.onnx"))
