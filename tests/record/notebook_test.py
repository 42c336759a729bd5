#!/usr/bin/env python3
"""Executes python/check_yours.ipynb, and reads what it shows. notebook_test.py ATTN

Needs nbconvert and ipykernel (apt-get install python3-nbconvert python3-ipykernel).
"""

import os
import sys
import unittest
import warnings

from recorded import ROOT

if len(sys.argv) < 2:
    sys.exit(__doc__)
os.environ["ATTN"] = os.path.abspath(sys.argv.pop(1))
os.environ["PYTHONPATH"] = str(ROOT / "python")

try:
    import ipykernel
    import nbformat
    from nbconvert.preprocessors import ExecutePreprocessor
except ImportError as error:
    print(f"skipped: {error} (apt-get install python3-nbconvert python3-ipykernel)")
    sys.exit(77)
del ipykernel  # is only needed by the notebook's own process


class Notebook(unittest.TestCase):
    def test_it_runs_and_shows_what_its_text_says(self):
        notebook = nbformat.read(ROOT / "python" / "check_yours.ipynb", as_version=4)
        cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
        self.assertTrue(all(not cell.outputs and cell.execution_count is None for cell in cells), "it has outputs: clear them")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ExecutePreprocessor(timeout=120, kernel_name="python3").preprocess(notebook, {"metadata": {"path": str(ROOT)}})
        wrong, right, explained, compared = ([output for output in cell.outputs] for cell in cells)
        page = wrong[0].data["text/html"]
        self.assertIn(">causal_top_left</a>", page)
        self.assertIn("first wrong: allowed (In [1]:12)", page)
        self.assertEqual(page.count("<table"), 2)
        self.assertIn("with each of 59 inputs", right[0].data["text/html"])
        self.assertIn("the same", right[0].data["text/html"])
        self.assertNotIn("<table", right[0].data["text/html"])
        self.assertTrue(explained[0].text.startswith("weights[0,1] = softmax(masked)"), explained[0].text)
        self.assertIn("rounding: 16 compared as float32", compared[0].data["text/plain"] + compared[0].data["text/html"])
        self.assertIn("<svg", compared[0].data["text/html"])


if __name__ == "__main__":
    unittest.main()
