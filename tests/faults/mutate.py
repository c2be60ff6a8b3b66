"""Damaged tables: every kind of file of a table, changed as disks, tools and enemies change files.

What lives here: the tables (:func:`originals`), the changes (:func:`damaged`), what is asked of a damaged
table (:func:`ask`), and a worker that does so for a range of numbers in a process of its own, as an
abort of the interpreter must be seen and not shared.

A number stands for one damaged file: the same seed and number give the same bytes.

    python tests/faults/mutate.py --seed 1 --first 40 --count 1 --verbose
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import io
import json
import random
import re
import resource
import struct
import sys
import tempfile
import traceback
import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

import deltanb as dn
from deltanb.actions import DeletionVector
from deltanb.engines.arrow import deletion_vectors
from deltanb.errors import DeltaError
from deltanb.store.base import LogStore
from deltanb.store.local import LocalStore
from deltanb.testing import MemoryStore
from deltanb.transaction.delta_log import DeltaLog
from tests.faults.trial import drawing

MAX_MEMORY = 8 << 30  # bytes of address space of a worker: a length that lies must not fill the machine
MAX_SECONDS = 600  # for one damaged table; the slowest takes a fraction of a second
LOG = "_delta_log/"
SCHEMA = pa.schema([
    ("id", pa.int64()), ("part", pa.string()), ("name", pa.string()), ("price", pa.decimal128(9, 2)),
    ("at", pa.timestamp("us", "UTC")), ("notes", pa.map_(pa.string(), pa.int32())),
    ("place", pa.struct([("x", pa.float64()), ("tags", pa.list_(pa.string()))])),
])


# -- the tables --------------------------------------------------------------------------------


def rows(first: int, count: int = 4) -> pa.Table:
    """Rows of every kind of type, NULLs among them."""
    dicts = [{"id": n, "part": "ab"[n // 4 % 2], "name": f"name {n}" if n % 3 else None, "price": n,
              "at": n * 10**15, "place": {"x": n / 7, "tags": ["é", None, str(n)]}, "notes": [("k", n)]}
             for n in range(first, first + count)]
    return pa.Table.from_pylist(dicts, SCHEMA)


def table(commits: int, **properties: Any) -> MemoryStore:
    """A table of appends, with a DELETE and an application's transaction in between."""
    store = MemoryStore("memory:///damaged")
    settings = {"delta.checkpointInterval": "1000", **properties}
    made = dn.create(store, rows(0), partition_by=["part"], properties=settings)
    for number in range(1, commits):
        if number == 2:
            made.delete("id IN (1, 6)", engine="arrow")
        else:
            made.append(rows(number * 4), txn=("etl", number))
    return store


def checkpointed(at: tuple[int, ...] = (3,), **properties: Any) -> MemoryStore:
    """As :func:`table`, with checkpoints and two commits after the last one."""
    store = table(at[-1] + 3, **properties)
    for version in at:
        DeltaLog(store).checkpoint(version)
    return store


def without(store: MemoryStore, last: int) -> MemoryStore:
    """Without the commits up to a version."""
    for name in list(store.files):
        if re.fullmatch(rf"{LOG}\d{{20}}\.(json|crc)", name) and int(name[11:31]) <= last:
            store.delete(name)
    return store


def in_parts(store: MemoryStore, version: int) -> MemoryStore:
    """The classic checkpoint as one of two parts."""
    name = f"{LOG}{version:020}.checkpoint"
    whole = pq.read_table(store.open_input(f"{name}.parquet"))
    half = whole.num_rows // 2
    for part, piece in enumerate((whole.slice(0, half), whole.slice(half)), 1):
        with store.open_output(f"{name}.{part:010}.{2:010}.parquet") as sink:
            pq.write_table(piece, sink, write_page_checksum=True)
    store.delete(f"{name}.parquet")
    return store


def as_parquet(store: MemoryStore, version: int) -> MemoryStore:
    """The JSON top level of a V2 checkpoint as Parquet."""
    name = next(n for n in store.files if re.search(rf"{version:020}\.checkpoint\..*json$", n))
    lines = [json.loads(line) for line in store.read(name).splitlines()]
    for line in lines:
        if "metaData" in line:
            line["metaData"]["configuration"] = list(line["metaData"]["configuration"].items())
            line["metaData"]["format"].pop("options")
        if "checkpointMetadata" in line:
            line["checkpointMetadata"].pop("tags")
    texts = pa.list_(pa.string())
    schema = pa.schema({
        "checkpointMetadata": pa.struct({"version": pa.int64()}),
        "sidecar": pa.struct({
            "path": pa.string(), "sizeInBytes": pa.int64(), "modificationTime": pa.int64()}),
        "protocol": pa.struct({"minReaderVersion": pa.int32(), "minWriterVersion": pa.int32(),
                               "readerFeatures": texts, "writerFeatures": texts}),
        "metaData": pa.struct({
            "id": pa.string(), "schemaString": pa.string(), "partitionColumns": texts,
            "format": pa.struct({"provider": pa.string()}),
            "configuration": pa.map_(pa.string(), pa.string()), "createdTime": pa.int64()}),
        "txn": pa.struct({"appId": pa.string(), "version": pa.int64(), "lastUpdated": pa.int64()}),
    })
    with store.open_output(name.replace(".json", ".parquet")) as sink:
        pq.write_table(pa.Table.from_pylist(lines, schema), sink, write_page_checksum=True)
    store.delete(name)
    return store


def inlined(store: MemoryStore) -> MemoryStore:
    """Deletion vectors in the log instead of files."""
    for name in [n for n in store.files if re.fullmatch(rf"{LOG}\d{{20}}\.json", n)]:
        lines = [json.loads(line) for line in store.read(name).splitlines()]
        for line in lines:
            for action in line.values():
                vector = action.get("deletionVector") if isinstance(action, dict) else None
                if vector:
                    vector_rows = deletion_vectors.load(store, DeletionVector.from_value(vector))
                    action["deletionVector"] = deletion_vectors.inline(vector_rows).to_value()
        store.put(name, "".join(json.dumps(line) + "\n" for line in lines).encode())
    return store


@dataclass(frozen=True)
class Original:
    """A whole table: its files, its rows as canonical text."""

    name: str
    files: dict[str, bytes]
    rows: str


def originals() -> dict[str, Original]:
    """The tables by name, the same at every call."""
    with dn.teaching(seed=7), drawing(7), dn.set_options(durability="none"):
        compacted = table(6)
        from deltanb.log.compaction import write_compaction

        write_compaction(DeltaLog(compacted), 1, 4)
        v2 = {"delta.checkpointPolicy": "v2", "delta.feature.v2Checkpoint": "supported"}
        timed = {"delta.enableInCommitTimestamps": "true", "delta.enableRowTracking": "true"}
        vectors = {"delta.enableDeletionVectors": "true"}
        made = {
            "commits": table(5, **{"delta.enableChangeDataFeed": "true"}),
            "timed": table(4, **timed),
            "compacted": compacted,
            "classic": checkpointed(**{"delta.checkpoint.writeStatsAsStruct": "true"}),
            "older": without(checkpointed((3, 6)), 2),
            "alone": without(checkpointed(), 2),
            "parts": in_parts(checkpointed(), 3),
            "v2 json": checkpointed(**v2),
            "v2 parquet": as_parquet(checkpointed(**v2), 3),
            "vectors": table(4, **vectors),
            "inline": inlined(table(4, **vectors)),
        }
    return {name: Original(name, {n: data for n, (data, _) in store.files.items()}, content(store))
            for name, store in made.items()}


def content(store: LogStore) -> str:
    """The rows of a table as one text, in no order but their own."""
    rows_read = dn.open(store).to_arrow().sort_by("id").to_pylist()
    return json.dumps(rows_read, default=str)


# -- the damage --------------------------------------------------------------------------------

KINDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "commit": (r"_delta_log/\d{20}\.json", ("commits", "timed", "classic", "vectors")),
    "compaction": (r".*\.compacted\.json", ("compacted",)),
    "checkpoint": (r".*\d{20}\.checkpoint\.parquet", ("classic", "older", "alone")),
    "part": (r".*\.checkpoint\.\d{10}\.\d{10}\.parquet", ("parts",)),
    "v2 json": (r".*\.checkpoint\.[^/]*\.json", ("v2 json",)),
    "v2 parquet": (r".*\.checkpoint\.[^/]*\.parquet", ("v2 parquet",)),
    "sidecar": (r".*/_sidecars/.*\.parquet", ("v2 json", "v2 parquet")),
    "hint": (r".*_last_checkpoint", ("classic", "older", "v2 json")),
    "checksum": (r".*\.crc", ("commits", "timed", "classic", "vectors")),
    "vector": (r"deletion_vector_.*\.bin", ("vectors",)),
    "inline": (r"_delta_log/0{19}2\.json", ("inline",)),
    "data": (r".*part-.*\.parquet|part=.*\.parquet", ("commits", "vectors", "timed")),
}
IGNORED = ("hint", "checksum")  # whose damage changes nothing


@dataclass(frozen=True)
class Damage:
    """One damaged file."""

    number: int
    kind: str
    table: str
    file: str
    how: str
    data: bytes

    def __str__(self) -> str:
        return f"{self.number}: {self.kind} of {self.table!r}, {self.file}: {self.how}"


def damaged(tables: dict[str, Original], seed: int, number: int) -> Damage:
    """The damage with a number: kinds take turns."""
    rng = random.Random(f"{seed}/{number}")
    kind = list(KINDS)[number % len(KINDS)]
    pattern, among = KINDS[kind]
    original = tables[rng.choice(among)]
    file = rng.choice(sorted(name for name in original.files if re.fullmatch(pattern, name)))
    if kind == "checksum":
        file = max(name for name in original.files if re.fullmatch(pattern, name))
    before = original.files[file]
    how, after = "", before
    while after == before:
        how, after = _changed(rng, kind, before)
    return Damage(number, kind, original.name, file, how, after)


def _changed(rng: random.Random, kind: str, data: bytes) -> tuple[str, bytes]:
    if kind == "inline":
        return _inline(rng, data)
    if kind in ("commit", "compaction", "v2 json", "hint", "checksum") and rng.random() < 0.7:
        return _json(rng, data)
    if kind == "vector" and rng.random() < 0.7:
        return _vector(rng, data)
    if data[-4:] == b"PAR1" and rng.random() < 0.7:
        return _footer(rng, data)
    how = rng.choice(BYTES)
    return how.__name__, how(rng, data)


def flip(rng: random.Random, data: bytes) -> bytes:
    """Some bits turned."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def truncate(rng: random.Random, data: bytes) -> bytes:
    """The end is gone."""
    return data[: rng.choice((0, 1, len(data) - 1, rng.randrange(len(data))))]


def splice(rng: random.Random, data: bytes) -> bytes:
    """A piece of the file over another one."""
    start, to = rng.randrange(len(data)), rng.randrange(len(data))
    piece = data[start: start + rng.randrange(1, 64)]
    return data[:to] + piece + data[to + len(piece):]


def zero(rng: random.Random, data: bytes) -> bytes:
    """A stretch of zeros, as a lost block leaves it."""
    start, length = rng.randrange(len(data)), rng.choice((1, 4, 64, 512))
    length = min(length, len(data) - start)
    return data[:start] + rng.choice((b"\0", b"\xff")) * length + data[start + length:]


def insert(rng: random.Random, data: bytes) -> bytes:
    """Bytes of no meaning in between."""
    at = rng.randrange(len(data))
    return data[:at] + rng.randbytes(rng.randrange(1, 20)) + data[at:]


def cut(rng: random.Random, data: bytes) -> bytes:
    """A piece is gone."""
    at = rng.randrange(len(data))
    return data[:at] + data[at + rng.randrange(1, 40):]


def replace(rng: random.Random, data: bytes) -> bytes:
    """Something else under this name."""
    return rng.choice((b"", b"\n", b"PAR1", b"PAR1PAR1", b"\0" * len(data), rng.randbytes(200),
                       b"\xef\xbb\xbf" + data, data.decode("latin-1").encode("utf-16")))


BYTES: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    flip, flip, flip, truncate, splice, zero, insert, cut, replace)


# JSON: text is made by hand, as no encoder writes a key twice.

ODD: tuple[str, ...] = (
    "null", "true", "0", "-1", "1", "1.5", '""', '"x"', "[]", "{}", "[1]", '{"a":1}', "NaN", "Infinity",
    "-Infinity", "1e400", "-0.0", "2147483648", "-2147483649", "9223372036854775807",
    "9223372036854775808", "-9223372036854775809", "1" * 400, "1" * 5000, '"\\ud800"', '"a\\udfffb"',
    '"\\u0000"', '"\x1b[31m"', '"é\U0001f600"', '"../../x"', '"/nowhere/else"', '"s3://bucket/x"',
    '"file:///nowhere"', '"%"', '"%00"', '"%ff"', "[" * 300 + "]" * 300, "[" * 100_000 + "]" * 100_000,
    '{"a":' * 100_000 + "1" + "}" * 100_000, '"' + "x" * 70_000 + '"', "[null]", '[{"a":[1]}]',
    '{"":null}', '{"\\ud800":"\\ud800"}', '"1"', '"true"', '"2020-01-01"', '"interval 5 parsecs"',
    '{"type":"struct","fields":[]}', '"\\\\"', "tru", "'x'", "01", "9" * 20, '"9"', '"-5"', '"1e5"',
    '{"type":"array","elementType":"long"}', '"decimal(50,60)"', '"decimal(0,0)"', '"void"', '"variant"',
)
SHORT = tuple(text for text in ODD if len(text) < 70 and text not in ("tru", "'x'", "01"))


def _json(rng: random.Random, data: bytes) -> tuple[str, bytes]:
    lines = data.decode().splitlines()
    at = rng.randrange(len(lines))
    value = json.loads(lines[at])
    spot = _spot(rng, value)
    action = rng.choice(("swap", "swap", "swap", "drop", "twice", "rename"))
    new = rng.choice(ODD)
    lines[at] = _text(value, (), spot, action, new)
    if rng.random() < 0.05:
        lines.insert(at, lines[at])
    after = "\n".join(lines) + "\n"
    return f"{action} {'/'.join(map(str, spot))} {new[:40]}", after.encode("utf-8", "replace")


def _spot(rng: random.Random, value: Any) -> tuple[Any, ...]:
    """A walk from the top to some value; ``"json"`` leads into a text that holds JSON itself."""
    path: tuple[Any, ...] = ()
    while True:
        if isinstance(value, str) and value[:1] in ("{", "["):
            with contextlib.suppress(ValueError):
                value, path = json.loads(value), (*path, "json")
        keys = list(value if isinstance(value, dict) else range(len(value) if isinstance(value, list) else 0))
        if not keys or (len(path) > 1 and rng.random() < 0.3):
            return path or ("",)
        key = rng.choice(keys)
        path, value = (*path, key), value[key]


def _text(value: Any, path: tuple[Any, ...], spot: tuple[Any, ...], action: str, new: str) -> str:
    if path == spot and action == "swap":
        return new
    if isinstance(value, dict):
        items = []
        for key, item in value.items():
            here = (*path, key)
            text = json.dumps(key) + ":" + _text(item, here, spot, action, new)
            if here == spot and action == "drop":
                continue
            if here == spot and action == "twice":
                items.append(json.dumps(key) + ":" + new)
            if here == spot and action == "rename":
                text = (new if new[0] == '"' else '"other"') + ":" + json.dumps(item)
            items.append(text)
        return "{" + ",".join(items) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_text(item, (*path, i), spot, action, new)
                              for i, item in enumerate(value)
                              if not ((*path, i) == spot and action == "drop")) + "]"
    if isinstance(value, str) and spot[: len(path) + 1] == (*path, "json"):
        inner = _text(json.loads(value), (*path, "json"), spot, action, new)
        return json.dumps(inner)
    return json.dumps(value)


# Parquet: the footer, where one byte says how many columns there are, or where a page lies.


def _footer(rng: random.Random, data: bytes) -> tuple[str, bytes]:
    (length,) = struct.unpack("<I", data[-8:-4])
    start = len(data) - 8 - length
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(start, len(data) - 8)
        how = rng.randrange(7)
        if how == 0:
            out[at] ^= 1 << rng.randrange(8)
        elif how == 1:
            out[at] = rng.randrange(256)
        elif how == 2:
            out[at] = (out[at] + rng.choice((1, 2, -1, -2, 16, -16))) % 256
        elif how == 3:
            out[at: at + 5] = rng.choice((b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x07", b"\0\0\0\0\0"))
        elif how == 4:
            lie = rng.choice((0, 1, length - 1, length + 1, 2**31, 2**32 - 1, len(data)))
            out[-8:-4] = struct.pack("<I", lie)
        elif how == 5:
            other = rng.randrange(start, len(data) - 8)
            size = rng.randrange(1, 30)
            out[at: at + size] = out[other: other + size]
        else:
            size = rng.randrange(1, 12)
            piece = out[at: at + size]
            del out[at: at + size]
            out[-8:-4] = struct.pack("<I", length - len(piece))
            break
    return "footer", bytes(out)


# Deletion vectors: the payload is changed and its size and checksum are made right again, so that the
# bitmap itself has to be looked at.


def _vector(rng: random.Random, data: bytes) -> tuple[str, bytes]:
    (size,) = struct.unpack_from(">i", data, 1)
    payload = data[5: 5 + size]
    how, payload = _bitmap(rng, payload)
    payload = payload[:size].ljust(size, b"\0")
    return how, data[:5] + payload + struct.pack(">I", zlib.crc32(payload)) + data[9 + size:]


def _bitmap(rng: random.Random, payload: bytes) -> tuple[str, bytes]:
    if rng.random() < 0.4:
        field = rng.choice((0, 4, 8, 12, 16, 20, 24))
        value = rng.choice((0, 1, 2, 2**16, 2**31 - 1, 2**32 - 1, 12346, 12347, 12347 | 0xFFFF0000))
        payload = payload[:field] + struct.pack("<I", value) + payload[field + 4:]
        return f"bitmap word {field} = {value}", payload
    if rng.random() < 0.2:
        return "old form", struct.pack("<II", 1681511376, rng.choice((0, 1, 3, 2**31))) + payload[8:]
    if rng.random() < 0.2:
        rows = BitMap64(rng.choice(([2**40], [2**63], range(70_000), [0, 5, 99_999])))
        return "other rows", deletion_vectors.encode(rows)
    how = rng.choice((flip, splice, zero, cut, insert))
    return f"bitmap {how.__name__}", how(rng, payload)


def _inline(rng: random.Random, data: bytes) -> tuple[str, bytes]:
    lines = [json.loads(line) for line in data.decode().splitlines()]
    vector = rng.choice([line["add"]["deletionVector"] for line in lines
                         if line.get("add", {}).get("deletionVector")])
    if rng.random() < 0.3:
        key = rng.choice(list(vector))
        new = json.loads(rng.choice(SHORT), strict=False)
        vector[key] = new
        how = f"vector's {key} = {new!r}"
    elif rng.random() < 0.2:
        text = vector["pathOrInlineDv"]
        at = rng.randrange(len(text))
        odd = rng.choice(("~", "é", "#", "", "\0", "##", "\ud800"))
        vector["pathOrInlineDv"] = text[:at] + odd + text[at + 1:]
        how = "vector's text"
    else:
        payload = deletion_vectors.z85_decode(vector["pathOrInlineDv"], vector["sizeInBytes"])
        how, payload = _bitmap(rng, payload)
        vector["pathOrInlineDv"] = deletion_vectors.z85_encode(payload)
        vector["sizeInBytes"] = len(payload)
    return how, "".join(json.dumps(line) + "\n" for line in lines).encode()


# -- the questions -----------------------------------------------------------------------------


def ask(store: LogStore, more: bool = False) -> Iterator[tuple[str, Callable[[], Any]]]:
    """What is asked of a damaged table, by name, in an order in which none spoils the next."""
    opened: list[dn.DeltaTable] = []

    def open_it() -> None:
        opened.append(dn.open(store))

    def of(what: Callable[[dn.DeltaTable], Any]) -> Callable[[], Any]:
        return lambda: what(opened[0]) if opened else None

    yield "open", open_it
    yield "repr", of(lambda table: (str(table), table._repr_mimebundle_(), str(table.snapshot)))
    yield "files", of(lambda table: table.snapshot.files.to_pylist())
    yield "history", of(lambda table: str(table.history()))
    yield "to_arrow", of(lambda table: table.to_arrow().to_pylist())
    yield "to_arrow where", of(lambda table: table.to_arrow(where="id > 3 AND part = 'a'").to_pylist())
    yield "describe", of(lambda table: table.detail())
    yield "verify", of(lambda table: str(table.verify_checksum()))
    if more:
        yield from _more(of, store)
    yield "delete", of(lambda table: str(table.delete("id = 4", engine="arrow")))
    yield "checkpoint", of(lambda table: table.log.checkpoint())
    yield "reopened", of(lambda table: DeltaLog(store).snapshot.files.num_rows)


def _more(of: Callable[..., Any], store: LogStore) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Questions for when there is time."""
    yield "as_of", of(lambda table: table.as_of(1).to_arrow().to_pylist())
    yield "as_of time", of(lambda table: table.as_of("2026-01-01T09:05:00Z").to_arrow().to_pylist())
    yield "changes", of(lambda table: table.changes(1).to_pylist())
    yield "diff", of(lambda table: str(table.diff(1, 3)))
    yield "timeline", of(lambda table: str(table.timeline()))
    yield "versions", of(lambda table: str(table.versions()))
    yield "commit", of(lambda table: [str(a) for a in table.log.read_commit(2)])
    yield "count", of(lambda table: table.to_arrow(["id"], "price > 2 OR name IS NULL").num_rows)
    yield "checkup", of(lambda table: str(table.checkup()))
    yield "layout", of(lambda table: str(table.layout("id", "id > 3")))
    yield "dry vacuum", of(lambda table: str(table.vacuum(0, check=False, dry_run=True)))
    yield "generate", of(lambda table: table.generate())
    yield "append", of(lambda table: table.append(rows(100)))
    yield "update", of(lambda table: str(table.update({"name": "'x'"}, "id = 5", engine="arrow")))
    yield "merge", of(lambda table: table.merge(rows(4, 2), "t.id = s.id", target_alias="t", source_alias="s")
                      .when_matched_update_all().when_not_matched_insert_all().execute())
    yield "optimize", of(lambda table: str(table.optimize()))
    yield "analyze", of(lambda table: str(table.analyze()))
    yield "restore", of(lambda table: str(table.restore(1)))
    yield "set", of(lambda table: table.set_properties({"a": "b"}))
    yield "clone", of(lambda table: table.clone(MemoryStore()))
    yield "cleanup", of(lambda table: table.log.clean_up())


@dataclass
class Fault:
    """A question that was not answered as it should."""

    damage: str
    question: str
    what: str
    trace: str


def examine(
    tables: dict[str, Original], damage: Damage, more: bool = False
) -> tuple[list[Fault], bool]:
    """The faults that a damaged table shows, and whether some question was refused or warned."""
    original = tables[damage.table]
    DeltaLog.clear_cache()
    with tempfile.TemporaryDirectory() if damage.number % 4 == 0 else contextlib.nullcontext() as folder:
        store = MemoryStore("memory:///damaged") if folder is None else LocalStore(folder)
        for name, data in original.files.items():
            with store.open_output(name) as sink:
                sink.write(damage.data if name == damage.file else data)
        return _answers(store, damage, original, more)


def _answers(
    store: LogStore, damage: Damage, original: Original, more: bool
) -> tuple[list[Fault], bool]:
    faults, was_noticed = [], False
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for question, work in ask(store, more):
            try:
                work()
                if question == "to_arrow" and damage.kind in IGNORED and content(store) != original.rows:
                    faults.append(Fault(str(damage), question, "other rows", ""))
            except DeltaError as error:
                was_noticed = True
                if damage.kind in IGNORED and not more:
                    faults.append(Fault(str(damage), question, f"refused: {error}", _trace(error)))
            except Exception as error:
                what = f"{type(error).__name__}: {str(error)[:200]}"
                faults.append(Fault(str(damage), question, what, _trace(error)))
    return faults, was_noticed or bool(warned)


def _trace(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    if len(frames) > 60:
        frames = traceback.StackSummary(frames[:10] + frames[-6:])
    return " < ".join(f"{f.filename.rsplit('/', 1)[-1]}:{f.lineno}:{f.name}" for f in reversed(frames[-9:]))


# -- a worker ----------------------------------------------------------------------------------


def main(arguments: list[str] | None = None) -> None:
    """Examine a range of numbers; one line of JSON before each, one for each fault."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--more", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args(arguments)
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, most))
    pa.set_cpu_count(1)  # as many processes run as there are processors
    with dn.teaching(seed=7), dn.set_options(durability="none"):
        tables = originals()
        for number in range(options.first, options.first + options.count):
            damage = damaged(tables, options.seed, number)
            _say({"number": number, "damage": str(damage)})
            faulthandler.dump_traceback_later(MAX_SECONDS, exit=True)
            shown = io.StringIO()
            with contextlib.redirect_stderr(sys.stderr if options.verbose else shown):
                faults, was_noticed = examine(tables, damage, options.more)
            for fault in faults:
                _say({"number": number, **vars(fault)})
            _say({"number": number, "done": True, "noticed": was_noticed})
    faulthandler.cancel_dump_traceback_later()


def _say(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    faulthandler.enable()
    main()
