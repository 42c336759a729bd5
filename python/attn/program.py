"""The program attn: where it is, and how it is called."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Sequence


OWN_FOLDER = "attn-python-"


class Error(Exception):
    """What the program refused, in its words, or that there is no program."""


def find_program() -> str:
    """What ATTN names; else the one that came with this package, on PATH, or that was built in the checkout around it."""
    named = os.environ.get("ATTN")
    if named:
        if not (os.path.isfile(named) and os.access(named, os.X_OK)):
            raise Error(f"ATTN is {named}, expected the program attn")
        return named
    here = Path(__file__).resolve()
    carried, built = here.parent / "bin" / "attn", here.parents[2] / "build" / "release" / "bin" / "attn"
    for found in (str(carried), *on_path(), str(built)):
        if os.access(found, os.X_OK):
            return found
    raise Error("the program attn was not found: put it on PATH, or set ATTN to it")


def on_path() -> Iterator[str]:
    """Programs of the name attn, but for the one that this package installs, which is Python."""
    for folder in os.get_exec_path():
        path = os.path.join(folder, "attn")
        if os.path.isfile(path):
            with open(path, "rb") as file:
                if file.read(2) != b"#!":
                    yield path


def call(*words: Any, passing: Sequence[int] = (0,)) -> subprocess.CompletedProcess[str]:
    """Runs the program. Files in folders of this package's own are called by their names in what it says.

    passing  exit codes that are an answer
    raises   Error with what it said, where it refused
    """
    command = [find_program(), *map(str, words)]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", errors="replace", stdin=subprocess.DEVNULL)
    except (OSError, ValueError) as error:  # words too long for the system, or with NUL in them
        raise Error(f"attn {words[0]} can't be started: {error}") from None
    for word in {os.path.dirname(word) for word in command[1:]}:
        if os.path.basename(word).startswith(OWN_FOLDER):
            ended.stdout, ended.stderr = (text.replace(word + os.sep, "") for text in (ended.stdout, ended.stderr))
    if ended.returncode not in passing:
        raise Error(ended.stderr.strip() or f"attn {words[0]} ended with exit code {ended.returncode}")
    return ended


class OwnFolder:
    """A folder that is deleted with this object, or when a with statement ends, or the program."""

    def __init__(self) -> None:
        try:
            self.name = tempfile.mkdtemp(prefix=OWN_FOLDER)
        except OSError as error:  # of a full disk Python says that there is no folder
            raise Error(f"no temporary folder can be made: {error}; is the disk full? TMPDIR says where") from None
        self._end = weakref.finalize(self, remove, self.name, os.getpid())

    def __enter__(self) -> str:
        return self.name

    def __exit__(self, *_: object) -> None:
        self._end()


def remove(folder: str, process: int) -> None:
    if os.getpid() == process:  # not where a child ends that was forked
        shutil.rmtree(folder, ignore_errors=True)


def plain_word(name: str, value: Any) -> str:
    """What stands for itself, and for no flag."""
    if not isinstance(value, str) or value.startswith("-"):
        raise Error(f"{name} is {value!r}, expected a word")
    return value


def flags_of(options: dict[str, Any]) -> list[str]:
    """heads=2, mask="causal", fast=True, rename=["a=b"] as --heads 2 --mask causal --fast --rename a=b. False and None are none."""
    words: list[str] = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            words.append(flag)
        elif value is not False and value is not None:
            for one in value if isinstance(value, (list, tuple)) else [value]:
                words += [flag, str(one)]
    return words
