"""What is in the store and needed by no version, however the log spells names: as VACUUM sees it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import deltanb as dn
from deltanb.observe.checkup import Checkup, checkup
from deltanb.options import options
from deltanb.schema.properties import DAY_MS
from tests.examples import first
from tests.observe.verify.histories import WRITERS

LOST = "part-00000-lost.parquet"


def later(days: int) -> Callable[[], int]:
    """A clock that is ahead."""
    now = options.clock
    return lambda: now() + days * DAY_MS


def unneeded(report: Checkup) -> int:
    """The files that VACUUM is to delete."""
    return sum(finding.figures["files_unneeded"] for finding in report.findings
               if finding.kind in ("orphans", "tombstones"))


def check_as_vacuum(path: Path, days: int = 40) -> int:
    """The number of files that a checkup and a dry VACUUM find, which must be one."""
    with dn.set_options(clock=later(days)):
        number = unneeded(checkup(path))
        assert number == dn.open(path).vacuum(dry_run=True).num_files
    return number


@pytest.mark.parametrize("partition", ["a", "a b", "ä%", "x:y", "_p"])
def test_names_that_are_encoded_are_needed(partition: str, tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", {"_p": [partition, "z"], "n": [1, 2]}, partition_by="_p",
                      properties={"delta.enableDeletionVectors": True, "delta.enableChangeDataFeed": True})
    table.append({"_p": [partition] * 3, "n": [3, 4, 5]})
    table.delete("n = 3")
    assert check_as_vacuum(tmp_path / "t", 1) == 0
    assert check_as_vacuum(tmp_path / "t") >= 1, "the change file is old by then"
    folder = next(one for one in (tmp_path / "t").iterdir() if one.name.startswith("_p="))
    (folder / LOST).write_bytes(b"PAR1")
    with dn.set_options(clock=later(40)):
        assert "orphans" in checkup(tmp_path / "t").kinds
    check_as_vacuum(tmp_path / "t")


def test_a_table_inside_keeps_its_files(tmp_path: Path) -> None:
    dn.create(tmp_path / "t", {"n": [1]})
    dn.create(tmp_path / "t" / "inner", {"n": [1]})
    (tmp_path / "t" / "inner" / LOST).write_bytes(b"PAR1")
    (tmp_path / "t" / "inner2").mkdir()
    (tmp_path / "t" / "inner2" / LOST).write_bytes(b"PAR1")
    assert check_as_vacuum(tmp_path / "t") == 1


def test_what_is_hidden_is_nobodys_to_delete(tmp_path: Path) -> None:
    dn.create(tmp_path / "t", {"n": [1]})
    for name in ("_SUCCESS", ".hidden", "_side.parquet"):
        (tmp_path / "t" / name).write_bytes(b"x")
    assert check_as_vacuum(tmp_path / "t") == 0


def test_the_target_of_a_link_is_needed(tmp_path: Path) -> None:
    dn.create(tmp_path / "t", {"n": [1]})
    (file,) = (tmp_path / "t").glob("*.parquet")
    file.rename(tmp_path / "t" / "moved.parquet")
    os.symlink("moved.parquet", file)
    assert check_as_vacuum(tmp_path / "t") == 0


def test_a_young_orphan_may_be_of_a_write_under_way(tmp_path: Path) -> None:
    dn.create(tmp_path / "t", {"n": [1]})
    (tmp_path / "t" / LOST).write_bytes(b"PAR1")
    assert check_as_vacuum(tmp_path / "t", 6) == 0
    assert check_as_vacuum(tmp_path / "t", 8) == 1


def test_removed_files_by_the_log_alone(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", {"n": [1]})
    table.overwrite({"n": [2]})
    with dn.set_options(clock=later(40)):
        assert "tombstones" in checkup(tmp_path / "t", list_files=False).kinds
        table.vacuum()
        assert "tombstones" not in checkup(tmp_path / "t", list_files=False).kinds


@pytest.mark.parametrize("seed", first(8, of=200))
@pytest.mark.parametrize("writer", WRITERS)
def test_random_histories_of_each_writer(writer: str, seed: int, tmp_path: Path) -> None:
    with dn.set_options(durability="none"):
        WRITERS[writer](tmp_path / "t", seed)
    check_as_vacuum(tmp_path / "t", 1)
    check_as_vacuum(tmp_path / "t")
