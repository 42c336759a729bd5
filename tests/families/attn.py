"""Runs `attn run model` on a folder that save_pretrained wrote."""

import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np

# expected.npz's names and those of attn's inputs.
INPUTS = dict(
    ids="ids", decoder_ids="decoder_ids", input_features="input_features", pixel_values="pixel_values",
    batch_ids="ids", batch_lengths="lengths", batch_decoder_ids="decoder_ids", batch_decoder_lengths="decoder_lengths",
    batch_input_features="input_features", batch_pixel_values="pixel_values", token_type_ids="token_type_ids",
    left_ids="ids", left_attention_mask="attention_mask", spatial_shapes="spatial_shapes",
    inputs_embeds="inputs_embeds", position_ids="position_ids",
)  # fmt: skip


class Refused(Exception):
    """Exit code 2, and what it said."""


class Crashed(Exception):
    """Another exit code."""


def step(file, name):
    """A step of a trace, also by another name; None where there is none."""
    aliases = {alias["path"]: alias["target"] for alias in json.loads(file["steps.json"])["aliases"]}
    name = aliases.get(name, name)
    return file[name] if name in file else None


def run(program, folder, arrays, *flags):
    """The steps output and pooler.pooled."""
    with tempfile.TemporaryDirectory() as temporary:
        given, trace = Path(temporary, "i.npz"), Path(temporary, "t.npz")
        np.savez(given, **{INPUTS[name]: array for name, array in arrays.items()})
        command = [program, "run", "model", "--weights", folder, "--input", given, "--trace", trace, "--quiet", *flags]
        ran = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300)
        if ran.returncode == 2 and "a mistake in attn" not in ran.stderr:
            raise Refused(ran.stderr.strip())
        if ran.returncode != 0:
            raise Crashed(f"exit code {ran.returncode}: {ran.stderr.strip()[-500:]}")
        with np.load(trace) as file:
            return step(file, "output"), step(file, "pooler.pooled")


def real(lengths, expected):
    """Which tokens are no padding."""
    return np.arange(expected.shape[1])[None] < np.asarray(lengths)[:, None]


def apart(found, expected, kept=None):
    """The largest difference, of the largest expected number unless all are 0. Of padding rows nothing is expected."""
    if found.shape != expected.shape:
        return np.inf
    if kept is not None:
        found, expected = found[kept], expected[kept]
    difference = np.abs(found - expected).max()
    size = np.abs(expected).max()
    return difference / (size if size > 0 else 1) if np.isfinite(difference) else np.inf
