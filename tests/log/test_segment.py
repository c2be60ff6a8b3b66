"""Which files make a version, and what is said when they do not."""

from __future__ import annotations

import pytest

from deltanb.errors import InvalidTable, VersionNotFound
from deltanb.log.commits import commit_name
from deltanb.log.segment import LogSegment, choose, earliest_version, find
from deltanb.testing import MemoryStore

LOG = "_delta_log/"


def commits(*versions: int) -> list[str]:
    return [commit_name(v) for v in versions]


def classic(version: int) -> str:
    return f"{LOG}{version:020}.checkpoint.parquet"


def part(version: int, number: int, count: int) -> str:
    return f"{LOG}{version:020}.checkpoint.{number:010}.{count:010}.parquet"


def compacted(first: int, last: int) -> str:
    return f"{LOG}{first:020}.{last:020}.compacted.json"


def files(segment: LogSegment | None) -> list[tuple[int, int]]:
    assert segment is not None
    return [(first, last) for first, last, _ in segment.files]


def test_commits_alone() -> None:
    segment = choose(commits(0, 1, 2))
    assert segment is not None
    assert (segment.version, segment.checkpoint) == (2, ())
    assert files(segment) == [(0, 0), (1, 1), (2, 2)]


def test_the_newest_checkpoint_at_or_below_the_version_is_taken() -> None:
    names = [*commits(*range(8)), classic(3), classic(6)]
    latest, older = choose(names), choose(names, 5)
    assert latest is not None and latest.checkpoint == (classic(6),) and files(latest) == [(7, 7)]
    assert older is not None and older.checkpoint == (classic(3),)
    assert files(older) == [(4, 4), (5, 5)]
    first = choose(names, 2)
    assert first is not None and first.checkpoint == ()


def test_a_checkpoint_with_a_missing_part_is_ignored() -> None:
    names = [*commits(*range(5)), part(3, 1, 2), classic(1)]
    segment = choose(names)
    assert segment is not None and segment.checkpoint == (classic(1),)
    segment = choose([*names, part(3, 2, 2)])
    assert segment is not None and segment.checkpoint == (part(3, 1, 2), part(3, 2, 2))


def test_an_incomplete_checkpoint_that_is_needed_is_named() -> None:
    with pytest.raises(InvalidTable, match=r"no version 0: .*0000\.json is missing.*000001") as caught:
        choose([*commits(4, 5), part(4, 1, 2)])
    assert "incomplete" in caught.value.message and caught.value.version == 0
    with pytest.raises(InvalidTable, match="only an incomplete checkpoint"):
        choose([part(4, 1, 2)])


def test_a_gap_is_named_and_versions_before_it_stay_readable() -> None:
    names = commits(0, 1, 3, 4)
    with pytest.raises(InvalidTable, match=r"no version 2: .*snapshot_at\(1\)") as caught:
        choose(names)
    assert caught.value.file == commit_name(2)
    assert files(choose(names, 1)) == [(0, 0), (1, 1)]
    assert files(choose([*names, classic(3)])) == [(4, 4)]


def test_the_longest_compaction_that_fits_stands_for_its_commits() -> None:
    names = [*commits(*range(9)), compacted(1, 3), compacted(1, 5), compacted(4, 6), compacted(6, 9)]
    assert files(choose(names)) == [(0, 0), (1, 5), (6, 6), (7, 7), (8, 8)]
    assert files(choose(names, 4)) == [(0, 0), (1, 3), (4, 4)]
    assert files(choose([*names, classic(2)])) == [(3, 3), (4, 6), (7, 7), (8, 8)]
    covered = [name for name in names if name not in commits(2, 3)]
    assert files(choose(covered)) == [(0, 0), (1, 5), (6, 6), (7, 7), (8, 8)]


def test_versions_outside_the_log() -> None:
    names = [*commits(5, 6, 7), classic(6)]
    assert earliest_version(names) == 6
    for version in (-1, 3, 5, 8):
        with pytest.raises(VersionNotFound, match="versions 6 to 7") as caught:
            choose(names, version)
        assert (caught.value.version, caught.value.earliest, caught.value.latest) == (version, 6, 7)


def test_other_names_are_not_part_of_the_log() -> None:
    odd = [f"{LOG}.00000000000000000002.json.1a2b.tmp", f"{LOG}00000000000000000002.crc",
           f"{LOG}_staged_commits/00000000000000000002.3a0d65cd.json", f"{LOG}2.json",
           f"{LOG}00000000000000000002.json.bak", f"{LOG}_last_checkpoint",
           f"{LOG}.00000000000000000001.checkpoint.parquet.crc",
           f"{LOG}00000000000000000002.checkpoint.3a0d65cd.json.tmp"]
    segment = choose([*commits(0, 1), *odd])
    assert segment is not None and segment.version == 1 and segment.checkpoint == ()
    assert choose(odd) is None and choose([]) is None


@pytest.mark.parametrize("hint", [None, 0, 2, 4, 7, 10**15])
def test_a_hint_never_changes_the_result(hint: int | None) -> None:
    store = MemoryStore()
    for name in [*commits(*range(7)), classic(2), classic(4)]:
        store.put(name, b"")
    for version in (None, 6, 4, 3, 1):
        assert find(store, version, hint) == find(store, version)
    with pytest.raises(VersionNotFound, match="versions 0 to 6"):
        find(store, 9, hint)
