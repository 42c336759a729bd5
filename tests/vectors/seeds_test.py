#!/usr/bin/env python3
"""The search for weights of model vectors ends where no seed gives any: seeds_test.py ATTN. Exit code 77 where transformers is missing."""

import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "families"))
try:
    import transformers  # noqa: F401

    import model_vectors
except ImportError as error:
    print(error)
    sys.exit(77)


def main():
    model_vectors.MOST_NOISE, model_vectors.MOST_SEEDS = 0, 2
    model_vectors.torch.set_num_threads(1)
    model_vectors.double.everywhere()
    with tempfile.TemporaryDirectory() as temporary:
        out = pathlib.Path(temporary)
        try:
            model_vectors.made(sys.argv[1], out, "bert", model_vectors.Plain())
        except SystemExit as error:
            if "bert: of 2 seeds none" not in str(error) or list(out.iterdir()):
                sys.exit(f"seeds_test: {error}; there is {list(out.iterdir())}")
            return
    sys.exit("seeds_test: weights with roundings were taken")


main()
