"""The formats in which weights and dumps lie: a row for each, on the library that keeps it, which is named where it is missing."""

from __future__ import annotations

import importlib
import json
import os
import pickle
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .arrays import MOST_NUMBERS, array_of, write_arrays
from .program import Error

Array = Any
Arrays = dict[str, Array]

OF_SAFETENSORS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U8": "u1", "BOOL": "?"}
OF_PROGRAM = ("model.safetensors", "model.safetensors.index.json", "model.npz")  # in a folder: what the program reads by itself
READ_HERE = (".gguf", ".onnx", ".pt", ".pth", ".bin")  # and not by the program
STATES = ("state_dict", "model_state_dict", "model", "module")  # what checkpoints call the weights among other things


def library(name: str, path: Path) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise Error(f"{path} is read by the library {name}, which this Python does not have: pip install {name}") from None


def guarded(path: Path, read: Callable[[], Any]) -> Any:
    """raises  Error in place of whatever a library raises where a file is damaged"""
    try:
        return read()
    except Error:
        raise
    except OSError as error:
        raise Error(f"{path} can't be read: {error.strerror or error}") from None
    except Exception as error:
        said = str(error).strip().split("\n")[0][:300]
        raise Error(f"{path} can't be read, or is damaged: {type(error).__name__}: {said or 'it does not fit into memory'}") from None


# ---------------------------------------------------------------------------------------------- files of arrays


def beginning(path: Path, count: int) -> bytes:
    with open(path, "rb") as file:
        return file.read(count)


def of_bfloat16(data: Any) -> Array:
    return (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32)


def safetensors_file(path: Path) -> Arrays:
    found = {}
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > path.stat().st_size:
            raise Error(f"{path} says that its header has {length} bytes, and is shorter")
        header, data = json.loads(file.read(length)), file.read()
    for name, one in header.items():
        if name == "__metadata__":
            continue
        if one["dtype"] not in (*OF_SAFETENSORS, "BF16"):
            raise Error(f"{path}: {name} has the type {one['dtype']}, expected one of {', '.join([*OF_SAFETENSORS, 'BF16'])}")
        begin, end = one["data_offsets"]
        if not 0 <= begin <= end <= len(data):
            raise Error(f"{path}: {name} lies from {begin} to {end}, and there are {len(data)} bytes")
        part = memoryview(data)[begin:end]
        numbers = of_bfloat16(part) if one["dtype"] == "BF16" else np.frombuffer(part, OF_SAFETENSORS[one["dtype"]])
        found[name] = numbers.reshape(one["shape"])
    return found


def torch_file(path: Path) -> Any:
    """What torch.save() wrote: tensors, and lists and dicts of them. No code of the file is run."""
    if b"Spec\0" in beginning(path, 64):
        raise Error(f"{path} is CTranslate2's, which its own loader reads alone: give the folder that it was converted from")
    torch = library("torch", path)
    if path.stat().st_size > 16 * MOST_NUMBERS:
        raise Error(f"{path} has {path.stat().st_size} bytes, and {16 * MOST_NUMBERS} are read at most")
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        kind = re.search(r"(?:GLOBAL|Unsupported class) ([\w.]+)", str(error))
        if kind is None:
            raise
        better = "the cache's cache_dict" if kind[1].startswith("transformer_lens.") else "its tensors in a dict"
        raise Error(f"{path} needs {kind[1]}, and no code of a file is run: save {better} in its place") from None


def flat(value: Any, name: str = "") -> Iterator[tuple[str, Array]]:
    """Tensors in lists and dicts, by their places: "layers.0.output". Numbers and words among them are no arrays."""
    if isinstance(value, Mapping):
        if set(value) == {"value", "meta"}:  # SGLang's dumper
            yield from flat(value["value"], name)
            return
        for key, one in value.items():
            yield from flat(one, f"{name}.{key}" if name else str(key))
    elif isinstance(value, (list, tuple)):
        for i, one in enumerate(value):
            yield from flat(one, f"{name}.{i}" if name else str(i))
    elif hasattr(value, "shape") and hasattr(value, "dtype"):
        yield name or "output", array_of(name or "output", value)


def npy_file(path: Path) -> Arrays:
    return {path.stem: np.load(path, allow_pickle=False)}


def npz_file(path: Path) -> Arrays:
    with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
        return {name: file[name] for name in file.files if not name.endswith(".json")}


def raw_file(path: Path, shape: tuple[int, ...] | None, dtype: str) -> Arrays:
    """Numbers and nothing else."""
    if dtype not in ("float64", "float32", "float16", "bfloat16"):
        raise Error(f"dtype is {dtype!r}, expected float64, float32, float16 or bfloat16")
    data = path.read_bytes()
    width = {"float64": 8, "float32": 4}.get(dtype, 2)
    numbers = len(data) // width
    if len(data) % width or not numbers or (shape and int(np.prod(shape)) != numbers):
        wanted = f"{' x '.join(map(str, shape))} numbers of {dtype}" if shape else f"numbers of {dtype}"
        raise Error(f"{path} has {len(data)} bytes, expected {wanted}, {width} bytes each: shape and dtype say what it holds")
    array = of_bfloat16(data) if dtype == "bfloat16" else np.frombuffer(data, dtype)
    return {path.stem: array.reshape(shape or (numbers,))}


def text_file(path: Path) -> Arrays:
    """Logits as llama.cpp's logits program writes them, "17: -1.234567" in each line; or a number in each."""
    text = path.read_text(encoding="utf-8")
    if re.search(r"^\s*sum = ", text, re.M):
        raise Error(f"{path} is what llama.cpp's eval-callback prints, of each tensor the ends of its axes to four digits, which tells too little; "
                    "its logits program saves all of the last token's")
    lines = [line.split(":") for line in text.splitlines() if line.strip()]
    try:
        wrong = next((i for i, words in enumerate(lines) if len(words) > 2 or (len(words) == 2 and int(words[0]) != i)), None)
        if wrong is None and lines:
            return {path.stem: np.array([float(words[-1]) for words in lines], np.float32)}
    except ValueError:
        pass
    raise Error(f"{path} is no file of logits: expected a number in each line, or its index, a colon and the number")


def kld_file(path: Path) -> Arrays:
    """
    What llama.cpp's perplexity program saves with --kl-divergence-base: of each chunk of tokens the log-probabilities of the next one after
    each in its second half but the last, in 16 bits. One that is 16 or more below the largest is that number.
    """
    size, header = path.stat().st_size, np.fromfile(path, "<i4", 3, offset=8)
    if len(header) < 3 or header[0] < 4 or header[1] < 1 or header[2] < 1:
        raise Error(f"{path} says that it has {header.tolist()}, expected tokens in a chunk (4 or more), the vocabulary, and chunks")
    context, vocabulary, chunks = map(int, header)
    rows, width = context - 1 - context // 2, 2 * ((vocabulary + 1) // 2) + 4
    expected = 20 + 4 * chunks * context + 2 * chunks * rows * width
    if size != expected:
        raise Error(f"{path} has {size} bytes, expected {expected}, of {chunks} chunks of {context} tokens and a vocabulary of {vocabulary}")
    if chunks * rows * vocabulary > MOST_NUMBERS:
        raise Error(f"{path} has {chunks * rows * vocabulary} numbers, and {MOST_NUMBERS} are read at most: --chunks 1 saves one chunk")
    words = np.fromfile(path, "<u2", offset=20 + 4 * chunks * context).reshape(chunks, rows, width)
    scale, least = np.moveaxis(np.ascontiguousarray(words[..., :4]).view("<f4"), -1, 0)[..., None]
    return {"tokens": np.fromfile(path, "<i4", chunks * context, offset=20).reshape(chunks, context).astype(np.int64),
            "log_probs": words[..., 4:4 + vocabulary] * scale + least}


# ------------------------------------------------------------------------------------------------------- dumps


@dataclass(frozen=True)
class Row:
    """A format of files."""

    ends: tuple[str, ...]
    of: str
    read: Callable[[Path], Arrays]
    begins: bytes = b""  # files of any name


DUMPS = (
    Row((".kld",), "llama.cpp's log-probabilities, of llama-perplexity --kl-divergence-base", kld_file, b"_logits_"),
    Row((".npz",), "NumPy's", npz_file),
    Row((".npy",), "NumPy's, one array", npy_file),
    Row((".safetensors",), "safetensors", safetensors_file),
    Row((".pt", ".pth"), "PyTorch's torch.save(): a tensor, or lists and dicts of them; SGLang's dumper; a cache's cache_dict",
        lambda path: dict(flat(torch_file(path)))),
    Row((".bin", ".raw"), "numbers alone, with their shape and dtype: float32 unless given; llama.cpp's logits",
        lambda path: raw_file(path, None, "float32")),
    Row((".txt",), "a number in each line, with or without its index; llama.cpp's logits", text_file),
)


def read_dump(path: str | os.PathLike[str], shape: tuple[int, ...] | None = None, dtype: str | None = None) -> Arrays:
    """The arrays of a file, or of a folder of files, by name; those of a folder by their files' places, "layers.0.output".

    shape, dtype  of a file of numbers alone
    raises        Error where it is of no known format, damaged, or its library is missing
    """
    place = Path(path)
    if place.is_dir():
        found = dict(in_folder(place))
    elif not place.exists():
        raise Error(f"{place}: there is no such file")
    elif place.suffix in (".bin", ".raw") and (shape or dtype):
        found = guarded(place, lambda: raw_file(place, shape, dtype or "float32"))
    else:
        first = guarded(place, lambda: beginning(place, 8))
        row = next((one for one in DUMPS if place.suffix in one.ends or (one.begins and first.startswith(one.begins))), None)
        if row is None:
            raise Error(f"{place} is of no known format: expected a folder, or {', '.join(end for one in DUMPS for end in one.ends)}")
        found = guarded(place, lambda: row.read(place))
    if not found:
        raise Error(f"{place} has no arrays")
    return found


def is_read_by_program(path: str | os.PathLike[str]) -> bool:
    """Whether attn diff reads a dump by itself."""
    place = Path(path)
    return place.suffix == ".npz" or not place.exists() or (place.is_dir() and not any(
        file.suffix in (".safetensors", ".pt", ".pth") for file in place.rglob("*")))


def in_folder(folder: Path) -> Iterator[tuple[str, Array]]:
    """Of each file of a known format; of one array, as by transformers' debugger, under the file's name alone."""
    trees = [file for file in folder.iterdir() if file.name.endswith("_debug_tree_FULL_TENSORS.json")]
    if trees and not any(file.suffix == ".safetensors" for file in folder.iterdir()):
        raise Error(f"{trees[0]} has its numbers as text, four digits each: model_addition_debugger_context(…, use_repr=False) keeps them")
    for file in sorted(folder.rglob("*")):
        row = next((one for one in DUMPS if file.suffix in one.ends and file.suffix not in (".bin", ".raw", ".txt")), None)
        name = ".".join((*file.relative_to(folder).parts[:-1], file.stem))
        if trees:  # "LlamaForCausalLM.model.layers.0.mlp_outputs"; what goes in came out of another one
            if not re.search(r"_outputs(_\d+)?$", name):
                continue
            name = re.sub(r"_outputs(_\d+)?$", lambda found: (found[1] or "").replace("_", "."), name.partition(".")[2] or "output")
        if row is None or not file.is_file():
            continue
        arrays = guarded(file, lambda: row.read(file))
        for inner, array in arrays.items():
            yield (name if len(arrays) == 1 else f"{name}.{inner}"), array


# ----------------------------------------------------------------------------------------------------- weights


@dataclass
class Model:
    """A model's folder, or what it is made of."""

    path: Path
    config: str = ""  # the text of config.json
    read: Callable[[], Arrays] = dict
    is_read_by_program: bool = False
    said: list[str] = field(default_factory=list)  # what was assumed

    def folder(self, place: Path) -> Path:
        """Where the program reads it; written into the place where it can't by itself."""
        return self.path if self.is_read_by_program else self.write(place, self.read())

    def write(self, place: Path, arrays: Arrays) -> Path:
        place.mkdir(exist_ok=True)
        Path(place, "config.json").write_text(self.config, encoding="utf-8")
        write_arrays(Path(place, "model.npz"), arrays)
        return place


def read_model(path: str | os.PathLike[str]) -> Model:
    """raises  Error where there is no config.json, or no weights of a known format"""
    given = Path(path)
    if not given.exists():
        raise Error(f"{given}: there is no such folder")
    weights = weights_of(given)
    if weights.suffix == ".gguf":
        from .gguf_models import read_gguf

        beside = Path(weights.parent, "config.json")
        return guarded(weights, lambda: read_gguf(weights, beside.read_text(encoding="utf-8") if beside.exists() else None))
    folder = weights.parent
    config = Path(folder, "config.json")
    if not config.is_file() and folder.name == "onnx":  # as models are published
        config = Path(folder.parent, "config.json")
    if not config.is_file():
        raise Error(f"{config} is missing: it says what the weights are for")
    text = guarded(config, lambda: config.read_text(encoding="utf-8"))
    if weights.name in OF_PROGRAM:
        return Model(folder, text, lambda: in_parts(weights), is_read_by_program=True)
    return Model(folder, text, lambda: in_parts(weights), said=[f"the weights of {weights.name}"])


def as_program_reads(weights: Any, module: str, place: Path) -> Any:
    """What run() was given as weights; where that is a path of what the program does not read, the arrays, or the folder that it reads."""
    if not isinstance(weights, (str, os.PathLike)):
        return weights
    given = Path(weights)
    if module != "model":
        return in_parts(given) if given.suffix in READ_HERE and given.suffix != ".gguf" and given.is_file() else weights
    is_folder = given.is_dir() and not any(Path(given, name).is_file() for name in OF_PROGRAM)
    has_others = is_folder and any(file.suffix in READ_HERE for file in given.iterdir())
    return read_model(given).folder(place) if has_others or (given.suffix in READ_HERE and given.is_file()) else weights


def weights_of(given: Path) -> Path:
    """The file of weights, or the index of its parts."""
    if not given.is_dir():
        if given.suffix in (".safetensors", ".npz", *READ_HERE):
            return given
        raise Error(f"{given} is no model: expected a folder, or a file .safetensors, .npz, {', '.join(READ_HERE)}")
    for name in (*OF_PROGRAM, "pytorch_model.bin", "pytorch_model.bin.index.json", "model.bin"):
        if Path(given, name).is_file():
            return Path(given, name)
    others = sorted(file for file in given.iterdir() if file.suffix in (".safetensors", *READ_HERE) and file.suffix != ".bin")
    if len(others) == 1:
        return others[0]
    if others:
        raise Error(f"{given} has {len(others)} files of weights, {', '.join(one.name for one in others[:6])}: name one of them")
    raise Error(f"{given} has no weights: expected model.safetensors, model.npz, pytorch_model.bin, or one file .gguf, .onnx, .pt or .pth")


def in_parts(weights: Path) -> Arrays:
    if weights.suffix != ".json":
        return guarded(weights, lambda: in_file(weights))
    parts = guarded(weights, lambda: sorted(set(json.loads(weights.read_text(encoding="utf-8"))["weight_map"].values())))
    found: Arrays = {}
    for part in parts:
        if not isinstance(part, str) or part != Path(part).name:
            raise Error(f"{weights} names the part {part!r}, expected a file beside it")
        found.update(guarded(Path(weights.parent, part), lambda: in_file(Path(weights.parent, part))))
    return found


def in_file(path: Path) -> Arrays:
    if path.suffix == ".safetensors":
        return safetensors_file(path)
    if path.suffix == ".npz":
        return npz_file(path)
    if path.suffix == ".onnx":
        from .onnx_models import onnx_file

        return onnx_file(path)
    state = torch_file(path)
    if isinstance(state, Mapping) and not any(hasattr(one, "shape") for one in state.values()):
        names = [name for name in STATES if isinstance(state.get(name), Mapping)]
        if len(names) != 1:
            found = ", ".join(map(str, list(state)[:8])) or "nothing"
            raise Error(f"{path} has {found}, expected tensors by name, or one of {', '.join(STATES)} that has them")
        state = state[names[0]]
    if not isinstance(state, Mapping):
        raise Error(f"{path} has a {type(state).__name__}, expected tensors by name")
    return dict(flat(state))
