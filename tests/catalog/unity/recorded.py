"""Requests to a server of Unity Catalog, and how the real one answered: a table of cases for any server.

What lives here: a driver that makes ``shop.orders`` by way of a staging table, and the cases: from the
recorded answers, and from the specification for what was not recorded. What our own server answers otherwise
is noted.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any

from tests.catalog.unity.fake import ROOT
from tests.catalog.unity.fake_delta import DELTA
from tests.catalog.unity.fake_updates import INVALID, TABLE_ID

Json = dict[str, Any]
OURS = "ours, lax"
RELEASES = ("0.5", "0.6", "0.7")
SPACE = f"{DELTA}/catalogs/default/schemas/shop"
ORDERS = f"{SPACE}/tables/orders"
CONFLICT, REQUIREMENT = "CommitVersionConflictException", "UpdateRequirementConflictException"
COLUMNS = {"type": "struct", "fields": [
    {"name": "id", "type": "long", "nullable": False, "metadata": {"comment": "its number"}},
    {"name": "tags", "nullable": True, "metadata": {}, "type": {
        "type": "array", "element-type": "string", "contains-null": True}}]}


class Shop:
    """Asks a server with the schema ``shop``, and makes ``shop.orders`` by way of a staging table."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.ask("POST", "/schemas", name="shop", catalog_name="default")
        self.id = ""

    def ask(self, method: str, path: str, **body: Any) -> Any:
        more = {"json": body} if method in ("POST", "PATCH") else {}
        return self.client.request(method, ROOT + path, **more)

    def stage(self, name: str = "orders") -> Json:
        answer = self.ask("POST", f"{SPACE}/staging-tables", name=name)
        assert answer.status_code == 200, answer.text
        return answer.json()  # type: ignore[no-any-return]

    def create(self, staged: Json | None = None, **changes: Any) -> Any:
        staged = staged or self.stage()
        self.id = staged["table-id"]
        return self.ask("POST", f"{SPACE}/tables", **{
            "name": "orders", "location": staged["location"], "table-type": "MANAGED", "columns": COLUMNS,
            "protocol": staged["required-protocol"], "properties": staged["required-properties"],
            "last-commit-timestamp-ms": 5, **changes})

    def update(self, *updates: Json, requirements: list[Json] | None = None) -> Any:
        return self.ask("POST", ORDERS, updates=list(updates), requirements=[
            {"type": "assert-table-uuid", "uuid": self.id}] if requirements is None else requirements)

    def assuming(self, *requirements: Json) -> list[Json]:
        return [{"type": "assert-table-uuid", "uuid": self.id}, *requirements]

    def load(self) -> Json:
        return self.ask("GET", ORDERS).json()  # type: ignore[no-any-return]


def add(version: int, number: int = 1, **changes: Any) -> Json:
    """Propose a commit; ``number`` tells its file from others of the version."""
    return {"action": "add-commit", "commit": {
        "version": version, "timestamp": 1_700_000_000_000 + version, "file-size": 10,
        "file-name": f"{version:020}.{uuid.UUID(int=version * 100 + number)}.json",
        "file-modification-timestamp": 1_700_000_000_000, **changes}}


def published(version: int) -> Json:
    return {"action": "set-latest-backfilled-version", "latest-published-version": version}


SET_COLUMNS = {"action": "set-columns", "columns": COLUMNS}
SET_OWNER = {"action": "set-properties", "updates": {"owner": "ada"}}
Ask = Callable[[Shop], Any]


def updates(*each: Json | tuple[Json, ...]) -> Ask:
    """Send updates one request after the other; the last answer."""
    return lambda shop: [shop.update(*(one if isinstance(one, tuple) else (one,))) for one in each][-1]


def created(**changes: Any) -> Ask:
    """Create another table, with other fields than its staging table's answer asks for."""
    return lambda shop: shop.create(shop.stage("new"), **{"name": "new", **changes})


def _create_without(part: str, name: str) -> Ask:
    def ask(shop: Shop) -> Any:
        staged = shop.stage("new")
        if part == "properties":
            required = staged["required-properties"]
            changes = {part: {key: each for key, each in required.items() if key != name}}
        else:
            changes = {part: {**staged["required-protocol"], "writer-features": [
                each for each in staged["required-protocol"]["writer-features"] if each != name]}}
        return shop.create(staged, name="new", **changes)

    return ask


def _create_elsewhere(shop: Shop) -> Any:
    staged = shop.stage("new")
    return shop.create({**staged, "location": staged["location"] + "x"}, name="new")


def _protocol_without(name: str, *more: str) -> Ask:
    """Set the protocol that staging tables require, without a feature, and with others."""
    def ask(shop: Shop) -> Any:
        protocol = shop.stage("new")["required-protocol"]
        reader, writer = ([each for each in protocol[kind] if each != name]
                          for kind in ("reader-features", "writer-features"))
        return shop.update({"action": "set-protocol", "protocol": {
            **protocol, "reader-features": reader, "writer-features": [*writer, *more]}})

    return ask


def _clustered(shop: Shop) -> Any:
    assert _protocol_without("none", "clustering", "domainMetadata")(shop).status_code == 200
    return shop.update({"action": "set-domain-metadata", "updates": {
        "delta.clustering": {"clusteringColumns": [["id"]]}}})


def _create_again(name: str) -> Ask:
    def ask(shop: Shop) -> Any:
        staged = shop.stage("new")
        assert shop.create(staged, name="new").status_code == 200
        return shop.create(staged, name=name)

    return ask


def _with(*requirements: Json, update: Json = SET_OWNER) -> Ask:
    return lambda shop: shop.update(update, requirements=shop.assuming(*requirements))


def _resend_with_a_stale_tag(shop: Shop) -> Any:
    tag = {"type": "assert-etag", "etag": shop.load()["metadata"]["etag"]}
    shop.update(add(1), SET_OWNER, requirements=shop.assuming(tag))
    return shop.update(add(1), SET_OWNER, requirements=shop.assuming(tag))


def get(path: str) -> Ask:
    return lambda shop: shop.ask("GET", path)


def post(path: str, **body: Any) -> Ask:
    return lambda shop: shop.ask("POST", path, **body)


def patch(path: str, **body: Any) -> Ask:
    return lambda shop: shop.ask("PATCH", path, **body)


def delete(path: str) -> Ask:
    return lambda shop: shop.ask("DELETE", path)


def register(location: str = "s3://far/away", format: str = "DELTA") -> Ask:
    """Register a table at a place of its own."""
    return post("/tables", name="far", catalog_name="default", schema_name="shop", table_type="EXTERNAL",
                data_source_format=format, storage_location=location, properties={"owner": "ada"}, columns=[{
                    "name": "id", "type_text": "bigint", "type_name": "LONG", "position": 0, "nullable": True,
                    "type_json": json.dumps({"name": "id", "type": "long", "nullable": True, "metadata": {}}),
                    "partition_index": 0}])


def _commit_to_external(shop: Shop) -> Any:
    table_id = register()(shop).json().get("table_id") or str(uuid.UUID(int=1))
    return shop.ask("POST", f"{SPACE}/tables/far", updates=[add(1)], requirements=[
        {"type": "assert-table-uuid", "uuid": table_id}])


def _staging_credentials(shop: Shop) -> Any:
    return shop.ask("GET", f"{DELTA}/staging-tables/{shop.stage('new')['table-id']}/credentials")


def _then(method: str, path: str, ask: Ask, **body: Any) -> Ask:
    def both(shop: Shop) -> Any:
        first = shop.ask(method, path, **body)
        return ask(shop) if first.status_code in (200, 204) else first

    return both


def _access(operation: str) -> Ask:
    return lambda shop: shop.ask(
        "POST", "/temporary-table-credentials", table_id=shop.id, operation=operation)


TEN = tuple(add(version) for version in range(1, 11))
OK, DONE, BAD = (200, None), (204, None), (400, INVALID)
NO_TABLE, NO_SCHEMA = (404, "NoSuchTableException"), (404, "NoSuchSchemaException")
TAKEN = (409, "AlreadyExistsException")
OLDER_BAD = (400, "INVALID_ARGUMENT")
NO_PATH, NO_METHOD = (404, None), (405, None)
Expected = tuple[int, str | None]

# What is asked, the answer's status with its type or code, and that of servers that answer otherwise. A type
# of None is not compared.
CASES: dict[str, tuple[Ask, Expected, dict[str, Expected]]] = {
    "the next version": (updates(add(1), add(2)), OK, {}),
    "the same version, the same file": (updates(add(1), add(1)), OK, {"0.5": (409, CONFLICT)}),
    "the same version, another file": (updates(add(1), add(1, 2)), (409, CONFLICT), {}),
    "a version above the next": (updates(add(1), add(3)), BAD, {}),
    "a first commit of version 5": (updates(add(5)), OK, {OURS: BAD}),
    "a time before that of the version before": (updates(add(1), add(2, timestamp=1)), OK, {}),
    "a version of 0": (updates(add(0)), (400, None), {}),
    "a file name with a folder": (updates(add(1, **{"file-name": "../1.json"})), (400, None), {}),
    "a commit without its size": (updates({"action": "add-commit", "commit": {
        **add(1)["commit"], "file-size": None}}), (400, None), {}),
    "published without the files": (updates(add(1), published(1)), OK, {}),
    "published, and reported again": (updates(add(1), published(1), published(1)), OK, {}),
    "published above the latest": (updates(add(1), published(2)), BAD, {}),
    "published without a commit": (updates(published(1)), BAD, {}),
    "the version before is published": (updates(add(1), (add(2), published(1))), OK, {}),
    "the version itself is published": (updates(add(1), (add(2), published(2))), BAD, {}),
    "version 0 is published with the first commit": (updates((add(1), published(0))), OK, {}),
    "the eleventh commit": (updates(*TEN, add(11)), (429, "ResourceExhaustedException"), {}),
    "the eleventh, of which one is published": (updates(*TEN, (add(11), published(1))), OK, {}),
    "the eleventh after a report": (updates(*TEN, published(10), add(11)), OK, {}),
    "a resend of the latest, which is published": (
        updates(add(1), published(1), add(1)), OK, {"0.5": (409, CONFLICT), OURS: (409, CONFLICT)}),
    "another file of the latest, which is published": (
        updates(add(1), published(1), add(1, 2)), (409, CONFLICT), {}),
    "a resend of a version that is forgotten": (
        updates(add(1), add(2), published(2), add(1)), (500, "CommitStateUnknownException"),
        {"0.5": (409, CONFLICT), "0.6": (409, CONFLICT), OURS: (409, CONFLICT)}),
    "columns without a commit": (updates(SET_COLUMNS), OK, {}),
    "Delta's properties without a commit": (updates({
        "action": "set-properties", "updates": {"delta.appendOnly": "true"}}), OK, {}),
    "columns with a commit": (updates((add(1), SET_COLUMNS)), OK, {}),
    "no columns": (updates({"action": "set-columns", "columns": {"type": "struct", "fields": []}}),
                   BAD, {OURS: OK}),
    "a comment": (updates({"action": "set-table-comment", "comment": "all"}), OK, {}),
    "partitioned by a column": (updates({
        "action": "set-partition-columns", "partition-columns": ["id"]}), OK, {}),
    "partitioned by no column": (updates({
        "action": "set-partition-columns", "partition-columns": ["x"]}), BAD, {OURS: OK}),
    "a domain without its feature": (updates({"action": "set-domain-metadata", "updates": {
        "delta.clustering": {"clusteringColumns": [["id"]]}}}), BAD, {}),
    "a protocol without a feature": (_protocol_without("catalogManaged"), BAD, {}),
    "a protocol with another feature": (_protocol_without("none", "clustering"), OK, {}),
    "a feature and its domain": (_clustered, OK, {}),
    "an unknown domain": (updates({
        "action": "set-domain-metadata", "updates": {"mine": {}}}), (400, None), {}),
    "a snapshot version of a managed table": (updates({
        "action": "update-metadata-snapshot-version", "last-commit-version": 1,
        "last-commit-timestamp-ms": 1}), BAD, {}),
    "an unknown action": (updates({"action": "set-everything"}), (400, None), {}),
    "an unknown field": (updates({**SET_OWNER, "why": "so"}), (400, None), {}),
    "no action": (updates(()), (400, None), {}),
    "an action twice": (updates((SET_OWNER, SET_OWNER)), BAD, {}),
    "a property that is set and removed": (updates((SET_OWNER, {
        "action": "remove-properties", "removals": ["owner"]})), (400, None), {}),
    "no table's id": (lambda shop: shop.update(SET_OWNER, requirements=[]), BAD, {}),
    "another table's id": (lambda shop: shop.update(SET_OWNER, requirements=[
        {"type": "assert-table-uuid", "uuid": str(uuid.UUID(int=1))}]), (409, REQUIREMENT), {}),
    "another tag": (_with({"type": "assert-etag", "etag": "other"}), (409, REQUIREMENT), {}),
    "a commit with another tag": (
        _with({"type": "assert-etag", "etag": "other"}, update=add(1)), (409, REQUIREMENT), {}),
    "an unknown requirement": (_with({"type": "assert-luck"}), (400, None), {}),
    "a resend with a stale tag": (_resend_with_a_stale_tag, OK, {"0.5": (409, REQUIREMENT)}),

    "created": (created(), OK, {}),
    "created without a feature": (_create_without("protocol", "vacuumProtocolCheck"), BAD, {}),
    "created without a property": (_create_without("properties", "delta.checkpointPolicy"), BAD, {}),
    "created without the table's id": (_create_without("properties", TABLE_ID), BAD, {}),
    "created again": (_create_again("new"), TAKEN, {}),
    "created again, by another name": (_create_again("newer"), BAD, {}),
    "created by a name that is taken": (created(name="orders"), TAKEN, {}),
    "created where nothing is staged": (_create_elsewhere, NO_TABLE, {}),
    "created without its time": (created(**{"last-commit-timestamp-ms": None}), (400, None), {}),
    "staged by a name that is taken": (post(f"{SPACE}/staging-tables", name="orders"), TAKEN, {}),
    "staged without a name": (post(f"{SPACE}/staging-tables"), (400, None), {}),
    "staged twice": (lambda shop: [shop.stage("new"), shop.ask(
        "POST", f"{SPACE}/staging-tables", name="new")][1], OK, {}),
    "staged in no schema": (post(f"{DELTA}/catalogs/default/schemas/attic/staging-tables", name="new"),
                            NO_SCHEMA, {}),

    "loaded": (get(ORDERS), OK, {}),
    "no such table": (get(f"{SPACE}/tables/none"), NO_TABLE, {}),
    "no such schema": (get(f"{DELTA}/catalogs/default/schemas/attic/tables/none"),
                       NO_SCHEMA, {OURS: NO_TABLE}),
    "no such catalog": (get(f"{DELTA}/catalogs/attic/schemas/shop/tables/none"),
                        (404, "NoSuchCatalogException"), {}),
    "it is there": (lambda shop: shop.ask("HEAD", ORDERS), DONE, {"0.5": NO_METHOD}),
    "it is not there": (lambda shop: shop.ask("HEAD", f"{SPACE}/tables/none"), NO_PATH, {"0.5": NO_METHOD}),
    "renamed": (post(f"{ORDERS}/rename", **{"new-name": "other"}), DONE, {"0.5": NO_PATH}),
    "renamed, and asked for by the old name": (
        _then("POST", f"{ORDERS}/rename", get(ORDERS), **{"new-name": "other"}), NO_TABLE, {"0.5": NO_PATH}),
    "renamed, and asked for by the new name": (
        _then("POST", f"{ORDERS}/rename", get(f"{SPACE}/tables/other"), **{"new-name": "other"}),
        OK, {"0.5": NO_PATH}),
    "renamed to a name that is taken": (lambda shop: [created()(shop), shop.ask(
        "POST", f"{ORDERS}/rename", **{"new-name": "new"})][1], TAKEN, {"0.5": NO_PATH}),
    "dropped": (delete(ORDERS), DONE, {"0.5": NO_METHOD}),
    "dropped twice": (_then("DELETE", ORDERS, delete(ORDERS)), NO_TABLE, {"0.5": NO_METHOD}),
    "metrics": (lambda shop: shop.ask("POST", f"{ORDERS}/metrics", **{"table-id": shop.id}),
                DONE, {"0.5": NO_PATH}),
    "metrics of another table": (
        post(f"{ORDERS}/metrics", **{"table-id": str(uuid.UUID(int=1))}), BAD, {"0.5": NO_PATH}),
    "access to read": (get(f"{ORDERS}/credentials?operation=READ"), OK, {}),
    "access to write": (get(f"{ORDERS}/credentials?operation=READ_WRITE"), OK, {}),
    "access to something": (get(f"{ORDERS}/credentials?operation=SOME"), (400, None), {}),
    "access to what is staged": (_staging_credentials, OK, {}),
    "access to what nobody staged": (get(f"{DELTA}/staging-tables/{uuid.UUID(int=1)}/credentials"),
                                     NO_TABLE, {}),
    "config": (get(f"{DELTA}/config?catalog=default&protocol-versions=1.0"), OK, {}),
    "config in a version that is none": (
        get(f"{DELTA}/config?catalog=default&protocol-versions=banana"), OK, {OURS: BAD}),
    "config of no catalog": (get(f"{DELTA}/config?catalog=attic&protocol-versions=1.0"),
                             (404, "NoSuchCatalogException"), {}),
    "the list that config names": (get(f"{SPACE}/tables"), (405, None), {}),
    "the credentials that config names": (get(f"{DELTA}/temporary-path-credentials"), (404, None), {}),
    "an unknown path": (get("/delta/v2/config"), (404, None), {}),

    "catalogs": (get("/catalogs"), OK, {}),
    "one catalog": (get("/catalogs/default"), OK, {}),
    "no catalog": (get("/catalogs/attic"), (404, "CATALOG_NOT_FOUND"), {}),
    "schemas": (get("/schemas?catalog_name=default"), OK, {}),
    "a schema": (get("/schemas/default.shop"), OK, {}),
    "no schema": (get("/schemas/default.attic"), (404, "SCHEMA_NOT_FOUND"), {}),
    "a schema again": (post("/schemas", name="shop", catalog_name="default"),
                       (400, "SCHEMA_ALREADY_EXISTS"), {}),
    "another catalog": (post("/catalogs", name="attic"), OK, {OURS: (405, None)}),
    "a catalog again": (
        post("/catalogs", name="default"), (400, "CATALOG_ALREADY_EXISTS"), {OURS: (405, None)}),
    "another comment of a schema": (patch("/schemas/default.shop", comment="x"), OK, {}),
    "another name of a schema": (
        patch("/schemas/default.shop", new_name="sales"), OK, {OURS: OLDER_BAD}),
    "another comment of no schema": (
        patch("/schemas/default.attic", comment="x"),
        (404, "SCHEMA_NOT_FOUND"), {}),
    "a schema without its tables": (delete("/schemas/default.shop"), (400, "FAILED_PRECONDITION"), {}),
    "a schema that is empty": (
        _then("DELETE", "/tables/default.shop.orders", delete("/schemas/default.shop")), OK, {}),
    "a schema with its tables": (delete("/schemas/default.shop?force=true"),
                                 OK, {OURS: (400, "FAILED_PRECONDITION")}),
    "a schema that is none": (delete("/schemas/default.attic"),
                              (404, "SCHEMA_NOT_FOUND"), {}),
    "a schema with a dot": (post("/schemas", name="a.b", catalog_name="default"), OLDER_BAD, {}),
    "tables": (get("/tables?catalog_name=default&schema_name=shop"), OK, {}),
    "tables of no schema": (get("/tables?catalog_name=default&schema_name=attic"),
                            (404, "SCHEMA_NOT_FOUND"), {}),
    "fewer than no tables": (
        get("/tables?catalog_name=default&schema_name=shop&max_results=-1"), OLDER_BAD, {}),
    "a table": (get("/tables/default.shop.orders"), OK, {}),
    "no table": (get("/tables/default.shop.none"), (404, "TABLE_NOT_FOUND"), {}),
    "a table of two names": (get("/tables/default.orders"), OLDER_BAD, {}),
    "a table at a place": (register(), OK, {OURS: OLDER_BAD}),
    "a table at a place of managed ones": (
        lambda shop: register(shop.load()["metadata"]["location"] + "/x")(shop),
        OLDER_BAD, {}),
    "a Parquet table": (register(format="PARQUET"), OK, {OURS: OLDER_BAD}),
    "a Parquet table, for Delta": (
        lambda shop: [register(format="PARQUET")(shop), shop.ask("GET", f"{SPACE}/tables/far")][1],
        (400, "UnsupportedTableFormatException"), {OURS: NO_TABLE}),
    "a commit to a table at a place": (_commit_to_external, BAD, {OURS: NO_TABLE}),
    "a table without its commits": (delete("/tables/default.shop.orders"), OK, {}),
    "no table without its commits": (delete("/tables/default.shop.none"), (404, "TABLE_NOT_FOUND"),
                                     {}),
    "access by id": (_access("READ"), OK, {}),
    "access by id to write": (_access("READ_WRITE"), OK, {}),
    "access by id to something": (_access("SOME"), OLDER_BAD, {}),
    "access by no id": (post("/temporary-table-credentials", table_id=str(uuid.UUID(int=1)),
                             operation="READ"), (404, "TABLE_NOT_FOUND"), {}),
    "access to a place": (lambda shop: shop.ask(
        "POST", "/temporary-path-credentials", operation="PATH_READ",
        url=shop.load()["metadata"]["location"]), OK, {}),
}
