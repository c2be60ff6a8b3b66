"""The files of a version, layer upon layer, against a plain dict."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from deltanb.log import file_set
from deltanb.log.file_set import FileSet
from deltanb.log.layer import Leaf
from deltanb.log.replay import CODED_SCHEMA, FILES_SCHEMA, TOMBSTONES_SCHEMA, Delta, canonical_path
from deltanb.testing import add, remove
from tests.examples import few
from tests.helpers import delta_of

DV = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "sizeInBytes": 40,
      "cardinality": 2}


class Checkpoint:
    """A checkpoint whose rows are at hand, and which remembers what was read of it."""

    protocol = metadata = None

    def __init__(self, files: FileSet) -> None:
        self.txns: dict[str, Any] = {}
        self.domains: dict[str, Any] = {}
        self.adds, self.removes = files.read(FILES_SCHEMA.names), files.tombstones()
        self.num_adds = self.adds.num_rows
        self.read: list[str] = []

    def read_adds(self, columns: list[str], rows: pa.Array | None = None) -> pa.Table:
        self.read += columns
        table = self.adds.select(columns)
        return table if rows is None else table.take(rows)

    def stream_adds(self, columns: list[str], rows: pa.Array | None = None) -> Iterator[pa.Table]:
        yield self.read_adds(columns, rows)

    def read_partition_values(self) -> pa.ChunkedArray:
        return self.adds["partition_values"].cast(CODED_SCHEMA.field("partition_values").type)

    def read_stats(
        self, leaves: list[str], rows: pa.Array | None, convert: Callable[[pa.Table], pa.Table]
    ) -> pa.Table:
        return convert(self.read_adds(["stats"], rows))

    def read_removes(self) -> pa.Table:
        return self.removes


TEXTS = Leaf((), pa.string())
Key = tuple[str, str]  # canonical path, which deletion vector
PATHS = st.sampled_from(["a", "b", "c", "d", "/x/e", "file:/x/e", "file:///x/e"])
VECTORS = st.sampled_from([None, DV, {**DV, "offset": 3}])
FILE_ACTIONS = st.lists(st.tuples(st.booleans(), PATHS, VECTORS), min_size=1, max_size=4)


def key_of(path: str, vector: dict[str, Any] | None) -> Key:
    return canonical_path(path), "-" if vector is None else str(vector.get("offset"))


def rows_of(table: pa.Table) -> list[tuple[Key, int]]:
    return [(key_of(row["path"], row["deletion_vector"]), row["size"]) for row in table.to_pylist()]


class Layers(RuleBasedStateMachine):
    """Any order of commits, checkpoints and looks: versions never change once they are made.

    The model of a version is a dict {logical file: (is it a file or a tombstone, its size)}.
    """

    def __init__(self) -> None:
        super().__init__()
        self.versions: list[tuple[FileSet, dict[Key, tuple[bool, int]]]] = [(FileSet(), {})]
        self.next_size = 1

    @rule(lines=FILE_ACTIONS, onto=st.integers(0, 3))
    def commit(self, lines: list[tuple[bool, str, Any]], onto: int) -> None:
        files, before = self.versions[-1 - onto % len(self.versions)]
        model, actions = dict(before), []
        for is_add, path, vector in lines:
            extra = {"deletionVector": vector} if vector else {}
            actions.append((add if is_add else remove)(path, size=self.next_size, **extra))
            model[key_of(path, vector)] = is_add, self.next_size
            self.next_size += 1
        self.versions.append((files.extended(delta_of(*actions)), model))

    @rule(names=st.lists(st.integers(0, 999), min_size=1, max_size=3, unique=True))
    def append_new_files(self, names: list[int]) -> None:
        files, before = self.versions[-1]
        model, actions = dict(before), []
        for name in names:
            path = f"new-{self.next_size}-{name}"
            actions.append(add(path, size=self.next_size))
            model[key_of(path, None)] = True, self.next_size
            self.next_size += 1
        self.versions.append((files.extended(delta_of(*actions), all_new=True), model))

    @rule()
    def nothing_changes(self) -> None:
        files, _ = self.versions[-1]
        assert files.extended(Delta()) is files

    @rule(keeps=st.booleans())
    def checkpoint(self, keeps: bool) -> None:
        files, model = self.versions[-1]
        self.versions.append((FileSet(Checkpoint(files), keeps), model))

    @rule(which=st.integers(0, 5))
    def count(self, which: int) -> None:
        files, model = self.versions[-1 - which % len(self.versions)]
        live = [size for is_file, size in model.values() if is_file]
        assert (files.num_files, files.size_in_bytes) == (len(live), sum(live))

    @rule(which=st.integers(0, 5))
    def read_everything(self, which: int) -> None:
        files, model = self.versions[-1 - which % len(self.versions)]
        table = files.read(FILES_SCHEMA.names)
        assert table.schema == FILES_SCHEMA
        assert sorted(rows_of(table)) == expected_rows(model, is_file=True)
        gone = files.tombstones()
        assert gone.schema == TOMBSTONES_SCHEMA
        assert sorted(rows_of(gone)) == expected_rows(model, is_file=False)

    @rule(which=st.integers(0, 5), data=st.data())
    def take_some(self, which: int, data: st.DataObject) -> None:
        files, _ = self.versions[-1 - which % len(self.versions)]
        everything = files.read(["path", "deletion_vector", "size"])
        positions = sorted(data.draw(st.sets(st.integers(0, max(0, everything.num_rows - 1)))
                                     if everything.num_rows else st.just(set())))
        rows = pa.array(positions, pa.int64())
        taken = files.take(["size", "path", "deletion_vector"], rows)
        assert rows_of(taken) == rows_of(everything.take(rows))
        stats = files.stats([TEXTS], rows, lambda table, leaves: table.select(["stats"]))
        assert sum(table.num_rows for table in stats) == len(positions)

    @rule(which=st.integers(0, 5), even=st.booleans())
    def search(self, which: int, even: bool) -> None:
        """A search among the candidates finds just those that are files of the version."""
        files, model = self.versions[-1 - which % len(self.versions)]
        sizes = files.candidates().read(["size"]).column("size")
        matches = pc.equal(pc.bit_wise_and(sizes, 1), 0 if even else 1)
        rows = pc.indices_nonzero(matches).cast(pa.int64())
        live = files.live_files(["path", "deletion_vector", "size"], rows)
        assert sorted(rows_of(live)) == [
            row for row in expected_rows(model, is_file=True) if row[1] % 2 == (0 if even else 1)]

    @invariant()
    def few_layers(self) -> None:
        for files, _ in self.versions[-2:]:
            if files._parts is not None:
                assert len(files._parts) <= file_set.MAX_LAYERS + 1


def expected_rows(model: dict[Key, tuple[bool, int]], is_file: bool) -> list[tuple[Key, int]]:
    return sorted((key, size) for key, (added, size) in model.items() if added is is_file)


@pytest.fixture(params=[(0, 10), (256, 1)], ids=["filtered", "in slices"], autouse=True)
def _limits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Small tables take the ways of large ones: few layers, hidden rows filtered or cut out."""
    holes, many = request.param
    monkeypatch.setattr(file_set, "MAX_HOLES", holes)
    monkeypatch.setattr(file_set, "MANY", many)
    monkeypatch.setattr(file_set, "MAX_LAYERS", 3)
    yield


def test_layers_agree_with_a_dict() -> None:
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(
        Layers, settings=few)


def test_a_checkpoint_is_read_by_column_and_only_once() -> None:
    parts = Checkpoint(FileSet().extended(delta_of(add("a"), add("b"))))
    base = FileSet(parts)
    assert parts.read == []
    assert base.num_files == 2 and parts.read == []
    assert base.size_in_bytes == 2 and parts.read == ["size"]
    later = base.extended(delta_of(add("c")))
    assert later.read(["size", "stats"]).num_rows == 3
    assert parts.read == ["size", "path", "stats"]
    assert base.extended(delta_of(remove("a"))).num_files == 1
    assert parts.read == ["size", "path", "stats", "deletion_vector"]


@pytest.mark.parametrize(("most_kept", "reads"), [(2, 1), (1, 2)])
def test_a_checkpoint_of_many_files_leaves_none_of_their_columns_in_memory(
    most_kept: int, reads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of few files stay, since the next checkpoint is made of them, too."""
    monkeypatch.setattr(file_set, "MAX_KEPT", most_kept)
    checkpoint = Checkpoint(FileSet().extended(delta_of(add("a"), add("b"))))
    files = FileSet(checkpoint)
    for _ in range(2):
        count, tables = files.read_apart(["path", "stats"], lambda _: False)
        assert count == 2 == sum(table.num_rows for table in tables)
    assert checkpoint.read.count("stats") == reads
