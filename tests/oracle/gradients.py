#!/usr/bin/env python3
"""Holds `attn grad` against PyTorch's autograd, on the modules of the other oracles.

    gradients.py ATTN_PROGRAM [SEED]

Each configuration of modules.py, decoder_modules.py, small_decoder.py, decoder_of_today.py and
mixture_of_experts.py is run by `attn run` and walked
backwards by `attn grad --seed`, from random numbers in place of a loss. PyTorch's gradients of every weight, every input and
of what its modules give to each other have to be those of the steps, to 1e-11 of the largest number; `attn verify` and NumPy
(formulas.py) have to agree with every step. Which step a tensor is, its numbers say: as it is, transposed, or as one of the parts that PyTorch packs.

A line for each configuration. Exit code 0 where all agree, 1 at the first that doesn't, 77 where there is no PyTorch.
"""

import random
import sys
import tempfile
import zipfile
import json
from pathlib import Path

import modules  # ends with 77 where there is no PyTorch
import decoder_modules
import decoder_of_today
import mixture_of_experts
import small_decoder
from modules import Mismatch, call, described, report, save, with_weights

import numpy as np
import torch

FAMILIES = [(modules, 16, 1373), (decoder_modules, 9, 1417), (small_decoder, 8, 11), (decoder_of_today, 8, 23),
            (mixture_of_experts, 12, 29)]
TOLERANCE = 1e-11
SMALLEST = 1e-3  # of the largest gradient; what is smaller, such as that of a key's bias, is the rest of a cancellation
FEWEST = 3  # numbers that tell which step a tensor is


class Tensors:
    """What PyTorch has a gradient of: parameters, inputs, and what its modules give."""

    def __init__(self, module, inputs):
        self.kept = [(name, parameter) for name, parameter in module.named_parameters()]
        for name, tensor in inputs.items():
            if tensor.is_floating_point():
                tensor.requires_grad_()
                self.kept.append((name, tensor))
        for name, part in module.named_modules():
            part.register_forward_hook(lambda _module, _inputs, output, name=name: self.keep(name, output))

    def keep(self, name, output):
        if isinstance(output, tuple):
            output = output[0]
        if isinstance(output, torch.Tensor) and output.requires_grad:
            output.retain_grad()
            self.kept.append((name or "output", output))

    def gradients(self):
        """Names, numbers and gradients, those of packed parameters in their parts, too."""
        for name, tensor in self.kept:
            if tensor.grad is None or tensor.numel() < FEWEST:
                continue
            value, grad = tensor.detach().numpy(), tensor.grad.numpy()
            yield name, value, grad
            for parts in (2, 3):
                if isinstance(tensor, torch.nn.Parameter) and value.shape[0] % parts == 0:
                    for i, pair in enumerate(zip(np.split(value, parts), np.split(grad, parts))):
                        yield f"{name}[{i}/{parts}]", *pair


def ways(value, grad):
    """How a tensor can stand in a step: as it is, without a batch of one, or as a map that is transposed."""
    yield value, grad
    if value.ndim > 1:
        yield value.T, grad.T
    if value.shape[0] == 1:
        yield value[0], grad[0]


class Steps:
    """The steps of a trace with gradients, by their numbers."""

    def __init__(self, path):
        self.arrays = np.load(path)
        with zipfile.ZipFile(path) as file:
            steps = json.loads(file.read("steps.json"))["steps"]
        paths = [step["path"] for step in steps]
        self.gradients = sum(path.startswith("grad.") for path in paths)
        self.inputs = [step["path"] for step in steps if not step["formula"] and f"grad.{step['path']}" in paths]
        self.by_shape = {}
        for path in paths:
            if f"grad.{path}" in paths:
                array = np.array(self.arrays[path], dtype=float)
                self.by_shape.setdefault(array.shape, []).append((path, array))

    def same(self, value):
        """The steps with these numbers."""
        size = max(np.max(np.abs(value)), 1e-300)
        return [path for path, array in self.by_shape.get(value.shape, []) if np.max(np.abs(array - value)) <= 1e-12 * size]


def compare(steps, tensors):
    """Each tensor's gradient with that of its step. Several steps can have its numbers, such as what a dropout of 0 gives: one
    of them has to agree. Returns the steps compared, and the largest error."""
    compared, worst = set(), 0
    least = SMALLEST * max(np.max(np.abs(grad)) for _, _, grad in tensors.gradients())
    for name, value, grad in tensors.gradients():
        for numbers, wanted in ways(value, grad):
            found = steps.same(numbers)
            if not found:
                continue
            size = max(np.max(np.abs(wanted)), least)
            errors = {path: np.max(np.abs(steps.arrays[f"grad.{path}"] - wanted)) / size for path in found}
            nearest = min(errors, key=errors.get)
            if not errors[nearest] <= TOLERANCE:
                raise Mismatch(f"the gradient of {name}, {nearest}, is off by {errors[nearest]}")
            compared.add(nearest)
            worst = max(worst, errors[nearest])
            break
    return compared, worst


def check(family, attn, number, seed):
    draw = random.Random(1000 * seed + number)
    torch.manual_seed(1000 * seed + number)
    c = family.draw_configuration(draw, number)
    try:
        module, inputs = with_weights(c["make"](), c["type"]), family.draw_inputs(draw, c)
        with tempfile.TemporaryDirectory() as folder:
            steps, tensors = backwards(family, attn, Path(folder), c, module, inputs)
            compared, worst = compare(steps, tensors)
            telling = {path for path in steps.inputs if steps.arrays[path].size >= FEWEST and steps.arrays[path].any()}
            missing = telling - compared  # zeros are states that nobody gave
            if missing:
                raise Mismatch(f"no tensor of PyTorch's has the numbers of {sorted(missing)}")
    except Mismatch as mismatch:
        raise Mismatch(f"configuration {number} of seed {seed}: {described(c)}\n{mismatch}") from mismatch
    report(f"{described(c)}: {steps.gradients} steps back, {len(compared)} of PyTorch's gradients", worst)
    return steps.gradients, len(compared)


def backwards(family, attn, folder, c, module, inputs):
    """The trace with gradients of attn, and PyTorch's."""
    weights = folder / f"weights{c['ending']}"
    model = torch.nn.ModuleDict({c["prefix"][:-1]: module}) if c["prefix"] else module
    save(weights, {name: tensor.detach().to(c["type"]) for name, tensor in model.state_dict().items()})
    by_sequence = lambda name, tensor: c["module"] != "attention" and name.endswith("mask") and tensor.dim() == 3
    np.savez(folder / "inputs.npz", **{name: (tensor[:, None] if by_sequence(name, tensor) else tensor).detach().numpy()
                                       for name, tensor in inputs.items()})  # (b, n, m) could be (h, n, m)
    tensors = Tensors(module, inputs)
    output = family.by_pytorch(module, inputs, c)
    seed = torch.randn(output.shape, dtype=torch.float64)
    (output * seed).sum().backward()
    np.savez(folder / "seed.npz", seed=seed.numpy())
    call(attn, "run", c["module"], "--input", folder / "inputs.npz", "--weights", weights, "--trace", folder / "trace.npz",
         *family.flags_of(c), "--quiet")  # fmt: skip
    call(attn, "grad", folder / "trace.npz", "--seed", folder / "seed.npz", "-o", folder / "grads.npz")
    call(attn, "verify", folder / "grads.npz")
    call(sys.executable, Path(__file__).with_name("formulas.py"), folder / "grads.npz")
    return Steps(folder / "grads.npz"), tensors


def main(arguments):
    if len(arguments) not in (1, 2):
        print(__doc__, file=sys.stderr)
        return 2
    steps = gradients = 0
    try:
        for family, configurations, seed in FAMILIES:
            for number in range(configurations):
                counted = check(family, arguments[0], number, int(arguments[1]) if len(arguments) == 2 else seed)
                steps, gradients = steps + counted[0], gradients + counted[1]
    except Mismatch as mismatch:
        print(mismatch)
        return 1
    print(f"{steps} steps back verified, {gradients} gradients of PyTorch's agree to {TOLERANCE}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
