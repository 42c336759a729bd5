#!/usr/bin/env python3
"""Runs each runner of vectors/ on a right attention, and on thirty mistakes, which it has to name; and in several calls with a cache on
eighteen more, six of them of rows with padding: runners_test.py [RUNNER ...]. The example of each, a kernel in tiles, passes
vectors/kernels, and is named where it does not rescale.

RUNNER is python, package, c, c++, c-fast, javascript, rust or go; all of them by default. The attentions are mine.py, mine.c and so on,
each written for itself. What names a mistake are the wrong results of the vectors alone. Results of another shape, that are no numbers
or that are complex fail, and damaged files are refused by name. Exit code 0; 1 where one is not named; 77 where a language is missing
(1 where CI is set: there none may be).
"""

import copy
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CASES, KERNELS, RUNNERS = ROOT / "vectors" / "cases", ROOT / "vectors" / "kernels", ROOT / "vectors" / "runners"
MISTAKES = """no_scale scale_d_k scale_inverse scale_default keys_reshaped mask_inverted mask_missing mask_transposed mask_zero mask_finite
mask_added mask_after_softmax causal_strict causal_next causal_top_left window_off_by_one window_missing window_top_left sink_tokens_missing
sink_tokens_early sink_missing softmax_axis softmax_all softmax_missing softmax_unnormalized softmax_twice softmax_sigmoid softmax_log
softmax_over_one weights_transposed""".split()

MISTAKES_OF_CALLS = """mask_skipped_with_cache chunk_unmasked chunk_masked_top_left mask_at_first_key chunk_sees_itself_alone cache_ignored
cache_overwritten token_stored_twice last_request window_one_long window_one_short ring_written_first""".split()

MISTAKES_OF_PADDING = """padding_not_masked padding_seen_later mask_of_first_row padding_counted steps_at_padded_length positions_of_first_row""".split()

# Functions that are called several times, how many cases each has at least, and the mistakes that are made in it; "" is called once.
FUNCTIONS = {"": (40, MISTAKES), "attention_calls": (5, MISTAKES_OF_CALLS), "padded_attention_calls": (3, MISTAKES_OF_PADDING)}

# Results that are no mistake of the list, and the runners that they can't be given to: an array of C has no shape, and a type.
NO_NUMBERS = {"not_a_number": (), "more_axes": ("c", "c++", "c-fast"), "imaginary": ("c", "c++", "c-fast", "javascript", "rust", "go")}


def damages():
    """Texts of files that a program of zeros could pass, or that could stop a runner."""
    text = (CASES / "attention_causal.json").read_text()
    yield from ("", "{}", "[]", "null", text[:len(text) // 2], text.replace("vectors_schema_1", "vectors_schema_2"))
    for path, value in [(("outputs",), {}), (("inputs",), {}), (("outputs", "output", "values"), []), (("outputs", "output", "values", 0), "text"),
                        (("outputs", "output", "values", 0), None), (("outputs", "output", "shape"), [-4, -4]), (("outputs", "output", "shape"), [0, 4]),
                        (("outputs", "output", "shape"), [2**32, 2**32]), (("outputs", "output", "tolerance", "float64"), -1),
                        (("outputs", "output", "tolerance"), {}), (("accepted",), {"x": {"output": []}}), (("accepted",), {"x": {}}),
                        (("wrong", "no_scale"), {"output": [0]}), (("wrong", "no_scale"), {"outptu": [0]}), (("rows",), [100000000, 0]), (("rows",), [-1]),
                        (("inputs", "queries", "values"), [1]), (("inputs", "queries"), {"shape": [10**9, 10**9], "multiplier": 3, "offset": 1}), (("id",), 7)]:
        file = copy.deepcopy(json.loads(text))
        place = file["groups"][0]["cases"][0]
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value
        yield json.dumps(file)
    text = (CASES / "attention_calls.json").read_text()
    for name, other in [("calls.1.queries", "calls.9.queries"), ("calls.1.output", "calls.9.output"), ("calls.1.output", "output"),
                        ("calls.1.output", "calls.x.output"), ("calls.1.output", "calls.01.output"), ("calls.1.output", "calls.-1.output"),
                        ("calls.1.output", "calls.1."), ("calls.1.output", "calls.1e0.output")]:
        yield text.replace(f'"{name}"', f'"{other}"')
    for requests in ([], [0, 5], [5, -1], [4], [6], [2.5, 2.5], ["5"], [10**9], [2**64], [True] * 5, 5, None, {"5": 5}):
        file = json.loads(text)
        file["groups"][0]["cases"][0]["requests"] = requests
        yield json.dumps(file)
    file = json.loads(text)
    del file["groups"][0]["cases"][0]["requests"]
    yield json.dumps(file)


def kernel_damages():
    """The same of files of kernels."""
    text = (KERNELS / "kernel_groups.json").read_text()
    yield from ("", "{}", text[:len(text) // 2], text.replace("vectors_kernels_1", "vectors_kernels_2"))
    output = ("outputs", "output")
    for path, value in [(("outputs",), {}), (("inputs",), {}), (("id",), 7), ((*output, "values"), []), ((*output, "values", 0), "text"), ((*output, "block"), 0),
                        ((*output, "block"), -1), ((*output, "block"), 10**9), ((*output, "places", 0), 10**9), ((*output, "places", 0), -1), ((*output, "scale", 0), 0),
                        ((*output, "scale"), []), ((*output, "roundings", "float32"), 0), ((*output, "roundings"), {}), ((*output, "rough"), {}),
                        ((*output, "shape"), [2**32, 2**32]), ((*output, "shape"), [0, 4]), (("wrong", "causal_missing"), []), (("wrong", "causal_missing"), [{"form": ""}]),
                        (("wrong", "causal_missing", 0, "output", "at", 0), 10**6), (("wrong", "causal_missing", 0, "output", "values"), []),
                        (("inputs", "queries", "rule"), -1), (("inputs", "queries", "rule"), "1"), (("inputs", "queries", "shape"), [10**9, 10**9])]:
        file = json.loads(text)
        place = file["groups"][0]["cases"][0]
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value
        yield json.dumps(file)
    file = json.loads(text)
    right = file["groups"][0]["cases"][0]["outputs"]["output"]
    right["values"] = [0] * len(right["values"])
    yield json.dumps(file)


class Missing(Exception):
    pass


def program(name):
    found = shutil.which(name)
    if not found:
        raise Missing(f"there is no {name}: script/bootstrap runners installs it")
    return found


def do(*words, cwd=None):
    subprocess.run([str(word) for word in words], cwd=cwd, check=True, stdout=subprocess.DEVNULL)


def compiled(compiler, *flags):
    def make(folder):
        do(sys.executable, RUNNERS / "header.py", CASES, folder / "vectors.h")
        do(program(compiler), *flags, "-Wall", "-Wextra", "-Werror", "-I", folder, "-I", RUNNERS, HERE / "mine.c", "-o", folder / "mine", "-lm")
        return [folder / "mine"]
    return make


def cargo(folder, package):
    cargo, debian = program("cargo"), Path("/usr/share/cargo/registry")
    words = [cargo, "build", "--quiet", "--target-dir", folder / "target"]
    if list(debian.glob("serde_json-*")):  # as Debian has it, without a network
        words += ["--offline", "--config", 'source.crates-io.replace-with="debian"', "--config", f'source.debian.directory="{debian}"']
    do(*words, cwd=package)


def rust(folder):
    shutil.copytree(RUNNERS, folder / "vectors" / "runners")
    shutil.copytree(HERE / "rust", folder / "tests" / "vectors" / "rust")
    cargo(folder, folder / "tests" / "vectors" / "rust")
    return [folder / "target" / "debug" / "mine", CASES]


def go(folder):
    do(program("go"), "build", "-o", folder / "mine", ".", cwd=HERE / "go")
    return [folder / "mine", CASES]


MAKERS = {
    "python": lambda folder: [sys.executable, RUNNERS / "check.py", CASES, "mine:attention"],
    "package": lambda folder: [sys.executable, "-m", "attn.vectors", "mine:attention"],
    "c": compiled("gcc", "-std=c99"),
    "c++": compiled("g++", "-x", "c++", "-std=c++17"),
    "c-fast": compiled("gcc", "-std=c99", "-Ofast"),
    "javascript": lambda folder: [program("node"), RUNNERS / "check.mjs", CASES, HERE / "mine.mjs"],
    "rust": rust,
    "go": go,
}


def example_of(name, folder, replace=("", "")):
    """The words that run the example of a runner, with a change of its text."""
    shutil.copytree(RUNNERS, folder / "runners", dirs_exist_ok=True)
    examples = folder / "runners" / "examples"
    path = examples / {"python": "kernel.py", "package": "kernel.py", "javascript": "kernel.mjs", "rust": "rust/src/main.rs", "go": "go/main.go"}.get(name, "kernel.c")
    text = path.read_text()
    assert replace[0] in text, f"{path} has no {replace[0]}"
    path.write_text(text.replace(*replace))
    if name == "python":
        return [sys.executable, RUNNERS / "check.py", KERNELS, "kernel:attention_kernel", "float32"], examples
    if name == "package":
        return [sys.executable, "-m", "attn.vectors", "kernel:attention_kernel", "--vectors", KERNELS, "--type", "float32"], examples
    if name == "javascript":
        return [program("node"), RUNNERS / "check.mjs", KERNELS, path, "float32"], examples
    if name == "rust":
        cargo(folder, examples / "rust")
        return [folder / "target" / "debug" / "kernel", KERNELS], examples
    if name == "go":
        do(program("go"), "build", "-o", folder / "kernel", ".", cwd=examples / "go")
        return [folder / "kernel", KERNELS], examples
    do(sys.executable, RUNNERS / "header.py", KERNELS, folder / "vectors.h")
    flags = {"c": ["-std=c99"], "c++": ["-x", "c++", "-std=c++17"], "c-fast": ["-std=c99", "-Ofast"]}[name]
    do(program("g++" if name == "c++" else "gcc"), *flags, "-Wall", "-Wextra", "-Werror", "-I", folder, "-I", RUNNERS, path, "-o", folder / "kernel", "-lm")
    return [folder / "kernel"], examples


RESCALES = {"python": ("sums * factor", "sums"), "package": ("sums * factor", "sums"), "rust": ("*sum *= factor", "*sum *= 1.0 + 0.0 * factor")}


def checks_kernels(name, folder):
    """The example passes; where it does not rescale this is its name, in the report for build servers, too; where a key is lost it says which number is off."""
    for replace, code, said in [(("", ""), 0, r"31 of 31 cases passed"),
                                (RESCALES.get(name, ("sums[c] *= factor", "sums[c] *= 1")), 1, r"those of not_rescaled \(the output, tiles of 64\)"),
                                (("math.sqrt(d)", "math.sqrt(d + 0.01)") if name in ("python", "package") else
                                 ("Math.sqrt(d)", "Math.sqrt(d + 0.01)") if name == "javascript" else ("math.Sqrt(float64(d))", "math.Sqrt(float64(d) + 0.01)")
                                 if name == "go" else ("(d as f64).sqrt()", "(d as f64 + 0.01).sqrt()") if name == "rust" else ("sqrtf((float)d)", "sqrtf((float)d + 0.01f)"),
                                 1, r"output\[0, \d.* is .*, expected .* roundings off, .* allowed; no mistake")]:
        words, examples = example_of(name, folder, replace)
        report = folder / "report.xml"
        environment = {**os.environ, "VECTORS_JUNIT": str(report), "PYTHONPATH": f"{examples}:{ROOT / 'python'}"}
        ended = subprocess.run([*map(str, words), *(["--junit", str(report)] if name == "package" else [])], capture_output=True, text=True, env=environment, check=False)
        junit = report.read_text()
        if ended.returncode != code or not re.search(said, ended.stdout) or junit.count("<testcase") - junit.count("<skipped") != 31 or (code and not re.search(said, junit)):
            print(f"{name}: the example, with {replace}, ended with exit code {ended.returncode}, expected {code} and {said}:\n{ended.stdout[-3000:]}{ended.stderr}")
            return False
    return True


def run(words, mistake, calls=""):
    environment = {**os.environ, "MISTAKE": mistake, "PYTHONPATH": f"{HERE}:{ROOT / 'python'}", **({"CALLS": calls} if calls else {})}
    words = [f"mine:{calls}" if calls and word == "mine:attention" else word for word in words]
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, env=environment, check=False)


def refuses(name, words, folder):
    """Whether every damaged file is refused, in its name. In C it is header.py that reads it."""
    damaged = folder / "damaged"
    damaged.mkdir()
    words = [damaged if word == CASES else word for word in words]
    if name.startswith("c"):
        words = [sys.executable, RUNNERS / "header.py", damaged, folder / "none.h"]
    elif name == "package":
        words += ["--vectors", damaged]
    for text in [*damages(), *kernel_damages()]:
        (damaged / "attention_causal.json").write_text(text)
        ended = run(words, "")
        if ended.returncode != (1 if name in ("rust", "go") else 2) or "attention_causal.json is no file of vectors" not in ended.stderr:
            print(f"{name}: ended with exit code {ended.returncode} where the file is damaged:\n{text[:200]}\n{ended.stdout}{ended.stderr}")
            return False
    return True


def check(name):
    with tempfile.TemporaryDirectory() as folder:
        words = MAKERS[name](Path(folder))
        counts = []
        for calls, (least, _) in FUNCTIONS.items():
            ended = run(words, "", calls)
            counts += re.findall(r"\d+ of \d+ cases passed", ended.stdout)
            if ended.returncode != 0 or not counts or int(counts[-1].split()[0]) < least:
                print(f"{name}: a right attention does not pass:\n{ended.stdout}{ended.stderr}")
                return False
        for calls, mistake in [(calls, mistake) for calls, (_, mistakes) in FUNCTIONS.items() for mistake in mistakes]:
            ended = run(words, mistake, calls)
            if ended.returncode != 1 or not re.search(rf"your numbers are those of .*\b{mistake}\b", ended.stdout):
                print(f"{name}: {mistake} is not named:\n{ended.stdout}{ended.stderr}")
                return False
        for mistake, others in NO_NUMBERS.items():
            ended = run(words, mistake)
            if name not in others and (ended.returncode != 1 or ended.stdout.count("failed ") < 40):
                print(f"{name}: {mistake} does not fail:\n{ended.stdout}{ended.stderr}")
                return False
        if not refuses(name, words, Path(folder)) or not checks_kernels(name, Path(folder)):
            return False
    print(f"{name}: {', '.join(counts)} where all is right; {sum(len(mistakes) for _, mistakes in FUNCTIONS.values())} mistakes are named; damaged files are refused")
    return True


def main(names):
    missing = False
    for name in names or MAKERS:
        try:
            if not check(name):
                return 1
        except Missing as what:
            print(f"{name}: skipped, {what}")
            missing = True
    return (1 if os.environ.get("CI") else 77) if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
