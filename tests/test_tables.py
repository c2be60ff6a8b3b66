"""113 real tables, written by Delta Spark, delta-kernel-rs and delta-rs, read by ours.

What each holds is told by ``shared/tables/expected``; ``outcome`` says what has to happen:

``rows``           the rows, to the hash of their canonical form, and the state of the log
``log_only``       the state of the log; reading the data fails with an error of ours
``error``          an error of ours
``needs_catalog``  opening it by its path is refused by the name of the feature
``fixture``        files for a store, no table
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltanb
from deltanb.actions import decode_path
from deltanb.engines.arrow.read import iter_batches, read_table
from deltanb.errors import DeltaError, UnsupportedProtocol
from deltanb.log.snapshot import Snapshot
from deltanb.store.local import LocalStore
from deltanb.transaction.delta_log import DeltaLog
from tests.shared_tables import canon, expectations, names, path_of

SHREDDED = {
    "delta_resources__spark__variant-stats-no-checkpoint": lambda n: {
        "i": 100 + n, "v": {"id": n, "name": str(10 - n)},
        "nv": {"v": {"id": 10 + n, "name": str(20 - n)}}},
    "delta_resources__spark__variant-stats-with-struct-no-checkpoint": lambda n: {
        "v": {"key": 200 + n}, "s": {"i": 200 + n, "j": f"str_{200 + n}"}},
}
"""Tables of variants in pieces, and their rows by number, as Delta Spark 4.4 gives them
(``tests/peers/test_delta_spark.py`` asks it). They are expected to fail only because the readers at hand
when the expectations were made knew no such files."""

pytestmark = pytest.mark.shared


def _expected(name: str) -> tuple[dict[str, Any], Path]:
    return expectations()[name], path_of(name)


def _check_log(expected: dict[str, Any], path: Path) -> Snapshot:
    """The state of the log; the snapshot, for the data."""
    log = DeltaLog.for_table(str(path))
    snapshot = log.snapshot
    state = expected["log_state"]
    assert snapshot.version == expected["version"]
    assert snapshot.protocol.min_reader_version == expected["min_reader"]
    assert snapshot.protocol.min_writer_version == expected["min_writer"]
    assert list(snapshot.partition_columns) == (expected["partition_columns"] or [])
    assert dict(snapshot.properties) == (expected["configuration"] or {})
    files = snapshot.select_files(["path", "size"])
    assert sorted(map(decode_path, files["path"].to_pylist())) == sorted(state["active_files"])
    assert snapshot.num_files == files.num_rows == state["num_active_files"]
    assert snapshot.size_in_bytes == sum(files["size"].to_pylist()) == state["total_bytes"]
    assert snapshot.set_transactions == state["set_transactions"]
    domains = {name: domain.configuration for name, domain in snapshot.domain_metadata.items()}
    assert domains == {name: domain["configuration"]
                       for name, domain in state["domain_metadata"].items()}
    # The first commit that is there may need others, gone by now, to be read.
    assert log.earliest_version() >= state["first_available_version"]
    return snapshot


@pytest.mark.parametrize("name", names("rows"))
def test_rows(name: str) -> None:
    expected, path = _expected(name)
    snapshot = _check_log(expected, path)
    assert snapshot.schema.to_dict()["fields"] == expected["schema_fields"]

    table = read_table(snapshot, snapshot.files)
    assert table.schema == snapshot.schema.to_arrow()
    table.validate(full=True)
    assert table.num_rows == expected["row_count"]
    lines = canon().rows(table.to_pylist(), {"fields": expected["schema_fields"]})
    if expected["content_sha256"] is not None:
        assert canon().digest(lines) == expected["content_sha256"]
    if expected.get("rows") is not None:
        assert lines == sorted(canon().dumps(row) for row in expected["rows"])

    streamed = pa.Table.from_batches(iter_batches(snapshot, snapshot.files), table.schema)
    assert streamed.equals(table)
    assert deltanb.DeltaTable.for_path(str(path)).to_arrow().equals(table)


@pytest.mark.parametrize("name", names("log_only"))
def test_log_only(name: str) -> None:
    snapshot = _check_log(*_expected(name))
    with pytest.raises(DeltaError):
        read_table(snapshot, snapshot.files)


@pytest.mark.parametrize("name", [name for name in names("error") if name not in SHREDDED])
def test_error(name: str) -> None:
    _, path = _expected(name)
    with pytest.raises(DeltaError) as caught:
        snapshot = DeltaLog.for_table(str(path)).snapshot
        read_table(snapshot, snapshot.files)
    assert len(str(caught.value)) > 40  # it says what and what to do, not just that


@pytest.mark.parametrize("name", SHREDDED)
def test_variants_in_pieces(name: str) -> None:
    _, path = _expected(name)
    snapshot = DeltaLog.for_table(str(path)).snapshot
    table = read_table(snapshot, snapshot.files)
    assert table.schema == snapshot.schema.to_arrow()
    table.validate(full=True)
    rows = sorted((_plain(row) for row in table.to_pylist()), key=str)
    assert rows == [SHREDDED[name](n) for n in range(10)]


def _plain(value: Any) -> Any:
    """A row with its variants as Python values: those of these tables are small objects."""
    if not isinstance(value, dict):
        return value
    if set(value) != {"metadata", "value"}:
        return {name: _plain(item) for name, item in value.items()}
    names, data = value["metadata"], value["value"]
    count = data[1]
    offsets, start = data[2 + count:3 + 2 * count], 3 + 2 * count
    bounds = names[2:3 + names[1]]
    texts = [names[3 + names[1]:][low:high].decode() for low, high in pairwise(bounds)]
    return {texts[data[2 + n]]: _scalar(data[start + offsets[n]:]) for n in range(count)}


def _scalar(data: bytes) -> Any:
    if data[0] & 3:
        return data[1:1 + (data[0] >> 2)].decode()
    width = {3: 1, 4: 2}[data[0] >> 2]
    return int.from_bytes(data[1:1 + width], "little", signed=True)


@pytest.mark.parametrize("name", names("needs_catalog"))
def test_needs_catalog(name: str) -> None:
    _, path = _expected(name)
    with pytest.raises(UnsupportedProtocol, match=r"catalogManaged.*through the catalog"):
        deltanb.open(str(path))


@pytest.mark.parametrize("name", names("fixture"))
def test_fixture(name: str) -> None:
    expected, path = _expected(name)
    store = LocalStore(path)
    for file, lines in expected["expected"].items():
        assert store.read(file).decode().splitlines() == lines
