#!/usr/bin/env python3
"""Runs each runner of vectors/ on a right attention, and on thirty mistakes, which it has to name: runners_test.py [RUNNER ...]

RUNNER is python, package, c, c++, javascript, rust or go; all of them by default. The attentions are mine.py, mine.c and so on, each
written for itself. What names a mistake are the wrong results of the vectors alone. Exit code 0; 1 where one is not named; 77 where a
language is missing (1 where CI is set: there none may be).
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CASES, RUNNERS = ROOT / "vectors" / "cases", ROOT / "vectors" / "runners"
MISTAKES = """no_scale scale_d_k scale_inverse scale_default keys_reshaped mask_inverted mask_missing mask_transposed mask_zero mask_finite
mask_added mask_after_softmax causal_strict causal_next causal_top_left window_off_by_one window_missing window_top_left sink_tokens_missing
sink_tokens_early sink_missing softmax_axis softmax_all softmax_missing softmax_unnormalized softmax_twice softmax_sigmoid softmax_log
softmax_over_one weights_transposed""".split()


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


def rust(folder):
    cargo, debian = program("cargo"), Path("/usr/share/cargo/registry")
    shutil.copytree(RUNNERS / "rust", folder / "vectors" / "runners" / "rust")
    shutil.copytree(HERE / "rust", folder / "tests" / "vectors" / "rust")
    words = [cargo, "build", "--quiet", "--target-dir", folder / "target"]
    if list(debian.glob("serde_json-*")):  # as Debian has it, without a network
        words += ["--offline", "--config", 'source.crates-io.replace-with="debian"', "--config", f'source.debian.directory="{debian}"']
    do(*words, cwd=folder / "tests" / "vectors" / "rust")
    return [folder / "target" / "debug" / "mine", CASES]


def go(folder):
    do(program("go"), "build", "-o", folder / "mine", ".", cwd=HERE / "go")
    return [folder / "mine", CASES]


MAKERS = {
    "python": lambda folder: [sys.executable, RUNNERS / "check.py", CASES, "mine:attention"],
    "package": lambda folder: [sys.executable, "-m", "attn.vectors", "mine:attention"],
    "c": compiled("gcc", "-std=c99"),
    "c++": compiled("g++", "-x", "c++", "-std=c++17"),
    "javascript": lambda folder: [program("node"), RUNNERS / "check.mjs", CASES, HERE / "mine.mjs"],
    "rust": rust,
    "go": go,
}


def run(words, mistake):
    environment = {**os.environ, "MISTAKE": mistake, "PYTHONPATH": f"{HERE}:{ROOT / 'python'}"}
    ended = subprocess.run([str(word) for word in words], capture_output=True, text=True, env=environment, check=False)
    if ended.returncode not in (0, 1):
        sys.exit(f"{words[0]} ended with exit code {ended.returncode}:\n{ended.stdout}{ended.stderr}")
    return ended.returncode, ended.stdout


def check(name):
    with tempfile.TemporaryDirectory() as folder:
        words = MAKERS[name](Path(folder))
        code, text = run(words, "")
        counted = re.search(r"(\d+) of (\d+) cases passed", text)
        if code != 0 or not counted or int(counted[1]) < 40:
            print(f"{name}: a right attention does not pass:\n{text}")
            return False
        for mistake in MISTAKES:
            code, text = run(words, mistake)
            if code != 1 or not re.search(rf"your numbers are those of .*\b{mistake}\b", text):
                print(f"{name}: {mistake} is not named:\n{text}")
                return False
    print(f"{name}: {counted[0]} where all is right; {len(MISTAKES)} mistakes are named")
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
