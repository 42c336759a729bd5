"""The gradients of a module of PyTorch, beside those of its reference."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import attn_record
import numpy as np
from attn_record.asked import numbers_of
from attn_record.references import weights_of

from .arrays import array_of
from .program import Error, OwnFolder, call
from .report import Report
from .trace import Array, Trace


def verdict_on_gradients(output: Any, arguments: Sequence[Any], loss: Callable[[Any], Any], reference: Any, trace: Trace) -> Report:
    """Compares what loss(output).backward() gives with the gradients of the reference, from the gradient of the result on.

    reference  of the recording; trace is what it computed
    """
    results = {id(one): one for _, one in attn_record.results_in(output) if getattr(one, "requires_grad", False)}
    if not results:
        raise Error("nothing was recorded for a backward pass: is it inside torch.no_grad()?")
    first = next(iter(results.values()))
    first.retain_grad()
    weights = Weights.of(reference)
    inputs = {f"argument{i}": one for i, one in enumerate(arguments) if getattr(one, "requires_grad", False)}
    before = [(one, one.grad) for one in (*weights.trained(), *inputs.values())]
    try:
        value = loss(output)
        backward_through(first, value, [one for one, _ in before])
        if first.grad is None:
            raise Error("the loss does not use the result: its gradient is None")
        seed = array_of("the gradient of the result", first.grad).reshape(trace["output"].shape)
        gradients = trace.grad(seed=seed)
        expect_gradients(gradients, seed)
        parts = list(weights.gradients(places_in(trace, reference, weights), gradients))
        mine = {part.name: part.gradient for part in parts}
        for name, one in inputs.items():
            mine.setdefault(f"grad.{name_of_input(name, one, reference.inputs)}", gradient_of(one))
        report = gradients.diff(mine, map=[f"{part.name}={part.step}" for part in parts if part.step])
        missing = [name for name in mine if name not in report.computed()]
        report.doubt(*[f"the gradients {', '.join(missing)} were not compared"] if missing else ())
        return report
    finally:
        for one, gradient in before:
            one.grad = gradient


@dataclass(frozen=True)
class Part:
    """The gradient of a weight, or of that part of it that is a step of the reference; None where that is not known."""

    name: str
    gradient: Any
    step: str | None = None


COUNT = 2.0 ** -40  # weights that are counted are fractions: what is added as they are read, such as 1 to the gain of a norm, is whole


class Weights:
    """The weights of a module in one row, in which each number has its place; those that are tied have one."""

    def __init__(self, reference: Any, tensors: Mapping[str, Any]):
        self.reference = reference
        self.names: dict[str, str] = {}  # from each name to the first of those that are tied
        self.tensors: dict[str, Any] = {}
        self.begins: dict[str, int] = {}
        firsts: dict[tuple[int, tuple[int, ...]], str] = {}
        self.size = 1  # nothing is counted as 0
        for name, tensor in tensors.items():
            first = firsts.setdefault((tensor.data_ptr() or id(tensor), tuple(tensor.shape)), name)
            self.names[name] = first
            if first == name:
                self.tensors[name], self.begins[name] = tensor, self.size
                self.size += tensor.numel()

    @classmethod
    def of(cls, reference: Any) -> Weights:
        return cls(reference, dict(reference.call.module.state_dict(keep_vars=True)))

    def trained(self) -> list[Any]:
        return [one for name, one in self.tensors.items() if one.requires_grad and not self.reference.wanted.ignores(name)]

    def row(self, value_of: Callable[[str, Any], Any], nothing: Any) -> Array:
        return np.concatenate([[nothing], *(np.ravel(value_of(name, one)) for name, one in self.tensors.items())])

    def counted(self) -> dict[str, Array]:
        """Each number is its place, as a fraction; under the names, and in the tensors, that attn reads."""
        import torch

        tensors = {name: torch.arange(self.begins[name], self.begins[name] + one.numel(), dtype=torch.float64).reshape(one.shape) * COUNT
                   for name, one in self.tensors.items()}
        named = {name: tensors[first] for name, first in self.names.items()}
        return self.reference.as_attn_reads(weights_of(self.reference.call.module, named))

    def gradients(self, places: Mapping[str, Array], right: Trace) -> Iterator[Part]:
        """places: in this row, of the numbers of each step that is a weight"""
        trained = {name: one for name, one in self.tensors.items() if one.requires_grad and not self.reference.wanted.ignores(name)}
        row = self.row(lambda name, one: array_of(name, gradient_of(one)) if name in trained else numbers_of(one), 0.0)
        is_trained = self.row(lambda name, one: np.full(one.shape, name in trained), False)
        is_padding = self.row(self.padding, False)
        owner = self.row(lambda name, one: np.full(one.shape, list(self.tensors).index(name)), -1)
        names = list(self.tensors)
        found: dict[str, list[tuple[str, Array]]] = {}
        for step, at in places.items():
            if is_trained[at].all() and "grad." + step in right:
                gradient = np.where(is_padding[at], right["grad." + step], row[at])
                found.setdefault("+".join(names[i] for i in np.unique(owner[at])), []).append((step, gradient))
        covered = np.isin(np.arange(self.size), np.concatenate([[0], *map(np.ravel, places.values())]))
        for name, several in found.items():
            for i, (step, gradient) in enumerate(several, 1):
                yield Part(f"grad.{name}" + (f" part {i}" if len(several) > 1 else ""), gradient, "grad." + step)
        for name, one in trained.items():
            begin = self.begins[name]
            if not covered[begin:begin + one.numel()].all():
                yield Part(f"grad.{name}", gradient_of(one))

    def padding(self, name: str, tensor: Any) -> Array:
        """The row of padding_idx of an nn.Embedding, which gets no gradient from PyTorch, and is meant to get none."""
        found = np.zeros(tensor.shape, bool)
        part = self.reference.call.module.get_submodule(name.rpartition(".")[0])
        if getattr(part, "padding_idx", None) is not None:
            found[part.padding_idx] = True
        return found


def places_in(trace: Trace, reference: Any, weights: Weights) -> dict[str, Array]:
    """Where each weight of the reference stands in the row of weights: as it is read, what is packed is taken apart.

    A run on weights that are counted says so, and one on its own weights proves it.
    """
    folder = OwnFolder()
    words, path = reference.run_with(weights.counted(), str(Path(folder.name, "counted")))
    call(*words[1:])
    counted = Trace(path, folder)
    row = weights.row(lambda _, one: numbers_of(one), np.nan)
    found = {}
    for name, step in trace.steps.items():
        if step.formula or not step.shape or trace[name].dtype.kind != "f":
            continue
        added = np.floor(counted[name])
        places = (counted[name] - added) / COUNT
        at = places.astype(int)
        if at.size and (at == places).all() and at.min() > 0 and at.max() < weights.size and np.array_equal(trace[name], added + row[at]):
            found[name] = at
    return found


def backward_through(result: Any, loss: Any, leaves: Sequence[Any]) -> None:
    """The gradients of a loss, which has to depend on the leaves through the result alone."""
    for is_blocked in (True, False):
        for one in (result, *leaves):
            one.grad = None
        stop = result.register_hook(lambda gradient: gradient.new_zeros(gradient.shape)) if is_blocked else None
        loss.backward(retain_graph=is_blocked)
        if stop:
            stop.remove()
            if any(one.grad is not None and bool(one.grad.any()) for one in leaves):
                raise Error("the loss uses more than the first result, whose gradients alone are compared: take a loss of that one alone")


def gradient_of(tensor: Any) -> Any:
    """None where the loss does not depend on it, as far as PyTorch knows: it is zero."""
    return tensor.grad if tensor.grad is not None else tensor.detach() * 0


def name_of_input(name: str, tensor: Any, inputs: Mapping[str, Array]) -> str:
    """What the reference calls an argument."""
    array = array_of(name, tensor)
    return next((one for one, given in inputs.items() if given is not None and np.array_equal(given, array)), name)


def expect_gradients(gradients: Trace, seed: Array) -> None:
    """Where a loss does not depend on what a norm gets, such as the sum of its results or of their squares, nothing but roundings arrives."""
    sizes = [float(abs(gradients["grad." + name]).max()) for name, step in gradients.steps.items()
             if not step.formula and step.shape and "grad." + name in gradients]
    if sizes and sorted(sizes)[len(sizes) // 2] < 1e-12 * float(abs(seed).max()):
        raise Error("the gradient of this loss is zero for most weights, so that there is nothing to compare: the sum of what a norm "
                    "returns, and that of the squares, never change; take another, such as the sum of output times random numbers")
