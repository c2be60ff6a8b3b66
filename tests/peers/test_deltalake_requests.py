"""What reading and changing a table asks of a bucket, counted: requests beside delta-rs, and bytes.

A round trip to a bucket takes as long as a megabyte. So requests for data files are no more than delta-rs
makes, and bytes at most a tenth more than the column chunks that are wanted, by the footer as pyarrow has it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltanb as dn
from deltanb.testing.s3_server import Request, S3Server
from tests.examples import crossed

pytest.importorskip("obstore")
pytest.importorskip("deltalake")

COLUMNS = ("id", "a", "b", "c", "text")
ONE, MANY = 45_000, 600_000
"""Rows of a table with a row group of a megabyte, and of one with three row groups, 15 MB together."""
SLACK = 1.1


def rows(count: int) -> pa.Table:
    draw = np.random.default_rng(7)
    return pa.table({"id": np.arange(count), **{name: draw.random(count) for name in "abc"},
                     "text": [f"text {i % 1000}" for i in range(count)]})


@dataclass(frozen=True)
class Work:
    """A piece of work, by both; and which (row group, column)s of the data file it wants."""

    ours: Callable[[dn.DeltaTable], Any]
    theirs: str
    wants: Callable[[int, str], bool]


def everything(group: int, column: str) -> bool:
    return True


WORKS = {
    "read": Work(lambda t: t.to_arrow(), "query('select * from t')", everything),
    "columns": Work(lambda t: t.to_arrow(columns=["b"]), "query('select b from t')",
                    lambda _, name: name == "b"),
    "two columns": Work(lambda t: t.to_arrow(columns=["id", "c"]), "query('select id, c from t')",
                        lambda _, name: name in ("id", "c")),
    "selective": Work(lambda t: t.to_arrow(where="id = 7"), "query('select * from t where id = 7')",
                      lambda group, _: group == 0),
    "first rows": Work(lambda t: t.head(5), "query('select * from t limit 5')", lambda group, _: group == 0),
    "time travel": Work(lambda t: t.as_of(0).to_arrow(), "query('select * from t', version=0)",
                        everything),
    "update": Work(lambda t: t.update({"a": "0.5"}, where="id = 8"),
                   "opened().update(updates={'a': '0.5'}, predicate='id = 8')", everything),
    "delete": Work(lambda t: t.delete("id = 9"), "opened().delete('id = 9')", everything),
}
CHANGES = ("update", "delete")
FINDS = {"update": "id", "delete": "id"}
"""The column that is looked at first where such rows may be, and then read with the others."""


@dataclass
class Place:
    """A table, and where the data files lie that are read."""

    uri: str
    server: S3Server
    sizes: dict[str, int]
    footers: dict[str, pq.FileMetaData]
    delta_rs: Callable[[str, str], Any]

    def open(self) -> dn.DeltaTable:
        return dn.open(self.uri, storage_options=self.server.options)

    def counted(self, work: Callable[[], Any]) -> list[Request]:
        """The requests for data files."""
        with self.server.counted() as requests:
            work()
        return [one for one in requests if one.key.endswith(".parquet") and "_delta_log" not in one.key]

    def theirs(self, work: str) -> Any:
        return self.delta_rs(self.uri, work)

    def brought(self, request: Request) -> int:
        """Bytes of the answer to a request."""
        size = self.sizes[request.key]
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", request.headers.get("range", f"bytes=0-{size - 1}"))
        assert asked is not None
        if not asked[1]:
            return min(size, int(asked[2]))
        return min(int(asked[2]), size - 1) - int(asked[1]) + 1

    def chunk_bytes(self, wants: Callable[[int, str], bool]) -> int:
        """Bytes of the column chunks that are wanted, with a dictionary each."""
        return sum(
            footer.row_group(group).column(place).total_compressed_size
            for footer in self.footers.values() for group in range(footer.num_row_groups)
            for place in range(footer.num_columns) if wants(group, COLUMNS[place]))


@pytest.fixture(params=[ONE, MANY], ids=["one row group", "several"])
def place(
    request: pytest.FixtureRequest, s3_server: S3Server, bucket: str, delta_rs: Callable[[str, str], Any]
) -> Place:
    uri = f"{bucket}/t"
    table = dn.create(uri, rows(request.param), storage_options=s3_server.options)
    table.set_properties({"who": "tests"})  # a version more, to travel from
    sizes, footers = {}, {}
    store = table.log.store
    for file in table.snapshot.files.to_pylist():
        key = f"{bucket.removeprefix('s3://')}/t/{file['path']}"
        sizes[key] = file["size"]
        with store.open_input(file["path"]) as content:
            footers[key] = pq.ParquetFile(content).metadata
    return Place(uri, s3_server, sizes, footers, delta_rs)


def test_requests_are_no_more_than_delta_rs_makes_and_bytes_what_is_wanted(place: Place) -> None:
    for name, work in WORKS.items():
        table = place.open()
        mine = place.counted(lambda work=work, table=table: work.ours(table))
        reads = [one for one in mine if one.method == "GET"]
        if name in CHANGES:
            table.restore(1)
        theirs = place.counted(lambda work=work: place.theirs(work.theirs))
        if name in CHANGES:
            place.open().restore(1)
        needed = place.chunk_bytes(work.wants)
        if name in FINDS:
            needed += place.chunk_bytes(lambda group, column, name=name: group == 0 and column == FINDS[name])
        brought = sum(map(place.brought, reads))
        assert len(mine) <= len(theirs), (name, [str(one) for one in mine])
        assert brought <= SLACK * needed, (name, [one.headers.get("range") for one in reads])


@pytest.mark.parametrize(("width", "lie"), crossed(2, [5, 2000], [0, 1, 40_000, 10**12]))
def test_a_footer_is_found_however_long_and_whatever_the_log_says_of_the_size(
    s3_server: S3Server, bucket: str, width: int, lie: int
) -> None:
    draw = np.random.default_rng(7)
    table = dn.create(f"{bucket}/t", {f"c{i}": draw.random(300) for i in range(width)},
                      storage_options=s3_server.options)
    before = table.to_arrow()
    txn = table.start_transaction()
    (written,) = txn.filter_files()
    txn.commit([written.remove(), written.replace(path=f"./{written.path}", size=lie)])
    assert dn.open(table.path, storage_options=s3_server.options).to_arrow().equals(before)
    some = dn.open(table.path, storage_options=s3_server.options).to_arrow(columns=["c3"], where="c1 > 0.5")
    assert 0 < some.num_rows < 300
