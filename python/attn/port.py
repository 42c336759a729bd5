"""A port of a published model, judged from its tokens and its last logits."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .arrays import array_of, write_arrays
from .formats import Array, Arrays, Model, guarded, library, of_bfloat16, read_dump, read_model
from .program import Error, OwnFolder, call
from .report import Report
from .trace import Trace, run

TYPES = ("float64", "float32", "bfloat16", "float16")


# ---------------------------------------------------------------------------------------- weights that are rounded


def to_float16(array: Array) -> Array:
    with np.errstate(over="ignore"):
        return array.astype(np.float16).astype(np.float32)


def to_bfloat16(array: Array) -> Array:
    bits = array.astype(np.float32).view(np.uint32).astype(np.uint64)
    rounded = np.where(np.isnan(array), bits, bits + 0x7FFF + ((bits >> 16) & 1))
    return of_bfloat16((rounded >> 16).astype("<u2").tobytes()).reshape(array.shape)


def to_q8_0(array: Array) -> Array:
    """ggml's: 32 numbers of a row share a scale in float16, and are whole numbers of it up to 127."""
    if array.shape[-1] % 32:
        return array
    blocks = array.astype(np.float32).reshape(-1, 32)
    scale = abs(blocks).max(-1, keepdims=True) / np.float32(127)
    with np.errstate(divide="ignore", invalid="ignore"):
        times = blocks * np.where(scale == 0, 0, 1 / scale)
    whole = np.sign(times) * np.floor(abs(times) + np.float32(0.5))
    return (whole * to_float16(scale)).reshape(array.shape)


def to_blocks(kind: str) -> Callable[[Array], Array]:
    """Another of ggml's types, by its library."""
    def rounded(array: Array) -> Array:
        gguf = library("gguf", Path(f"weights in {kind}"))
        form = gguf.GGMLQuantizationType[kind.upper()]
        if array.shape[-1] % gguf.GGML_QUANT_SIZES[form][0]:
            return array
        return np.asarray(gguf.quants.dequantize(gguf.quants.quantize(array.astype(np.float32), form), form))

    return rounded


@dataclass(frozen=True)
class Rounding:
    """What an engine can have made of the weights before it computed."""

    text: str
    of: Callable[[Array], Array] | None = None
    only_matrices: bool = False  # norms and biases stay

    def __call__(self, weights: Arrays) -> Arrays:
        if self.of is None:
            return weights
        least = 2 if self.only_matrices else 1
        return {name: self.of(array) if array.dtype.kind == "f" and array.ndim >= least else array for name, array in weights.items()}


AS_THEY_LIE = Rounding("as they lie")
ROUNDINGS = {
    "float16": (Rounding("rounded to float16", to_float16), Rounding("rounded to float16, but for norms and biases", to_float16, True)),
    "bfloat16": (Rounding("rounded to bfloat16", to_bfloat16), Rounding("rounded to bfloat16, but for norms and biases", to_bfloat16, True)),
    "q8_0": (Rounding("with their matrices rounded to q8_0", to_q8_0, True),),
    **{kind: (Rounding(f"with their matrices rounded to {kind}", to_blocks(kind), True),) for kind in ("q5_1", "q5_0", "q4_1", "q4_0")},
}
TRIED = ("float16", "bfloat16", "q8_0")  # unless the caller says
MINE = "mine.npz"


# ------------------------------------------------------------------------------------------------------ the verdict


class PortReport(Report):
    """The verdict on a port. Besides what a Report has:

    assumed    what the reference was computed from, and as what MINE was compared: "weights rounded to bfloat16; computed in float32"
    dump_next  steps to save and give as dump, where no mistake is named or the verdict is undecided
    """

    assumed: str
    dump_next: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"assumed: {self.assumed}\n"]
        if self.dump_next:
            lines.append(f"to decide, dump {', '.join(self.dump_next)}: --dump FILE\n")
        return super().__str__() + "".join(lines)

    def as_json(self) -> str:
        return json.dumps({**self.json, "assumed": self.assumed, "dump_next": self.dump_next}, indent=1) + "\n"


class Trial:
    """A reference of the weights after a rounding, and how far its logits are from the port's."""

    def __init__(self, model: Model, weights: Arrays | None, rounding: Rounding, ids: Array, logits: Array):
        self.rounding, self._folder = rounding, OwnFolder()
        place = Path(self._folder.name, "model")
        only_last = {"logits_to_keep": 1} if logits.ndim == 1 else {}
        self.trace: Trace = run("model", model.folder(place) if weights is None else model.write(place, weights), ids=ids, **only_last)
        right = self.trace["output"]
        expect_logits(logits, right)
        right = right.reshape(-1, right.shape[-1])[-len(logits.reshape(-1, right.shape[-1])):]
        with np.errstate(all="ignore"):
            self.off = float(np.sqrt(np.mean((logits.reshape(right.shape) - right) ** 2) / np.mean(right**2)))

    def diff(self, folder: OwnFolder, *flags: str) -> PortReport:
        mine, as_json = Path(folder.name, MINE), Path(folder.name, "verdict.json")
        text = call("diff", self.trace.path, mine, "--diagnose", "--json-file", as_json, *flags, passing=(0, 1)).stdout
        return PortReport(as_json.read_text(encoding="utf-8"), text, self.trace.path, mine, [self, folder])


def expect_logits(logits: Array, right: Array) -> None:
    if logits.size not in (right.size, right.shape[-1]):
        raise Error(f"the logits are {logits.shape}, expected {right.shape[-1:]}, those of the last token, or {right.shape}, those of all")


def trials(model: Model, named: Sequence[str], ids: Array, logits: Array) -> Iterator[Trial]:
    """The reference of the weights as they lie, and those of the roundings that change them."""
    if AS_THEY_LIE.text in named:
        yield Trial(model, None, AS_THEY_LIE, ids, logits)
    kinds = [kind for kind in named if kind != AS_THEY_LIE.text]
    weights = model.read() if kinds else {}
    for later in (False, True):  # those that are likelier first
        for rounding in (one for kind in kinds for one in ROUNDINGS[kind][int(later):int(later) + 1]):
            rounded = rounding(weights)
            if named[0] != AS_THEY_LIE.text or any(not np.array_equal(rounded[name], array) for name, array in weights.items()):
                yield Trial(model, rounded, rounding, ids, logits)


def type_of(logits: Array) -> str:
    """The shortest that has all of these numbers."""
    finite = logits[np.isfinite(logits)]
    exact = {"float16": to_float16, "bfloat16": to_bfloat16, "float32": lambda array: array.astype(np.float32)}
    return next((name for name, rounded in exact.items() if np.array_equal(rounded(finite), finite)), "float64")


def check_port(model: str | os.PathLike[str], ids: Any, logits: Any, *, dump: Any = None, type: str | None = None,
               weights: str | None = None, names: str | None = None, shape: tuple[int, ...] | None = None, dtype: str | None = None) -> PortReport:
    """Says whether a port of a published model gives the right logits, or which well-known mistake gives those that it has.

    The model is computed from its own weights; where its logits are not the port's, the mistakes are made in it, with the weights as
    they lie and as an engine can have rounded them, until one gives the port's numbers.

    model    the model's folder, with config.json and weights; or a file .gguf, or .onnx beside a config.json
    ids      of the tokens, (n)
    logits   of the last token, (vocabulary); or of all, (n, vocabulary): an array, or a file of any format that read_dump() knows
    dump     more of what the port computed: arrays by name, or a file or folder; names are found by their numbers
    type     that the port computes in; found from its numbers unless given
    weights  what the port has made of the weights, "as they lie" or "float16", "bfloat16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0"; unless
             given, the first four are tried
    names    of a well-known program, whose names the dump has: "ggml", "llama", "mlx", "candle", …
    shape, dtype  of logits in a file of numbers alone
    raises   Error where the model, the tokens or the logits can't be used
    """
    if type not in (None, *TYPES):
        raise Error(f"type is {type!r}, expected {', '.join(TYPES)}")
    if weights not in (None, AS_THEY_LIE.text, *ROUNDINGS):
        raise Error(f"weights is {weights!r}, expected {AS_THEY_LIE.text}, {', '.join(ROUNDINGS)}")
    tokens, last = ids_of(ids), logits_of(logits, shape, dtype)
    source, folder = read_model(model), OwnFolder()
    write_arrays(Path(folder.name, MINE), {**dump_of(dump), "logits": last})
    named = [weights] if weights else [AS_THEY_LIE.text, *TRIED]
    found = Search(source, named, tokens, last, folder, type, ["--names", names] if names else []).report()
    found.checked = f"the logits of {'all' if last.ndim == 2 and len(last) == len(tokens) else 'the last'} of {len(tokens)} tokens" + \
        (", and the dump" if dump is not None else "")
    return found


class Search:
    """From references to a verdict."""

    def __init__(self, model: Model, named: Sequence[str], ids: Array, logits: Array, folder: OwnFolder, type: str | None, flags: list[str]):
        self.model, self.folder, self.flags = model, folder, flags
        self.type = type or type_of(logits)
        self.is_given = type is not None
        self.trials = trials(model, named, ids, logits)
        self.tried = [next(self.trials)]

    def report(self) -> PortReport:
        typed, undecided = [*self.flags, "--type", self.type], None
        # Most mistakes are made in the same way in all layers, and are found at once; in some layers they are looked for where none
        # was. And most ports have the weights as they lie: others are made where that doesn't explain the logits.
        everywhere = [*typed, "--everywhere"]
        first = self.tried[0]
        of_first = found = first.diff(self.folder, *everywhere)
        if found.ok or found.mistakes:
            return self.shown(found, first)
        order = self.in_order()
        for flags in (everywhere, typed):
            for trial in order:
                found = of_first if flags is everywhere and trial is first else trial.diff(self.folder, *flags)
                if found.ok or found.mistakes:
                    return self.shown(found, trial)
                if found.verdict == "undecided" and undecided is None:
                    undecided = (found, trial)
            if undecided:
                return self.shown(*undecided)
        return self.shown(found if self.is_given else order[0].diff(self.folder, *self.flags), order[0])

    def in_order(self) -> list[Trial]:
        """All of them; the nearest first where it is much nearer."""
        while self.tried[-1].off >= 1e-6 and (trial := next(self.trials, None)):
            self.tried.append(trial)
        nearest = min(self.tried, key=lambda trial: trial.off if np.isfinite(trial.off) else np.inf)
        return sorted(self.tried, key=lambda trial: trial is not nearest) if nearest.off < 0.1 * self.tried[0].off else self.tried

    def shown(self, report: PortReport, trial: Trial) -> PortReport:
        """With what it rests on."""
        tried = [one.rounding.text for one in self.tried]
        report.assumed = "; ".join([*self.model.said, f"weights {trial.rounding.text}", f"computed in {report.type}"])
        if not report.ok and not report.mistakes and len(tried) > 1:
            report.assumed += f" (tried: {', '.join(tried)})"
        report.dump_next = () if report.ok or report.mistakes else steps_to_dump(report, trial.trace)
        return report


def steps_to_dump(report: PortReport, trace: Trace) -> tuple[str, ...]:
    """Those that the program asks for; else of each layer what comes out of it, so that the first wrong one is known."""
    wished = (report.json.get("power") or {}).get("save") or []
    layers = [name for name in trace.steps if name.startswith("layers.") and name.count(".") == 2 and name.endswith(".output")]
    compared = {step["step"] for step in report.json["steps"]}
    return tuple(name for name in wished or ["embedded", *layers] if name in trace and name not in compared)[:8]


def ids_of(ids: Any) -> Array:
    array = np.asarray(next(iter(read_dump(ids).values())) if isinstance(ids, (str, os.PathLike)) else array_of("ids", ids))
    if array.ndim == 2 and len(array) == 1:
        array = array[0]
    if array.ndim != 1 or not array.size or not np.array_equal(array, array.astype(np.int64)):
        raise Error(f"ids are {array.shape} of {array.dtype}, expected whole numbers (n,), one sequence")
    return array.astype(np.int64)


def logits_of(logits: Any, shape: tuple[int, ...] | None, dtype: str | None) -> Array:
    if isinstance(logits, (str, os.PathLike)):
        arrays = read_dump(logits, shape, dtype)
        if "log_probs" in arrays and "logits" not in arrays:
            raise Error(f"{logits} has log-probabilities, which are logits less another number in each row, and no mistake is known by them; "
                        "llama.cpp's logits program saves logits")
        names = [name for name in ("logits", "output", "result_output", "lm_head") if name in arrays] or list(arrays)
        if len(names) > 1 and not {"logits", "output"} & set(names[:1]):
            raise Error(f"{logits} has {len(names)} arrays, {', '.join(names[:6])}; expected one, or one that is called logits")
        logits = arrays[names[0]]
    elif shape or dtype:
        raise Error("shape and dtype have no effect on logits that are no file of numbers alone")
    array = array_of("logits", logits)
    while array.ndim > 1 and len(array) == 1:
        array = array[0]
    if array.ndim not in (1, 2) or array.dtype.kind != "f" or not array.size:
        raise Error(f"the logits are {array.shape} of {array.dtype}, expected real numbers (vocabulary,), of the last token, or (n, vocabulary)")
    return array


def dump_of(dump: Any) -> Mapping[str, Any]:
    if dump is None:
        return {}
    arrays: Mapping[str, Any] = read_dump(dump) if isinstance(dump, (str, os.PathLike)) else dump
    if not isinstance(arrays, Mapping):
        raise Error(f"the dump is of the type {arrays.__class__.__name__}, expected arrays by name, or a path")
    return {name: array for name, array in arrays.items() if name != "logits"}


# -------------------------------------------------------------------------------------------------- the command line


def main(words: list[str]) -> int:
    """@return the exit code: 0 the same, 1 different or undecided, 2 wrong usage or unusable input"""
    parser = argparse.ArgumentParser(prog="attn port", description="Says from its tokens and its last logits whether a port of a published "
                                     "model is right, or which well-known mistake gives its numbers.")
    parser.add_argument("--model", required=True, metavar="FOLDER", help="with config.json and weights, as they were published; or a file .gguf or .onnx")
    parser.add_argument("--tokens", required=True, metavar="IDS", help="the ids of the tokens, 1,15043,3186; or a file of them")
    parser.add_argument("--logits", required=True, metavar="FILE", help="of the last token, or of all: .npy, .npz, .safetensors, .pt, .txt, or "
                        "numbers alone, .bin")
    parser.add_argument("--dump", metavar="PATH", help="more of what the port computed: a file, or a folder of files")
    parser.add_argument("--names", metavar="PROGRAM", help="the dump has the names of a well-known program: ggml, llama, mlx, candle, …")
    parser.add_argument("--type", choices=TYPES, help="that the port computes in (default: found from its numbers)")
    parser.add_argument("--weights", metavar="TYPE", choices=[AS_THEY_LIE.text, *ROUNDINGS], help="what the port makes of the weights: "
                        f"{', '.join(ROUNDINGS)} (default: as they lie, {', '.join(TRIED)} are tried)")
    parser.add_argument("--shape", type=lambda text: tuple(map(int, text.split(","))), metavar="N,M", help="of logits in a file of numbers alone")
    parser.add_argument("--dtype", help="of the same: float32 unless given")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args(words)
    try:
        ids = given.tokens if Path(given.tokens).is_file() else tokens_of(given.tokens)
        report = check_port(given.model, ids, given.logits, dump=given.dump, type=given.type, weights=given.weights, names=given.names,
                            shape=given.shape, dtype=given.dtype)
    except Error as error:
        print(f"attn port: {error}", file=sys.stderr)
        return 2
    print(report.as_json() if given.json else report, end="")
    return 0 if report.ok else 1


def tokens_of(text: str) -> list[int]:
    try:
        return [int(word) for word in text.replace(",", " ").split()]
    except ValueError:
        raise Error(f"--tokens {text[:60]}: expected whole numbers, 1,15043,3186, or a file") from None
