"""From a module of PyTorch to a verdict."""

from __future__ import annotations

import json
import os
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attn_record
import numpy as np

from .functions import check_function
from .gradients import verdict_on_gradients
from .program import Error, OwnFolder, call
from .renaming import proposals
from .report import Report, report_of
from .trace import Array, Trace


def check(model: Any, /, *arguments: Any, module: str | None = None, own: list[str] | None = None,
          backward: Callable[[Any], Any] | None = None, reference: str | None = None, rename: Mapping[str, str] | None = None,
          ignore: Sequence[str] = (), options: Mapping[str, Any] | None = None, **named: Any) -> Report:
    """Calls a module of PyTorch, and says where it first differs from the reference of its own weights.

    The call is recorded: every tensor that your own code assigns, with file, line and variable, and what each module returns.
    The reference is computed from the module's state_dict, its options and the arguments of this call. All that the call returned
    is compared; the verdict is undecided where some of it is not.

    arguments, named  of the call: check(model, x, attn_mask=m). One that the reference can't be given is refused by its name
    module            the name of the part to check: "layers.0.self_attn"; the first that attn run knows unless given
    own               folders of your own code; unless given, all that is neither Python's nor an installed package, or the folder
                      of an installed model
    backward          the loss of what the call returns: where the forward pass is right, the gradients of its weights and arguments are
                      compared with those of the reference
    reference         what attn run calls the module, where its class and the names of its weights do not tell: "encoder-layer"
    rename            from names of its own to those of attn run: weights, {"blocks.*.wq.*": "layers.*.self_attn.q_proj.*"}, and
                      arguments, {"hidden": "x"}; "~mask" for a mask that is true where a query can't attend
    ignore            weights and arguments that change no result; * stands for others
    options           flags of attn run: {"heads": 2, "norm": "pre"}
    A function of your own, or a module of queries, keys and values, is checked by check(mine, "attention", causal=True): see
    check_function().

    raises            Error where nothing of the module is known, with what there is
    """
    if not callable(model):
        raise Error(f"{type(model).__name__} is no module of PyTorch: run() and Trace.diff() compare arrays")
    if arguments and isinstance(arguments[0], str):
        of_modules = dict(module=module, own=own, reference=reference, rename=rename, ignore=ignore, options=options)
        for name, value in of_modules.items():
            if value:
                raise Error(f"{name} is for modules, and has no effect on the check of a function")
        return check_function(model, *arguments, backward=backward, **named)
    if not hasattr(model, "state_dict"):
        raise Error(f"{type(model).__name__} is no module of PyTorch: run() and Trace.diff() compare arrays")
    folder = OwnFolder()
    wanted = attn_record.Wanted(module or True, reference, rename, ignore, options)
    recording = attn_record.to(str(Path(folder.name, "mine.npz")), reference=wanted, own=own or folder_of_installed(model), quiet=True)
    with recording:
        output = model(*arguments, **named)
    report = verdict_on(recording.recorder, folder)
    if report and backward is not None:
        checked = report.checked
        report = verdict_on_gradients(output, [*arguments, *named.values()], backward, recording.recorder.reference, Trace(report.reference, folder))
        report.checked = f"{checked}; its gradients"
    if not report and getattr(model, "training", False):
        report.hint = "the module is in training mode, where dropout is on: call eval() first, if it should not be"
    return report


def verdict_on(recorder: attn_record.Recorder, folder: OwnFolder) -> Report:
    """Computes the reference of a recording, and compares."""
    reference = recorder.reference
    if recorder.file.trouble:
        raise Error(f"nothing could be recorded: {recorder.file.trouble}")
    if reference is None or reference.commands is None:
        raise Error("\n".join(recorder.lines) if reference is None or reference.call is None else proposals(recorder))
    run, diff = reference.commands
    not_computed = [line.split(": ", 3)[3] for line in call(*run[1:]).stderr.splitlines() if "note: not computed: " in line]
    trace, mine, *flags = diff[2:]
    if reference.averages:
        rewrite(Path(trace), "steps.json", add_average_of_weights)
    parts = parts_of({name for note in not_computed for name in note.split(": ")[0].split(", ")}, reference.weights)
    if parts:
        rewrite(Path(mine), "attn_record.json", lambda arrays, listing: leave_out(parts, arrays, listing))
    report = report_of(trace, mine, *(flag for flag in flags if flag != "--diagnose"), keeps=[folder])
    report.checked = reference.checked()
    if report.verdict == "different" and only_padding_differs(recorder, trace, mine):
        report.verdict = "undecided"
        report.doubt("what was returned for tokens is right; that for padding before them differs, which can attend to nothing, so that "
                     "programs have there what they like")
    report.doubt(*missing_for_verdict(recorder, report, not_computed))
    return report


def missing_for_verdict(recorder: attn_record.Recorder, report: Report, not_computed: Sequence[str]) -> list[str]:
    """All that was returned has to be compared, and nothing lost."""
    reference, same = recorder.reference, {entry["name"]: entry.get("same_as", entry["name"]) for entry in recorder.file.arrays}
    known = {same[name] for name in report.computed()}
    missing = [name for name in recorder.results or () if same.get(name) not in known]
    reasons = list(recorder.lost)
    if not recorder.results:
        reasons.append(f"{type(reference.asked.module).__name__} returned no tensor, so that nothing is compared")
    elif missing and reference.asked is not reference.call:
        outer = type(reference.asked.module).__name__
        report.checked = f"{reference.checked()}; {outer}'s own result was not compared"
        reasons.append(f"{outer}'s own result, {', '.join(missing)}, was not compared, since attn run has no such module as far as can be "
                       f'told: reference="…" says which it is, or module="{reference.scope}" asks about that part alone')
    elif not reference.call.tensors() <= reference.asked.tensors():
        outer = type(reference.asked.module).__name__
        reasons.append(f"{reference.scope or reference.kind} is given what {outer} computed before, which was not compared: reference=\"…\" "
                       f'says which module {outer} is, or module="{reference.scope}" asks about that part alone')
    elif reference.asked is not reference.call and (unused := reference.unused()):
        reasons.append(f"{reference.checked()}, did not get the argument {', '.join(unused)}: what it does is not known; where it changes no "
                       f'result, say ignore=["{unused[0]}"]')
    elif missing:
        why = f" (attn run does not compute {'; '.join(not_computed)})" if not_computed else ""
        reasons.append(f"of what was returned {', '.join(missing)} was not compared{why}")
    return reasons


def only_padding_differs(recorder: attn_record.Recorder, reference: str, mine: str) -> bool:
    mask = recorder.reference.inputs.get("attention_mask")
    if mask is None or not recorder.results or not (np.diff(mask) > 0).any():
        return False
    with np.load(reference) as right, np.load(mine) as found:
        names = {alias["path"]: alias["target"] for alias in json.loads(right["steps.json"])["aliases"]}
        output, result = right[names.get("output", "output")], found[recorder.results[0]]
    is_token = mask.astype(bool)
    return output.shape == result.shape and np.allclose(result[is_token], output[is_token], 1e-3, 1e-4 * abs(output).max())


def rewrite(path: Path, member: str, change: Callable[[dict[str, Array], Any], None]) -> None:
    """Changes the arrays of a file, and the list of them."""
    with np.load(path) as file:
        arrays, listing = {name: file[name] for name in file.files if name != member}, json.loads(file[member])
    change(arrays, listing)
    np.savez(path, **arrays)
    with zipfile.ZipFile(path, "a") as members:
        members.writestr(member, json.dumps(listing))


def add_average_of_weights(arrays: dict[str, Array], listing: Any) -> None:
    """A step more: nn.MultiheadAttention returns the average of its heads' weights."""
    heads = [step for step in listing["steps"] if step["path"].startswith("head.") and step["path"].endswith(".weights")]
    names = [step["path"] for step in heads]
    listing["steps"].append({**heads[0], "path": "average_weights", "formula": f"({' + '.join(names)}) / {len(names)}"})
    arrays["average_weights"] = np.asarray(sum(arrays[name] for name in names) / len(names))


def parts_of(weights: set[str], among: Mapping[str, Array]) -> set[str]:
    """The modules that have these weights and no others: "pooler"."""
    found = set()
    for name in weights:
        words = name.split(".")
        prefixes = (".".join(words[:i]) + "." for i in range(1, len(words)))
        found.add(next((one for one in prefixes if all(other in weights for other in among if other.startswith(one))), name))
    return found


def leave_out(parts: set[str], arrays: dict[str, Array], listing: Any) -> None:
    """What a part computes that the reference does not have."""
    gone = {name for name in arrays if (name + ".").startswith(tuple(parts))}
    listing["arrays"] = [entry for entry in listing["arrays"] if entry["name"] not in gone]
    for name in gone:
        del arrays[name]


def folder_of_installed(model: Any) -> list[str] | None:
    """Where the code of a model of an installed package is, which is what is to be checked; None for one's own, and for PyTorch's."""
    name = type(model).__module__
    file = getattr(sys.modules.get(name), "__file__", None)
    is_installed = file and not name.startswith("torch.") and {"site-packages", "dist-packages"} & set(Path(file).parts)
    return [os.path.dirname(file)] if file and is_installed else None
