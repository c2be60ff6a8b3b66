"""Whose a folder is, asked by every way to take one: who may write ``mine`` gets nothing else deleted.

Each way of each kind of request is tried at each place that is somebody's, in each of its spellings. What the
way made, where it made anything, is dropped with its files, and all that is due is swept: what others have is
as it was, to the byte.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the server is an extra: pip install 'deltanb[catalog]'")

import deltanb as dn
from deltanb.catalog.iceberg.metadata.fields import described
from deltanb.catalog.iceberg.tables import IcebergTables
from deltanb.catalog.rest.endpoints import ENDPOINTS
from deltanb.catalog.rest.server.app import application
from deltanb.catalog.rest.server.service import Service
from deltanb.catalog.rest.server.tokens import Tokens
from deltanb.catalog.store.store import CatalogStore
from deltanb.catalog.store.upkeep import sweep
from deltanb.errors import TableAlreadyExists, TableNotFound
from deltanb.options import options, set_options
from deltanb.schema.protocol import CATALOG_TABLE_ID
from deltanb.testing import MemoryStore
from tests.catalog.conftest import url_of
from tests.catalog.iceberg_tables import SCHEMA
from tests.catalog.server.ask import Client
from tests.examples import crossed

TOKENS = Tokens.of({"tokens": [
    {"name": "me", "token": "m", "permissions": {"mine": "write"}},
    {"name": "other", "token": "o", "permissions": {"theirs": "write"}}]})
ME, OTHER = ({"Authorization": f"Bearer {token}"} for token in "mo")
UNITY = "/delta/v1/catalogs/default/schemas"


class World:
    """A warehouse in which others have tables, files and folders, and a client who may write ``mine``."""

    def __init__(self, client: Client, catalog: dn.Catalog, root: Path) -> None:
        self.client, self.catalog, self.lake = client, catalog, root / "lake"
        self.outside = root / "outside"
        for name in ("mine", "theirs"):
            catalog.create_namespace(name)
        catalog.create_table("theirs.delta", {"id": [1]}, location=self.lake / "theirs" / "delta")
        catalog.create_table("theirs.iceberg", "id bigint", format="iceberg",
                             location=f"file://{self.lake}/theirs/iceberg")
        self.moved()
        self.dropped("theirs", OTHER)
        for folder in (self.lake / "nobody", self.outside):
            dn.create(str(folder), {"id": [1]})
        (self.lake / "plain").mkdir()
        (self.lake / "plain" / "a.parquet").write_bytes(b"1")
        (self.lake / "link").symlink_to(self.outside)
        (self.lake / "link2").symlink_to(self.lake / "theirs")
        self.staged = [self.staged_delta(), self.staged_iceberg()]
        own = self.ask("/v1/namespaces/mine/tables", {"name": "own", "schema": SCHEMA})
        self.own = str(own["metadata-location"])

    def ask(self, path: str, body: Any, headers: Any = ME) -> Any:
        answer = self.client.post(path, json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def moved(self) -> None:
        """A table that has files at the place that it had before."""
        where = [f"file://{self.lake}/theirs/{name}" for name in ("before", "after")]
        self.catalog.create_table("theirs.moved", "id bigint", format="iceberg", location=where[0])
        self.ask("/v1/namespaces/theirs/tables/moved", {
            "requirements": [], "updates": [{"action": "set-location", "location": where[1]}]}, OTHER)

    def dropped(self, namespace: str, headers: Any) -> str:
        """The place of a table that was dropped and left its files."""
        place = f"file://{self.lake}/{namespace}/left"
        self.catalog.create_table(f"{namespace}.left", "id bigint", format="iceberg", location=place)
        answer = self.client.delete(f"/v1/namespaces/{namespace}/tables/left", headers=headers)
        assert answer.status_code == 204
        return place

    def staged_delta(self) -> str:
        staged = self.ask(f"{UNITY}/theirs/staging-tables", {"name": "new"}, OTHER)
        self.staged_id = staged["table-id"]
        return self.filled(staged["location"])

    def staged_iceberg(self) -> str:
        body = {"name": "staged", "schema": SCHEMA, "stage-create": True}
        staged = self.ask("/v1/namespaces/theirs/tables", body, OTHER)
        return self.filled(staged["metadata"]["location"])

    def filled(self, location: str) -> str:
        """A place where its owner has begun to write."""
        folder = Path(location.removeprefix("file://"))
        (folder / "data").mkdir(parents=True)
        (folder / "data" / "a.parquet").write_bytes(b"1")
        return str(folder)

    def places(self) -> Iterator[str]:
        """Every place that is not to be had, in each spelling."""
        for folder in (*map(Path, self.staged), *(self.lake / name for name in (
                "theirs/iceberg", "theirs/before", "theirs/after", "theirs/left", "nobody"))):
            yield from (f"file://{folder}", f"file://{folder}/inside")
        yield from (f"file://{self.lake}/plain{name}" for name in ("", "/a.parquet", "/a.parquet/inside"))
        yield from self.spelled(self.lake / "theirs" / "delta")
        yield from map(str, (self.lake / "link", self.lake / "link" / "new", self.lake / "link2" / "delta",
                             self.lake / "link2" / "new", self.lake, self.lake / "theirs"))
        yield from self.spelled(self.outside)
        for encoded in ("%2e%2e/outside", "%2E%2E/outside", "..%2Foutside", "a/%2e%2e/theirs/delta"):
            yield f"file://{self.lake}/{encoded}"

    def spelled(self, folder: Path) -> Iterator[str]:
        for each in (folder, folder / "inside"):
            yield f"file://{each}"
        yield str(folder)
        yield f"file:{folder}"
        yield f"{folder}/"
        yield f"file://{folder.parent}/x/../{folder.name}"

    def others(self) -> dict[str, bytes]:
        """All that is not the client's."""
        mine = Path(self.own.removeprefix("file://")).parent.parent
        return {str(file): file.read_bytes() for root in (self.lake, self.outside)
                for file in root.rglob("*") if file.is_file() and mine not in file.parents
                and not file.is_relative_to(self.lake / "mine")}


@pytest.fixture
def world(store: CatalogStore, tmp_path: Path) -> Iterator[World]:
    service = Service(IcebergTables(store, tmp_path / "lake"), TOKENS)
    with Client(application(service)) as client, \
            dn.Catalog(url_of(store), warehouse=tmp_path / "lake") as catalog:
        yield World(client, catalog, tmp_path)


# -- ways to take a place ---------------------------------------------------------------------------


def create(world: World, place: str) -> Any:
    return world.client.post("/v1/namespaces/mine/tables", headers=ME, json={
        "name": "t", "schema": SCHEMA, "location": place})


def stage(world: World, place: str) -> Any:
    return world.client.post("/v1/namespaces/mine/tables", headers=ME, json={
        "name": "t", "schema": SCHEMA, "location": place, "stage-create": True})


UPDATES = [{"action": "assign-uuid", "uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1"},
           {"action": "upgrade-format-version", "format-version": 2},
           {"action": "add-schema", "schema": SCHEMA, "last-column-id": 1},
           {"action": "set-current-schema", "schema-id": -1},
           {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
           {"action": "set-default-spec", "spec-id": -1},
           {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
           {"action": "set-default-sort-order", "sort-order-id": -1}]


def commit_new(world: World, place: str) -> Any:
    updates = [*UPDATES, {"action": "set-location", "location": place}]
    return world.client.post("/v1/namespaces/mine/tables/t", headers=ME, json={
        "requirements": [{"type": "assert-create"}], "updates": updates})


def set_location(world: World, place: str) -> Any:
    return world.client.post("/v1/namespaces/mine/tables/own", headers=ME, json={
        "requirements": [], "updates": [{"action": "set-location", "location": place}]})


def commit_many(world: World, place: str) -> Any:
    return world.client.post("/v1/transactions/commit", headers=ME, json={"table-changes": [{
        "identifier": {"namespace": ["mine"], "name": "own"}, "requirements": [],
        "updates": [{"action": "set-location", "location": place}]}]})


def ratify(world: World, place: str) -> Any:
    return world.client.post("/deltanb/v1/ratify", headers=ME, json={
        "txn-id": "t", "attempt": str(uuid.uuid4()), "assertions": [], "proposals": [{"iceberg": {
            "table": {"namespace": ["mine"], "name": "own"}, "requirements": [],
            "updates": [{"action": "set-location", "location": place}]}}]})


def register_file(world: World, place: str) -> Any:
    """By a metadata file of the client's own that names the place."""
    file = Path(world.own.removeprefix("file://"))
    crafted = file.with_name("00009-crafted.metadata.json")
    crafted.write_text(json.dumps({**json.loads(file.read_text()), "location": place}))
    return world.client.post("/v1/namespaces/mine/register", headers=ME, json={
        "name": "t", "metadata-location": f"file://{crafted}"})


def register_theirs(world: World, place: str) -> Any:
    """By the newest metadata file that lies there."""
    folder = Path(place.removeprefix("file:").replace("//", "/")) / "metadata"
    files = sorted(folder.glob("*.json")) if folder.is_dir() else []
    return world.client.post("/v1/namespaces/mine/register", headers=ME, json={
        "name": "t", "metadata-location": f"file://{files[-1]}" if files else place})


def register(world: World, place: str) -> Any:
    row = world.catalog.store.tables.load("theirs.delta")
    return world.client.post("/deltanb/v1/tables/register", headers=ME, json={
        "table": {"namespace": ["mine"], "name": "t"}, "location": place, "version": 0,
        "table-id": row.table_id})


def register_anew(world: World, place: str) -> Any:
    return world.client.post("/deltanb/v1/tables/register", headers=ME, json={
        "table": {"namespace": ["mine"], "name": "t"}, "location": place, "version": 0})


def record_places(world: World, place: str) -> Any:
    return world.client.post("/deltanb/v1/places/record", headers=ME, json={
        "locations": [place], "table-id": str(uuid.uuid4())})


def forget_places(world: World, place: str) -> Any:
    """It says nothing, and does nothing to what others have noted."""
    before = world.catalog.store.garbage.due(2**62)
    world.client.post("/deltanb/v1/places/forget", headers=ME, json={"locations": [place]})
    assert world.catalog.store.garbage.due(2**62) == before
    return None


def free(world: World, place: str) -> Any:
    """It asks, and takes nothing: an unregistered table may be registered."""
    world.client.post("/deltanb/v1/places/free", headers=ME, json={"location": place})
    return None


def create_managed(world: World, place: str) -> Any:
    staged = world.ask(f"{UNITY}/mine/staging-tables", {"name": "t"})
    return world.client.post(f"{UNITY}/mine/tables", headers=ME, json={
        "name": "t", "location": place, "table-type": "MANAGED",
        "columns": {"type": "struct", "fields": []}, "protocol": staged["required-protocol"],
        "properties": {CATALOG_TABLE_ID: world.staged_id}, "last-commit-timestamp-ms": 5})


WAYS = {create: "create_table", stage: "create_table", commit_new: "commit_table",
        set_location: "commit_table", commit_many: "commit_tables", ratify: "ratify",
        register_file: "register_table", register_theirs: "register_table", register: "register",
        register_anew: "register", record_places: "record_places", forget_places: "forget_places",
        free: "free", create_managed: "create_table"}
"""Each way, and the endpoint that it asks."""


def test_every_endpoint_that_takes_a_place_is_tried() -> None:
    """The schemas of bodies say which endpoints take one; an update may set a table's location."""

    def takes(schema: Any) -> bool:
        names = {"location", "locations", "metadata-location", "#/components/schemas/Update"}
        parts = schema.items() if isinstance(schema, dict) else enumerate(schema)
        return any(name in names or each in names if isinstance(each, str)
                   else name in names or (isinstance(each, dict | list) and takes(each))
                   for name, each in parts)

    taking = set()
    for endpoint in ENDPOINTS:
        components: dict[str, Any] = {}
        if endpoint.body is not None:
            described(endpoint.body, components)
            components.pop("Update", None)
            if takes(list(components.values())):
                taking.add(endpoint.name)
    assert taking == set(WAYS.values())


@pytest.mark.parametrize(
    ("new_url", "way"), crossed(2, ["sqlite", "postgresql"], list(WAYS)), indirect=["new_url"],
    ids=lambda way: getattr(way, "__name__", way))
def test_nothing_of_others_is_had(world: World, way: Callable[[World, str], Any]) -> None:
    before = world.others()
    for place in world.places():
        answer = way(world, place)
        assert answer is None or 400 <= answer.status_code < 500, (place, answer.text)
    for name in world.catalog.list_tables("mine"):
        table = name.rpartition(".")[2]
        purged = world.client.delete(
            f"/v1/namespaces/mine/tables/{table}?purgeRequested=true", headers=ME)
        assert purged.status_code in (204, 404)
        world.client.post("/deltanb/v1/tables/drop", headers=ME, json={
            "table": {"namespace": ["mine"], "name": table}, "purge": True})
    sweep(world.catalog.store, grace=0)
    assert world.others() == before


@pytest.mark.parametrize("is_late", [False, True])
def test_what_is_swept_is_what_was_noted(world: World, is_late: bool) -> None:
    """A day later, when the folders that were staged for tables are nobody's any more."""
    before, now = world.others(), options.clock()
    with set_options(clock=lambda: now + (2 * 86_400_000 if is_late else 0)):
        sweep(world.catalog.store, grace=0)
    gone = set(before.keys() - world.others().keys())
    assert gone == {name for name in before if is_late and name.startswith(tuple(world.staged))}


def test_a_place_that_was_vacant_is_had(world: World) -> None:
    for at, way in enumerate((create, stage, commit_new, set_location)):
        place = f"file://{world.lake}/mine/{at}"
        answer = way(world, place)
        assert answer.status_code == 200, answer.text
        if way in (create, commit_new):
            assert world.client.delete(
                "/v1/namespaces/mine/tables/t?purgeRequested=true", headers=ME).status_code == 204
    assert (world.lake / "mine" / "3" / "metadata").is_dir()
    assert not list((world.lake / "mine" / "0").rglob("*.json"))


@pytest.mark.parametrize("way", [create, stage, commit_new, set_location, register_theirs],
                         ids=lambda way: str(way.__name__))
def test_what_a_dropped_table_left_is_its_namespaces(world: World, way: Callable[[World, str], Any]) -> None:
    place = world.dropped("mine", ME)
    theirs = {"name": "t", "schema": SCHEMA, "location": place}
    assert world.client.post("/v1/namespaces/theirs/tables", headers=OTHER, json=theirs).status_code == 400
    answer = way(world, place)
    assert answer.status_code == 200, answer.text
    assert world.client.post("/v1/namespaces/theirs/tables", headers=OTHER, json=theirs).status_code == 400


def test_what_a_purged_table_leaves_is_nobodys(world: World) -> None:
    place = f"file://{world.lake}/mine/purged"
    assert create(world, place).status_code == 200
    assert world.client.delete("/v1/namespaces/mine/tables/t?purgeRequested=true", headers=ME).is_success
    world.filled(place)
    refused = create(world, place)
    assert refused.status_code == 400 and "not empty" in refused.text


def test_what_was_left_is_a_delta_tables_where_one_was_made_there(world: World) -> None:
    place = world.dropped("mine", ME)
    dn.create(place, {"id": [1]}, allow_files=True)
    refused = create(world, place)
    assert refused.status_code == 400 and "Delta table" in refused.text


def test_a_staged_table_is_committed_where_its_client_wrote(world: World) -> None:
    metadata = stage(world, f"file://{world.lake}/mine/late").json()["metadata"]
    world.filled(metadata["location"])
    updates = [{**UPDATES[0], "uuid": metadata["table-uuid"]}, *UPDATES[1:],
               {"action": "set-location", "location": metadata["location"]}]
    answer = world.client.post("/v1/namespaces/mine/tables/t", headers=ME, json={
        "requirements": [{"type": "assert-create"}], "updates": updates})
    assert answer.status_code == 200, answer.text
    assert metadata["location"].removeprefix("file://") not in dict(world.catalog.store.garbage.due(2**62))


def test_a_new_table_without_a_location_gets_the_warehouses(world: World) -> None:
    answer = world.client.post("/v1/namespaces/mine/tables/t", headers=ME, json={
        "requirements": [{"type": "assert-create"}], "updates": UPDATES})
    assert answer.status_code == 200, answer.text
    assert answer.json()["metadata"]["location"] == f"file://{world.lake}/mine/t-9c12d441"


def registered(world: World, place: Path, **more: Any) -> int:
    """What the server answers to who registers a dropped Delta table for ``mine``."""
    log = sorted((place / "_delta_log").glob("*.json"))[0].read_text()
    metadata = next(json.loads(line)["metaData"] for line in log.splitlines() if "metaData" in line)
    body = {"table": {"namespace": ["mine"], "name": "t"}, "version": 0, "location": str(place),
            "table-id": metadata["configuration"][CATALOG_TABLE_ID], **more}
    return world.client.post("/deltanb/v1/tables/register", headers=ME, json=body).status_code


def test_what_a_dropped_delta_table_left_is_its_namespaces(world: World) -> None:
    place = world.lake / "mine" / "delta"
    world.catalog.create_table("mine.delta", {"id": [1]}, location=place)
    for name in ("theirs.delta", "mine.delta"):
        world.catalog.drop_table(name)
    before = world.others()
    for more in ({}, {"table-id": "another"}):
        assert registered(world, world.lake / "theirs" / "delta", **more) in (400, 403)
    assert registered(world, place) == 200
    world.catalog.drop_table("mine.t", purge=True)
    assert world.others() == before and not list(place.rglob("*.json"))


def test_a_delta_table_that_was_moved_while_it_was_dropped_is_where_it_is(world: World) -> None:
    """It has its id still, and nothing at the place that it had before."""
    place, new = world.lake / "mine" / "delta", world.lake / "mine" / "new"
    world.catalog.create_table("mine.delta", {"id": [1]}, location=place)
    world.catalog.drop_table("mine.delta")
    place.rename(new)
    assert registered(world, new) == 200
    world.catalog.create_table("mine.next", {"id": [1]}, location=place)
    rows = world.catalog.store.tables.load_many(["mine.t", "mine.next"]).values()
    assert [row.delta.location for row in rows if row.delta] == [str(new), str(place)]


@pytest.mark.parametrize("name", ["plain", "nobody", "theirs/left", "theirs/delta"])
def test_a_metadata_file_that_was_written_over_makes_no_folder_a_tables(world: World, name: str) -> None:
    """Neither for a purge nor for the next commit, which would put the table's own files there."""
    before, file = world.others(), Path(world.own.removeprefix("file://"))
    file.write_text(json.dumps({**json.loads(file.read_text()), "location": f"file://{world.lake}/{name}"}))
    service = Service(IcebergTables(world.catalog.store, world.lake), TOKENS)  # one that remembers no file
    with Client(application(service)) as client:
        assert client.delete(
            "/v1/namespaces/mine/tables/own?purgeRequested=true", headers=ME).status_code == 400
        updates = [{"action": "set-properties", "updates": {"a": "b"}}]
        assert client.post("/v1/namespaces/mine/tables/own", headers=ME, json={
            "requirements": [], "updates": updates}).status_code == 400
    assert world.others() == before


@pytest.mark.parametrize("linked", ["_delta_log/_staged_commits", "_delta_log", ""])
def test_a_sweep_follows_no_link_in_a_tables_folder(world: World, linked: str) -> None:
    """Who has a folder puts a link in the place of one in it: what is staged there is another's."""
    place, theirs = world.lake / "mine" / "delta", world.lake / "theirs" / "delta"
    world.catalog.create_table("mine.delta", {"id": [1]}, location=place)
    staged = theirs / "_delta_log" / "_staged_commits"
    staged.mkdir(exist_ok=True)
    (staged / f"{1:020}.9c12d441-03fe-4693-9a96-a0705ddf69c1.json").write_bytes(b"{}")
    shutil.rmtree(place / linked, ignore_errors=True)
    (place / linked).symlink_to(theirs / linked)
    with later():
        world.catalog.store.tables.drop("theirs.delta")  # a sweep of its own would remove it, too
        swept = sweep(world.catalog.store, grace=0)
    assert list(staged.iterdir()) and "a link now leads" in str(swept)


@pytest.mark.parametrize("target", ["lake/plain", "lake/theirs/left", "lake/theirs/delta", "outside/plain"])
def test_a_purge_follows_no_link_in_the_place_of_a_folder(world: World, target: str) -> None:
    """Neither at once nor by a sweep, whoever asks."""
    (world.outside / "plain").mkdir()
    (world.outside / "plain" / "a.parquet").write_bytes(b"1")
    before = world.others()
    for name in "abc":
        place = world.lake / "mine" / name
        world.catalog.create_table(f"mine.{name}", {"id": [1]}, location=place)
        shutil.rmtree(place)
        place.symlink_to(world.outside.parent / target)
    world.catalog.drop_table("mine.a", purge=True)
    assert world.client.post("/deltanb/v1/tables/drop", headers=ME, json={
        "table": {"namespace": ["mine"], "name": "b"}, "purge": True}).status_code == 200
    assert world.client.delete(f"{UNITY}/mine/tables/c", headers=ME).status_code == 204
    with later():
        swept = sweep(world.catalog.store, grace=0)
    assert str(swept).count("a link now leads") == 3
    gone = before.keys() - world.others().keys()
    assert {name for name in gone if not name.startswith(tuple(world.staged))} == set()


def test_a_note_is_of_who_made_it(world: World) -> None:
    """Also where somebody else knows the id of the table that it is of."""
    staged = world.ask(f"{UNITY}/theirs/staging-tables", {"name": "next"}, OTHER)
    noted = world.catalog.store.garbage.due(2**62)
    assert world.client.post("/deltanb/v1/places/record", headers=ME, json={
        "locations": [staged["location"]], "table-id": staged["table-id"]}).status_code == 409
    assert world.catalog.store.garbage.due(2**62) == noted


def test_a_version_or_a_file_that_is_not_there_is_refused(world: World) -> None:
    """Also a folder in place of a metadata file."""
    place = world.lake / "mine" / "delta"
    world.catalog.create_table("mine.delta", {"id": [1]}, location=place)
    world.catalog.drop_table("mine.delta")

    def asked(**more: Any) -> int:
        return registered(world, place, **more)

    assert asked(version=1) == asked(version=9) == asked(**{"table-id": "x"}) == 400
    assert asked(location=str(world.lake / "nothing")) == 400
    for folder in (world.lake / "theirs" / "iceberg", world.lake / "theirs" / "iceberg" / "metadata"):
        assert world.client.post("/v1/namespaces/mine/register", headers=ME, json={
            "name": "t", "metadata-location": f"file://{folder}"}).status_code == 400
    assert asked() == 200


def later() -> Any:
    """A time at which what was staged is nobody's any more."""
    now = options.clock()
    return set_options(clock=lambda: now + 2 * 86_400_000)


@pytest.mark.parametrize("table_id", ["x y", "None of them", "default/theirs.empty", "x" * 37, "", None])
def test_a_folder_is_noted_by_an_id_that_is_no_others(world: World, table_id: str | None) -> None:
    """One of another form is read as that of a name, or not at all, and its note as that of a file."""
    world.ask("/v1/namespaces/theirs/tables", {
        "name": "empty", "schema": SCHEMA, "stage-create": True,
        "location": f"file://{world.lake}/theirs/empty"}, OTHER)
    before, noted = world.others(), world.catalog.store.garbage.due(2**62)
    for place in (world.lake / "theirs" / "empty", world.lake / "plain" / "a.parquet", world.lake / "new"):
        more = {} if table_id is None else {"table-id": table_id}
        assert world.client.post("/deltanb/v1/places/record", headers=ME, json={
            "locations": [str(place)], **more}).status_code == 400
    assert world.catalog.store.garbage.due(2**62) == noted
    with later():
        sweep(world.catalog.store, grace=0)
    assert {name for name in before.keys() - world.others().keys()
            if not name.startswith(tuple(world.staged))} == set()


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_a_table_made_by_its_path_in_a_staged_folder_is_its_makers(world: World, format: str) -> None:
    """Those who know no catalog see no claim: neither a commit, nor a sweep, makes their table garbage."""
    place = world.lake / "mine" / "late"
    assert stage(world, f"file://{place}").status_code == 200
    if format == "delta":
        dn.create(str(place), {"id": [1]})
        assert commit_new(world, f"file://{place}").status_code == 400
    else:
        shutil.copytree(world.lake / "theirs" / "iceberg", place)
    before = sorted(place.rglob("*"))
    with later():
        sweep(world.catalog.store, grace=0)
    assert sorted(place.rglob("*")) == before


def test_metadata_deeper_in_a_folder_does_not_make_it_a_tables(world: World) -> None:
    """Who has a folder in one that is nobody's says by a file of his own that it is his."""
    shared = world.lake / "shared"
    assert create(world, f"file://{shared}/own").status_code == 200
    (shared / "nobodys.csv").write_bytes(b"1")
    file = next((shared / "own" / "metadata").iterdir())
    crafted = file.with_name("00009-crafted.metadata.json")
    crafted.write_text(json.dumps({**json.loads(file.read_text()), "location": f"file://{shared}"}))
    assert world.client.delete("/v1/namespaces/mine/tables/t", headers=ME).status_code == 204
    asked = {"name": "t", "metadata-location": f"file://{crafted}"}
    assert world.client.post("/v1/namespaces/mine/register", headers=ME, json=asked).status_code == 400
    asked = {"name": "t", "metadata-location": f"file://{file}"}
    assert world.client.post("/v1/namespaces/mine/register", headers=ME, json=asked).status_code == 200


def test_a_table_that_had_a_folder_in_its_own_is_purged(world: World) -> None:
    outer = world.lake / "mine" / "outer"
    assert create(world, f"file://{outer}/inner").status_code == 200
    for place in (outer, world.lake / "mine" / "last"):
        assert world.client.post("/v1/namespaces/mine/tables/t", headers=ME, json={
            "requirements": [], "updates": [{"action": "set-location", "location": f"file://{place}"}]
        }).status_code == 200
    assert world.client.delete(
        "/v1/namespaces/mine/tables/t?purgeRequested=true", headers=ME).status_code == 204
    assert not [file for file in outer.rglob("*") if file.is_file()]


def test_a_purge_is_of_the_table_that_was_looked_at(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one has its name by the time of the drop, and it has gone to another namespace."""
    tables, registry = world.catalog.iceberg, world.catalog.store.tables
    before, drop = world.others(), type(registry).drop

    def late(self: Any, name: Any, *args: Any, **more: Any) -> Any:
        monkeypatch.undo()
        registry.rename("theirs.iceberg", "theirs.renamed")
        tables.create("theirs.iceberg", SCHEMA)
        return drop(self, name, *args, **more)

    monkeypatch.setattr(type(registry), "drop", late)
    with pytest.raises(TableNotFound):
        tables.drop("theirs.iceberg", purge=True)
    assert before.items() <= world.others().items()
    assert tables.load("theirs.renamed") and tables.load("theirs.iceberg")


def test_a_failed_creation_leaves_what_another_writes_there(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An Iceberg table that was on its way to the place before it was noted, and lands once it is not."""
    place = world.lake / "theirs" / "both"

    def late(*_: Any, **more: Any) -> Any:
        (place / "metadata").mkdir()
        (place / "metadata" / "00000-x.metadata.json").write_bytes(b"{}")
        raise TableAlreadyExists("mine.t")

    monkeypatch.setattr(type(world.catalog.store.tables), "register_delta", late)
    with pytest.raises(TableAlreadyExists):
        world.catalog.create_table("mine.t", {"id": [1]}, location=place)
    assert [file.name for file in place.rglob("*") if file.is_file()] == ["00000-x.metadata.json"]


@pytest.mark.parametrize("root", ["memory:///lake", "s3://bucket/lake"])
def test_a_store_of_ones_own_is_purged_by_itself(store: CatalogStore, root: str) -> None:
    """Also one that no URI leads to: its table is dropped with its files, or neither."""
    files = MemoryStore(root)
    store.namespaces.create("mine")
    tables = IcebergTables(store, files)
    tables.create("mine.kept", SCHEMA)
    before = set(files.files)
    tables.create("mine.t", SCHEMA)
    tables.drop("mine.t", purge=True)
    assert set(files.files) == before


@pytest.mark.parametrize("more", ["?sig=abc", "?x=1"])
def test_a_location_is_a_place_and_nothing_more(store: CatalogStore, more: str) -> None:
    """What follows a question mark in the URI of a bucket is no part of a key."""
    store.namespaces.create("mine")
    tables = IcebergTables(store, MemoryStore("s3://bucket/lake"))
    for place in (f"s3://bucket/lake/t{more}", "s3://me:secret@bucket/lake/t"):
        with pytest.raises(dn.DeltaError):
            tables.create("mine.t", SCHEMA, location=place)
    assert not tables.warehouse.store.files  # type: ignore[attr-defined]


# -- in the process ---------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_no_table_is_made_where_another_is(world: World, format: str) -> None:
    before = world.others()
    for place in world.places():
        with pytest.raises(dn.DeltaError):
            world.catalog.create_table("mine.t", "id bigint", format=format, location=place)
    sweep(world.catalog.store, grace=0)
    assert world.others() == before and world.catalog.list_tables("mine") == ["mine.own"]


def test_a_table_is_not_taken_over_in_anothers_folder(world: World) -> None:
    inner = world.lake / "theirs" / "delta" / "inner"
    dn.create(str(inner), {"id": [2]})
    dn.create(str(world.lake / "nobody" / "inner"), {"id": [2]})
    before = world.others()
    for place in (inner, inner.parent, world.lake / "nobody" / "inner", world.lake / "link"):
        with pytest.raises(dn.DeltaError):
            world.catalog.register_table("mine.t", place)
    assert world.others() == before


def test_a_purge_leaves_what_nobody_has_registered(world: World) -> None:
    """Tables that others have made in a table's folder meanwhile."""
    for name in ("delta", "iceberg"):
        dn.create(str(world.lake / "theirs" / name / "inner"), {"id": [2]})
        inner = {name for name in world.others() if "/inner/" in name}
        world.catalog.drop_table(f"theirs.{name}", purge=True)
        assert {each for each in world.others() if f"/theirs/{name}/" in each} == {
            each for each in inner if f"/theirs/{name}/" in each}
        shutil.rmtree(world.lake / "theirs" / name / "inner")
