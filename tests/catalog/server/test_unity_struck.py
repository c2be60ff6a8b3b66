"""Unity Catalog's requests where things go wrong: a server killed at each step, files that cannot be read.

Each request that changes something is tried in a folder and in a bucket, and killed at every statement of the
database: sent again to another process, it is done once. Each operation on a file that a request makes fails
once: nothing is done, and sent again it is done.
"""

from __future__ import annotations

import itertools
import json
import signal
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the server is an extra: pip install 'deltanb[catalog]'")

from deltanb.catalog.iceberg.tables import IcebergTables
from deltanb.catalog.rest.server.messages import Reply, Request
from deltanb.catalog.rest.server.service import Service
from deltanb.catalog.rest.server.tokens import EVERYONE
from deltanb.catalog.store.places import Warehouse
from deltanb.catalog.store.store import CatalogStore
from deltanb.catalog.unity.server import endpoints, listing
from deltanb.errors import StorageError
from deltanb.log.commits import STAGED_FOLDER, commit_name
from deltanb.store.base import LogStore
from tests.catalog.script import die, each_statement, in_child
from tests.examples import every

Json = dict[str, Any]
ROWS = {each.name: each for each in (*listing.ENDPOINTS, *endpoints.ENDPOINTS)}
SPACE = {"catalog": "default", "schema": "ns"}
TABLE = {**SPACE, "table": "orders"}
COLUMNS = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}


@dataclass
class World:
    """A server with ``ns.orders``, whose version 1 is ratified and not published, and what makes others."""

    open: Callable[[], Service]

    def __post_init__(self) -> None:
        self.service = self.open()
        self.service.tables.store.namespaces.create("ns")
        self.id = self.create("orders")
        self.add = self.stage(1)
        assert self.ask("update_table", TABLE, self.updates(self.add)).status == 200

    def ask(self, name: str, params: Json, body: Json | None = None, service: Service | None = None) -> Reply:
        """The answer to a request, without HTTP."""
        row, content = ROWS[name], b"" if body is None else json.dumps(body).encode()
        return (service or self.service).respond(row, Request(
            service or self.service, EVERYONE, row.method, "", params, {}, {}, content))

    @property
    def files(self) -> LogStore:
        """The folder of ``ns.orders``."""
        return self.folder(self.service.tables.store.tables.load("ns.orders").delta.location)

    def folder(self, location: str) -> LogStore:
        return self.service.tables.warehouse.store_at(location)

    def written(self, name: str) -> Json:
        """The request that makes a table of a staging table whose first version is written."""
        staged = self.ask("staging_table", SPACE, {"name": name}).value
        protocol = {"minReaderVersion": 3, "minWriterVersion": 7,
                    "readerFeatures": staged["required-protocol"]["reader-features"],
                    "writerFeatures": staged["required-protocol"]["writer-features"]}
        self.folder(staged["location"]).put_if_absent(commit_name(0), _lines(
            _info(5), {"protocol": protocol}, {"metaData": {
                "id": str(uuid.uuid4()), "format": {"provider": "parquet", "options": {}}, "createdTime": 5,
                "schemaString": json.dumps(COLUMNS), "partitionColumns": [],
                "configuration": staged["required-properties"]}}))
        return {"name": name, "location": staged["location"], "table-type": "MANAGED", "columns": COLUMNS,
                "protocol": staged["required-protocol"], "properties": staged["required-properties"],
                "last-commit-timestamp-ms": 5}

    def create(self, name: str) -> str:
        answer = self.ask("create_table", SPACE, self.written(name))
        assert answer.status == 200, answer.value
        return str(answer.value["metadata"]["table-uuid"])

    def stage(self, version: int) -> Json:
        name, body = f"{version:020}.{uuid.uuid4()}.json", _lines(_info(5 + version))
        self.files.put_if_absent(f"{STAGED_FOLDER}/{name}", body)
        return {"action": "add-commit", "commit": {
            "version": version, "timestamp": 5 + version, "file-name": name, "file-size": len(body),
            "file-modification-timestamp": 5}}

    def publish(self, add: Json) -> Json:
        commit, files = add["commit"], self.files
        files.put_if_absent(commit_name(commit["version"]),
                            files.read(f"{STAGED_FOLDER}/{commit['file-name']}"))
        return {"action": "set-latest-backfilled-version", "latest-published-version": commit["version"]}

    def updates(self, *updates: Json) -> Json:
        return {"requirements": [{"type": "assert-table-uuid", "uuid": self.id}], "updates": list(updates)}

    def now(self) -> Any:
        """What the catalog has: schemas, tables, and what ``ns.orders`` is but for its tag, which a property
        changes that was the same before."""
        store = self.service.tables.store
        spaces = [space for (space,) in store.namespaces.children().items]
        names = [str(row.name) for row in store.tables.page("ns").items]
        loaded = self.ask("load_table", TABLE)
        return ({space: store.namespaces.properties(space) for space in spaces}, names,
                loaded.status == 200 and {**loaded.value, "metadata": {
                    **loaded.value["metadata"], "etag": None}}, len(store.history()))


def _info(time: int) -> Json:
    return {"commitInfo": {"inCommitTimestamp": time, "txnId": str(uuid.uuid4()), "operation": "WRITE"}}


def _lines(*actions: Json) -> bytes:
    return "".join(json.dumps(each) + "\n" for each in actions).encode()


# -- what is asked: the request, and the status of the same one where it was done before -------------------

Prepare = Callable[[World], tuple[str, Json, Json | None]]


def _update(make: Callable[[World], tuple[Json, ...]]) -> Prepare:
    return lambda world: ("update_table", TABLE, world.updates(*make(world)))


def _drop_schema(world: World) -> tuple[str, Json, Json | None]:
    world.service.tables.store.namespaces.create("attic")
    return "delete_schema", {"full_name": "default.attic"}, None


ASKED: dict[str, tuple[Prepare, int]] = {
    "a commit": (_update(lambda world: (world.stage(2),)), 200),
    "a report": (_update(lambda world: (world.publish(world.add),)), 200),
    "a commit and the report before": (
        _update(lambda world: (world.stage(2), world.publish(world.add))), 200),
    "a property": (_update(lambda world: ({"action": "set-properties", "updates": {"owner": "ada"}},)), 200),
    "a new table": (lambda world: ("create_table", SPACE, world.written("new")), 409),
    "another name": (lambda world: ("rename_table", TABLE, {"new-name": "sold"}), 404),
    "no table": (lambda world: ("delete_table", TABLE, None), 404),
    "no table, by its full name": (
        lambda world: ("remove_table", {"full_name": "default.ns.orders"}, None), 404),
    "a schema": (lambda world: ("create_schema", {}, {"name": "shop", "catalog_name": "default"}), 400),
    "other properties of a schema": (lambda world: ("update_schema", {"full_name": "default.ns"}, {
        "comment": "x", "properties": {"owner": "ada"}}), 200),
    "no schema": (_drop_schema, 404),
}


@pytest.fixture(params=["folder", "bucket"])
def world(request: pytest.FixtureRequest, url: str, tmp_path: Path) -> Iterator[World]:
    """A server's world, its files in either place."""
    if request.param == "folder":
        lake = Warehouse(tmp_path / "lake")
    else:
        server = request.getfixturevalue("s3_server")
        lake = Warehouse(f"{request.getfixturevalue('bucket')}/lake", server.options)
    world = World(lambda: Service(IcebergTables(CatalogStore(url, durability="none"), lake)))
    yield world
    world.service.tables.store.close()


@pytest.mark.parametrize("world", ["folder"], indirect=True)
def test_each_request_that_changes_something_is_tried(world: World) -> None:
    changing = {name for name, row in ROWS.items() if row.method not in ("GET", "HEAD")}
    harmless = {"temporary_table_credentials", "temporary_path_credentials", "report_metrics",
                "staging_table", "create_external_table"}  # the last one is always refused
    asked = {prepare(world)[0] for prepare, _ in ASKED.values()}
    assert asked == changing - harmless


@pytest.mark.parametrize("case", ASKED.values(), ids=ASKED)
def test_it_is_done_once_in_either_place(world: World, case: tuple[Prepare, int]) -> None:
    prepare, again = case
    request = prepare(world)
    before = world.now()
    assert world.ask(*request).status in (200, 204)
    after = world.now()
    assert after != before
    assert world.ask(*request).status == again
    assert world.now() == after


# -- a server that dies -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("world", ["folder"], indirect=True)
@pytest.mark.parametrize("case", every(4, list(ASKED)))
def test_a_server_that_dies_has_done_it_or_not(world: World, case: str) -> None:
    """At each statement of the database; then another process is asked the same."""
    prepare, again = ASKED[case]
    request = prepare(world)
    before = world.now()
    for step in itertools.count():
        world.service.tables.store.close()
        ended = in_child(partial(_until, world, request, step))()
        if world.now() != before:
            break
        assert ended == signal.SIGKILL, f"it answered {ended} and has not done it"
    after, steps = world.now(), step
    assert steps and ended == signal.SIGKILL  # done, and not answered yet
    assert world.ask(*request).status == again
    assert world.now() == after


def _until(world: World, request: tuple[str, Json, Json | None], step: int) -> int:
    """Ask a server of this process's own that dies at a step; the status where it came to its end."""
    service, numbers = world.open(), itertools.count()
    each_statement(service.tables.store, lambda _: die() if next(numbers) == step else None)
    return world.ask(*request, service=service).status


# -- files that cannot be read ----------------------------------------------------------------------------

READS = ("list_from", "list_names", "list_all", "status", "read", "open_input")


class Failing:
    """A store of which one read fails, counted over all that a request makes."""

    def __init__(self, store: LogStore, at: int | None, numbers: Iterator[int]) -> None:
        self._store, self._at, self._numbers = store, at, numbers

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._store, name)
        if name not in READS:
            return value

        def read(*args: Any, **more: Any) -> Any:
            if next(self._numbers) == self._at:
                raise StorageError("the disk is gone")
            return value(*args, **more)

        return read


@pytest.mark.parametrize("case", ["a commit", "a report", "a commit and the report before", "a new table"])
def test_a_file_that_cannot_be_read_leaves_things_as_they_were(
    world: World, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare, _ = ASKED[case]
    request = prepare(world)
    before, store_at = world.now(), Warehouse.store_at
    for step in itertools.count():
        numbers = itertools.count()

        def failing(self: Warehouse, place: str, step: int = step, numbers: Any = numbers) -> Any:
            return Failing(store_at(self, place), step, numbers)

        monkeypatch.setattr(Warehouse, "store_at", failing)
        answer = world.ask(*request)
        monkeypatch.setattr(Warehouse, "store_at", store_at)
        if next(numbers) <= step:  # none was left to fail
            break
        if answer.status == 200:  # it was one that is not needed: whether there is a checkpoint
            assert world.ask("delete_table", {**SPACE, "table": "new"}).status == 204
            request = prepare(world)
            before = world.now()
            continue
        assert answer.status == 503, answer.value
        assert world.now() == before
    assert step and answer.status == 200 and world.now() != before
