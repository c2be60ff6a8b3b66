"""Tables in a bucket, from end to end: every command, other writers at the same time, and what it costs."""

from __future__ import annotations

import datetime as dt
import json
import math
import random
import re
import subprocess
import sys
import threading
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb.concurrency.parallel import MAX_SMALL
from deltanb.errors import (
    ConcurrentAppendException,
    ConcurrentDeleteReadException,
    DeltaError,
    StorageError,
    VersionNotFound,
)
from deltanb.log.commits import commit_name
from deltanb.observe.schedule import Writer
from deltanb.options import options, set_options
from deltanb.store.object import ObjectStore
from deltanb.store.recent import recent
from deltanb.testing import MemoryStore, TableBuilder, add
from deltanb.testing.s3_server import Request, S3Server, rounds
from deltanb.transaction.commit import commit_steps
from deltanb.transaction.steps import Committed, PutIfAbsent, ReadWinner, Step
from tests.bucket_logs import built, put
from tests.examples import crossed, first
from tests.examples import every as each
from tests.helpers import files_of, ids, rows
from tests.patience import PATIENCE
from tests.transaction.test_interleavings import three, txn_ids
from tests.transaction.test_scenarios import SCENARIOS, InFolder, hold

pytest.importorskip("obstore")
FEATURES = {"delta.enableChangeDataFeed": True, "delta.enableDeletionVectors": True,
            "delta.checkpointInterval": 4, "delta.enableRowTracking": True}
LATENCY = 0.03
ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def table(s3_server: S3Server, bucket: str) -> dn.DeltaTable:
    return dn.create(f"{bucket}/lake/flights", {"id": [1, 2, 3, 4], "p": ["a", "b", "a", "b"]},
                     partition_by="p", properties=FEATURES, storage_options=s3_server.options)


def opened_anew(table: dn.DeltaTable, server: S3Server) -> dn.DeltaTable:
    dn.DeltaLog.clear_cache()
    return dn.open(table.path, storage_options=server.options)


# -- commands -----------------------------------------------------------------------------------


def test_every_command_gives_the_rows_it_gives_in_memory(s3_server: S3Server, table: dn.DeltaTable) -> None:
    beside = dn.create(MemoryStore(), {"id": [1, 2, 3, 4], "p": ["a", "b", "a", "b"]}, partition_by="p",
                       properties=FEATURES)

    def merge(t: dn.DeltaTable) -> Any:
        return (t.merge({"id": [3, 9], "p": ["z", "q"]}, "t.id = s.id", target_alias="t", source_alias="s")
                .when_matched_update_all().when_not_matched_insert_all().execute())

    def together(t: dn.DeltaTable) -> None:
        with t.transaction() as txn:
            txn.delete("id = 5")
            txn.append({"id": [6], "p": ["a"]})

    steps: list[Callable[[dn.DeltaTable], Any]] = [
        lambda t: t.append({"id": [5], "p": ["a"]}), lambda t: t.update({"id": "id + 100"}, where="id = 1"),
        lambda t: t.delete("id = 2"), merge, together,
        lambda t: t.overwrite({"id": [7], "p": ["b"]}, where="p = 'b'"),
        lambda t: t.optimize(), lambda t: t.log.checkpoint(), lambda t: t.purge(),
        lambda t: t.vacuum(), lambda t: t.restore(3), lambda t: t.append({"id": [8], "p": ["c"]}),
    ]
    for step in steps:
        for one in (table, beside):
            step(one)
        assert rows(table) == rows(beside)
    again = opened_anew(table, s3_server)
    assert again.version == beside.version
    assert rows(again) == rows(beside)
    for version in range(beside.version + 1):
        assert rows(again.as_of(version)) == rows(beside.as_of(version))
    names = [[entry.operation for entry in one.history()] for one in (again, beside)]
    assert names[0] == names[1]
    assert again.changes(1, 4).to_arrow().num_rows == beside.changes(1, 4).to_arrow().num_rows
    assert again.log.snapshot.num_files == beside.log.snapshot.num_files
    assert Counter(map(kind_of, files_of(again))) == Counter(map(kind_of, files_of(beside)))


def kind_of(name: str) -> str:
    """A name without what is drawn at random."""
    return re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "", name)


def test_time_travel_by_version_and_time(s3_server: S3Server, table: dn.DeltaTable) -> None:
    for number in range(5, 12):
        table.append({"id": [number], "p": ["a"]})
    again = opened_anew(table, s3_server)
    assert [again.as_of(version).count() for version in range(8)] == list(range(4, 12))
    assert dn.open(table.path, 3, storage_options=s3_server.options).count() == 7
    newest = dt.datetime.fromtimestamp(again.history()[0].timestamp / 1000, dt.timezone.utc)
    assert again.as_of(newest).version == 7
    assert "2 files" in str(again.diff(2, 4))


def test_vacuum_removes_what_a_failed_write_left(s3_server: S3Server, table: dn.DeltaTable) -> None:
    store = table.log.store
    store.put("p=a/part-left-over.parquet", b"rows of nobody")
    store.put("_delta_log/.00000000000000000009.json.0123456789abcdef.tmp", b"")
    clock = options.clock
    with set_options(clock=lambda: clock() + 30 * 24 * 3600 * 1000):
        table.vacuum()
    names = {status.name for status in store.list_all("")}
    assert "p=a/part-left-over.parquet" not in names
    assert not [name for name in names if name.endswith(".tmp")]
    assert ids(table) == [1, 2, 3, 4]


def test_a_write_that_fails_leaves_no_file_behind(s3_server: S3Server, table: dn.DeltaTable) -> None:
    before = files_of(table)
    with s3_server.failing(lambda r: "403" if r.is_create else None), pytest.raises(DeltaError, match="403"):
        table.append({"id": [5], "p": ["a"]})
    assert files_of(table) == before
    assert table.version == 0


def test_clone_and_convert(s3_server: S3Server, table: dn.DeltaTable) -> None:
    other = table.path.replace("flights", "copy")
    table.clone(other)  # in the same bucket, with the same access
    assert ids(dn.open(other, storage_options=s3_server.options)) == [1, 2, 3, 4]
    place = table.path.replace("flights", "bare")
    import pyarrow as pa
    import pyarrow.parquet as pq

    with ObjectStore(place, s3_server.options).open_output("p=1/x.parquet") as out:
        pq.write_table(pa.table({"id": [7, 8]}), out)
    assert ids(dn.convert(place, {"p": "int"}, storage_options=s3_server.options)) == [7, 8]


def test_what_arrow_polars_and_pandas_read(s3_server: S3Server, bucket: str) -> None:
    table = dn.create(f"{bucket}/plain", {"id": [1, 2, 3]}, storage_options=s3_server.options)
    assert sorted(table.to_dataset().to_table()["id"].to_pylist()) == [1, 2, 3]
    assert sorted(table.to_pandas()["id"]) == [1, 2, 3]
    assert sorted(table.to_polars().collect()["id"]) == [1, 2, 3]


def test_the_example_of_the_documentation(
    s3_server: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With credentials and an endpoint from the environment."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL", "AWS_ALLOW_HTTP"):
        monkeypatch.setenv(name, s3_server.options[name.lower()])
    text = (ROOT / "docs/rows-in-and-out.md").read_text("utf-8").split("## Tables in a bucket")[1]
    code = text.split("```python\n")[1].split("```")[0].replace("s3://lake", bucket)
    names: dict[str, Any] = {"dn": dn}
    exec(code, names)
    table = names["flights"]
    assert table.version == 2
    assert sorted(table.to_arrow()["delay"].to_pylist()) == [4, 70, 95]


# -- other writers ------------------------------------------------------------------------------


def test_two_handles_of_one_place_conflict_as_they_do_in_a_folder(
    s3_server: S3Server, table: dn.DeltaTable
) -> None:
    txn = table.log.start_transaction()
    txn.filter_files("p = 'a'")
    other = dn.DeltaTable(dn.DeltaLog(ObjectStore(table.path, s3_server.options)))
    other.delete("id = 1")
    other.append({"id": [9], "p": ["b"]})
    with pytest.raises(ConcurrentDeleteReadException) as caught:
        txn.commit([], dn.Operation("DELETE", {"predicate": ["p = 'a'"]}, changes_data=True))
    assert caught.value.conflict.version == 1
    assert ids(table) == [2, 3, 4, 9]


class InBucket(InFolder):
    """Where a scenario takes place: a table in a bucket."""

    server: S3Server
    place = ""

    def __init__(self, setup: list[list[dict[str, Any]]]) -> None:
        self.store = ObjectStore(self.place, self.server.options)  # type: ignore[assignment]
        for version, commit in enumerate(setup):
            self.put(version, commit)
        self.log = dn.DeltaLog.for_table(self.store)


@pytest.mark.parametrize("scenario", each(4, SCENARIOS), ids=lambda s: f"{s['id']}-{s['group']}")
def test_every_conflict_scenario(scenario: dict[str, Any], s3_server: S3Server, bucket: str) -> None:
    place = type("Place", (InBucket,), {"server": s3_server, "place": f"{bucket}/t"})
    hold(scenario, place)


@pytest.mark.parametrize("seed", first(8, of=25))
def test_three_writers_in_any_order_are_as_good_as_one_after_another(
    s3_server: S3Server, bucket: str, seed: int
) -> None:
    """Orders drawn at random; on a log that is a dict, ``test_interleavings`` has all of them."""
    store = ObjectStore(f"{bucket}/t", s3_server.options)
    builder = TableBuilder(store).create("id long, part integer", partition_by=["part"])
    currents = three(builder.commit(add("part=1/a", {"part": "1"}), add("part=2/b", {"part": "2"})).log)

    def answer(step: Step, _: Any) -> Any:
        if isinstance(step, PutIfAbsent):
            return store.put_if_absent(commit_name(step.version), step.body)
        if isinstance(step, ReadWinner):
            return next(store.read_many([commit_name(step.version)]))
        return None

    writers = [Writer(commit_steps(one, max_attempts=10, clock=lambda: 0), answer) for one in currents]
    draw = random.Random(seed)
    while going := [writer for writer in writers if not writer.done]:
        draw.choice(going).advance({})
    won = {at: w.outcome.version for at, w in enumerate(writers) if isinstance(w.outcome, Committed)}
    last = max(won.values())
    assert sorted(won.values()) == list(range(2, last + 1)), "one version a commit, and no gap"
    ended = {version: store.read(commit_name(version)) for version in range(last + 1)}
    assert txn_ids(ended) == Counter(currents[at].txn_id for at in won)
    assert {0, 2} <= won.keys(), "an append and a delete elsewhere always commit"
    if 1 not in won:
        assert isinstance(writers[1].outcome, ConcurrentAppendException)


WRITER = """
import sys
from deltanb.options import set_options
uri, kind, count, *pairs = sys.argv[1:]
options = dict(pair.split("=", 1) for pair in pairs)
if kind == "deltanb":
    import deltanb as dn
    set_options(max_commit_attempts=1000)
    table = dn.open(uri, storage_options=options)
    for number in range(int(count)):
        table.append({"id": [number], "who": [kind]})
else:
    import deltalake, pyarrow as pa
    for number in range(int(count)):
        deltalake.write_deltalake(uri, pa.table({"id": [number], "who": [kind]}), mode="append",
                                  storage_options={name.upper(): value for name, value in options.items()},
                                  commit_properties=deltalake.CommitProperties(max_commit_retries=1000))
"""


@pytest.mark.slow
def test_two_processes_append_at_the_same_time_one_of_another_library(
    s3_server: S3Server, bucket: str, is_thorough: bool
) -> None:
    """A usual run leaves out most of the appends that ``--thorough`` makes."""
    pytest.importorskip("deltalake")
    count = 100 if is_thorough else 10
    uri = f"{bucket}/together"
    table = dn.create(uri, "id bigint, who string", storage_options=s3_server.options)
    pairs = [f"{name}={value}" for name, value in s3_server.options.items()]
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, uri, kind, str(count), *pairs],
                                stderr=subprocess.PIPE, text=True) for kind in ("deltanb", "deltalake")]
    errors = [writer.communicate(timeout=PATIENCE)[1] for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0], errors
    assert table.version == 2 * count
    stored = table.to_arrow().to_pylist()
    assert sorted((row["who"], row["id"]) for row in stored) == [
        (who, number) for who in ("deltalake", "deltanb") for number in range(count)]
    import deltalake

    assert deltalake.DeltaTable(uri, storage_options={
        name.upper(): value for name, value in s3_server.options.items()}).version() == 2 * count


def test_an_answer_that_takes_too_long_is_told_as_such(s3_server: S3Server, table: dn.DeltaTable) -> None:
    hurried = {**s3_server.options, "timeout": "20ms", "max_retries": 0}
    with s3_server.counted(10 * LATENCY), pytest.raises(StorageError, match="did not answer in time"):
        dn.open(table.path, storage_options=hurried)


# -- a store that fails -------------------------------------------------------------------------


def storm(every: int, kinds: list[str]) -> Callable[[Request], str | None]:
    """Every so many requests one goes wrong, in one way after the other."""
    asked = iter(range(10**9))

    def fault(request: Request) -> str | None:
        number = next(asked)
        kind = kinds[number // every % len(kinds)]
        is_meant = number % every == every - 1 and (kind != "cut" or request.method == "GET")
        return kind if is_meant else None

    return fault


@pytest.mark.parametrize("every", [2, 3, 5, 7])
def test_no_acknowledged_commit_is_lost_and_none_is_there_twice(
    s3_server: S3Server, bucket: str, every: int
) -> None:
    options = {**s3_server.options, "backoff_config.init_backoff": "1ms", "backoff_config.max_backoff": "5ms",
               "max_retries": 2}
    table = dn.create(f"{bucket}/t", "id bigint", storage_options=options)
    done, unknown = [], []
    with s3_server.failing(storm(every, ["lost", "503", "late 500", "403", "429", "cut"])):
        for number in range(25):
            try:
                table.append({"id": [number]})
                done.append(number)
            except (DeltaError, OSError) as error:
                assert bucket in str(error) or "table" in str(error)
                unknown.append(number)
    ids_read = ids(opened_anew(table, s3_server))
    assert len(set(ids_read)) == len(ids_read), "no commit is there twice"
    assert set(done) <= set(ids_read) <= {*done, *unknown}
    assert done


WORK = {
    "append": "table.append({'id': [2]})",
    "merge": ("table.merge({'id': [1, 2]}, 't.id = s.id', target_alias='t', source_alias='s')"
              ".when_matched_update_all().when_not_matched_insert_all().execute()"),
}


@pytest.mark.parametrize(("point", "work"), crossed(2, ["data", "commit", "after"], list(WORK)))
def test_a_writer_that_is_killed_leaves_a_table_that_opens(
    s3_server: S3Server, bucket: str, point: str, work: str
) -> None:
    uri = f"{bucket}/killed"
    dn.create(uri, {"id": [1]}, storage_options=s3_server.options)
    script = ("import sys, deltanb as dn\n"
              "table = dn.open(sys.argv[1], storage_options=dict(p.split('=', 1) for p in sys.argv[2:]))\n"
              "print('open', flush=True)\n"
              "sys.stdin.readline()\n"
              f"{WORK[work]}\n")
    writer = subprocess.Popen(
        [sys.executable, "-c", script, uri, *(f"{n}={v}" for n, v in s3_server.options.items())],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert writer.stdin is not None and writer.stdout is not None

    def strike(request: Request) -> str | None:
        is_there = {"data": request.method == "PUT" and request.key.endswith(".parquet"),
                    "commit": request.key.endswith(commit_name(1)) and request.is_create,
                    "after": request.key.endswith(commit_name(1)) and request.is_create}[point]
        if is_there:
            writer.kill()
            writer.wait()
            return None if point == "after" else "500"
        return None

    assert writer.stdout.readline() == "open\n"
    with s3_server.failing(strike):
        writer.stdin.write("\n")
        writer.stdin.flush()
        assert writer.wait(PATIENCE) == -9
        while any(not request.ended for request in s3_server.requests):
            pass
    table = dn.open(uri, storage_options=s3_server.options)
    assert ids(table) == ([1, 2] if point == "after" else [1])
    table.append({"id": [3]})
    assert ids(opened_anew(table, s3_server)) == ([1, 2, 3] if point == "after" else [1, 3])


# -- round trips --------------------------------------------------------------------------------


def fewest(
    server: S3Server, work: Callable[[], Any], most: int, before: Callable[[], Any] = lambda: None
) -> int:
    """The round trips of work, the least of eight times.

    A busy machine may send late what goes together, so each answer takes longer from time to time: what is
    late by less than an answer takes still counts as sent together.
    """
    counts = []
    for attempt in range(8):
        before()
        with server.counted(LATENCY * 1.6 ** attempt) as seen:
            work()
        counts.append(rounds(seen))
        if counts[-1] <= most:
            break
    return min(counts)


@pytest.fixture(scope="module")
def long(s3_server: S3Server) -> str:
    """A table of 10,000 commits, each of one file, with a checkpoint."""
    uri = s3_server.make_bucket("long") + "/t"
    source = TableBuilder().create("id long")
    draw = random.Random(1)
    for number in range(10_000):
        low = draw.randrange(10**9)
        stats = {"numRecords": 10, "minValues": {"id": low}, "maxValues": {"id": low + 9}}
        name = f"part-00000-{uuid.UUID(int=draw.getrandbits(128))}-c000.snappy.parquet"
        source.commit(add(name, size=draw.randrange(10**9), stats=json.dumps(stats)), version=number + 1)
    source.log.checkpoint(4_990)
    source.log.checkpoint(9_980)
    store = ObjectStore(uri, s3_server.options)
    store.put_if_absent("probe", b"")
    for name, (data, _) in source.store.files.items():  # type: ignore[attr-defined]
        s3_server.store("long", f"t/{name}", data)
    return uri


@pytest.mark.slow
@pytest.mark.parametrize("version", [None, 9_981, 9_980])
def test_a_long_log_is_opened_in_few_round_trips(s3_server: S3Server, long: str, version: int | None) -> None:
    tail = 20 if version is None else version - 9_980
    most = 3 + math.ceil(tail / MAX_SMALL)

    def work() -> None:
        assert dn.open(long, version, storage_options=s3_server.options).version == 9_980 + tail

    assert fewest(s3_server, work, most, dn.DeltaLog.clear_cache) <= most


@pytest.mark.slow
@pytest.mark.parametrize("version, listings", [(5_010, 1), (4_990, 1), (5_500, 2), (5_230, 1)])
def test_a_past_version_is_opened_from_the_checkpoint_before_it(
    s3_server: S3Server, long: str, version: int, listings: int
) -> None:
    counts: list[int] = []

    def work() -> None:
        with s3_server.counted() as seen:
            log = dn.DeltaLog.for_table(ObjectStore(long, s3_server.options))
            assert log.snapshot_at(version).num_files == version
        asked = [request for request in seen if "list-type" in request.query]
        assert len(asked) == listings
        counts.append(len(seen))

    dn.DeltaLog.clear_cache()
    work()
    assert counts[0] <= 8 + listings + version - 4_990  # the hint, the checkpoint, and each commit since


def test_versions_before_the_first_checkpoint_and_beyond_the_log_are_told_as_ever(
    s3_server: S3Server, bucket: str
) -> None:
    builder = TableBuilder(ObjectStore(f"{bucket}/t", s3_server.options)).create("id long")
    for number in range(9):
        builder.commit(add(f"f-{number}"))
    table = dn.DeltaTable(builder.log)
    table.log.checkpoint(7)
    for version in (0, 3, 6, 7, 9):
        assert opened_anew(table, s3_server).log.snapshot_at(version).num_files == version
    for version in (10, 99_999):
        with pytest.raises(VersionNotFound, match="versions 0 to 9"):
            opened_anew(table, s3_server).as_of(version)
    for version in range(5):
        table.log.store.delete(commit_name(version))
    with pytest.raises(VersionNotFound, match="versions 7 to 9"):
        opened_anew(table, s3_server).as_of(6)


@pytest.mark.parametrize("properties", [{}, {"delta.enableInCommitTimestamps": True}], ids=["plain", "timed"])
def test_an_append_takes_four_round_trips_and_its_upload(
    s3_server: S3Server, bucket: str, properties: dict[str, Any]
) -> None:
    table = dn.create(f"{bucket}/t", {"id": [1]}, properties=properties, storage_options=s3_server.options)
    assert fewest(s3_server, lambda: table.append({"id": [2]}), 5) <= 5
    with s3_server.counted() as seen:
        table.append({"id": [3]})
    assert len([request for request in seen if not request.key.endswith(".parquet")]) <= 4


def test_what_was_just_read_is_looked_at_by_one_request(s3_server: S3Server, table: dn.DeltaTable) -> None:
    assert table.version == 0
    for look in (lambda: table.version, lambda: table.schema, lambda: table.metadata):
        with s3_server.counted() as seen:
            look()
        assert len(seen) == 1


def test_a_history_of_a_hundred_commits_takes_three_round_trips(s3_server: S3Server, bucket: str) -> None:
    builder = TableBuilder(ObjectStore(f"{bucket}/t", s3_server.options)).create("id long")
    for number in range(99):
        builder.commit({"commitInfo": {"operation": "WRITE"}}, add(f"f-{number}"))
    table = dn.DeltaTable(builder.log)
    assert fewest(s3_server, lambda: table.history(), 3, recent.clear) <= 3
    assert len(table.history()) == 100


def test_commits_are_asked_for_by_as_many_connections_as_the_distance_pays_for(
    s3_server: S3Server, bucket: str
) -> None:
    """Each request waits until so many others are there, so that fewer would wait in vain."""
    builder = built("commits", last=2 * MAX_SMALL - 1)
    put(builder, s3_server, f"{bucket}/t")
    together = threading.Barrier(MAX_SMALL, timeout=PATIENCE)

    def meet(request: Request) -> None:
        if request.key.endswith(".json"):
            together.wait()

    dn.DeltaLog.clear_cache()
    with s3_server.failing(meet):
        table = dn.open(f"{bucket}/t", storage_options=s3_server.options)
        assert table.version == builder.version
    recent.clear()
    with s3_server.failing(meet):
        assert len(table.history()) == 2 * MAX_SMALL


def test_many_files_are_written_at_a_time(s3_server: S3Server, bucket: str) -> None:
    table = dn.create(f"{bucket}/t", "id bigint, p int", partition_by="p", storage_options=s3_server.options)
    data = {"id": list(range(32)), "p": list(range(32))}
    most = 4 + 2 + 1  # the commit, 32 files by 16 at a time, and one more for those that were late
    assert fewest(s3_server, lambda: table.append(data), most) <= most
    assert set(ids(table)) == set(range(32))


def test_vectors_and_change_files_of_an_update_are_written_at_a_time(
    s3_server: S3Server, bucket: str
) -> None:
    table = dn.create(f"{bucket}/t", {"id": list(range(64)), "p": [n // 2 for n in range(64)]},
                      partition_by="p", storage_options=s3_server.options, properties={
                          "delta.enableChangeDataFeed": True, "delta.enableDeletionVectors": True})
    # The log; 32 files by 16 at a time: looked through, read and written again, then the change data from
    # the new ones, with the rows before beside them, and written; the commit's two. The vectors' file is
    # written beside the others. Three more for those that were late.
    most = 1 + 2 + (2 + 2) + (2 + 2) + 2 + 3
    assert fewest(s3_server, lambda: table.update({"id": "id + 100"}, where="id % 2 = 0"), most,
                  lambda: table.restore(0)) <= most
    assert sorted(ids(table)) == sorted(n + 100 if n % 2 == 0 else n for n in range(64))
    changes = table.changes(table.version).to_arrow()
    assert changes.num_rows == 64


def test_an_update_that_fails_beside_its_vectors_leaves_none(s3_server: S3Server, bucket: str) -> None:
    table = dn.create(f"{bucket}/t", {"id": [1, 2]}, storage_options=s3_server.options, properties={
        "delta.enableDeletionVectors": True})
    before = files_of(table)
    for part in (".parquet", "deletion_vector"):
        with s3_server.failing(lambda r, part=part: "403" if r.method == "PUT" and part in r.key else None), \
                pytest.raises(DeltaError, match="403"):
            table.update({"id": 7}, where="id = 1")
        assert files_of(table) == before
    assert table.version == 0


def test_many_files_are_read_at_a_time(s3_server: S3Server, bucket: str) -> None:
    table = dn.create(f"{bucket}/t", {"id": list(range(32)), "p": list(range(32))}, partition_by="p",
                      storage_options=s3_server.options)
    most = 1 + 2 + 1  # the log, 32 files by 16 at a time, and one more for those that were late
    assert fewest(s3_server, table.to_arrow, most) <= most
    assert ids(table) == list(range(32))


def test_a_verification_waits_for_many_commits_at_a_time(table: dn.DeltaTable, s3_server: S3Server) -> None:
    for n in range(20):
        table.append({"id": [n], "p": ["a"]})
    table.delete("id = 3")
    dn.flush()
    assert opened_anew(table, s3_server).verify(files="all").is_sound
    report = opened_anew(table, s3_server).verify(files="none")
    assert report.is_sound and report.num_commits == 22
    waited = fewest(s3_server, lambda: opened_anew(table, s3_server).verify(files="none"), 21)
    assert waited < report.num_commits


def test_a_checkup_asks_for_each_commit_once_and_lists_up_to_a_bound(
    table: dn.DeltaTable, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(20):
        table.append({"id": [n], "p": ["a"]})
    dn.flush()
    monkeypatch.setattr("deltanb.observe.checkup.commits.MAX_COMMITS", 5)
    opened = opened_anew(table, s3_server)
    s3_server.requests.clear()
    report = opened.checkup(list_files=False)
    assert report.kinds == ("small-files",) and report.num_commits == 5
    commits = [request.key for request in s3_server.requests if request.key.endswith(".json")]
    assert len(commits) <= 21 + 5, "the version's own, and the five that are looked at"
    assert not [request for request in s3_server.requests if request.method not in ("GET", "HEAD")]
    assert not [request.key for request in s3_server.requests if request.key.endswith(".parquet")
                and "checkpoint" not in request.key], "no data file is opened"

    monkeypatch.setattr("deltanb.observe.checkup.storage.MAX_LISTED", 10)
    spots = {spot.kind: spot for spot in opened.checkup().blind_spots}
    assert "10 files were listed; checkup(list_files=True)" in spots["listing"].missing
    assert "listing" not in {spot.kind for spot in opened.checkup(list_files=True).blind_spots}
    assert {"history"} == {spot.kind for spot in opened.checkup(list_files=True).blind_spots}



def test_a_journal_beside_a_table_in_a_bucket_is_read_many_at_a_time(
    s3_server: S3Server, table: dn.DeltaTable
) -> None:
    number = 40
    with set_options(journal="beside", user_name="ann"):
        for _ in range(number):
            with pytest.raises(DeltaError), table.transaction() as txn:
                txn.delete("id = 1")
                table.delete("id = 1")
                table.append({"id": [1], "p": ["a"]})
        assert dn.flush()
        again = opened_anew(table, s3_server)
        history = again.history()
        with s3_server.counted(LATENCY) as requests:
            conflicts = history.conflicts()
    assert len(conflicts.lost) == number
    read = [request for request in requests if "_deltanb_journal" in str(request)]
    assert rounds(read) < number / 2
    gone = again.vacuum(0, check=False, dry_run=True).files
    assert gone and not any("_deltanb_journal" in str(file) for file in gone)
    assert again.verify().is_sound
