"""Jobs of delta-rs that really fail, explained from what they ended with: its texts name no version."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import deltanb as dn
from deltanb.observe.post_mortem.texts import DELTA_RS

Work = Callable[[deltalake.DeltaTable], Any]
NEW = pa.table({"id": [7], "p": ["a"]})


@dataclass(frozen=True)
class Failure:
    """``lose`` fails on a handle that has not seen ``win``."""

    name: str
    win: Work
    lose: Work
    code: str
    rule: str | None
    operation: str | None = None
    predicate: str | None = None
    met: str | None = None

    def __str__(self) -> str:
        return self.name


def append(table: deltalake.DeltaTable) -> None:
    deltalake.write_deltalake(table, NEW, mode="append")


def overwrite(table: deltalake.DeltaTable, predicate: str | None = None) -> None:
    deltalake.write_deltalake(table, NEW, mode="overwrite", predicate=predicate)


def merge(table: deltalake.DeltaTable) -> None:
    (table.merge(pa.table({"id": [1], "p": ["a"]}), "t.id = s.id", source_alias="s", target_alias="t")
     .when_matched_update_all().execute())


def application(version: int) -> Work:
    properties = deltalake.CommitProperties(app_transactions=[deltalake.Transaction("nightly", version)])
    return lambda table: deltalake.write_deltalake(table, NEW, mode="append", commit_properties=properties)


def once(table: deltalake.DeltaTable) -> None:
    properties = deltalake.CommitProperties(max_commit_retries=0)
    deltalake.write_deltalake(table, NEW, mode="append", commit_properties=properties)


FAILURES = [
    Failure("delete ∥ append", append, lambda t: t.delete("id > 1"), "rs-append", "append", "DELETE",
            "id > 1", "yes"),
    Failure("update ∥ delete of another row", lambda t: t.delete("id = 2"),
            lambda t: t.update(predicate="id = 1", updates={"id": "9"}), "rs-append", "append", "UPDATE",
            "id = 1", "no"),
    Failure("delete ∥ delete", lambda t: t.delete("p = 'a'"), lambda t: t.delete("p = 'a'"),
            "rs-delete-read", "delete / read", "DELETE", "p = 'a'", "yes"),
    Failure("merge ∥ delete", lambda t: t.delete("id = 2"), merge, "rs-append", "append", "MERGE",
            "id = 1", "no"),
    Failure("overwrite ∥ delete", lambda t: t.delete("id = 2"), overwrite, "rs-delete-read", "delete / read"),
    Failure("overwrite of a partition ∥ delete", lambda t: t.delete("id = 2"),
            lambda t: overwrite(t, "p = 'a'"), "rs-append", "append", "OVERWRITE", "p = 'a'"),
    Failure("append ∥ properties", lambda t: t.alter.set_table_properties({"delta.appendOnly": "false"}),
            append, "rs-metadata", "metadata"),
    Failure("delete ∥ feature", lambda t: t.alter.add_feature(
        deltalake.TableFeatures.DeletionVectors, allow_protocol_versions_increase=True),
        lambda t: t.delete("id = 2"), "rs-protocol", "protocol"),
    Failure("batch ∥ batch", application(1), application(2), "rs-application", "application id"),
    Failure("out of attempts", append, once, "rs-retries", None),
]


@pytest.fixture(scope="module", params=FAILURES, ids=str)
def failed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Failure, Path, str]:
    """A failure, the table, and what a script would have printed."""
    failure: Failure = request.param
    path = tmp_path_factory.mktemp("ducks")
    rows = pa.table({"id": [1, 2, 3, 4], "p": ["a", "a", "b", "b"]})
    deltalake.write_deltalake(path, rows, partition_by=["p"])
    stale = deltalake.DeltaTable(path)
    failure.win(deltalake.DeltaTable(path))
    with pytest.raises(deltalake.exceptions.DeltaError) as ended:
        failure.lose(stale)
    text = "".join(traceback.format_exception(ended.value))
    assert dn.post_mortem(path, ended.value).verdict == dn.post_mortem(path, text).verdict
    return failure, path, text


def test_its_text_is_known(failed: tuple[Failure, Path, str]) -> None:
    failure, path, text = failed
    facts = {fact.name: fact.value for fact in dn.post_mortem(path, text).facts}
    assert facts["known text"] == failure.code and facts["client"] == DELTA_RS
    if failure.operation is not None:
        assert facts["operation"] == {"OVERWRITE": "WRITE"}.get(failure.operation, failure.operation)


def test_the_text_alone_leads_to_the_winner_which_is_marked_as_inferred(
    failed: tuple[Failure, Path, str]
) -> None:
    failure, path, text = failed
    pm = dn.post_mortem(path, text)
    if failure.rule is None:
        assert pm.verdict.startswith("No rule failed") and pm.certainty == "proved"
        assert [one.kind for one in pm.would_have_passed] == ["attempts"]
        return
    assert f"{failure.rule!r}" in pm.verdict
    if pm.winner is None:  # what was written under which id is in no text
        assert failure.rule in ("application id", "protocol", "metadata") and pm.certainty == "unexplained"
        return
    assert (pm.winner.version, pm.rule, pm.certainty, pm.status) == (1, failure.rule, "possible", 3)
    assert any(fact.is_inferred for fact in pm.facts)


def test_with_the_version_that_it_read_its_rows_are_compared(failed: tuple[Failure, Path, str]) -> None:
    failure, path, text = failed
    pm = dn.post_mortem(path, text, read_version=0, operation=failure.operation, predicate=failure.predicate)
    if failure.rule is None:
        assert pm.rule is None and pm.certainty == "proved"
        return
    if failure.met is None:
        assert pm.rule in (failure.rule, None)
        return
    assert pm.winner is not None and pm.winner.version == 1 and pm.rule == failure.rule
    assert pm.rows_met.answer == failure.met
    assert (pm.rows_met.rows == 0) == (failure.met == "no")
