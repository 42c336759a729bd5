"""From what a user has to the arrays that the program reads."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from attn_record.tensors import LeftOut, kind_of, storable

from .program import Error


MOST_NUMBERS = 1 << 29  # in a file, as the program has it


def is_option(value: Any) -> bool:
    """A number, a word, a truth or a list of words is said by a flag; anything else is an array."""
    is_words = isinstance(value, (list, tuple)) and bool(value) and all(isinstance(one, str) for one in value)
    return is_words or value is None or isinstance(value, (bool, int, float, str, os.PathLike))


def array_and_flag(value: Any) -> tuple[Any, Any]:
    """A name can be an input and a flag: mask=(allowed, "causal") is both, where (1, 2) is an array."""
    if isinstance(value, tuple) and len(value) == 2 and (value[1] is None or isinstance(value[1], str)) and not is_option(value[0]):
        return value
    return (None, value) if is_option(value) else (value, None)


def array_of(name: str, value: Any) -> np.ndarray[Any, Any]:
    """raises Error where it has no numbers that the program reads"""
    if isinstance(value, np.ma.MaskedArray) and np.any(np.ma.getmaskarray(value)):
        raise Error(f"{name} is a masked array, expected numbers: {name}.filled(0), and what can be attended to as mask")
    kind = kind_of(value)
    if kind is None and hasattr(value, "detach"):  # a weight of PyTorch, which a recording leaves to its module
        value = value.detach()
        kind = kind_of(value)
    try:
        array = kind.numbers(value)[0] if kind else np.asarray(value)
        if array.size > MOST_NUMBERS:  # such as one number that is broadcast, which takes no memory until it is written
            raise LeftOut(f"too large: {array.size} numbers of the shape {array.shape}, and the program reads {MOST_NUMBERS} at most")
        return storable(array)
    except LeftOut as reason:
        raise Error(f"{name} is {reason}") from None
    except Exception as reason:  # of lists of unequal lengths, or of a library whose tensor has no numbers
        raise Error(f"{name} is no array: {reason}") from None


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    for name in arrays:
        if not isinstance(name, str) or not name or "\0" in name:
            raise Error(f"an array is called {name!r}, expected a word")
    found = {name: array_of(name, value) for name, value in arrays.items()}
    try:
        with zipfile.ZipFile(path, "w") as archive:  # np.savez() takes "file" and "allow_pickle" for arguments of its own
            for name, array in found.items():
                with archive.open(name + ".npy", "w", force_zip64=True) as file:
                    np.lib.format.write_array(file, array, allow_pickle=False)
    except OSError as error:
        raise Error(f"{path.name} can't be written to {path.parent}: {error.strerror or error}; TMPDIR says where") from None


def weights_in(weights: Any, folder: Path) -> str | None:
    """Where the weights are: a path as it is; a state_dict, or that of a module, is written into the folder."""
    if weights is None:
        return None
    if isinstance(weights, (str, os.PathLike)):
        return os.fspath(weights)
    if hasattr(weights, "state_dict"):
        weights = weights.state_dict()
    if not isinstance(weights, Mapping):
        raise Error(f"weights are of the type {type(weights).__name__}, expected a path, a state_dict, or a module that has one")
    write_arrays(folder / "weights.npz", weights)
    return str(folder / "weights.npz")
