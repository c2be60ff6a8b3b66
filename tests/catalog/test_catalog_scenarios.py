"""Every conflict scenario on a table that a catalog manages: the same rules, and the same words."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from deltanb import actions
from deltanb.actions import Action, Protocol
from deltanb.catalog.delta.commits import CatalogCommits
from deltanb.catalog.delta.managed import ManagedCommitter
from deltanb.catalog.store.ratification import DeltaCommit, Ratified
from deltanb.catalog.store.store import CatalogStore
from deltanb.log.commits import PublishedCommits, commit_name
from deltanb.schema.protocol import features_of
from deltanb.testing import MemoryStore
from deltanb.transaction.delta_log import DeltaLog
from tests.transaction.test_scenarios import SCENARIOS, body_of, hold

FEATURES = ("catalogManaged", "inCommitTimestamp")
_numbers = itertools.count(1)


class InCatalog:
    """Where a scenario takes place: a table whose commits a catalog ratifies; others' are kept by itself."""

    def __init__(self, store: CatalogStore, setup: list[list[dict[str, Any]]]) -> None:
        self.catalog, self.store = store, MemoryStore()
        self.time = itertools.count(1_500_000_000_000)
        for version, commit in enumerate(setup):
            self.store.put_if_absent(commit_name(version), body_of(self.managed(commit)))
        if not setup:  # a first version is written straight into the log
            self.log = DeltaLog(self.store, PublishedCommits(self.store))
            return
        row = store.tables.register_delta(f"ns.t{next(_numbers)}", self.store.root, len(setup) - 1)
        self.name, self.table_id = row.name, str(row.table_id)
        self.log = self.seen_anew()

    def managed(self, lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """A commit as one of a managed table: commitInfo first, with an id and a time that rises."""
        done = [actions.from_json(body_of([self.line(line)])).to_dict() for line in lines]
        info = next((line for line in done if "commitInfo" in line), {"commitInfo": {}})
        time = next(self.time)
        info["commitInfo"] = {"txnId": f"other-{time}", "inCommitTimestamp": time, **info["commitInfo"]}
        return [info, *(line for line in done if line is not info)]

    def line(self, line: dict[str, Any]) -> dict[str, Any]:
        """An action, with what makes its table a managed one."""
        if "protocol" in line:
            asked = actions.from_dict({"protocol": line["protocol"]})
            assert isinstance(asked, Protocol)
            names = sorted({*features_of(asked), *FEATURES})
            readers = sorted({*(asked.reader_features or ()), "catalogManaged"})
            return {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7,
                                 "readerFeatures": readers, "writerFeatures": names}}
        if "metaData" in line:
            had = line["metaData"].get("configuration") or {}
            return {"metaData": {**line["metaData"], "configuration": {
                **had, "delta.enableInCommitTimestamps": "true"}}}
        return line

    def action(self, line: dict[str, Any]) -> Action:
        """An action of the transaction."""
        return actions.from_dict(self.line(line))

    def put(self, version: int, lines: list[dict[str, Any]]) -> None:
        """Have another one's lines ratified; a first version is written into the log."""
        body = body_of(self.managed(lines))
        if not hasattr(self, "table_id"):
            assert self.store.put_if_absent(commit_name(version), body)
            return
        commit = DeltaCommit(self.table_id, self.name, version, inline=body)
        assert isinstance(self.catalog.ratify(f"winner-{next(_numbers)}", None, [commit]), Ratified)

    def seen_anew(self) -> DeltaLog:
        """The table, as somebody loads it from the catalog."""
        if not hasattr(self, "table_id"):
            return DeltaLog(self.store, PublishedCommits(self.store))
        return DeltaLog(self.store, CatalogCommits(self.store, self.catalog, self.table_id),
                        partial(ManagedCommitter, self.catalog, self.name, self.table_id), str(self.name))


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def shelf(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CatalogStore]:
    """A catalog for the tables of all scenarios."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('shelf')}/catalog.db"
    else:
        url = request.getfixturevalue("new_schema")()
    with CatalogStore(url, durability="none") as store:
        store.namespaces.create("ns")
        yield store


# A winner that is the transaction's own commit is given another time than the transaction gave itself.
@pytest.mark.filterwarnings("ignore:.*inCommitTimestampOpt")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: f"{s['id']}-{s['group']}")
def test_scenario(scenario: dict[str, Any], shelf: CatalogStore) -> None:
    hold(scenario, partial(InCatalog, shelf))
