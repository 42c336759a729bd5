#!/usr/bin/env python3
"""Tests of src/mistakes/list: which files table.cmake takes and refuses, and that schema.json says the same.

    list_test.py CMAKE [--jsonschema]

With --jsonschema the files are also given to python3-jsonschema. Exit code 77 where that is wanted and not there.
"""

import copy
import json
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
LIST = ROOT / "src" / "mistakes" / "list"
RIGHT = json.loads((LIST / "masks" / "mask_zero.json").read_text())  # forms: one edit, and one edit with values


def changed(change):
    mistake = copy.deepcopy(RIGHT)
    change(mistake, mistake["forms"][0], mistake["forms"][0]["edits"][0])
    return mistake


# What is wrong, and what table.cmake says of it. A rule of schema.json:
AGAINST_THE_SCHEMA = {
    "there is no member sentense; expected: ": lambda m, form, edit: m.update(sentense=m.pop("sentence")),
    "there is no member forms[0].value; expected: ": lambda m, form, edit: form.update(value=["1"]),
    "there is no member forms[0].edits[0].wrong; expected: ": lambda m, form, edit: edit.update(wrong="1"),
    "why is missing; expected: what that changes": lambda m, form, edit: m.pop("why"),
    "forms[0].edits is missing; expected: what is made": lambda m, form, edit: form.pop("edits"),
    "forms[0].edits[0].right is missing; expected: a pattern": lambda m, form, edit: edit.pop("right"),
    "sentence does not match [.]$; expected: what is done": lambda m, form, edit: m.update(sentence="No full stop"),
    "link does not match ^https://; expected: the address": lambda m, form, edit: m.update(link="www.example.org"),
    "seen has 9 characters; expected: 20 or more": lambda m, form, edit: m.update(seen="somewhere"),
    "forms has 0 items; expected: 1 or more": lambda m, form, edit: m.update(forms=[]),
    "forms[0].edits[0].step has 0 items; expected: 1 or more": lambda m, form, edit: edit.update(step=[]),
    "forms[0].edits[0].step is of type number; expected: string or array": lambda m, form, edit: edit.update(step=1),
    "is_exhibit is of type string; expected: boolean": lambda m, form, edit: m.update(is_exhibit="yes"),
    "forms[1].values[0] is of type number; expected: string": lambda m, form, edit: m["forms"][1].update(values=[-1e9]),
    "the file is of type array; expected: object": None,  # a list of mistakes
}
# What a schema can't say:
OF_THE_FORMULAS = {
    "forms[1].values is missing; expected: what {v} stands for": lambda m, form, edit: m["forms"][1].pop("values"),
    "forms[0] has values, but none of its edits has {v}": lambda m, form, edit: form.update(values=["1"]),
    "forms[0].edits[0].mistaken has $2, but right has 1 of %": lambda m, form, edit: edit.update(mistaken="$2"),
}


def wrong_documents(rules):
    return {says: [RIGHT] if change is None else changed(change) for says, change in rules.items()}


class Table(unittest.TestCase):
    """table.cmake, in a folder with two mistakes."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.list = Path(folder.name) / "list"
        self.list.mkdir()
        for name in ("schema.json", "table.cmake"):
            shutil.copy(LIST / name, self.list)
        for name in ("masks/mask_zero", "scores/no_scale"):
            self.write(name, json.loads((LIST / f"{name}.json").read_text()))
        (self.list / "order.txt").write_text("masks/mask_zero\nscores/no_scale\n")

    def write(self, name, document):
        (self.list / name).parent.mkdir(exist_ok=True)
        (self.list / f"{name}.json").write_text(document if isinstance(document, str) else json.dumps(document))

    def made(self):
        """The table; or what is said where there is none."""
        table = self.list / "table.cpp"
        done = subprocess.run([CMAKE, f"-DOUTPUT={table}", "-P", self.list / "table.cmake"], capture_output=True, text=True, check=False)
        self.assertEqual(table.exists(), done.returncode == 0, done.stderr)
        return table.read_text() if table.exists() else done.stderr

    def test_a_file_says_all_that_the_table_has(self):
        document = changed(lambda m, form, edit: edit.update(step=["masked", "x.*"], mistaken='"a;b[" \\'))
        document["forms"][0]["needs_all_edits"] = True
        self.write("masks/mask_zero", document)
        table = self.made()
        for row in (
            '{R"~(masked)~", R"~(where(mask, %, -inf))~", R"~("a;b[" \\)~"},\n    {R"~(x.*)~", R"~(where(mask, %, -inf))~", R"~("a;b[" \\)~"},',
            "{mask_zero_0_edits, no_values, true, false},\n    {mask_zero_1_edits, mask_zero_1_values, false, false},",
            f'{{"mask_zero",\n     R"~({RIGHT["sentence"]})~",\n     R"~({RIGHT["why"]})~",',
            "mask_zero_forms, true, false},",
        ):
            self.assertIn(row, table)

    def test_a_wrong_file_is_refused_by_name_with_what_is_expected(self):
        for says, document in wrong_documents(AGAINST_THE_SCHEMA | OF_THE_FORMULAS).items():
            with self.subTest(says):
                self.write("masks/mask_zero", document)
                self.assertIn(f"src/mistakes/list/masks/mask_zero.json: {says}", self.made())

    def test_what_is_no_json_is_refused_with_its_line(self):
        self.write("masks/mask_zero", '{\n    "sentence": "A." "why": "B."\n}')
        self.assertIn("Line 2", self.made())

    def test_a_file_without_a_place_comes_last_in_its_folder(self):
        self.write("masks/mask_a", RIGHT)
        table = self.made()
        places = [table.index(f'{{"{name}",') for name in ("mask_zero", "mask_a", "no_scale")]
        self.assertEqual(places, sorted(places))

    def test_files_and_order_fit_together(self):
        self.write("maks/mask_a", RIGHT)
        self.assertIn("maks/mask_a.json: order.txt names no file of the folder maks", self.made())
        shutil.rmtree(self.list / "maks")
        self.write("scores/mask_zero", RIGHT)
        self.assertIn("scores/mask_zero.json: the name of the file is the mistake's id: its own", self.made())
        (self.list / "scores" / "mask_zero.json").unlink()
        (self.list / "masks" / "mask_zero.json").unlink()
        self.assertIn("order.txt: there is no file masks/mask_zero.json", self.made())


class Files(unittest.TestCase):
    def test_no_file_has_what_only_some_readers_take(self):  # comments, or a member twice
        def once(pairs):
            self.assertEqual(len(pairs), len({name for name, _ in pairs}))
            return dict(pairs)

        for path in LIST.glob("**/*.json"):
            with self.subTest(path.name):
                json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=once)


class Schema(unittest.TestCase):
    """What another program makes of schema.json."""

    def setUp(self):
        schema = json.loads((LIST / "schema.json").read_text())
        jsonschema.Draft202012Validator.check_schema(schema)
        self.validator = jsonschema.Draft202012Validator(schema)

    def test_it_takes_all_files(self):
        files = list(LIST.glob("*/*.json"))
        self.assertGreaterEqual(len(files), 120)
        for path in files:
            self.assertEqual([error.message for error in self.validator.iter_errors(json.loads(path.read_text()))], [], path.name)

    def test_it_refuses_what_table_cmake_refuses(self):
        for says, document in wrong_documents(AGAINST_THE_SCHEMA).items():
            with self.subTest(says):
                self.assertFalse(self.validator.is_valid(document))
        for says, document in wrong_documents(OF_THE_FORMULAS).items():
            with self.subTest(says):
                self.assertTrue(self.validator.is_valid(document))


if __name__ == "__main__":
    CMAKE = sys.argv.pop(1)
    if "--jsonschema" in sys.argv:
        sys.argv.remove("--jsonschema")
        try:
            import jsonschema
        except ImportError:
            print("list_test.py: skipped, there is no python3-jsonschema")
            sys.exit(77)
    else:
        del Schema
    unittest.main()
