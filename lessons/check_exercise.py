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
import json
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


def in_double(array):
    """Real numbers as float64: a file has float32 where that loses nothing. Whole numbers as int64."""
    return array.astype(np.float64 if array.dtype.kind == "f" else np.int64)


def arguments_of(call, number, arrays):
    """The arguments of one call. Weights are a dictionary of arrays, and a single number is a Python number."""
    arguments = []
    for parameter in call["parameters"]:
        name = f"call.{number}.{parameter}"
        if name in arrays:
            arguments.append(arrays[name].item() if arrays[name].ndim == 0 else arrays[name].copy())
        else:
            arguments.append({key.removeprefix(f"{name}."): arrays[key].copy() for key in arrays if key.startswith(f"{name}.")})
    return arguments


def result_of(module, path, call, arguments, state):
    """What the function returns, as an array of numbers."""
    name, place = call["function"], call.get("place")
    function = getattr(module, name, None)
    if function is None:
        raise Unusable(f"{name} is missing, expected a function of that name in {path}")
    state(f"running {name}")
    try:
        result = function(*arguments)
    except (Exception, SystemExit) as error:
        raise Unusable(f"{name} ended with an error\n{place_of(error, path)}") from error
    if place is not None:
        if not isinstance(result, tuple) or len(result) <= place:
            raise Unusable(f"{name} returned {type(result).__name__}, expected several results: return a, b")
        result = result[place]
    try:
        array = np.asarray(result)
    except ValueError:
        array = np.asarray(None)
    if array.dtype.kind not in "biuf":
        raise Unusable(f"{name} returned {type(result).__name__}, expected an array of numbers")
    return in_double(array)


def results_of(path, calls, arrays, state):
    """The results of all calls, by name, until one can't be used; and why it can't."""
    found = {}
    try:
        module = functions_of(path, state)
        for number, call in enumerate(calls):
            found[f"call.{number}"] = result_of(module, path, call, arguments_of(call, number, arrays), state)
    except Unusable as error:
        return found, str(error)
    return found, ""


def check(program, path, with_hint, state):
    with tempfile.TemporaryDirectory() as folder:
        calls_file, found_file = Path(folder) / "calls.npz", Path(folder) / "found.npz"
        subprocess.run([program, "--calls", calls_file], check=True)
        with np.load(calls_file) as content:
            calls = json.loads(content["calls.json"])
            arrays = {name: in_double(content[name]) for name in content.files if name != "calls.json"}
        found, trouble = results_of(path, calls, arrays, state)
        np.savez(found_file, **found)
        checked = subprocess.run([program, "--found", found_file, *(["--hint"] if with_hint else [])], check=False, stderr=subprocess.PIPE, text=True)
        # A wrong result comes before the call that could not be compared.
        message = checked.stderr or (f"{trouble}\n" if checked.returncode == 1 else "")
        print(message, end="", file=sys.stderr)
        return checked.returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("program", type=Path, help="the exercise's C++ check")
    parser.add_argument("exercise", type=Path, help="the file with the functions")
    parser.add_argument("--verdict", type=Path, metavar="FILE", help="a pipe that gets what is run, and the result")
    parser.add_argument("--hint", action="store_true", help="show the formula of a function that is not written yet")
    arguments = parser.parse_args()

    def state(line):
        if arguments.verdict:
            arguments.verdict.write_text(line + "\n")

    for path in (arguments.program, arguments.exercise):
        if not path.is_file():
            print(f"check_exercise.py: there is no file {path}", file=sys.stderr)
            return 2
    code = check(arguments.program.resolve(), arguments.exercise.resolve(), arguments.hint, state)
    sys.stdout.flush()
    sys.stderr.flush()
    state(f"verdict {code}")
    return code


if __name__ == "__main__":
    sys.exit(main())
