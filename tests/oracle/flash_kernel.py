#!/usr/bin/env python3
"""The commands of lesson 18: attn diff finds a right kernel in NumPy the same, and the tile and the name of a forgotten correction.

    tests/oracle/flash_kernel.py ATTN

Exit code 77 where there is no NumPy.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import numpy  # noqa: F401
except ImportError:
    sys.exit(77)

KERNEL = Path(__file__).resolve().parents[2] / "lessons" / "18_flash_attention" / "kernel.py"
ATTN = Path(sys.argv[1]).resolve()


def main():
    with tempfile.TemporaryDirectory() as folder:

        def run(*command, code=0):
            done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
            assert done.returncode == code, f"{command}: {done.returncode}, expected {code}\n{done.stdout}{done.stderr}"
            return done.stdout

        run(sys.executable, KERNEL, "input.npz", "right.npz")
        run(sys.executable, KERNEL, "input.npz", "wrong.npz", "--forget")
        run(ATTN, "run", "attention", "--fast", "--mask", "causal", "--input", "input.npz", "--trace", "fast.npz")
        assert " 0 wrong\n" in run(ATTN, "verify", "fast.npz")
        assert "right.npz: the same:" in run(ATTN, "diff", "fast.npz", "right.npz")
        found = run(ATTN, "diff", "fast.npz", "wrong.npz", "--diagnose", code=1)
        assert found.startswith("first wrong step: head.0.rows.2.tile.1.sum "), found
        assert "no_rescaling" in found, found


main()
