"""Nothing is proved wrong of sound tables: those beside the project, and random ones of each writer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb.observe.verify import Verification
from tests.examples import first
from tests.observe.verify import histories
from tests.shared_tables import expectations, names, path_of

FAULTY = {
    "kernel_rs__table-with-cdf": "made by hand: two commits remove one file, one of them as a blind append",
    "kernel_rs__crc-full": "its checksum is made up: ten files where the commit adds none",
    "delta_rs_data__cdc_ict_table": "the time of its second commit was set back, and not in the checksum",
}
"""Tables that can be read and are not sound, each with the reason."""


def proved(report: Verification) -> list[Any]:
    """What is proved wrong."""
    return [*report.proved, *(cycle for cycle in report.cycles if cycle.certainty == "proved")]


@pytest.mark.shared
@pytest.mark.parametrize("name", [name for name in names("rows", "log_only") if name not in FAULTY])
def test_nothing_is_proved_of_a_table_of_others(name: str) -> None:
    """Those of which only the log is there are verified without their files."""
    has_files = expectations()[name]["outcome"] == "rows"
    assert not proved(dn.verify(path_of(name), files="all" if has_files else "none"))


@pytest.mark.shared
@pytest.mark.parametrize("name", FAULTY)
def test_what_was_made_up_is_found(name: str) -> None:
    assert name in expectations() and proved(dn.verify(path_of(name), files="none"))


@pytest.mark.parametrize("seed", first(12, of=500))
def test_nothing_is_proved_of_our_own_histories(seed: int, tmp_path: Path) -> None:
    with dn.set_options(durability="none"):
        histories.ours(tmp_path / "t", seed)
    report = dn.verify(tmp_path / "t", files="all")
    assert report.num_commits >= 6 and not proved(report)


@pytest.mark.parametrize("seed", first(6, of=500))
def test_nothing_is_proved_of_histories_of_deltalake(seed: int, tmp_path: Path) -> None:
    histories.delta_rs(tmp_path / "t", seed)
    report = dn.verify(tmp_path / "t", files="all")
    assert report.num_commits >= 3 and not proved(report)


def test_histories_have_all_that_they_are_to_have(tmp_path: Path) -> None:
    """Each statement is done somewhere, so that none is only ever refused."""
    before = set(histories.done)
    with dn.set_options(durability="none"):
        for seed in range(2_000, 2_012):
            histories.ours(tmp_path / str(seed), seed)
    assert {"raced", "merge", "restore", "transaction", "drop_feature"} <= set(histories.done) | before
