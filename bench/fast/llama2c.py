#!/usr/bin/env python3
"""llama2.c's program, timed once per line that is read: a peer of bench/fast/fast.py.

    OMP_NUM_THREADS=1 bench/fast/llama2c.py SOURCE FOLDER FLAGS        lines: story 15M 128

SOURCE is the published folder with run.c. It is compiled with FLAGS and -fopenmp in FOLDER, where the weights are drawn, too.
The answer is the time of a token that the program itself reports: on average after the first, at temperature 0.
"""

import re
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np

from rows import SHAPES

LONGEST = 512


def draw_weights(shape, path):
    """The program's format: sizes, then float32 in its order. The embedding of token 1, which would end a story, is zero."""
    rng = np.random.default_rng(0)
    d_model, key_value = shape.d_model, shape.d_model // shape.heads * shape.key_value_heads

    def drawn(*sizes):
        return (rng.standard_normal(sizes) / np.sqrt(sizes[-1])).astype("<f4")

    embedding = rng.standard_normal((shape.vocabulary, d_model)).astype("<f4")
    embedding[1] = 0
    each = shape.layers
    gains = np.ones((each, d_model), "<f4")
    tensors = [
        embedding, gains, drawn(each, d_model, d_model), drawn(each, key_value, d_model), drawn(each, key_value, d_model),
        drawn(each, d_model, d_model), gains, drawn(each, shape.d_ff, d_model), drawn(each, d_model, shape.d_ff),
        drawn(each, shape.d_ff, d_model), gains[0], np.zeros(LONGEST * d_model // shape.heads, "<f4"),
    ]  # fmt: skip
    with open(path, "wb") as file:
        file.write(struct.pack("<7i", d_model, shape.d_ff, each, shape.heads, shape.key_value_heads, shape.vocabulary, LONGEST))
        for tensor in tensors:
            file.write(tensor.tobytes())


def write_tokenizer(vocabulary, path):
    """So many tokens of one letter."""
    with open(path, "wb") as file:
        file.write(struct.pack("<i", 1))
        file.write(struct.pack("<fic", 0.0, 1, b"a") * vocabulary)


class Program:
    def __init__(self, source, folder, flags):
        self.folder = folder
        self.run = folder / ("run" + re.sub(r"\W", "_", flags))
        subprocess.run(["gcc", *flags.split(), "-fopenmp", "-o", self.run, source / "run.c", "-lm"], check=True)

    def weights(self, name):
        path = self.folder / f"{name}.bin"
        if not path.exists():
            draw_weights(SHAPES[name], path)
            write_tokenizer(SHAPES[name].vocabulary, self.folder / f"{name}.tokens")
        return path, self.folder / f"{name}.tokens"

    def seconds(self, name, tokens):
        weights, tokenizer = self.weights(name)
        done = subprocess.run([self.run, weights, "-z", tokenizer, "-t", "0", "-n", tokens], capture_output=True, check=True)
        return 1 / float(re.search(rb"achieved tok/s: ([\d.]+)", done.stderr).group(1))


def main():
    source, folder, flags = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    program = Program(source, folder, flags)
    print(f"llama2.c, gcc {flags}", flush=True)
    for line in sys.stdin:
        _, name, tokens = line.split()
        print(program.seconds(name, tokens), flush=True)


if __name__ == "__main__":
    main()
