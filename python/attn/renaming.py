"""Which names of the reference the weights of a module can have, where nothing says so."""

from __future__ import annotations

from typing import Any


def proposals(reference: Any) -> str:
    return f"{reference.kind} has no reference: {reference.reason}"
