"""From a module of PyTorch to a verdict."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attn_record

from .functions import check_function
from .program import Error, OwnFolder, call
from .report import Report, report_of


def check(model: Any, /, *arguments: Any, module: str | None = None, own: list[str] | None = None, **named: Any) -> Report:
    """Calls a module of PyTorch, and says where it first differs from the reference of its own weights.

    The call is recorded: every tensor that your own code assigns, with file, line and variable, and what each module returns.
    The reference is computed from the module's state_dict, its options and the arguments of this call.

    arguments, named  of the call: check(model, x, attn_mask=m)
    module            the name of the part to check: "layers.0.self_attn"; the first that attn run knows unless given
    own               folders of your own code; unless given, all that is neither Python's nor an installed package, or the folder
                      of an installed model
    A function of your own is checked by check(mine, "attention", causal=True): see check_function().

    raises            Error where nothing of the module is known, with what there is
    """
    if not hasattr(model, "state_dict") and callable(model) and arguments and isinstance(arguments[0], str):
        return check_function(model, *arguments, **named)
    if not hasattr(model, "state_dict") or not callable(model):
        raise Error(f"{type(model).__name__} is no module of PyTorch: run() and Trace.diff() compare arrays")
    folder = OwnFolder()
    own = own or folder_of_installed(model)
    recording = attn_record.to(str(Path(folder.name, "mine.npz")), reference=module or True, own=own, quiet=True)
    with recording:
        model(*arguments, **named)
    report = verdict_on(recording.commands, recording.lines, folder)
    if not report and getattr(model, "training", False):
        report.hint = "the module is in training mode, where dropout is on: call eval() first, if it should not be"
    return report


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
        raise Error("\n".join(lines))
    run, diff = commands
    call(*run[1:])
    reference, mine, *flags = diff[2:]
    return report_of(reference, mine, *(flag for flag in flags if flag != "--diagnose"), keeps=[folder])
