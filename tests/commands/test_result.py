"""One type for what commands answer: every one that commits to a table."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import deltanb as dn
from deltanb.commands.result import CommandResult
from deltanb.commands.upkeep.vacuum import VacuumResult
from deltanb.errors import VersionNotFound
from deltanb.table.table import DeltaTable
from deltanb.testing import MemoryStore

MAPPED = {"delta.columnMapping.mode": "name"}
COMMANDS: dict[str, Callable[[DeltaTable], Any]] = {
    "WRITE": lambda t: t.append({"id": [3], "name": ["Daisy"]}),
    "WRITE, overwrite": lambda t: t.overwrite({"id": [3], "name": ["Daisy"]}),
    "DELETE": lambda t: t.delete("id = 1"),
    "UPDATE": lambda t: t.update({"name": "'x'"}, "id = 1"),
    "MERGE": lambda t: t.merge({"id": [9], "name": ["new"]}, "target.id = source.id")
        .when_not_matched_insert_all().execute(),
    "OPTIMIZE": lambda t: t.optimize(),
    "VACUUM": lambda t: t.vacuum(),
    "RESTORE": lambda t: t.restore(0),
    "COMPUTE STATS": lambda t: t.analyze(),
    "ADD COLUMNS": lambda t: t.add_columns("nephews int"),
    "RENAME COLUMN": lambda t: t.rename_column("name", "called"),
    "DROP COLUMNS": lambda t: t.drop_columns("name"),
    "REPLACE COLUMNS": lambda t: t.replace_columns("name string, id bigint"),
    "CHANGE COLUMN": lambda t: t.change_column("name", comment="of the duck"),
    "SET TBLPROPERTIES": lambda t: t.set_properties({"mine": 1}),
    "UNSET TBLPROPERTIES": lambda t: t.unset_properties("theirs", if_exists=True),
    "SET TBLPROPERTIES, description": lambda t: t.set_description("ducks"),
    "UPDATE TABLE METADATA": lambda t: t.set_name("ducks"),
    "ADD CONSTRAINT": lambda t: t.add_constraint("positive", "id > 0"),
    "DROP CONSTRAINT": lambda t: t.drop_constraint("none", if_exists=True),
    "UPGRADE PROTOCOL": lambda t: t.add_feature("vacuumProtocolCheck"),
    "UPGRADE PROTOCOL, versions": lambda t: t.upgrade_protocol(2, 7),
    "CLUSTER BY": lambda t: t.cluster_by("id"),
    "DROP FEATURE": lambda t: t.drop_feature("domainMetadata"),
}


def ducks() -> DeltaTable:
    table = dn.create(MemoryStore("memory:///ducks"), {"id": [1], "name": ["Donald"]}, properties={
        **MAPPED, "delta.feature.domainMetadata": "supported"})
    table.append({"id": [2], "name": ["Dewey"]})
    return table


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_answers_with_what_it_did(name: str) -> None:
    table = ducks()
    done = COMMANDS[name](table)
    assert isinstance(done, CommandResult)
    assert done.operation == name.partition(",")[0]
    if done.version is not None:
        assert done.version == table.version == table.history()[0].version
    assert repr(done).startswith(f"<{type(done).__name__} ") and "cannot be shown" not in str(done)


def test_a_write_says_its_metrics_and_who_did_it() -> None:
    done = ducks().append({"id": [3, 4], "name": ["Huey", "Louie"]})
    assert (done.engine, done.metrics["numOutputRows"], done.metrics["numFiles"]) == ("arrow", 2, 1)
    assert str(done).startswith("WRITE  ✓ committed v2  in this process\nMetrics")
    assert "no rows arrived" in str(ducks().append({"id": [], "name": []}))


def test_what_counts_nothing_shows_no_metrics() -> None:
    assert str(ducks().set_properties({"mine": 1})) == "SET TBLPROPERTIES  ✓ committed v2  log only"


def test_a_result_stands_for_its_version() -> None:
    table = ducks()
    done = table.append({"id": [3], "name": ["Daisy"]})
    assert done == 2 and done != 1 and done == 2 and done in {2} and int(done) == 2
    assert table.as_of(done).to_arrow().num_rows == 3
    assert done == CommandResult("WRITE", 2, "arrow", dict(done.metrics))
    assert done != CommandResult("WRITE", 2, "spark", dict(done.metrics)) and done != "2"


def test_a_result_of_nothing_stands_for_no_version() -> None:
    done = ducks().delete("id = 99")
    assert done == None and done != 0 and done.version is None  # noqa: E711
    with pytest.raises(TypeError, match="DELETE committed nothing"):
        int(done)


def test_a_vacuum_answers_with_its_files_beside() -> None:
    table = ducks()
    tried = table.vacuum(dry_run=True)
    assert isinstance(tried, VacuumResult) and tried.version is None and tried.is_dry_run
    done = table.vacuum()
    assert (done.version, done.metrics["numDeletedFiles"], done.num_files) == (table.version, 0, 0)


def test_a_result_is_the_number_of_its_version() -> None:
    table = ducks()
    done = table.append({"id": [3], "name": ["Huey"]})
    assert isinstance(done, int) and (done + 1, done - 2, done > 1, f"v{done}", f"{done:03}") == (
        3, 0, True, "v2", "002")
    assert json.dumps({"version": done}) == '{"version": 2}' and list(range(done)) == [0, 1]
    assert {done: "x"}[2] == "x" and table.as_of(done).version == 2
    again = pickle.loads(pickle.dumps(done))
    assert again == done and again.metrics == done.metrics and type(again) is type(done)
    nothing = table.delete("id = 99")
    assert nothing == None and nothing != 2 and f"{nothing}" == "None"  # noqa: E711
    with pytest.raises(VersionNotFound):  # though the place was known when there was no table
        table.as_of(nothing)


def test_ipython_shows_the_sheet_and_not_the_number() -> None:
    formatters = pytest.importorskip("IPython.core.formatters", reason="IPython is not installed")
    done = ducks().append({"id": [3], "name": ["Huey"]})
    forms = formatters.DisplayFormatter().format(done)[0]
    assert forms["text/plain"] == str(done) and "text/html" in forms
    assert formatters.PlainTextFormatter()([done]) == f"[{done!r}]"
