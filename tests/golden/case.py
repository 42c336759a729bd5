"""A case of a golden: what `attn run` is given, and every step that it has to record.

Its arrays stand under CASE/PART/NAME. The parts are `input` and `weights`, under the names that files have; `steps`; and
`gradients`: `seed` is what each number of the output is multiplied by, and `grad.NAME` the gradient of the sum. CASE/run is the
module of `attn run` and its flags, as bytes; it is missing where there is no such module, and a test of its own reads the case.
"""

import numpy as np


def numbers(*shape, seed, scale=1.0):
    """Stored with the golden, so that it matters to nobody how they are made."""
    return np.round(np.random.RandomState(seed).standard_normal(shape) * scale * 64) / 64


def within(scope, steps):
    return {f"{scope}.{name}": array for name, array in steps.items()}


def as_array(array):
    return np.asarray(array.detach().contiguous() if hasattr(array, "detach") else array)


def case(name, run, input, steps, weights=None, gradients=None, result=None):
    """@param run     "encoder-layer --heads 2"; None where no module computes it
    @param steps   those that are recorded at once stand first: inputs, masks
    @param result  the step that `attn run` calls output, too"""
    steps = steps | ({"output": steps[result]} if result else {})
    parts = {"input": input, "weights": weights or {}, "steps": steps, "gradients": gradients or {}}
    golden = {} if run is None else {f"{name}/run": np.frombuffer(run.encode(), np.uint8)}
    return golden | {f"{name}/{part}/{key}": as_array(array) for part, arrays in parts.items() for key, array in arrays.items()}


def flags(**values):
    """heads=2, mask="causal", norm=None as " --heads 2 --mask causal"; True is a flag alone."""
    words = ""
    for name, value in values.items():
        if value is not None and value is not False:
            words += f" --{name.replace('_', '-')}" + ("" if value is True else f" {value}")
    return words
