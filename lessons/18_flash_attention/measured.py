"""Keeps what the lesson measured of time and memory, which depend on the machine, for its page.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 lesson_18_flash_attention --quiet --measure --trace t.npz
    measured.py t.npz

Writes measured.json beside itself. The other programs of the machine should rest meanwhile.
"""

import json
import sys
from pathlib import Path

import numpy as np


def main(arguments):
    if len(arguments) != 1 or arguments[0] == "--help":
        print(__doc__, file=sys.stderr)
        return 2
    trace = np.load(arguments[0])
    found = {path.removeprefix("measured."): trace[path].tolist() for path in trace.files if path.startswith("measured.")}
    if not found:
        print(f"measured.py: {arguments[0]} has nothing that was measured: run the lesson with --measure", file=sys.stderr)
        return 2
    Path(__file__).with_name("measured.json").write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
