"""Gives pytest --attn-report DIR, which keeps the files of what assert_same() and assert_attends() found wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def pytest_addoption(parser: Any) -> None:
    group = parser.getgroup("attn")
    group.addoption("--attn-report", metavar="DIR", help="keep what was compared, and the verdict, of each assertion of "
                    "attn.testing that fails")


def pytest_configure(config: Any) -> None:
    folder = config.getoption("--attn-report")
    if folder:
        from attn import testing

        testing.report_folder = Path(folder).absolute()
