"""The command attn: check, and what the program attn has."""

from __future__ import annotations

import os
import sys


def main() -> None:
    from .program import Error, find_program

    if sys.argv[1:2] == ["check"]:
        from .script import main as check

        sys.exit(check(sys.argv[2:]))
    try:
        program = find_program()
    except Error as error:
        sys.exit(f"attn: {error}")  # TODO code 2
    sys.stdout.flush()
    os.execv(program, ["attn", *sys.argv[1:]])


if __name__ == "__main__":
    main()
