"""For tests: what fails says why."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .calls import CallsReport, check_calls
from .functions import check_function
from .report import Report
from .trace import Trace

report_folder: Path | None = None  # keeps the files of what failed; pytest's --attn-report


def assert_same(actual: Any, reference: Trace, **options: Any) -> None:
    """Fails with the verdict of attn diff where yours differs from the reference, or where that can't be decided.

    actual, options  as Trace.diff() takes them
    """
    __tracebackhide__ = True  # pytest shows the line of the test
    expect(reference.diff(actual, **options))


def assert_attends(function: Callable[..., Any], **options: Any) -> None:
    """Fails with the mistake that a function makes, on the first input that shows it.

    options  as check_function() takes them: causal=True, mask="mask", layout="bnhd", like="torch"
    """
    __tracebackhide__ = True
    expect(check_function(function, "attention", **options))


def assert_calls(model: Any, **options: Any) -> None:
    """Fails where a token's result depends on how the tokens are given over calls.

    model, options  as check_calls() takes them: vocabulary=64, window=16
    """
    __tracebackhide__ = True
    expect(check_calls(model, **options))


def expect(report: Report | CallsReport) -> None:
    __tracebackhide__ = True
    if report.ok:
        return
    kept = ""
    if report_folder is not None:
        folder = report_folder / name_of_test()
        report.save(folder)
        kept = f"kept in {folder}\n"
    raise AssertionError(f"{report}{kept}")


def name_of_test() -> str:
    """As a folder: "test_layers.py/test_attention", which pytest says as "test_layers.py::test_attention (call)".

    A parameter, which can have any letters, names no folder of its own, and none above the report's.
    """
    file, *tests = os.environ.get("PYTEST_CURRENT_TEST", "unnamed").rsplit(" (", 1)[0].split("::")
    parts = [re.sub(r"[^\w.-]", "_", part)[:100] for part in (*file.split("/"), *tests)]
    return "/".join(part for part in parts if part.strip("."))
