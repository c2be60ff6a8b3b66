"""What a checkup costs, counted: calls by the number of files, which are arrays; names of a long history."""

from __future__ import annotations

import cProfile
from pathlib import Path

import numpy as np
import pytest

import deltanb as dn
from deltanb.observe.checkup import checkup
from deltanb.observe.checkup.clustering import expected_depth
from deltanb.observe.checkup.kinds import MAX_NAMED
from deltanb.observe.checkup.live_files import average_depth
from deltanb.testing import MemoryStore, TableBuilder, add
from tests.notebook import large

FEW, MANY = 20_000, 80_000


def calls(folder: Path, files: int) -> int:
    """How many calls of functions the checkup of a table of so many files makes."""
    large.make(folder, files)
    profile = cProfile.Profile()
    profile.enable()
    report = checkup(folder, list_files=False)
    profile.disable()
    assert report.num_files == files and report.kinds == ("small-files",)
    return sum(one.callcount for one in profile.getstats())


@pytest.mark.slow
def test_a_file_is_a_place_in_arrays(tmp_path: Path) -> None:
    calls(tmp_path / "first", 100)  # what is imported, and read once
    more = calls(tmp_path / "many", MANY) - calls(tmp_path / "few", FEW)
    assert more < 4 * (MANY - FEW), "packing has a call for each file, and nothing else has more"


def test_a_blind_spot_of_many_commits_names_the_first(tmp_path: Path) -> None:
    table = TableBuilder(MemoryStore()).create("id long")
    for number in range(MAX_NAMED + 10):
        table.commit({"commitInfo": {"operation": f"POLISH {number}"}}, add(f"f{number}"))
    (spot,) = [one for one in checkup(table.store).blind_spots if one.kind == "operation-unknown"]
    assert len(spot.versions) == MAX_NAMED and f"{MAX_NAMED + 10} versions" in spot.evidence
    assert "and 25 more" in spot.missing


def test_a_long_history_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deltanb.observe.checkup.commits.MAX_COMMITS", 4)
    table = dn.create(tmp_path / "t", {"id": [1]})
    for number in range(9):
        table.append({"id": [number]})
    report = table.checkup()
    assert report.num_commits == 4
    assert "history" in [spot.kind for spot in report.blind_spots]


@pytest.mark.parametrize("seed", range(20))
def test_a_depth_is_the_number_of_ranges_around_a_value(seed: int) -> None:
    draw = np.random.default_rng(seed)
    low = draw.integers(0, 50, 30)
    high = low + draw.integers(0, 20, 30)
    ends = np.concatenate([low, high])
    counted = [sum(a <= end <= b for a, b in zip(low, high, strict=True)) for end in ends]
    assert average_depth(low, high) == pytest.approx(np.mean(counted))


def test_a_table_that_grows_as_it_was_ordered_has_not_decayed() -> None:
    assert [expected_depth(files, 3.0, 100, 2) for files in (50, 100, 400)] == [3.0, 3.0, 6.0]
