"""Lessons: whatever they show of one commit, its time is the same."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn


def times(shown: dn.DeltaTable | Any) -> list[str]:
    return re.findall(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", shown._repr_mimebundle_()["text/html"])


def test_in_a_lesson_every_picture_of_a_commit_has_the_same_time(tmp_path: Path) -> None:
    with dn.teaching(seed=1):
        table = dn.create(tmp_path / "orders", {"day": [1, 2], "n": [1, 2]}, partition_by="day")
        yours = table.start_transaction()
        read = yours.filter_files("day = 1")
        table.append({"day": [1], "n": [3]})
        with pytest.raises(dn.errors.ConcurrentAppendException):
            yours.commit([file.remove() for file in read], "DELETE")
        card, newest = times(table), times(table.history(1))
        assert set(card) == set(newest) == set(times(table.commit(1))) == set(times(yours.conflict))


def test_a_commit_that_lost_a_race_in_a_lesson_has_one_time(tmp_path: Path) -> None:
    with dn.teaching(seed=1):
        table = dn.create(tmp_path / "orders", {"day": [1, 2]})
        yours = table.start_transaction()
        table.append({"day": [3]})
        yours.commit(yours.write_files({"day": [4]}), "WRITE")
        assert set(times(table)) == set(times(table.history(1)))


@pytest.mark.parametrize("durability", ["sync", "none"])
def test_in_a_lesson_vacuum_shows_the_times_of_the_lesson(tmp_path: Path, durability: str) -> None:
    with dn.teaching(seed=1), dn.set_options(durability=durability):
        table = dn.create(tmp_path / "orders", {"day": [1, 2]})
        table.delete("day = 1")
        cleaned = table.vacuum(retention_hours=0, dry_run=True, check=False)
        assert cleaned.num_files == 1
        assert {time[:10] for time in times(cleaned)} == {"2026-01-01"}
