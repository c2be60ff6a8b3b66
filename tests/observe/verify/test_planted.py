"""Faults planted in real tables: each is found with kind, certainty and versions, and nothing else is."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

import deltanb as dn
from deltanb.observe.verify.kinds import KINDS
from tests.observe.verify import faults_in_files, faults_in_logs  # noqa: F401
from tests.observe.verify.planting import FAULTS, Broken, Fault

ANYWHERE = [fault for fault in FAULTS if fault.anywhere]
OWN = [fault for fault in FAULTS if not fault.anywhere]


def ours(path: Path) -> None:
    """A history of ours: an append, a DELETE and an OPTIMIZE."""
    table = dn.create(path, {"id": [1, 2, 3, 4], "p": ["a", "b", "a", "b"]})
    table.append({"id": [5], "p": ["c"]})
    table.delete("id = 1")
    table.append({"id": [6], "p": ["c"]})
    table.optimize()


def delta_rs(path: Path) -> None:
    """The same history as deltalake writes it."""
    deltalake.write_deltalake(path, pa.table({"id": [1, 2, 3, 4], "p": ["a", "b", "a", "b"]}))
    deltalake.write_deltalake(path, pa.table({"id": [5], "p": ["c"]}), mode="append")
    deltalake.DeltaTable(path).delete("id = 1")
    deltalake.write_deltalake(path, pa.table({"id": [6], "p": ["c"]}), mode="append")
    deltalake.DeltaTable(path).optimize.compact()


HISTORIES: dict[str, Callable[[Path], None]] = {"ours": ours, "delta-rs": delta_rs}


@pytest.fixture(scope="module", params=HISTORIES)
def history(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound table, of which each test gets a copy."""
    path = tmp_path_factory.mktemp("history") / "t"
    with dn.set_options(durability="none", checkpoints="inline"):
        HISTORIES[request.param](path)
    assert dn.verify(path, files="all").is_sound
    return path


def check(fault: Fault, made: Path) -> None:
    """Plant a fault and look for it, in a folder that nobody remembers anything of."""
    with dn.set_options(durability="none"):
        versions = fault.plant(Broken(made))
    path = made.with_name("broken")
    made.rename(path)
    report = dn.verify(path, files=fault.files)
    expected = (versions,) if isinstance(versions, int) else versions
    of_kind = [finding for finding in report.findings if finding.kind == fault.kind]
    assert (fault.certainty, expected) in [(one.certainty, one.versions) for one in of_kind], report.findings
    others = {finding.kind for finding in report.findings} - {fault.kind, *fault.along}
    assert not others, [finding for finding in report.findings if finding.kind in others]
    assert all(one.evidence and one.remedy for one in of_kind)
    certainties = {one.certainty for one in (*report.findings, *report.cycles)}
    assert report.status == (1 if "proved" in certainties else 3)


@pytest.mark.parametrize("fault", OWN, ids=lambda fault: fault.name)
def test_a_planted_fault_is_found(fault: Fault, tmp_path: Path) -> None:
    check(fault, tmp_path / "made")


@pytest.mark.parametrize("fault", ANYWHERE, ids=lambda fault: fault.name)
def test_it_is_found_in_the_history_of_any_writer(fault: Fault, history: Path, tmp_path: Path) -> None:
    shutil.copytree(history, tmp_path / "made")
    check(fault, tmp_path / "made")


def test_every_kind_is_planted() -> None:
    """And none that is not planted is promised."""
    assert set(KINDS) == {fault.kind for fault in FAULTS}
    assert len(FAULTS) >= 60


def test_what_is_sound_is_said_to_be(history: Path) -> None:
    report = dn.verify(history, files="all")
    assert report.is_sound and report.status == 0 and not report.cycles
    commits = list((history / "_delta_log").glob("*.json"))
    assert report.num_commits == len(commits)
