"""Every conflict scenario on a table of a Unity Catalog: the same rules, and the same words."""

from __future__ import annotations

import itertools
import json
import uuid
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httpx")
pytest.importorskip("sqlalchemy", reason="the catalog is an extra: pip install 'deltanb[catalog]'")

from deltanb.actions import Protocol
from deltanb.catalog.delta.commits import staged_name
from deltanb.catalog.store.names import TableName
from deltanb.catalog.unity.client.commit import UnityCommits, UnityCommitter
from deltanb.catalog.unity.client.store import UnityStore
from deltanb.catalog.unity.client.updates import new_table, protocol_value
from deltanb.log.commits import PublishedCommits, commit_name
from deltanb.testing import MemoryStore
from deltanb.transaction.delta_log import DeltaLog
from tests.catalog.test_catalog_scenarios import InCatalog
from tests.catalog.unity.clients import Direct
from tests.catalog.unity.fake import ROOT, Unity
from tests.transaction.test_scenarios import SCENARIOS, body_of, hold

NAME = TableName(("shop",), "t")
UNPUBLISHED = 8


class InUnity(InCatalog):
    """Where a scenario takes place: a table of a catalog that believes what is said of it."""

    def __init__(self, folder: Path, setup: list[list[dict[str, Any]]]) -> None:
        self.unity, self.store = Unity(folder, "0.7"), MemoryStore()
        self.client = UnityStore(Direct(self.unity), "main")
        self.client.namespaces.create("shop")
        self.time = itertools.count(1_500_000_000_000)
        for version, commit in enumerate(setup[:1]):
            self.store.put_if_absent(commit_name(version), body_of(self.managed(commit)))
        if not setup:  # a first version is written straight into the log
            self.log = DeltaLog(self.store, PublishedCommits(self.store))
            return
        self.register()
        for version, commit in enumerate(setup[1:], 1):
            self.put(version, commit)
        self.log = self.seen_anew()

    def register(self) -> None:
        """Make a table of the first version, which nobody reads: what is required of it is said."""
        staging = self.client.stage_table(NAME)
        first = DeltaLog(self.store, PublishedCommits(self.store)).snapshot_at(0)
        body = new_table("t", staging.location, first.protocol, first.metadata, [], 1)
        body["properties"] = {name: each for name, each in staging.required_properties.items() if each}
        body["partition-columns"] = []
        self.client.change("create_table", self.client.path_of(NAME), lambda *_: None, body)
        self.table_id = staging.table_id

    def put(self, version: int, lines: list[dict[str, Any]]) -> None:
        """Have another one's lines ratified; a first version is written into the log."""
        body = body_of(self.managed(lines))
        if not hasattr(self, "table_id"):
            assert self.store.put_if_absent(commit_name(version), body)
            return
        if version % UNPUBLISHED == 0:  # no more than these may be unpublished
            for before in range(version):
                self.store.put_if_absent(commit_name(before), self.seen_anew().commits.read(before))
            self.ask({"action": "set-latest-backfilled-version", "latest-published-version": version - 1})
        name = f"{version:020}.{uuid.uuid4()}.json"
        assert self.store.put_if_absent(staged_name(name), body)
        info = json.loads(body.partition(b"\n")[0])["commitInfo"]
        protocols = [json.loads(line)["protocol"] for line in body.splitlines() if b'{"protocol"' in line]
        self.ask({"action": "add-commit", "commit": {
            "version": version, "timestamp": info["inCommitTimestamp"], "file-name": name,
            "file-size": len(body), "file-modification-timestamp": 1}}, *(
            {"action": "set-protocol", "protocol": protocol_value(Protocol.from_value(each))}
            for each in protocols))

    def ask(self, *updates: Any) -> None:
        """Update the table, as another client does."""
        request = {"requirements": [{"type": "assert-table-uuid", "uuid": self.table_id}],
                   "updates": list(updates)}
        answer = self.unity.ask("POST", f"{ROOT}/delta/v1/catalogs/main/schemas/shop/tables/t",
                                json.dumps(request).encode(), {})
        assert answer.status == 200, answer.body

    def line(self, line: dict[str, Any]) -> dict[str, Any]:
        """An action, with what makes its table a managed one, and what the catalog requires of one."""
        line = super().line(line)
        if "protocol" in line:
            both = {"v2Checkpoint", "vacuumProtocolCheck", "deletionVectors", "catalogManaged"}
            asked = line["protocol"]
            return {"protocol": {**asked, "readerFeatures": sorted(both | {*asked["readerFeatures"]}),
                                 "writerFeatures": sorted(both | {*asked["writerFeatures"]})}}
        return line

    def seen_anew(self) -> DeltaLog:
        """The table, as somebody loads it from the catalog."""
        if not hasattr(self, "table_id"):
            return DeltaLog(self.store, PublishedCommits(self.store))
        self.client.load(NAME)
        return DeltaLog(self.store, UnityCommits(self.store, self.client, self.table_id),
                        partial(UnityCommitter, self.client, NAME, self.table_id), str(NAME))


# A winner that is the transaction's own commit is given another time than the transaction gave itself.
@pytest.mark.filterwarnings("ignore:.*inCommitTimestampOpt")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: f"{s['id']}-{s['group']}")
def test_scenario(scenario: dict[str, Any], tmp_path: Path) -> None:
    hold(scenario, partial(InUnity, tmp_path))
