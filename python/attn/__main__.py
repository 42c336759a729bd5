"""The command attn: check and port, which are Python, and all that the program attn has."""

from __future__ import annotations

import os
import sys

from .program import Error, find_program


def main() -> None:
    if sys.argv[1:2] == ["check"]:
        from .script import main as check

        sys.exit(check(sys.argv[2:]))
    if sys.argv[1:2] == ["port"]:
        from .port import main as port

        sys.exit(port(sys.argv[2:]))
    try:
        program = find_program()
    except Error as error:
        print(f"attn: {error}", file=sys.stderr)
        sys.exit(2)
    os.execv(program, ["attn", *sys.argv[1:]])


if __name__ == "__main__":
    main()
