"""Every cell of the README's comparison is what the library does: found out here by running it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.peers.comparison import LIBRARIES, ROWS_OF_THE_TABLE
from tests.peers.delta_spark import DeltaSpark
from tests.peers.libraries import Deltanb, DeltaRs, Library, Spark

ROOT = Path(__file__).resolve().parent.parent.parent
HEADING = "## Compared with delta-rs and Delta Spark"


def table_of_the_readme() -> list[list[str]]:
    section = (ROOT / "README.md").read_text("utf-8").split(HEADING)[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "|---" not in line]


HEAD, *BODY = table_of_the_readme()
TAKES_LONG = ("Runs without a JVM", "Several tables in one commit, through a catalog")
ROWS = [pytest.param(row, marks=pytest.mark.slow if row in TAKES_LONG else ()) for row in ROWS_OF_THE_TABLE]
TABLE = {row[0]: dict(zip((kind.__name__ for kind in LIBRARIES), row[1:], strict=True)) for row in BODY}


def test_its_rows_and_versions_are_those_that_are_tried() -> None:
    assert ["", *(kind.title for kind in LIBRARIES)] == HEAD
    assert [row[0] for row in BODY] == list(ROWS_OF_THE_TABLE)


def check(library: Library, row: str, folder: Path) -> None:
    assert ROWS_OF_THE_TABLE[row](library, folder) == TABLE[row][type(library).__name__]


@pytest.mark.parametrize("row", ROWS)
def test_deltanb(row: str, tmp_path: Path) -> None:
    check(Deltanb(), row, tmp_path)


@pytest.mark.parametrize("row", ROWS)
def test_delta_rs(row: str, tmp_path: Path) -> None:
    check(DeltaRs(), row, tmp_path)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("row", ROWS_OF_THE_TABLE)
def test_delta_spark(row: str, delta_spark: DeltaSpark, tmp_path: Path) -> None:
    check(Spark(delta_spark), row, tmp_path)
