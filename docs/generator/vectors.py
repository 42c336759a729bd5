"""The test vectors as the page about them shows them: how far each mistake is from what is right."""

import json
import math
from collections import defaultdict
from pathlib import Path

import numpy as np

from .errors import PageError

CASES = Path(__file__).resolve().parents[2] / "vectors" / "cases"

# A mistake is caught where a result is off by so many times the tolerance; two are told apart by so many times.
caught_times, told_times = 100, 10


def read_files(folder=CASES):
    """All files, each with its name."""
    return [{**json.loads(path.read_text()), "name": path.stem} for path in sorted(folder.glob("*.json"))]


def numbers(values):
    return np.array([float(value) for value in values])


def times_off(case, mistake, kind, other=None):
    """How many times the tolerance a mistake is off at most, from what is right, or from what another mistake gives."""
    most = 0.0
    for name, output in case["outputs"].items():
        wrong, right = (numbers(case["wrong"].get(one, {}).get(name, output["values"])) for one in (mistake, other))
        with np.errstate(invalid="ignore"):
            off = np.abs(wrong - right) / output["tolerance"][kind]
        off[(wrong == right) | (np.isnan(wrong) & np.isnan(right))] = 0
        most = max(most, float(np.max(np.where(np.isfinite(off), off, np.inf))))
    return most


def cases_of(files):
    return [(file, group, case) for file in files for group in file["groups"] for case in group["cases"]]


def matrix(files, kind):
    """By mistake, and by case: how many times the tolerance of the type the result is off."""
    table = defaultdict(dict)
    for _, _, case in cases_of(files):
        for mistake in case["wrong"]:
            table[mistake][case["id"]] = times_off(case, mistake, kind)
    return table


class Vectors:
    """All that the page asks: {{vectors files}}, {{vectors matrix}}, {{vectors unseen bfloat16}} and numbers, {{vectors cases}}."""

    def __init__(self, root):
        self.folder = root / "vectors" / "cases"
        self.files = read_files(self.folder)
        self.times = {kind: matrix(self.files, kind) for kind in ("float32", "float16", "bfloat16")}
        self.sentences = {name: note["sentence"] for file in self.files for name, note in file["notes"].items()}
        self.of_calls = {name for file in self.files if file["function"].endswith("_calls") for name in file["notes"]}

    def text(self, site, what):
        asked, _, kind = what.partition(" ")
        numbers_by_name = {
            "count": len(self.files), "cases": len(cases_of(self.files)), "mistakes": len(self.sentences),
            "of_calls": len(self.of_calls), "calls": sum(sum(case.get("requests", [])) for _, _, case in cases_of(self.files)),
            "functions": len({file["function"] for file in self.files}),
            "kilobytes": round(sum(path.stat().st_size for path in self.folder.glob("*.json")) / 1000),
            "times": caught_times,
        }
        if asked in numbers_by_name:
            return str(numbers_by_name[asked])
        if asked == "seen":
            return str(sum(self.most(kind, mistake) > 1 for mistake in self.sentences))
        if asked == "unseen":
            def link(name):
                page, anchor = ("calls", f"calls_{name}") if name in self.of_calls else ("pitfalls", f"pitfall_{name}")
                return f"[{name}]({site.writer.target(site.page_called(page), anchor)})"
            return ", ".join(link(name) for name in sorted(self.sentences) if self.most(kind, name) <= 1)
        if asked == "files":
            return self.table_of_files()
        if asked == "matrix":
            return self.table_of_mistakes(site.writer)
        raise PageError(f"the vectors have no '{what}'")

    def most(self, kind, mistake):
        return max(self.times[kind][mistake].values())

    def table_of_files(self):
        lines = ["| function | file | cases | mistakes | what |", "|---|---|---|---|---|"]
        for file in sorted(self.files, key=lambda file: (file["function"], file["name"])):
            count = sum(len(group["cases"]) for group in file["groups"])
            lines.append(f"| `{file['function']}` | {file['name']} | {count} | {len(file['notes'])} | {file['title']} |")
        return "\n".join(lines)

    def table_of_mistakes(self, writer):
        """For each function a row for each mistake and a column for each case: the power of ten of how many times the tolerance."""
        sections = []
        for function in sorted({file["function"] for file in self.files}):
            cases = [case["id"] for file, _, case in cases_of(self.files) if file["function"] == function and case["wrong"]]
            mistakes = [name for name in sorted(self.sentences) if any(one in self.times["float32"][name] for one in cases)]
            rows = [(name, [self.cell(name, one) for one in cases]) for name in mistakes]
            sections.append(writer.powers(f"{function}: {len(mistakes)} mistakes, {len(cases)} cases", cases, rows))
        return "".join(sections)

    def cell(self, mistake, case):
        """The power, and whether the case sees the mistake in bfloat16, too; empty where the case has no such mistake."""
        times = self.times["float32"][mistake].get(case)
        if times is None:
            return "", False
        return "∞" if math.isinf(times) else str(math.floor(math.log10(times))), self.times["bfloat16"][mistake][case] > 1
