"""Asks attn where somebody's program goes wrong, and by which mistake.

    python3 diagnose.py ATTN LESSON_12_PITFALLS

The programs are planted.py's, in plain NumPy, with each well-known mistake in turn in its own code, and a PyTorch
encoder in float32 with hooks. The references are the traces of lesson 23 and of `attn run`. For every mistake
`attn diff --diagnose` has to name the step that the list says is broken, and the mistake itself; right programs have
to be equal in float64 and noise in float32 and bfloat16.

A line a mistake. Exit code 0 where all is as it has to be, 1 where it isn't, 77 where there is no NumPy.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import numpy as np
except ImportError:
    print("diagnose.py: skipped, there is no NumPy")
    sys.exit(77)

import planted

KINDS = {"float64": planted.as_float64, "float32": planted.as_float32, "bfloat16": planted.as_bfloat16}
# What can't be seen: the mistake changes less than one rounding does, or nothing at all.
HIDDEN = {
    "float64": {},
    "float32": {},
    "bfloat16": {"norm_epsilon_outside", "norm_epsilon_value", "gelu_tanh"},
    "output": {"mask_finite"},  # exp(-10000) is zero too
}

# What softmax makes the same: it differs, is no bug, and has its name. exp(-10000) is zero.
WITHOUT_EFFECT = {"mask_finite"}

# Wrong already in what the step is given, which planted.py saves under a name of its own.
GIVEN = {"norm_skipped": "x"}

failures = []


def expect(condition, message):
    if not condition:
        failures.append(message)
        print(f"FAILED: {message}")


def call(*command, codes=(0,)):
    run = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if run.returncode not in codes or run.stderr:
        raise SystemExit(f"{' '.join(map(str, command))}: exit code {run.returncode}\n{run.stdout}{run.stderr}")
    return run.returncode, run.stdout


class Comparison:
    """What attn diff says of some arrays."""

    def __init__(self, attn, folder, reference, arrays, *flags):
        mine = Path(folder) / "mine.npz"
        np.savez(mine, **arrays)
        self.code, printed = call(attn, "diff", reference, mine, "--diagnose", "--json", *flags, codes=(0, 1))
        self.json = json.loads(printed)
        self.wrong = self.json["first_wrong"]
        self.ids = [match["id"] for match in self.json["looks_like"]]
        self.verdicts = {step["step"]: step["verdict"] for step in self.json["steps"]}
        self.mine = next((step["mine"] for step in self.json["steps"] if step["step"] == self.wrong), None)


# ------------------------------------------------------------------------------------------------------- right programs


def check_right(attn, folder, reference):
    for kind, kept in KINDS.items():
        for exhibit in planted.EXHIBITS:
            arrays = planted.Program(kept=kept).run(exhibit)
            found = Comparison(attn, folder, reference, arrays)
            verdicts = set(found.verdicts.values())
            what = f"right, in {kind}: {exhibit}: {sorted(verdicts)}, exit code {found.code}"
            print(what)
            # An x, and the output of a post-norm layer, are further names of steps: the same array is reported once.
            own = [name for name in arrays if not name.endswith((".x", "post.output"))]
            expect(found.code == 0 and not found.json["extra"] and len(found.verdicts) >= len(own), what)
            expect(verdicts <= ({"equal"} if kind == "float64" else {"equal", "noise"}), what)
            if kind != "float64":
                expect("noise" in verdicts and found.json["type"] == kind, f"{what}, as {found.json['type']}")


# ------------------------------------------------------------------------------------------------------ wrong programs


def check_mistake(attn, folder, reference, mistake, step, kind):
    """@return True where the mistake is named"""
    exhibit, arrays = planted.planted(mistake, KINDS[kind])
    found = Comparison(attn, folder, reference, arrays)
    what = f"{mistake} in {kind}, in {exhibit}: {found.wrong}: {', '.join(found.ids) or 'nothing known'}"
    print(what)
    if mistake in HIDDEN[kind]:
        expect(found.code == 0, f"{what}: it is said to be hidden by rounding")
        return False
    if mistake in WITHOUT_EFFECT:
        expect(found.code == 0 and found.wrong is None, f"{what}: softmax makes it the same")
        return mistake in found.ids
    expect(found.code == 1 and found.wrong is not None, what)
    step = GIVEN.get(mistake, step)
    expect((found.wrong or "").rsplit(".", 1)[-1] == step, f"{what}; the step is {step}")
    return mistake in found.ids


def check_output_alone(attn, folder, reference, mistake, kind):
    """Of a program that kept nothing but its result: the mistake is in a step that nobody has seen."""
    _, arrays = planted.planted(mistake, KINDS[kind])
    output = list(arrays)[-1]
    found = Comparison(attn, folder, reference, {output: arrays[output]})
    what = f"{mistake} in {kind}, from {output} alone: {', '.join(found.ids) or 'nothing known'}"
    print(what)
    if mistake in HIDDEN["output"]:
        return expect(found.code == 0, f"{what}: it is said to change nothing")
    expect(found.mine == output and mistake in found.ids, what)


def check_mistakes(attn, folder, reference):
    steps = {entry["id"]: entry["step"] for entry in json.loads(call(attn, "pitfalls", "--json")[1]) if entry["is_exhibit"]}
    expect(set(steps) == set(planted.MISTAKES), "the exhibits of the list and planted.py are the same mistakes")
    for kind in KINDS:
        named = [m for m in planted.MISTAKES if check_mistake(attn, folder, reference, m, steps[m], kind)]
        shown = [m for m in planted.MISTAKES if m not in HIDDEN[kind]]
        print(f"{kind}: {len(named)} of {len(shown)} mistakes are named")
        expect(named == shown, f"{kind}: not named: {', '.join(sorted(set(shown) - set(named)))}")
    for kind in ("float64", "float32"):
        for mistake in planted.MISTAKES:
            check_output_alone(attn, folder, reference, mistake, kind)


# --------------------------------------------------------------------------------------------------------------- PyTorch


def hooked(torch, module, x, **arguments):
    """What the submodules return, by their names, and the input and the result."""
    arrays = {}

    def hook(name):
        def keep(_, inputs, output):
            arrays[name] = (output[0] if isinstance(output, tuple) else output).detach().numpy().copy()

        return keep

    handles = [part.register_forward_hook(hook(name)) for name, part in module.named_modules() if name]
    with torch.no_grad():
        arrays["output"] = module(x, **arguments).numpy()
    for handle in handles:
        handle.remove()
    return arrays


def check_pytorch(attn, folder):
    """An encoder of two layers in float32, whose own fused attention keeps nothing of its inside."""
    try:
        import torch
        from torch.nn import functional as F
    except ImportError:
        print("no PyTorch: its encoder is not compared")
        return
    torch.manual_seed(12)
    layer = torch.nn.TransformerEncoderLayer(24, 3, 40, batch_first=True, dropout=0, norm_first=True, activation="gelu")
    encoder = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).train()  # the textbook's way
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    x = torch.randn(3, 7, 24)
    forbidden = torch.ones(7, 7, dtype=torch.bool).triu(1)
    folder, reference = Path(folder), Path(folder) / "encoder.npz"
    np.savez(folder / "weights.npz", **{name: tensor.numpy() for name, tensor in encoder.state_dict().items()})
    np.savez(folder / "x.npz", x=x.numpy())
    call(attn, "run", "encoder", "--input", folder / "x.npz", "--weights", folder / "weights.npz", "--heads", 3, "--layers", 2,
         "--norm", "pre", "--activation", "gelu", "--mask", "causal", "--quiet", "--trace", reference)  # fmt: skip

    def compared(what, arguments, wrong, mistake):
        found = Comparison(attn, folder, reference, hooked(torch, encoder, x, **arguments), "--names", "pytorch")
        print(f"PyTorch, {what}: {found.json['type']}, {found.wrong}, {', '.join(found.ids) or 'nothing known'}, "
              f"{len(found.verdicts)} steps")  # fmt: skip
        expect(found.wrong == wrong and found.code == (wrong is not None), f"PyTorch, {what}: the step is {found.wrong}")
        expect(mistake is None or mistake in found.ids, f"PyTorch, {what}: {mistake} is not named")
        return found

    right = compared("right", {"mask": forbidden}, None, None)
    expect(right.json["type"] == "float32" and len(right.verdicts) > 12, "PyTorch, right: float32 and most hooks are compared")
    expect("noise" in right.verdicts.values() and not right.json["extra"], "PyTorch, right: noise, and no name is unknown")
    compared("a mask that lets the next token through", {"mask": forbidden.triu(2)}, "layers.0.self_attn.output", "causal_next")
    compared("no mask", {}, "layers.0.self_attn.output", None)
    encoder.layers[1].activation = lambda hidden: F.gelu(hidden, approximate="tanh")
    compared("GELU by tanh in layer 1", {"mask": forbidden}, "layers.1.feed_forward.activated", "gelu_tanh")
    encoder.layers[1].activation = F.gelu
    encoder.layers[0].norm2.eps = 1e-3
    compared("another epsilon in layer 0", {"mask": forbidden}, "layers.0.norm2.output", None)


def main(arguments):
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    attn, lesson = arguments
    with tempfile.TemporaryDirectory() as folder:
        reference = Path(folder) / "reference.npz"
        call(lesson, "--quiet", "--trace", reference)
        check_right(attn, folder, reference)
        check_mistakes(attn, folder, reference)
        check_pytorch(attn, folder)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
