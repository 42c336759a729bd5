"""The table of docs/calls_table.tsv: which schedule shows which mistake. python3 -m attn.calls_table > docs/calls_table.tsv"""

from __future__ import annotations

from collections.abc import Iterator

from .calls import check_calls
from .calls_mistakes import KINDS, MISTAKES

HEADER = ("mistake", "in", "wrong in", "same pattern as", "sentence", "why", "seen")


def rows() -> Iterator[tuple[str, ...]]:
    """A row for each mistake, in the last of its kinds of decoder, of other weights and other sizes than those that it is compared with."""
    for mistake in MISTAKES:
        kind = mistake.kinds[-1]
        report = check_calls(mistake.made(seed=3, d=6, **KINDS[kind]), vocabulary=64, window=KINDS[kind].get("window"))
        wrong = [name for name, marks in report.pattern.items() if any("x" in one for one in marks.values())]
        others = [one.id for one in report.mistakes if one is not mistake]
        yield (mistake.id, kind, "; ".join(wrong), "; ".join(others if mistake in report.mistakes else ["not named"]), mistake.sentence, mistake.why, mistake.link)


def main() -> None:
    print("\t".join(HEADER))
    for row in rows():
        print("\t".join(row), flush=True)


if __name__ == "__main__":
    main()
