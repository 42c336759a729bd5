"""Asks attn where a backward pass that was written by hand goes wrong, and by which mistake.

    python3 backward_passes.py ATTN [PROGRAM]

The programs are those of backward_programs.py, in plain NumPy; the references are `attn run` and `attn grad` of the same numbers.
Right programs have to be called the same, in float64 and float32, from all gradients and from those of the inputs and weights
alone. With a mistake in its code, the first
wrong gradient has to be the variable in which the mistake was made, and the mistake has to be named; from the final gradients
alone, an array that really is wrong, and the name.

A line a mistake, and a table at the end; false are right arrays that are called wrong, and names of other mistakes beside the
right one. Exit code 0 where all is as it has to be, 1 where it isn't, 77 where there is no NumPy.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import numpy as np
except ImportError:
    print("backward_passes.py: skipped, there is no NumPy")
    sys.exit(77)

from backward_programs import PROGRAMS

KINDS = {"float64": np.float64, "float32": np.float32}

failures = []
table = {}


def expect(condition, message):
    if not condition:
        failures.append(message)
        print(f"FAILED: {message}")
    return condition


def call(*command, codes=(0,)):
    run = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if run.returncode not in codes or run.stderr:
        raise SystemExit(f"{' '.join(map(str, command))}: exit code {run.returncode}\n{run.stdout}{run.stderr}")
    return run.returncode, run.stdout


class Comparison:
    """What attn diff says of some arrays."""

    def __init__(self, attn, reference, folder, arrays):
        np.savez(folder / "mine.npz", **arrays)
        self.code, printed = call(attn, "diff", reference, folder / "mine.npz", "--diagnose", "--json", codes=(0, 1))
        self.json = json.loads(printed)
        self.ids = [match["id"] for match in self.json["looks_like"]]
        wrong = self.json["first_wrong"]
        self.mine = next((step["mine"].split("[")[0] for step in self.json["steps"] if step["step"] == wrong), None)
        self.wrong = wrong
        self.blamed = {step["mine"].split("[")[0] for step in self.json["steps"] if step["verdict"] in ("bug", "layout")}


def reference_of(attn, folder, program):
    """The trace with gradients that `attn run` and `attn grad` make of a program's numbers."""
    np.savez(folder / "in.npz", **program.inputs)
    np.savez(folder / "seed.npz", seed=program.seed)
    weights = []
    if program.weights:
        np.savez(folder / "weights.npz", **program.weights)
        weights = ["--weights", folder / "weights.npz"]
    call(attn, "run", program.module, "--input", folder / "in.npz", *weights, *program.flags, "--quiet", "--trace", folder / "t.npz")
    call(attn, "grad", folder / "t.npz", "--seed", folder / "seed.npz", "-o", folder / "grads.npz")
    return folder / "grads.npz"


def finals(program):
    return {name: program.grads[name] for name in program.final}


def check_right(attn, folder, reference, name, make, options):
    for kind, dtype in KINDS.items():
        program = make(dtype=dtype, **options)
        program.run()
        for saved, arrays in (("everything", program.grads), ("the final gradients", finals(program))):
            found = Comparison(attn, reference, folder, arrays)
            verdicts = sorted({step["verdict"] for step in found.json["steps"]})
            what = f"{name}, right, in {kind}, {saved}: {len(found.json['steps'])} steps: {', '.join(verdicts)}"
            is_right = expect(found.code == 0 and found.json["same"], f"{what}; {found.wrong} ({found.mine})")
            is_right = expect(not found.json["extra"], f"{what}; not found: {found.json['extra']}") and is_right
            count(name, saved, "right", is_right)
            print(what)


def count(name, saved, what, is_so):
    row = table.setdefault((name, saved), {what: [0, 0] for what in ("right", "placed", "named", "false")})
    row[what][0] += bool(is_so)
    row[what][1] += 1


def check_mistake(attn, folder, reference, name, make, options, mistake, identity, right):
    for kind, dtype in KINDS.items():
        program = make(mistake, dtype=dtype, **options)
        program.run()
        for saved, arrays in (("everything", program.grads), ("the final gradients", finals(program))):
            differs = {key for key in arrays if arrays[key].shape != right.grads[key].shape
                       or not np.allclose(arrays[key], right.grads[key], rtol=1e-4, atol=1e-5)}  # fmt: skip
            found = Comparison(attn, reference, folder, arrays)
            what = f"{name}, {mistake}, in {kind}, {saved}: {found.mine} ({found.wrong}): {', '.join(found.ids) or 'no name'}"
            variables = mistake.split(":")[0].split("|")
            placed = found.mine in differs
            if saved == "everything":
                placed = placed and found.mine.split(".")[0] in variables
            count(name, saved, "placed", expect(placed and found.code == 1, f"{what}; wrong are {sorted(differs)}"))
            count(name, saved, "named", expect(identity in found.ids, f"{what}; it is {identity}"))
            others = found.blamed - differs, [other for other in found.ids if other != identity]
            count(name, saved, "false", not expect(not others[0], f"{what}: {others[0]} are right") or others[1])
            print(what)


def main(arguments):
    if len(arguments) not in (1, 2):
        print(__doc__, file=sys.stderr)
        return 2
    attn, only = arguments[0], arguments[1] if len(arguments) == 2 else None
    with tempfile.TemporaryDirectory() as name_of_folder:
        folder = Path(name_of_folder)
        for name, make, options, mistakes in PROGRAMS:
            if only not in (None, name):
                continue
            right = make(**options)
            right.run()
            reference = reference_of(attn, folder, right)
            check_right(attn, folder, reference, name, make, options)
            for mistake, identity in mistakes.items():
                check_mistake(attn, folder, reference, name, make, options, mistake, identity, right)
    print(f"{'program':18} {'saved':20} {'called the same':>16} {'placed':>10} {'named':>10} {'false':>10}")
    for (name, saved), row in table.items():
        print(f"{name:18} {saved:20} {'{} of {}'.format(*row['right']):>16} {'{} of {}'.format(*row['placed']):>10} "
              f"{'{} of {}'.format(*row['named']):>10} {'{} of {}'.format(*row['false']):>10}")  # fmt: skip
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
