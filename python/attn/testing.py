"""For tests: what fails says why."""

from __future__ import annotations

from typing import Any

from .trace import Trace


def assert_same(mine: Any, reference: Trace, **options: Any) -> None:
    """Fails with the verdict of attn diff where yours differs from the reference, or where that can't be decided.

    mine, options  as Trace.diff() takes them
    """
    __tracebackhide__ = True  # pytest shows the line of the test
    report = reference.diff(mine, **options)
    if not report.ok:
        raise AssertionError(str(report))
