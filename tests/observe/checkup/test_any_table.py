"""A checkup and a layout of tables of any writer: no check fails, and each column lies somewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb.errors import DeltaError, UnsupportedProtocol
from deltanb.observe.checkup import Checkup, checkup
from deltanb.observe.checkup.live_files import leaves
from deltanb.schema.paths import quoted
from tests.observe.verify.histories import WRITERS
from tests.shared_tables import names, path_of


def failed(report: Checkup) -> list[Any]:
    """The checks that could not be made."""
    return [spot for spot in report.blind_spots if spot.kind in ("check", "no-version")]


def check_layouts(table: dn.DeltaTable) -> int:
    """The layout of every column that has one, against counts of the table; their number."""
    columns = leaves(table.schema)
    for path in columns:
        layout = table.layout(quoted(path))
        assert (layout.num_files, layout.size_in_bytes) == (
            table.snapshot.num_files, table.snapshot.size_in_bytes)
        assert sum(bar.files for bar in layout.bars()) == (
            layout.num_files - layout.num_unknown - layout.num_null)
        assert "cannot be shown" not in str(layout)
    return len(columns)


@pytest.mark.shared
@pytest.mark.parametrize("name", names("rows", "log_only"))
def test_no_check_of_a_table_of_others_fails(name: str) -> None:
    report = checkup(path_of(name))
    assert report.num_files is not None and not failed(report), report.blind_spots
    assert "cannot be shown" not in str(report)
    if "schema" not in [spot.kind for spot in report.blind_spots]:
        check_layouts(dn.open(path_of(name)))


@pytest.mark.shared
@pytest.mark.parametrize("name", names("error"))
def test_a_table_that_cannot_be_read_is_answered_or_refused(name: str) -> None:
    try:
        report = checkup(path_of(name))
    except DeltaError as error:
        assert not isinstance(error, UnsupportedProtocol)
    else:
        assert (report.num_files is None) == ("no-version" in [spot.kind for spot in report.blind_spots])
        assert "cannot be shown" not in str(report)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("writer", WRITERS)
def test_no_check_of_a_random_history_fails(writer: str, seed: int, tmp_path: Path) -> None:
    with dn.set_options(durability="none"):
        WRITERS[writer](tmp_path / "t", seed)
    report = checkup(tmp_path / "t")
    assert not failed(report)
    assert "operation-unknown" not in [spot.kind for spot in report.blind_spots]
    assert check_layouts(dn.open(tmp_path / "t"))
