#!/usr/bin/python3
"""Checks an exercise in NumPy by the numbers of its C++ twin.

    lessons/check_exercise.py PROGRAM EXERCISE.py [--verdict FILE]

PROGRAM is the exercise's C++ check. It writes the arguments of every call, and compares what the functions of EXERCISE.py
return with its own reference: so both twins have the same numbers and the same messages. Exit code: 0; 1 where a function
is wrong or not written yet; 2 where something can't be used.

An exercise can end this program with any exit code. So FILE, the pipe of script/exercise, gets a line "running my_weights"
before each function is called, and "verdict CODE" at the end.
"""

import argparse
import importlib.util
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

sys.dont_write_bytecode = True
try:
    import numpy as np
except ImportError:
    print("check_exercise.py: this Python has no NumPy, expected one that has: apt-get install python3-numpy", file=sys.stderr)
    sys.exit(2)
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
from attn import exercises  # noqa: E402


class Unusable(Exception):
    """A function ended with an error, or returned something else than numbers."""


def functions_of(path, state):
    """The module in a file."""
    state(f"running {path.name}")
    specification = importlib.util.spec_from_file_location("exercise", path)
    module = importlib.util.module_from_spec(specification)
    try:
        specification.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise Unusable(f"{path} can't be loaded\n{place_of(error, path)}") from error
    return module


def place_of(error, path):
    """What an error says, and the last line of the learner's file that it came through."""
    lines = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == path]
    place = f"  line {lines[-1].lineno}: {lines[-1].line}\n" if lines else ""
    return f"{place}  {type(error).__name__}: {error}"


def result_of(module, path, call, arguments, state):
    """What the function returns, as an array of numbers."""
    name = call["function"]
    function = getattr(module, name, None)
    if function is None:
        raise Unusable(f"{name} is missing, expected a function of that name in {path}")
    state(f"running {name}")
    try:
        result = function(*arguments)
    except (Exception, SystemExit) as error:
        raise Unusable(f"{name} ended with an error\n{place_of(error, path)}") from error
    try:
        return exercises.result_of(call, result)
    except exercises.Error as error:
        raise Unusable(str(error)) from error


def results_of(path, calls, arrays, state):
    """The results of all calls, by name, until one can't be used; and why it can't."""
    found = {}
    try:
        module = functions_of(path, state)
        for number, call in enumerate(calls):
            found[f"call.{number}"] = result_of(module, path, call, exercises.arguments_of(call, number, arrays), state)
    except Unusable as error:
        return found, str(error)
    return found, ""


def check(program, path, flags, state):
    with tempfile.TemporaryDirectory() as folder:
        calls_file, found_file = Path(folder) / "calls.npz", Path(folder) / "found.npz"
        subprocess.run([program, "--calls", calls_file], check=True)
        calls, arrays = exercises.read_calls(calls_file)
        found, trouble = results_of(path, calls, arrays, state)
        np.savez(found_file, **found)
        checked = subprocess.run([program, "--found", found_file, *flags], check=False, stderr=subprocess.PIPE, text=True)
        # A wrong result comes before the call that could not be compared.
        message = checked.stderr or (f"{trouble}\n" if checked.returncode == 1 else "")
        print(message, end="", file=sys.stderr)
        return checked.returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("program", type=Path, help="the exercise's C++ check")
    parser.add_argument("exercise", type=Path, help="the file with the functions")
    parser.add_argument("--verdict", type=Path, metavar="FILE", help="a pipe that gets what is run, and the result")
    parser.add_argument("--hint", action="store_true", help="show the step to look at, and the arithmetic of its number")
    parser.add_argument("--answer", action="store_true", help="show the formula, too")
    arguments = parser.parse_args()

    def state(line):
        if arguments.verdict:
            arguments.verdict.write_text(line + "\n")

    for path in (arguments.program, arguments.exercise):
        if not path.is_file():
            print(f"check_exercise.py: there is no file {path}", file=sys.stderr)
            return 2
    flags = [flag for flag, is_given in (("--hint", arguments.hint), ("--answer", arguments.answer)) if is_given]
    code = check(arguments.program.resolve(), arguments.exercise.resolve(), flags, state)
    sys.stdout.flush()
    sys.stderr.flush()
    state(f"verdict {code}")
    return code


if __name__ == "__main__":
    sys.exit(main())
