"""From a module of PyTorch to a verdict."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attn_record

from .arrays import array_of
from .functions import check_function
from .program import Error, OwnFolder, call
from .report import Report, report_of
from .trace import Array, Trace


def check(model: Any, /, *arguments: Any, module: str | None = None, own: list[str] | None = None,
          backward: Callable[[Any], Any] | None = None, **named: Any) -> Report:
    """Calls a module of PyTorch, and says where it first differs from the reference of its own weights.

    The call is recorded: every tensor that your own code assigns, with file, line and variable, and what each module returns.
    The reference is computed from the module's state_dict, its options and the arguments of this call.

    arguments, named  of the call: check(model, x, attn_mask=m)
    module            the name of the part to check: "layers.0.self_attn"; the first that attn run knows unless given
    own               folders of your own code; unless given, all that is neither Python's nor an installed package, or the folder
                      of an installed model
    backward          the loss of what the call returns: where the forward pass is right, the gradients of its weights and arguments are
                      compared with those of the reference
    A function of your own, or a module of queries, keys and values, is checked by check(mine, "attention", causal=True): see
    check_function().

    raises            Error where nothing of the module is known, with what there is
    """
    if callable(model) and arguments and isinstance(arguments[0], str):
        for name, value in (("module", module), ("own", own)):
            if value is not None:
                raise Error(f"{name} has no effect where a function is checked")
        return check_function(model, *arguments, backward=backward, **named)
    if not hasattr(model, "state_dict") or not callable(model):
        raise Error(f"{type(model).__name__} is no module of PyTorch: run() and Trace.diff() compare arrays")
    folder = OwnFolder()
    own = own or folder_of_installed(model)
    recording = attn_record.to(str(Path(folder.name, "mine.npz")), reference=module or True, own=own, quiet=True)
    with recording:
        output = model(*arguments, **named)
    report = verdict_on(recording.commands, recording.lines, folder)
    if report and backward is not None:
        report = verdict_on_gradients(model, output, [*arguments, *named.values()], backward, Trace(report.reference, folder))
    if not report and getattr(model, "training", False):
        report.hint = "the module is in training mode, where dropout is on: call eval() first, if it should not be"
    return report


def verdict_on_gradients(model: Any, output: Any, arguments: Sequence[Any], loss: Callable[[Any], Any], reference: Trace) -> Report:
    """Compares what loss(output).backward() gives with the gradients of the reference, from the gradient of the result on."""
    result: Any = getattr(output, "logits", output[0] if isinstance(output, (tuple, list)) else output)
    if not getattr(result, "requires_grad", False):
        raise Error("nothing was recorded for a backward pass: is it inside torch.no_grad()?")
    result.retain_grad()
    inputs = [one for one in arguments if getattr(one, "requires_grad", False)]
    before = [(one, one.grad) for one in (*model.parameters(), *inputs)]
    try:
        for one, _ in before:
            one.grad = None
        loss(output).backward()
        seed = array_of("the gradient of the result", result.grad).reshape(reference["output"].shape)
        mine = {f"grad.{name}": weight.grad for name, weight in model.named_parameters() if weight.grad is not None}
        mine.update({f"grad.argument{i}": one.grad for i, one in enumerate(inputs) if one.grad is not None})
        gradients = reference.grad(seed=seed)
        expect_gradients(gradients, seed)
        return gradients.diff(mine)
    finally:
        for one, gradient in before:
            one.grad = gradient


def expect_gradients(gradients: Trace, seed: Array) -> None:
    """Where a loss does not depend on what a norm gets, such as the sum of its results or of their squares, nothing but roundings arrives."""
    sizes = [float(abs(gradients["grad." + name]).max()) for name, step in gradients.steps.items()
             if not step.formula and step.shape and "grad." + name in gradients]
    if sizes and sorted(sizes)[len(sizes) // 2] < 1e-12 * float(abs(seed).max()):
        raise Error("the gradient of this loss is zero for most weights, so that there is nothing to compare: the sum of what a norm "
                    "returns, and that of the squares, never change; take another, such as the sum of output times random numbers")


def folder_of_installed(model: Any) -> list[str] | None:
    """Where the code of a model of an installed package is, which is what is to be checked; None for one's own, and for PyTorch's."""
    name = type(model).__module__
    file = getattr(sys.modules.get(name), "__file__", None)
    is_installed = file and not name.startswith("torch.") and {"site-packages", "dist-packages"} & set(Path(file).parts)
    return [os.path.dirname(file)] if file and is_installed else None


def verdict_on(commands: Any, lines: Sequence[str], folder: OwnFolder) -> Report:
    """Computes the reference of a recording, and compares.

    commands  the words of the two commands that do so, as a recording has them; None where it found no reference
    lines     what the recording said, which has the reason
    """
    if commands is None:
        raise Error("\n".join(lines).replace(folder.name + os.sep, ""))
    run, diff = commands
    call(*run[1:])
    reference, mine, *flags = diff[2:]
    return report_of(reference, mine, *(flag for flag in flags if flag != "--diagnose"), keeps=[folder])
