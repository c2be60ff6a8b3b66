"""Each table feature on a table of Unity Catalog that two clients write, in turn and at once."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="the server is an extra: pip install 'deltanb[catalog]'")

import deltanb as dn
from deltanb import errors
from deltanb.engines.arrow import data_file, read
from deltanb.schema.features import FEATURES, GROUPS
from tests.catalog.unity.clients import SERVERS, Server
from tests.catalog.unity.fake_updates import DOMAINS
from tests.catalog.unity.test_client import follows
from tests.examples import every
from tests.helpers import ids
from tests.patience import PATIENCE


def _nothing(_: dn.DeltaTable) -> None:
    """There is no statement beside the property or the feature itself."""


@dataclass(frozen=True)
class Case:
    """A table that has a feature from its first version, and how another one gets it."""

    properties: dict[str, Any] = field(default_factory=dict)
    columns: str = "id BIGINT, part INT, name STRING"
    settings: dict[str, Any] = field(default_factory=dict)
    begin: Callable[[dn.DeltaTable], Any] = _nothing
    """What a new table still lacks."""
    later: Callable[[dn.DeltaTable], Any] | None = None
    """How a table gets it that lacks it; by its properties where nothing is said."""
    settings_before: dict[str, Any] = field(default_factory=dict)
    """Of the table that lacks it."""
    has_later: bool = True
    """Whether a table can get it after its first version."""


COLUMNS = Case.columns


def on(name: str, value: Any = True, **more: Any) -> Case:
    return Case({name: value}, **more)


def supported(feature: str) -> Case:
    return Case({f"delta.feature.{feature}": "supported"}, later=lambda table: table.add_feature(feature))


CASES: dict[str, dict[str, Case]] = {
    "appendOnly": {"": on("delta.appendOnly")},
    "invariants": {"": Case(columns=COLUMNS.replace("id BIGINT", "id BIGINT NOT NULL"), has_later=False)},
    "checkConstraints": {"": on("delta.constraints.small", "id < 1000",
                                later=lambda table: table.add_constraint("small", "id < 1000"))},
    "changeDataFeed": {"": on("delta.enableChangeDataFeed")},
    "generatedColumns": {"": Case(columns=f"{COLUMNS}, twice BIGINT GENERATED ALWAYS AS (id * 2)",
                                  has_later=False)},
    "columnMapping": {"name": on("delta.columnMapping.mode", "name"),
                      "name, in parts": on("delta.columnMapping.mode", "name",
                                           settings={"partition_by": "part"},
                                           settings_before={"partition_by": "part"}),
                      "id": on("delta.columnMapping.mode", "id", has_later=False)},
    "identityColumns": {"": Case(columns=f"{COLUMNS}, number BIGINT GENERATED ALWAYS AS IDENTITY",
                                 has_later=False)},
    "allowColumnDefaults": {"": Case({"delta.feature.allowColumnDefaults": "supported"},
                                     f"{COLUMNS}, kind STRING DEFAULT 'new'",
                                     later=lambda table: table.add_feature("allowColumnDefaults"))},
    "deletionVectors": {"": on("delta.enableDeletionVectors")},
    "rowTracking": {"": on("delta.enableRowTracking")},
    "timestampNtz": {"": Case(columns=f"{COLUMNS}, at TIMESTAMP_NTZ",
                              later=lambda table: table.add_columns("at TIMESTAMP_NTZ"))},
    "domainMetadata": {"": supported("domainMetadata")},
    "v2Checkpoint": {"": on("delta.checkpointPolicy", "v2")},
    "typeWidening": {"": on("delta.enableTypeWidening",
                            begin=lambda table: table.change_column("part", type="BIGINT"),
                            later=lambda table: (table.set_properties({"delta.enableTypeWidening": True}),
                                                 table.change_column("part", type="BIGINT")))},
    "variantType": {"": Case(columns=f"{COLUMNS}, v VARIANT",
                             later=lambda table: table.add_columns("v VARIANT"))},
    "variantShredding": {"": on("delta.enableVariantShredding", columns=f"{COLUMNS}, v VARIANT")},
    "inCommitTimestamp": {"": on("delta.enableInCommitTimestamps")},
    "vacuumProtocolCheck": {"": supported("vacuumProtocolCheck")},
    "clustering": {"": Case(settings={"cluster_by": ["id"]}, later=lambda table: table.cluster_by(["id"]))},
    "materializePartitionColumns": {
        "": on("delta.enableMaterializePartitionColumnsFeature", settings={"partition_by": "part"},
               has_later=False)},
    "timestampNanos": {"": Case(columns=f"{COLUMNS}, at TIMESTAMP_NANOS",
                                later=lambda table: table.add_columns("at TIMESTAMP_NANOS"))},
}
"""For each feature, tables that have it, by what is particular to one."""

EXCUSED = {
    "catalogManaged": "each table here has it",
    GROUPS: "a Unity Catalog commits one table at a time",
    "checkpointProtection": "it comes with dropping a feature, and a managed table drops none of its history",
    "columnMappingUsageTracking": "only supported by name here; columnMapping is what it follows",
    "typeWidening-preview": "typeWidening by its older name",
    "variantType-preview": "variantType by its older name",
    "variantShredding-preview": "variantShredding by its older name",
}
"""Features that are written and have no case, each with its reason."""



def test_each_feature_that_is_written_has_a_case_or_an_excuse() -> None:
    written = {name for name, feature in FEATURES.items() if feature.write == "yes"}
    assert CASES.keys() | EXCUSED.keys() == written
    assert not CASES.keys() & EXCUSED.keys()


def record(number: int) -> dict[str, list[Any]]:
    return {"id": [2 * number, 2 * number + 1], "part": [number % 2] * 2, "name": ["x", "y"]}


def agree(server: Server, table: dn.DeltaTable, feature: str) -> None:
    """The catalog, and a client that knows nothing yet, have what the table has."""
    follows(server, table, "orders", clients=2)
    derived = server.loaded("orders")["metadata"]["properties"]
    domains = table.snapshot.domain_metadata
    for domain, (field_of, name, _) in DOMAINS.items() if server.unity else ():  # ours shows no domains
        in_log = domains.get(domain)
        expected = None if in_log is None else json.loads(in_log.configuration)[field_of]
        assert (json.loads(derived[name]) if name in derived else None) == expected, domain
    assert feature in table.protocol.features
    with server.connect() as fresh:
        other = fresh.table("shop.orders")
        assert rows_of(other) == rows_of(table)
        assert (other.schema, other.properties, other.protocol) == (
            table.schema, table.properties, table.protocol)
        assert other.verify(files="all").is_sound


def rows_of(table: dn.DeltaTable) -> list[str]:
    return sorted(map(str, table.to_arrow().to_pylist()))


def row_ids(table: dn.DeltaTable) -> list[int]:
    """The ids of all rows, as their files and the log have them."""
    row_ids_read: list[int] = []
    scan = read.plan(table.snapshot, ["id"], None, row_ids=True)
    for row in table.snapshot.files.to_pylist():
        for batch in data_file.read_data_file(scan, row):
            row_ids_read += [list(one.values())[1] for one in batch.to_pylist()]
    return row_ids_read


def nothing_repeats(table: dn.DeltaTable, feature: str) -> None:
    if feature == "rowTracking":
        numbers = row_ids(table)
    elif feature == "identityColumns":
        numbers = table.to_arrow(["number"])["number"].to_pylist()
    else:
        return
    assert None not in numbers and len(set(numbers)) == len(numbers) == table.count()


def write_in_turn(server: Server, feature: str) -> dn.DeltaTable:
    """Two clients, one after the other; each of them changes what the other one wrote."""
    first = server.catalog.table("shop.orders")
    with server.connect() as catalog:
        second = catalog.table("shop.orders")
        for number, table in enumerate([first, second, first, second]):
            table.append(record(10 + number))
        if feature != "appendOnly":
            first.update({"name": "'z'"}, where="id = 22")
            second.delete("id = 21")
            second.optimize()
            first.delete("id = 24")
        second.append(record(14))
    nothing_repeats(first, feature)
    return first


def created(server: Server, case: Case) -> dn.DeltaTable:
    table = server.catalog.create_table("shop.orders", case.columns, properties=case.properties,
                                        **case.settings)
    case.begin(table)
    return table


def from_the_start(server: Server, feature: str, case: Case) -> None:
    table = created(server, case)
    table.append(record(0))
    agree(server, table, feature)
    write_in_turn(server, feature)
    agree(server, table, feature)


def switched_on_later(server: Server, feature: str, case: Case) -> None:
    table = server.catalog.create_table("shop.orders", COLUMNS, **case.settings_before)
    table.append(record(0))
    with server.connect() as catalog:  # who has had the table open since before
        other = catalog.table("shop.orders")
        other.append(record(1))
        if case.later is None:
            table.set_properties(case.properties)
        else:
            case.later(table)
        other.append(record(2))
        agree(server, table, feature)
    write_in_turn(server, feature)
    agree(server, table, feature)


def at_once(server: Server, feature: str, case: Case) -> None:
    table, start = created(server, case), threading.Barrier(2)

    def append(to: dn.DeltaTable, numbers: range) -> None:
        start.wait(PATIENCE)
        for number in numbers:
            while True:
                try:
                    to.append(record(number))
                except errors.MetadataChangedException:
                    # Where numbers end is said by the columns: who gives some does so again.
                    assert feature == "identityColumns"
                else:
                    break

    with server.connect() as catalog, ThreadPoolExecutor(2) as pool:
        both = [pool.submit(append, table, range(3)),
                pool.submit(append, catalog.table("shop.orders"), range(3, 6))]
        for each in both:
            each.result(PATIENCE)
    assert ids(table) == list(range(12))
    nothing_repeats(table, feature)
    agree(server, table, feature)


WAYS = {"from the start": from_the_start, "later": switched_on_later, "at once": at_once}
TABLES = [(feature, kind) for feature, kinds in CASES.items() for kind in kinds]


def is_possible(table: tuple[str, str], server: str, way: str) -> bool:
    feature, kind = table
    return way != "later" or CASES[feature][kind].has_later


FAKES = [name for name in SERVERS if name.startswith("Unity")]
OURS = [name for name in SERVERS if name not in FAKES]  # each request of theirs is one over loopback


def cases(nth: int, servers: list[str]) -> list[Any]:
    return every(nth, [case for case in itertools.product(TABLES, servers, WAYS) if is_possible(*case)])


@pytest.mark.parametrize(("table", "which", "way"), cases(10, FAKES) + cases(70, OURS))
def test_two_clients_agree_on_a_table_with_a_feature(
    table: tuple[str, str], which: str, way: str, tmp_path: Path
) -> None:
    feature, kind = table
    with (dn.set_options(durability="none", max_commit_attempts=100),
          SERVERS[which](tmp_path) as server):
        WAYS[way](server, feature, CASES[feature][kind])
