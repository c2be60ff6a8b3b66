"""Tables kept beside the project, by Delta Spark, delta-kernel-rs and delta-rs: what each must give.

What lives here: where they are, their names by what is expected of them, and the canonical form of rows.
A test that needs them has the mark ``shared``; where the folder is absent it has no cases, and skips.
What it does not know: how a table is read.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

SHARED = Path(__file__).resolve().parents[2] / "shared"
TABLES = SHARED / "tables"


@cache
def expectations() -> dict[str, dict[str, Any]]:
    """What each table must give, by name; empty where the folder is absent."""
    return {path.stem: json.loads(path.read_text("utf-8"))
            for path in sorted((TABLES / "expected").glob("*.json"))}


def names(*outcomes: str, meets: Callable[[dict[str, Any]], bool] = lambda expected: True) -> list[str]:
    """The tables with one of these outcomes (any, without arguments) whose expectation meets a condition."""
    return [name for name, expected in expectations().items()
            if (not outcomes or expected["outcome"] in outcomes) and meets(expected)]


def path_of(name: str) -> Path:
    """The folder of a table."""
    return TABLES / name.split("__")[0] / expectations()[name]["table"]


@cache
def canon() -> ModuleType:
    """The module that brings rows into their canonical form and hashes them."""
    spec = importlib.util.spec_from_file_location("canon", TABLES / "canon.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
