"""What a verification costs, counted: files read, and calls by the number of commits, however they raced."""

from __future__ import annotations

import cProfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb.store.local import LocalStore
from deltanb.testing import MemoryStore, ScriptedStore, TableBuilder, add, remove

FEW, MANY = 300, 1_200
MARGIN = 1.3  # of what grows with commits alone


def write(store: Any, commits: int, read: Callable[[int], int], blind: bool) -> None:
    """Appends, each of which read some version, with a DELETE of nine files at every tenth."""
    table = TableBuilder(store).create()
    for version in range(1, commits):
        info: dict[str, Any] = {
            "timestamp": 1, "operation": "WRITE", "operationParameters": {"mode": "Append"},
            "readVersion": read(version), "isBlindAppend": blind}
        lines = [add(f"f{version}", stats='{"numRecords":1}')]
        if version % 10 == 0 and blind:
            info |= {"operation": "DELETE", "isBlindAppend": False, "readVersion": version - 1}
            lines += [remove(f"f{one}") for one in range(version - 9, version)]
        table.commit({"commitInfo": info}, *lines)


def calls(commits: int, read: Callable[[int], int], blind: bool) -> int:
    """How many calls of functions the verification of such a log makes."""
    store = MemoryStore()
    write(store, commits, read, blind)
    profile = cProfile.Profile()
    profile.enable()
    report = dn.verify(store, files="none")
    profile.disable()
    assert report.num_commits == commits
    return sum(one.callcount for one in profile.getstats())


@pytest.mark.parametrize(("read", "blind"), [
    (lambda version: version - 1, True), (lambda version: max(0, version - 4), True),
    (lambda version: max(0, version - 4), False), (lambda version: 0, False)],
    ids=["nobody raced", "windows of appends", "windows of unknown reads", "all read the first version"])
def test_calls_grow_with_commits_alone(
    read: Callable[[int], int], blind: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deltanb.observe.verify.isolation.MAX_CHECKS", FEW)
    calls(10, read, blind)  # what is imported, and read once
    few, many = calls(FEW, read, blind), calls(MANY, read, blind)
    assert many < few * MARGIN * MANY / FEW


def test_each_commit_is_read_once_where_nobody_raced() -> None:
    store = ScriptedStore(MemoryStore())
    write(store, 50, lambda version: version - 1, True)
    reads: Counter[str] = Counter()
    read = store.inner.read

    def counted(name: str) -> bytes:
        reads[name] += 1
        return read(name)

    store.inner.read = counted  # type: ignore[method-assign]
    dn.verify(store, files="none")
    assert len(reads) == 50 and set(reads.values()) == {1}


def test_what_is_not_compared_is_said() -> None:
    store = MemoryStore()
    write(store, 400, lambda version: 0, False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("deltanb.observe.verify.isolation.MAX_CHECKS", 400)
        report = dn.verify(store, files="none")
    (spot,) = [spot for spot in report.blind_spots if spot.kind == "windows"]
    assert spot.versions[0] > 20 and len(spot.versions) > 300
    assert dict(report.omitted)["conflict-passed"] > 200


def test_checksums_are_read_as_commits_are_many_at_a_time(tmp_path: Path) -> None:
    """In a bucket each request waits: none is made for one version alone."""

    class Store(LocalStore):
        asked = 0

        def read(self, name: str) -> bytes:
            self.asked += name.endswith(".crc")
            return super().read(name)

        def read_many(self, names: Iterable[str]) -> Iterator[bytes | None]:
            yield from map(super().read, names)

    table = dn.create(tmp_path / "table", {"id": [1]})
    for n in range(5):
        table.append({"id": [n]})
    dn.flush()
    assert len(list((tmp_path / "table/_delta_log").glob("*.crc"))) == 6
    store = Store(str(tmp_path / "table"))
    assert dn.verify(store, files="none").is_sound
    assert store.asked == 0
    damaged = tmp_path / "table/_delta_log/00000000000000000003.crc"
    damaged.write_text(damaged.read_text().replace('"numFiles":4', '"numFiles":9'))
    findings = dn.verify(store, files="none").findings
    assert [(finding.kind, finding.versions) for finding in findings] == [("checksum-differs", (3,))]
