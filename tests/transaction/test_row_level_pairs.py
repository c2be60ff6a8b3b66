"""Which statements pass each other at row level: each kind behind each kind, on the same row and on two."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb.testing import MemoryStore
from tests.pages import assert_part

PAGE = Path(__file__).resolve().parents[2] / "docs/conflicts.md"
LEVELS = ("Serializable", "WriteSerializable")

KINDS: dict[str, Callable[[Any, int], object]] = {
    "INSERT": lambda t, row: t.append({"id": [row], "v": [0]}),
    "INSERT … SELECT":
        lambda t, row: dn.sql(f"INSERT INTO t SELECT id + 100, v FROM t WHERE id = {row}", t=t),
    "DELETE": lambda t, row: t.delete(f"id = {row}"),
    "UPDATE": lambda t, row: t.update({"v": "v + 1"}, f"id = {row}"),
    "MERGE": lambda t, row: t.merge({"id": [row], "v": [7]}, "target.id = source.id")
    .when_matched_update_all().when_not_matched_insert_all().execute(),
    "overwrite(where=…)": lambda t, row: t.overwrite({"id": [row], "v": [8]}, where=f"id = {row}"),
    "OPTIMIZE": lambda t, row: t.optimize(),
}
"""Statements, as they run for one row."""


def passes(earlier: str, later: str, is_same: bool, isolation: str, level: str) -> bool:
    """Whether a statement commits behind an earlier one that it did not see; both met the same file."""
    table = dn.create(MemoryStore(), {"id": [1, 2, 3], "v": [10, 20, 30]}, properties={
        "delta.enableDeletionVectors": True, "delta.isolationLevel": isolation})
    table.append({"id": [4], "v": [40]})
    both = {"earlier": lambda t: KINDS[earlier](t, 1 if is_same else 2),
            "later": lambda t: KINDS[later](t, 1)}
    outcomes = dn.race(table, both, row_level=level).outcomes
    assert outcomes["earlier"] == 2
    return outcomes["later"] == 3


def in_words(earlier: str, later: str, isolation: str) -> str:
    """A cell of the table."""
    other, same = (passes(earlier, later, is_same, isolation, "all") for is_same in (False, True))
    return "passes" if other and same else "passes on other rows" if other else "conflict"


def as_markdown() -> str:
    """The matrix, as the documentation prints it."""
    lines = ["| behind → | " + " | ".join(KINDS) + " |", "|---" * (len(KINDS) + 1) + "|"]
    for later in KINDS:
        cells = []
        for earlier in KINDS:
            strict, weak = (in_words(earlier, later, isolation) for isolation in LEVELS)
            cells.append(strict if strict == weak else f"{strict}; {weak} at WriteSerializable")
        lines.append(f"| **{later}** | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def test_the_page_has_what_passes(update_golden: bool) -> None:
    assert_part(PAGE, "pairs", as_markdown(), update_golden)


@pytest.mark.parametrize("isolation", LEVELS)
def test_what_passes_at_no_level_passes_at_the_finest(isolation: str) -> None:
    for earlier in KINDS:
        for later in KINDS:
            if passes(earlier, later, False, isolation, "off"):
                assert passes(earlier, later, False, isolation, "all"), (earlier, later)
