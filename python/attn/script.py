"""attn check mine.py: from a script to a verdict."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import attn_record

from .checking import verdict_on
from .program import Error, OwnFolder


def main(words: list[str]) -> int:
    """@return the exit code: 0 the same, 1 different or undecided, or the script failed, 2 wrong usage or nothing to compare"""
    parser = argparse.ArgumentParser(
        prog="attn check", usage="attn check [--module NAME] [--own FOLDER] SCRIPT.py [argument ...]",
        description="Runs a script, and says where the first module of PyTorch in it that attn run has goes wrong. The script "
        "is not edited; its output and its exit code stay, but for 0.")
    parser.add_argument("--module", metavar="NAME", help="the module of this name: encoder.layers.0")
    parser.add_argument("--own", action="append", metavar="FOLDER", help="only code in this folder is yours (default: all that "
                        "is neither Python's nor an installed package); can be given again")
    parser.add_argument("script", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    given = parser.parse_args(words)
    script = given.script[1:] if given.script[:1] == ["--"] else given.script
    if not script:
        parser.error("which script?")
    if script[0] != "-m" and not os.path.isfile(script[0]):
        parser.error(f"{script[0]}: there is no such script")
    folder = OwnFolder()
    recorder = attn_record.Recorder(str(Path(folder.name, "mine.npz")), given.own, reference=given.module or True, quiet=True)
    try:
        attn_record.record_script(recorder, script)
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        if end.code not in (None, 0):
            return end.code if isinstance(end.code, int) else 1
    try:
        report = verdict_on(recorder, folder)
    except Error as error:
        print(f"attn check: {error}", file=sys.stderr)
        return 2
    print(report, end="")
    return 0 if report.ok else 1
