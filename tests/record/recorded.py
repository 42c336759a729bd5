"""Runs a script under attn_record, and reads what it left."""

import json
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "python"))

try:
    import numpy as np
except ImportError:
    print("skipped: there is no NumPy for this Python (apt-get install python3-numpy)")
    sys.exit(77)


class Recorded:
    """What is in a file that attn_record wrote."""

    def __init__(self, path):
        with np.load(path) as file:
            self.listing = json.loads(file["attn_record.json"])
            self.arrays = {name: file[name] for name in file.files if name != "attn_record.json"}
        self.entries = {entry["name"]: entry for entry in self.listing["arrays"]}
        self.names = [entry["name"] for entry in self.listing["arrays"]]
        self.left_out = {entry["name"]: entry["reason"] for entry in self.listing["left_out"]}
        self.same = {entry["name"]: entry["same_as"] for entry in self.listing["same"]}

    def reads(self, name):
        return sorted(self.entries[name]["reads"])

    def called_from(self, name):
        """Lines of the calls, the innermost first."""
        entry, lines = self.entries[name], []
        while "call" in entry:
            entry = self.listing["calls"][entry["call"]]
            lines.append((entry["file"], entry["line"]))
        return lines

    def place(self, name):
        return tuple(self.entries[name][key] for key in ("file", "line", "variable"))


class RecordTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name).resolve()

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"))
        return path

    def run_python(self, *words, code=0):
        ended = subprocess.run([sys.executable, *map(str, words)], cwd=self.folder, capture_output=True, text=True,
                               env={**os.environ, "PYTHONPATH": str(ROOT / "python"), "PYTHONDONTWRITEBYTECODE": "1"})
        self.assertEqual(ended.returncode, code, ended.stdout + ended.stderr)
        return ended

    def record(self, script, *flags, code=0):
        """Runs a script, the text of which is given, and reads mine.npz."""
        self.write("mine.py", script)
        self.ended = self.run_python("-m", "attn_record", *flags, "mine.npz", "--", "mine.py", code=code)
        return Recorded(self.folder / "mine.npz")

    def left_in_folder(self):
        return sorted(path.name for path in self.folder.iterdir() if path.name != "__pycache__")
