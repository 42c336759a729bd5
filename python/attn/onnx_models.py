"""The weights of a model in an .onnx file, under the names that they had in PyTorch."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .formats import Array, Arrays, library
from .program import Error


def onnx_file(path: Path) -> Arrays:
    """
    torch.onnx.export() keeps the names of parameters, but for the weights of linear maps: these it transposes, and calls them
    "onnx::MatMul_123" or "val_12". Which module a MatMul belongs to is said by its node. Constants of the graph, such as masks, are left out.

    raises  Error where a tensor's data lie elsewhere than in a file beside, or one name has two tensors
    """
    onnx = library("onnx", path)
    model = onnx.load(path, load_external_data=False)
    tensors = {one.name: one for one in model.graph.initializer}
    named = {(name, name, False) for name in tensors if is_parameter(name)}
    named |= {(f"{module}.weight", name, turned) for node in nodes(model.graph) for module, name, turned in weights_of(node, tensors)}
    outer = wrapper(model.graph)
    found: Arrays = {}
    for theirs, name, is_transposed in sorted(named):
        array, ours = data_of(onnx, path, tensors[name]), theirs[len(outer):] if theirs.startswith(outer) else theirs
        array = array.T if is_transposed else array
        if not np.array_equal(found.setdefault(ours, array), array):
            raise Error(f"{path} has two tensors for {ours}, of which {name} is one")
    return found


def nodes(graph: Any) -> Iterator[Any]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from nodes(attribute.g)


def modules_of(node: Any) -> list[tuple[str, str]]:
    """The modules that a node is in, and their classes: as the exporter notes, or from its name, "/model/layers.0/self_attn/q_proj/MatMul"."""
    noted = {one.key.rpartition(".")[2]: one.value for one in node.metadata_props if one.key.startswith("pkg.torch.onnx.")}
    if "name_scopes" in noted and "class_hierarchy" in noted:
        names, classes = (ast.literal_eval(noted[name])[:-1] for name in ("name_scopes", "class_hierarchy"))
        return [(str(name), str(kind)) for name, kind in zip(names, classes)]
    return [(node.name.strip("/").rpartition("/")[0].replace("/", "."), "")] if node.name.startswith("/") else []


def weights_of(node: Any, tensors: dict[str, Any]) -> Iterator[tuple[str, str, bool]]:
    """Of a linear map or an embedding: the module's name, its weight's, and whether that is transposed."""
    place, end = {"MatMul": (1, "Linear"), "Gather": (0, "Embedding")}.get(node.op_type, (-1, ""))
    if not 0 <= place < len(node.input) or len(tensors[node.input[place]].dims if node.input[place] in tensors else ()) != 2:
        return
    name, (module, kind) = node.input[place], (modules_of(node) or [("", "")])[-1]
    if module and (not kind or kind.endswith(end)) and not (node.op_type == "MatMul" and is_parameter(name)):
        yield module, name, node.op_type == "MatMul"


def is_parameter(name: str) -> bool:
    return name.endswith((".weight", ".bias"))


def wrapper(graph: Any) -> str:
    """The name, with its dot, of the model in the module that was exported; nothing where that is the model itself."""
    found = next((name for node in graph.node for name, kind in modules_of(node) if kind.startswith("transformers.")), "")
    return f"{found}." if found else ""


def data_of(onnx: Any, path: Path, tensor: Any) -> Array:
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        where = {one.key: one.value for one in tensor.external_data}
        location, offset = where.get("location", ""), int(where.get("offset", 0))
        if not location or location != Path(location).name:
            raise Error(f"{path} has {tensor.name} in {location!r}, expected a file beside it")
        size = Path(path.parent, location).stat().st_size
        length = int(where.get("length", size - offset))
        if not (0 <= offset and 0 <= length <= size - offset):
            raise Error(f"{path}: {tensor.name} lies from {offset} to {offset + length} in {location}, which has {size} bytes")
        with open(Path(path.parent, location), "rb") as file:
            file.seek(offset)
            tensor.raw_data = file.read(length)
        tensor.data_location = onnx.TensorProto.DEFAULT
    array = np.asarray(onnx.numpy_helper.to_array(tensor))
    return array if array.dtype.kind in "fiub" else array.astype(np.float32)
