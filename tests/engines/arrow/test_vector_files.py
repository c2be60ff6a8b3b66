"""Files of deletion vectors: each range is read once, whoever needs it, and so much of it is held."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
from pyroaring import BitMap64

import deltanb as dn
from deltanb.engines.arrow import deletion_vectors, vector_files
from deltanb.engines.arrow.data_file import Scan
from deltanb.engines.arrow.vector_files import VectorFiles, vectors_of
from deltanb.testing import MemoryStore

FILES = 20
PROPERTIES = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}

def two_statements(table: dn.DeltaTable) -> None:
    with table.transaction() as txn:
        txn.delete("id % 7 = 2")
        txn.delete("id % 7 = 3")


WORKS: dict[str, Callable[[dn.DeltaTable], Any]] = {
    "read": lambda t: t.to_arrow(),
    "a part": lambda t: t.to_arrow(where="p >= 5", columns=["id"]),
    "first rows": lambda t: t.head(FILES * 2),
    "sample": lambda t: t.sample(30, seed=1),
    "delete": lambda t: t.delete("id % 7 = 2"),
    "update": lambda t: t.update({"id": "-id"}, where="id % 7 = 2"),
    "merge": lambda t: t.upsert(pa.table({"p": range(FILES), "id": range(3, FILES * 10, 10)}), on="id"),
    "purge": lambda t: t.purge(),
    "optimize": lambda t: t.optimize(),
    "optimize along a curve": lambda t: t.optimize(zorder_by="id"),
    "a past version": lambda t: t.as_of(2).to_arrow(),
    "a transaction of two statements": lambda t: two_statements(t),
    "overwrite of rows": lambda t: t.overwrite({"p": [3], "id": [32]}, where="id = 32 AND p = 3"),
    "difference": lambda t: t.diff(1, 2).rows,
    "blame": lambda t: t.blame("p = 3"),
    "verify": lambda t: t.verify(files="all"),
}


@pytest.mark.parametrize("work", WORKS)
def test_all_vectors_of_a_file_are_one_request(bucket: str, s3_server: Any, work: str) -> None:
    options = s3_server.options
    rows = {"p": [p for p in range(FILES) for _ in range(10)], "id": list(range(FILES * 10))}
    table = dn.create(f"{bucket}/t", rows, partition_by="p", properties=PROPERTIES, storage_options=options)
    table.append(rows)
    table.delete("id % 10 = 1")
    (before,) = {row["path_or_inline_dv"] for row in table.snapshot.files["deletion_vector"].to_pylist()}
    name = deletion_vectors.relative_path(before)
    again = dn.open(f"{bucket}/t", storage_options=options)
    with s3_server.counted() as requests:
        WORKS[work](again)
    asked = [one for one in requests if one.key.endswith(name) and one.method == "GET"]
    assert len(asked) == 1, [str(one) for one in asked]


class Counting(MemoryStore):
    """A store that says which ranges it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[int, int]] = []

    def read_range(self, name: str, start: int, stop: int) -> bytes:
        self.asked.append((start, stop))
        return self.read(name)[start:stop]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_files, "BLOCK", 64)
    monkeypatch.setattr(vector_files, "MOST_HELD", 1024)


def vectors_in(store: Counting, count: int) -> list[Any]:
    return deletion_vectors.write_file(store, [BitMap64([number, number + 9]) for number in range(count)])


def test_in_the_order_of_the_file_ranges_grow(small: None) -> None:
    store = Counting()
    vectors, files = vectors_in(store, 200), VectorFiles()
    size = vectors[-1].offset + vectors[-1].size_in_bytes + 8
    for number, vector in enumerate(vectors):
        assert list(files.load(store, vector)) == [number, number + 9]
        assert files.held <= 1024
    widths = [stop - start for start, stop in store.asked]
    assert widths[:6] == [64, 128, 256, 512, 1024, 1024]
    assert len(store.asked) <= 5 + size / 1024 and sum(widths) < size + 1024


def test_in_no_order_nothing_is_read_twice_but_what_is_needed(small: None) -> None:
    store = Counting()
    vectors, files = vectors_in(store, 200), VectorFiles()
    size = vectors[-1].offset + vectors[-1].size_in_bytes + 8
    order = list(range(200))
    random.Random(3).shuffle(order)
    for number in order:
        assert list(files.load(store, vectors[number])) == [number, number + 9]
        assert files.held <= 1024
    longest = max(vector.size_in_bytes for vector in vectors) + 8
    whole = sum(stop - start for start, stop in store.asked if stop - start > longest)
    assert whole <= 2 * size and len(store.asked) <= 200


def test_one_vector_of_many_is_a_block(small: None) -> None:
    store = Counting()
    vectors = vectors_in(store, 200)
    assert list(VectorFiles().load(store, vectors[100])) == [100, 109]
    ((start, stop),) = store.asked
    assert stop - start <= 128


def test_threads_wait_for_what_another_one_reads() -> None:
    store = Counting()
    vectors, files = vectors_in(store, 100), VectorFiles()
    with ThreadPoolExecutor(8) as pool:
        loaded = list(pool.map(lambda vector: list(files.load(store, vector)), vectors))
    assert loaded == [[number, number + 9] for number in range(100)]
    assert len(store.asked) == 1


def test_a_vector_larger_than_what_is_read_at_once_is_read_alone(small: None) -> None:
    store, files = Counting(), VectorFiles()
    rows = BitMap64(range(0, 100_000, 3))
    (vector,) = deletion_vectors.write_file(store, [rows])
    assert files.load(store, vector) == rows
    assert store.asked == [(1, 1 + vector.size_in_bytes + 8)] and files.held == 0


def test_what_was_not_there_is_looked_for_again() -> None:
    store, files = Counting(), VectorFiles()
    (vector,) = vectors_in(store, 1)
    name = deletion_vectors.relative_path(vector.path_or_inline_dv)
    content = store.read(name)
    store.delete(name)
    with pytest.raises(dn.errors.DataFileNotFound, match="deletion vector"):
        files.load(store, vector)
    store.put(name, content)
    assert list(files.load(store, vector)) == [0, 9]


def test_another_process_begins_with_nothing_and_a_transaction_has_its_own() -> None:
    store, files = Counting(), VectorFiles()
    files.load(store, vectors_in(store, 1)[0])
    scan = Scan(None, (), (), vectors=files)  # type: ignore[arg-type]
    assert files.held and pickle.loads(pickle.dumps(scan)).vectors.held == 0
    table = dn.create(MemoryStore(), {"id": [1]})
    one, other = table.log.start_transaction(), table.log.start_transaction()
    assert vectors_of(one) is vectors_of(one) is not vectors_of(other)
