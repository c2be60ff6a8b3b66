"""Which versions can be read: checked against reading each of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import deltanb as dn
from deltanb.actions import AddFile, encode_path
from deltanb.errors import DeltaError, TableNotFound
from deltanb.log.commits import commit_name
from deltanb.observe.availability import Gap, versions
from deltanb.testing import MemoryStore
from deltanb.transaction.delta_log import DeltaLog
from tests.examples import few
from tests.shared_tables import expectations, names, path_of

VECTORS = {"delta.enableDeletionVectors": "true"}


def readable(log: DeltaLog, last: int) -> list[int]:
    """The versions whose rows really come out."""
    versions_read = []
    for version in range(last + 1):
        try:
            dn.DeltaTable(log).as_of(version).to_arrow()
            versions_read.append(version)
        except DeltaError:
            pass
    return versions_read


def assert_is_what_can_be_read(table: Any) -> None:
    availability = table.versions()
    assert list(availability) == readable(table.log, availability.last)
    assert len(availability) == len(list(availability))
    assert all((version in availability) == (availability.reason(version) is None)
               for version in range(availability.last + 1))


STEPS = st.lists(st.sampled_from(["append", "delete", "overwrite", "vacuum", "optimize", "checkpoint",
                                  "restore", "lose a file"]), max_size=9)


@pytest.mark.slow
@settings(few, suppress_health_check=list(HealthCheck))
@given(steps=STEPS, properties=st.sampled_from([{}, VECTORS]), parts=st.sampled_from([[], ["s"]]),
       data=st.data())
def test_members_are_the_versions_that_can_be_read(
    steps: list[str], properties: dict[str, str], parts: list[str], data: Any
) -> None:
    store = MemoryStore()
    table = dn.create(store, {"id": [1, 2], "s": ["a b", "%20"]}, partition_by=parts,
                      properties=properties)
    for at, step in enumerate(steps):
        match step:
            case "append":
                table.append({"id": [at, at + 100], "s": ["a b", None]})
            case "delete":
                table.delete(f"id < {at}")
            case "overwrite":
                table.overwrite({"id": [at], "s": ["x"]})
            case "vacuum":
                table.vacuum(0, check=False)
            case "optimize":
                table.optimize()
            case "checkpoint":
                table.log.checkpoint()
            case "restore":
                table.restore(next(iter(table.versions())))
            case "lose a file":
                gone = [s.name for s in store.list_all("") if not s.name.startswith("_delta_log")]
                store.delete(data.draw(st.sampled_from(gone)))
                break  # a command may need it
    assert_is_what_can_be_read(table)


def test_a_run_says_how_many_files_are_gone() -> None:
    table = dn.create(MemoryStore(), {"id": [1]})
    for at in range(4):
        table.append({"id": [at]})
    table.overwrite({"id": [9]})
    table.vacuum(0, check=False)
    availability = table.versions()
    assert [str(gap) for gap in availability.gaps] == ["v0 to v4: 5 of their files are gone (vacuumed)"]
    assert (list(availability), availability.runs, len(availability.gaps[0].files)) == (
        [5, 6, 7], (range(5, 8),), 5)
    assert table.as_of(5).versions().last == 5
    assert availability.reason(99) == "there is no version 99: the newest is 7"


def test_a_missing_deletion_vector_counts(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", {"id": list(range(9))}, properties=VECTORS)
    table.delete("id = 3")
    table.overwrite({"id": [1]})
    (vector,) = (tmp_path / "t").glob("deletion_vector_*.bin")
    vector.unlink()
    availability = table.versions()
    assert availability.gaps == (Gap(1, 1, "files", 1, (vector.name,)),)
    assert_is_what_can_be_read(table)


def test_versions_before_the_oldest_checkpoint_are_cleaned_up(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", {"id": [1]})
    for at in range(4):
        table.append({"id": [at]})
    table.log.checkpoint(3)
    for version in (0, 1, 2):
        (tmp_path / "t" / commit_name(version)).unlink()
    DeltaLog.clear_cache()
    table = dn.open(tmp_path / "t")
    assert [str(gap) for gap in table.versions().gaps] == [
        "v0 to v2: the log was cleaned up: no checkpoint before"]
    assert_is_what_can_be_read(table)


def test_damaged_and_missing_commits(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", {"id": [1]})
    for at in range(6):
        table.append({"id": [at]})
    table.log.checkpoint(3)
    (tmp_path / "t" / commit_name(1)).write_text('{"add"')
    (tmp_path / "t" / commit_name(5)).unlink()
    DeltaLog.clear_cache()
    availability = versions(DeltaLog.for_table(str(tmp_path / "t")))
    assert [str(gap) for gap in availability.gaps] == [
        "v1 to v2: the commit of v1 is damaged", "v5 to v6: the commit of v5 is missing"]
    assert list(availability) == readable(DeltaLog.for_table(str(tmp_path / "t")), 6)


def test_a_compaction_stands_for_its_commits(tmp_path: Path) -> None:
    from deltanb.log.compaction import write_compaction

    table = dn.create(tmp_path / "t", {"id": [1]})
    for at in range(4):
        table.append({"id": [at]})
    write_compaction(table.log, 1, 3)
    (tmp_path / "t" / commit_name(2)).unlink()
    DeltaLog.clear_cache()
    table = dn.open(tmp_path / "t")
    assert [str(gap) for gap in table.versions().gaps] == ["v2: the commit of v2 is missing"]
    assert_is_what_can_be_read(table)


def test_files_elsewhere_are_looked_for_there(tmp_path: Path) -> None:
    source = dn.create(tmp_path / "source", {"id": [1], "s": ["a b"]}, partition_by=["s"])
    source.append({"id": [2], "s": ["c"]})
    clone = source.clone(tmp_path / "clone")
    clone.append({"id": [3], "s": ["d"]})
    assert list(clone.versions()) == [0, 1]
    next(iter((tmp_path / "source").glob("s=c/*.parquet"))).unlink()
    availability = clone.versions()
    assert [(gap.first, gap.last, gap.num_files) for gap in availability.gaps] == [(0, 1, 1)]
    assert_is_what_can_be_read(clone)


def test_paths_are_decoded_once() -> None:
    store = MemoryStore()
    table = dn.create(store, "id long")
    name = "a b%20c.parquet"
    store.put(name, b"")
    table.start_transaction().commit(
        [AddFile(encode_path(name), {}, 1, 1, True)], dn.Operation("WRITE"))
    assert list(table.versions()) == [0, 1]
    store.delete(name)
    store.put(encode_path(name), b"")  # another file, whose name looks like the path in the log
    assert table.versions().gaps[0].files == (name,)


def test_no_table_and_a_table_without_files() -> None:
    with pytest.raises(TableNotFound):
        versions(DeltaLog.for_table(MemoryStore()))
    assert list(dn.create(MemoryStore(), "id long").versions()) == [0]


@pytest.mark.shared
@pytest.mark.parametrize("name", names("rows"))
def test_the_newest_version_of_a_real_table_can_be_read(name: str) -> None:
    readable = versions(DeltaLog.for_table(str(path_of(name))))
    assert readable.last == expectations()[name]["version"]
    assert readable.last in readable, readable.gaps
