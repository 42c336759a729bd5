"""The tensors of each library: whether they changed, and their numbers."""

import itertools
import re
import sys
import zlib

import numpy as np

from .kept import isinstance

MEGABYTE = 1 << 20
SAMPLE = 1 << 12  # numbers that a large array is recognised by
LONGEST_CONTAINER = 1000  # longer lists, tuples and dicts are not looked into
DEEPEST_CONTAINER = 6
PLAIN = {int, float, bool, str, type(None)}  # in these is no tensor, which is seen at once
LARGEST_WHOLE = 1 << 53  # above it not every whole number is a double, and attn refuses the file

#
# One class per library says whether its tensors changed, and gives their numbers.


class LeftOut(Exception):
    """A tensor that is not recorded. Its text says why."""


class NumpyTensors:
    @staticmethod
    def state(array):
        """Another value after the array was changed in place."""
        return checksum(array) if array.flags.writeable and array.dtype.kind in "biufc" else None

    @staticmethod
    def memory(array):
        """The same for two arrays that can share numbers."""
        while isinstance(array.base, np.ndarray):
            array = array.base
        return id(array)

    @staticmethod
    def numbers(array):
        return np.asarray(array), array.dtype.name


class TorchTensors:
    @staticmethod
    def state(tensor):
        try:
            return tensor._version
        except RuntimeError:  # made in inference mode, where PyTorch doesn't count
            return checksum(tensor.numpy()) if tensor.device.type == "cpu" else None

    @staticmethod
    def memory(tensor):
        storage = getattr(tensor, "untyped_storage", tensor.storage)  # the second warns where there is the first
        try:
            return storage().data_ptr()
        except Exception:  # a tensor without memory of its own
            return id(tensor)

    @staticmethod
    def numbers(tensor):
        torch = sys.modules["torch"]
        name = str(tensor.dtype).replace("torch.", "")
        if "Fake" in type(tensor).__name__ or tensor.device.type == "meta":
            raise LeftOut("abstract: it has a shape and no numbers")
        if tensor.device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            raise LeftOut("made while a CUDA graph is captured")
        if tensor.layout is not torch.strided or tensor.is_quantized:
            raise LeftOut("sparse or quantised")
        if tensor.is_complex():
            raise LeftOut("complex")
        tensor = tensor.detach()
        if tensor.dtype is torch.bfloat16 or "float8" in name:
            tensor = tensor.float()
        tensor = tensor.resolve_neg() if hasattr(tensor, "resolve_neg") else tensor
        return tensor.cpu().numpy(), name


class JaxTensors:
    @staticmethod
    def state(_):
        return None  # they never change

    memory = staticmethod(id)

    @staticmethod
    def numbers(array):
        if isinstance(array, sys.modules["jax"].core.Tracer):
            raise LeftOut("abstract: inside jit, grad or vmap there are no numbers (try jax.disable_jit())")
        return np.asarray(array), str(array.dtype)


class TensorFlowTensors:
    @staticmethod
    def state(_):
        return None

    memory = staticmethod(id)

    @staticmethod
    def numbers(tensor):
        if not hasattr(tensor, "numpy"):
            raise LeftOut("abstract: inside tf.function there are no numbers (try tf.config.run_functions_eagerly(True))")
        return tensor.numpy(), tensor.dtype.name


LIBRARIES = [("torch", "Tensor", TorchTensors), ("jax", "Array", JaxTensors), ("tensorflow", "Tensor", TensorFlowTensors)]
_kinds = {}  # by type; a type without is no tensor


def kind_of(value):
    """What reads a value that is a tensor; None for another one."""
    kind = _kinds.get(type(value), _kinds)
    if kind is _kinds:
        kind = NumpyTensors if isinstance(value, np.ndarray) else None
        for module, name, reader in LIBRARIES:
            tensor = getattr(sys.modules.get(module), name, None)
            if isinstance(tensor, type) and isinstance(value, tensor) and not is_weight(value):
                kind = reader
        _kinds[type(value)] = kind
    return kind


def is_weight(value):
    """True for a weight of a PyTorch module, which its state_dict has."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Parameter)


def checksum(array, in_full=False):
    """Of all numbers, or of a sample where these are many."""
    if array.nbytes > MEGABYTE and not in_full:
        numbers = array.reshape(-1) if array.flags.c_contiguous else array.flat
        array = numbers[::array.size // SAMPLE | 1]
    return zlib.adler32(memoryview(np.ascontiguousarray(array)).cast("B")) if array.size else 0


def full_states(seen):
    """Of those arrays in a variable that are otherwise recognised by a sample."""
    return {path: checksum(leaf, in_full=True) for path, (leaf, _) in seen.leaves.items()
            if kind_of(leaf) is NumpyTensors and leaf.nbytes > MEGABYTE}


def storable(array):
    """The array as attn reads it. Whole numbers and booleans keep their type."""
    if array.dtype.kind == "V" and array.dtype.fields is None or array.dtype.name.startswith(("bfloat16", "float8")):
        try:
            array = array.astype(np.float32)  # ml_dtypes' bfloat16 and float8, which float32 holds exactly
        except (TypeError, ValueError):
            pass
    if array.dtype.kind == "c":
        raise LeftOut("complex")
    if array.dtype.kind not in "biuf":
        raise LeftOut("of the type " + array.dtype.name)
    if array.dtype.itemsize > 8:
        array = array.astype(np.float64)
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8 and array.size:
        if max(abs(int(array.min())), abs(int(array.max()))) > LARGEST_WHOLE:
            raise LeftOut("whole numbers above 2^53")
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def leaves_of(value, depth=0):
    """The tensors in a value, and where they are in it: "" or ".0" or ".keys.1"."""
    if kind_of(value) is not None:
        yield "", value
    elif isinstance(value, (list, tuple, dict)) and depth < DEEPEST_CONTAINER and length_of(value) <= LONGEST_CONTAINER:
        parts = list(keys_and_parts(value))
        if PLAIN.issuperset(type(part) for _, part in parts):
            return
        for key, part in parts:
            for path, leaf in leaves_of(part, depth + 1):
                yield f".{word(str(key))}{path}", leaf


def python_class(container):
    """Whose methods are called: those of a class that is derived from it can do anything."""
    return next(kind for kind in (dict, list, tuple) if isinstance(container, kind))


def length_of(container):
    return python_class(container).__len__(container)


def keys_and_parts(container):
    if isinstance(container, dict):
        return dict.items(container)
    return zip(getattr(container, "_fields", None) or itertools.count(), python_class(container).__iter__(container))


def word(text):
    """Letters, digits, _ and dots: what a name in a trace is made of."""
    return re.sub(r"[^A-Za-z0-9_.]+", "_", text.strip("<>")).strip(".") or "_"
