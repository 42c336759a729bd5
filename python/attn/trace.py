"""A run, and every tensor in it."""

from __future__ import annotations

import html
import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .arrays import MOST_NUMBERS, array_and_flag, weights_in, write_arrays
from .formats import as_program_reads, is_read_by_program, read_dump
from .program import Error, OwnFolder, call, flags_of, plain_word
from .report import Report, report_of

Array = np.ndarray[Any, Any] if TYPE_CHECKING else np.ndarray  # which NumPy knows from 1.22 on


@dataclass(frozen=True)
class Step:
    """How a tensor follows from earlier ones. An input has no formula."""

    name: str
    formula: str
    shape: tuple[int, ...]
    axes: tuple[str, ...]  # a letter or a word each: "n", "d_k"
    module: str
    options: Mapping[str, str]


@dataclass(frozen=True)
class Verified:
    """Whether every step follows from its formula, and what the program said."""

    ok: bool
    text: str

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        return self.text


class Shown:
    """A text that a notebook shows."""

    def __init__(self, text: str):
        self.text = text

    def save(self, path: str | os.PathLike[str]) -> None:
        Path(path).write_text(self.text, encoding="utf-8")


class Page(Shown):
    """HTML."""

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{html.escape(self.text, quote=True)}" width="100%" height="700" style="border:0"></iframe>'


class Picture(Shown):
    """SVG."""

    def _repr_svg_(self) -> str:
        return self.text


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """raises  Error in place of whatever NumPy, zipfile and json raise where a file is damaged"""
    try:
        yield
    except Exception as error:
        raise Error(f"{path} is no trace, or damaged: {type(error).__name__}: {str(error) or 'it does not fit into memory'}") from None


def member(path: Path, name: str) -> Any:
    """An array of an .npz file, or a text, whose size is looked at before it is unpacked."""
    with open(path, "rb") as raw, np.load(raw) as file:
        sizes = {info.filename: info.file_size for info in file.zip.infolist()}
        if max(sizes.get(name, 0), sizes.get(name + ".npy", 0)) > 8 * MOST_NUMBERS + 1024:
            raise ValueError(f"{name} has more than {MOST_NUMBERS} numbers")
        return file[name]


class Trace(Mapping[str, Array]):
    """The arrays of a run by name, in the order in which they were computed; an alias is a name, too."""

    def __init__(self, path: str | os.PathLike[str], folder: OwnFolder | None = None):
        """folder: that the file is in, which is deleted with this object"""
        self.path = Path(path)
        self._folder = folder
        with reading(self.path):
            listing = json.loads(member(self.path, "steps.json"))
            self._steps = {step["path"]: step for step in listing["steps"]}
            self._aliases: dict[str, str] = {alias["path"]: alias["target"] for alias in listing["aliases"]}
        self._arrays: dict[str, Array] = {}

    def __getitem__(self, name: str) -> Array:
        name = self._aliases.get(name, name)
        if name not in self._steps:
            raise KeyError(name)
        if name not in self._arrays:
            with reading(self.path):
                self._arrays[name] = member(self.path, name)
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        yield from self._steps
        yield from self._aliases

    def __len__(self) -> int:
        return len(self._steps) + len(self._aliases)

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    def __repr__(self) -> str:
        return f"<attn.Trace: {len(self._steps)} steps>"

    @cached_property
    def steps(self) -> Mapping[str, Step]:
        """By name; an alias is none of them, see aliases."""
        with reading(self.path):
            return {name: Step(name, step["formula"], tuple(step["shape"]), tuple(step["axes"]), step["module"], step["options"])
                    for name, step in self._steps.items()}

    @property
    def aliases(self) -> Mapping[str, str]:
        """Other names, and the steps that they are."""
        return dict(self._aliases)

    def explain(self, cell: str) -> str:
        """The arithmetic of one number: explain("weights[2,1]")."""
        return call("explain", self.path, plain_word("the cell", cell)).stdout.rstrip("\n")

    def verify(self) -> Verified:
        """Computes every step again from its formula."""
        ended = call("verify", self.path, passing=(0, 1))
        return Verified(ended.returncode == 0, (ended.stdout + ended.stderr).rstrip("\n"))

    def grad(self, of: str | None = None, seed: Any = None) -> Trace:
        """This trace with its gradients after it: that of the step "x" is "grad.x".

        of    a step or some of its numbers, "logits[-1,42]", whose sum is derived; the output unless given
        seed  of that step's shape: its own gradient, such as that of a loss; 1 everywhere unless given
        """
        folder = OwnFolder()
        words = [] if of is None else ["--of", of]
        if seed is not None:
            write_arrays(Path(folder.name, "seed.npz"), {"seed": seed})
            words += ["--seed", str(Path(folder.name, "seed.npz"))]
        path = Path(folder.name, "grad.npz")
        call("grad", self.path, *words, "-o", path)
        return Trace(path, folder)

    def diff(self, mine: Any, **options: Any) -> Report:
        """Compares yours with this reference, and names the first step that is wrong and the mistake in it.

        mine     arrays by name, one array (the result), a trace, or the path of what read_dump() knows: .npz, a folder of .npy, .pt, …
        options  flags of attn diff: map=["att=weights"], atol=1e-3
        raises   Error where nothing can be compared
        """
        if isinstance(mine, Trace):
            return report_of(self.path, mine.path, *flags_of(options), keeps=[self, mine])
        if isinstance(mine, (str, os.PathLike)) and not is_read_by_program(mine):
            mine = read_dump(mine)
        if isinstance(mine, (str, os.PathLike)):
            return report_of(self.path, os.fspath(mine), *flags_of(options), keeps=[self])
        folder = OwnFolder()
        path = Path(folder.name, "mine.npz")
        write_arrays(path, mine if isinstance(mine, Mapping) else {"output": mine})
        return report_of(self.path, path, *flags_of(options), keeps=[self, folder])

    def view(self) -> Page:
        """Every step as a heatmap, and the arithmetic of each number."""
        return Page(self._made("view", "page.html"))

    def graph(self, **options: Any) -> Picture:
        """Which step uses which. It needs Graphviz."""
        return Picture(self._made("graph", "graph.svg", *flags_of(options)))

    def _made(self, command: str, name: str, *words: str) -> str:
        with OwnFolder() as folder:
            call(command, self.path, "-o", Path(folder, name), *words)
            return Path(folder, name).read_text(encoding="utf-8")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the .npz file that attn's commands read."""
        target = os.path.realpath(path)  # a link stays, and leads to the new file
        try:
            if os.path.exists(target) and not os.path.isfile(target):  # a device, or a folder
                shutil.copyfile(self.path, target)
                return
            with tempfile.TemporaryDirectory(prefix=".attn-", dir=os.path.dirname(target)) as beside:
                os.replace(shutil.copyfile(self.path, os.path.join(beside, "trace.npz")), target)
        except OSError as error:
            raise Error(f"{os.fspath(path)} can't be written: {error.strerror or error}") from None


def load(path: str | os.PathLike[str]) -> Trace:
    """The trace of a file that --trace wrote."""
    return Trace(path)


def with_step(trace: Trace, name: str, formula: str, array: Array) -> Trace:
    """A trace with one more step at its end."""
    folder = OwnFolder()
    path = Path(folder.name, "trace.npz")
    with np.load(trace.path) as file:
        arrays = {member: file[member] for member in file.files if member != "steps.json"}
        listing = json.loads(file["steps.json"])
    listing["steps"].append({"path": name, "formula": formula, "shape": list(array.shape)})
    np.savez(path, **arrays, **{name: array})
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("steps.json", json.dumps(listing))
    return Trace(path, folder)


def run(module: str, weights: Any = None, **arguments: Any) -> Trace:
    """Computes a module of attn run, every step of it, in float64.

    module     "attention", "encoder-layer", "model", …: attn run --help lists them, attn run MODULE --help what each takes
    weights    a state_dict, a module of PyTorch that has one, or the path of a .safetensors, .npz or .pt file, of "model" the folder, or a .gguf file
    arguments  arrays are its inputs, x=x; numbers, words and truths are its flags, heads=2, mask="causal"; what is both an input
               and a flag is a pair of them, mask=(allowed, "causal")
    raises     Error where the program refuses, in its words
    """
    folder = OwnFolder()
    both = {name: array_and_flag(value) for name, value in arguments.items()}
    inputs = {name: array for name, (array, _) in both.items() if array is not None}
    options = {name: flag for name, (_, flag) in both.items()}
    given, trace = Path(folder.name, "input.npz"), Path(folder.name, "trace.npz")
    write_arrays(given, inputs)
    where = weights_in(as_program_reads(weights, module, Path(folder.name, "model")), Path(folder.name))
    words = [] if where is None else ["--weights", where]
    call("run", plain_word("the module", module), "--input", given, *words, *flags_of(options), "--quiet", "--trace", trace)
    return Trace(trace, folder)


def pitfalls() -> list[Mapping[str, Any]]:
    """The list of well-known mistakes: id, sentence, why, where it was seen, and what it makes of which step."""
    found: list[Mapping[str, Any]] = json.loads(call("pitfalls", "--json").stdout)
    return found
