"""Jobs of Delta Spark that really fail in the middle of a statement, explained from their stack traces."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pytest

import deltanb as dn
from deltanb.observe.post_mortem.texts import SPARK
from deltanb.transaction.conflict_rules import RULES
from tests.examples import every
from tests.observe.post_mortem.test_ours import CUT, PASTED
from tests.patience import PATIENCE
from tests.peers.delta_spark import DeltaSpark, PeerError, table
from tests.peers.test_scenarios_delta_spark import decide
from tests.transaction.test_scenarios import SCENARIOS

pytestmark = [pytest.mark.slow, pytest.mark.spark]


@dataclass(frozen=True)
class Failure:
    """``statement`` waits in ``gate`` while ``win`` commits version 3 with us; ``rule`` is by which it fails.

    ``operation`` is what its trace tells; ``predicate`` what a person would add, and ``met`` the answer then.
    """

    name: str
    statement: str
    win: Callable[[Any], Any]
    rule: str
    operation: str
    predicate: str | None = None
    met: str = "unknown"

    def __str__(self) -> str:
        return self.name


def append(rows: Any) -> Any:
    return rows.append({"id": [7], "p": ["a"]})


MERGE = ("MERGE INTO {t} t USING (SELECT gate(2L) id, 'a' p) s ON t.id = s.id AND t.p = 'a' "
         "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *")
FAILURES = [
    Failure("delete ∥ append", "DELETE FROM {t} WHERE p = 'a' AND gate(id) >= 1", append, "append", "DELETE",
            "p = 'a' AND id >= 1", "yes"),
    Failure("delete ∥ append of another row", "DELETE FROM {t} WHERE p = 'a' AND gate(id) = 1", append,
            "append", "DELETE", "p = 'a' AND id = 1", "no"),
    Failure("update ∥ delete of another row", "UPDATE {t} SET id = gate(id) WHERE p = 'a' AND id = 1",
            lambda t: t.delete("p = 'a' AND id = 2"), "append", "UPDATE", "p = 'a' AND id = 1", "no"),
    Failure("merge ∥ append", MERGE, append, "append", "MERGE", "p = 'a' AND id = 2", "no"),
    Failure("overwrite ∥ update", "INSERT OVERWRITE {t} SELECT gate(1L), 'a'",
            lambda t: t.update({"id": "9"}, where="id = 3"), "append", "WRITE"),
    Failure("delete ∥ delete of a partition", "DELETE FROM {t} WHERE p = 'a' AND gate(id) >= 1",
            lambda t: t.delete("p = 'a'"), "delete / read", "DELETE", "p = 'a' AND id >= 1", "yes"),
    Failure("append ∥ properties", "INSERT INTO {t} SELECT gate(1L), 'a'",
            lambda t: t.set_properties({"delta.appendOnly": "false"}), "metadata", "WRITE", None,
            "not about rows"),
    Failure("append ∥ schema", "INSERT INTO {t} SELECT gate(1L), 'a'", lambda t: t.add_columns({"c": "int"}),
            "metadata", "WRITE", None, "not about rows"),
]


@pytest.fixture(scope="module")
def pipe(tmp_path_factory: pytest.TempPathFactory, delta_spark: DeltaSpark) -> Path:
    """Where statements with ``gate`` wait."""
    path = tmp_path_factory.mktemp("gate") / "pipe"
    delta_spark.ask("gate", pipe=str(path))
    return path


@pytest.fixture(scope="module", params=FAILURES, ids=str)
def failed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, delta_spark: DeltaSpark,
    pipe: Path,
) -> tuple[Failure, Path, PeerError]:
    """A failure, its table, and the exception."""
    failure: Failure = request.param
    path = tmp_path_factory.mktemp("jobs") / "ducks"
    name = table(path)
    delta_spark.sql(f"CREATE TABLE {name} (id BIGINT, p STRING) USING delta PARTITIONED BY (p) "
                    "TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')")
    delta_spark.sql(f"INSERT INTO {name} VALUES (1L, 'a'), (2L, 'a')")
    delta_spark.sql(f"INSERT INTO {name} VALUES (3L, 'b')")
    os.mkfifo(pipe)
    delta_spark.send("sql", text=failure.statement.format(t=name), settings={})
    with opened(pipe):
        failure.win(dn.open(path))
        pipe.unlink()
    with pytest.raises(PeerError) as ended:
        delta_spark.receive()
    return failure, path, ended.value


def opened(pipe: Path) -> IO[bytes]:
    """The pipe, once the statement has come to the gate; a statement that never comes ends the test alone."""
    ends: list[IO[bytes]] = []
    opening = threading.Thread(target=lambda: ends.append(pipe.open("wb")), daemon=True)
    opening.start()
    opening.join(PATIENCE)
    assert ends, "the statement has not come to its gate"
    return ends[0]


def test_a_stack_trace_and_the_table_are_enough(failed: tuple[Failure, Path, PeerError]) -> None:
    failure, path, error = failed
    pm = dn.post_mortem(path, error.trace)
    facts = {fact.name: fact.value for fact in pm.facts}
    assert (facts["operation"], facts["client"]) == (failure.operation, SPARK)
    assert pm.winner is not None and (pm.winner.version, pm.rule) == (3, failure.rule)
    assert (pm.certainty, pm.status) == ("proved", 0)
    assert not any(fact.is_inferred for fact in pm.facts if fact.name != "read version")
    assert {one.kind for one in pm.would_have_passed} >= {"another time"}


def test_with_the_condition_rows_are_compared(failed: tuple[Failure, Path, PeerError]) -> None:
    failure, path, error = failed
    pm = dn.post_mortem(path, error.trace, read_version=2, predicate=failure.predicate)
    assert pm.rows_met.answer == failure.met
    assert (pm.rule, pm.certainty) == (failure.rule, "proved") and pm.conflict is not None
    assert not any(fact.is_inferred for fact in pm.facts)
    if failure.win is append:  # Delta Spark's level is Serializable unless it is set
        proved = {one.kind for one in pm.would_have_passed if one.certainty == "proved"}
        assert "isolation level" in proved


@pytest.mark.parametrize("form", PASTED)
def test_the_trace_is_understood_however_it_was_pasted(
    failed: tuple[Failure, Path, PeerError], form: str
) -> None:
    failure, path, error = failed
    pm = dn.post_mortem(path, PASTED[form](error.trace))
    assert pm.winner is not None and (pm.winner.version, pm.rule) == (3, failure.rule)
    assert next(fact.value for fact in pm.facts if fact.name == "operation") == failure.operation


def test_what_a_tracker_keeps_of_the_message_is_enough(failed: tuple[Failure, Path, PeerError]) -> None:
    failure, path, error = failed
    pm = dn.post_mortem(path, f"io.delta.exceptions.{error.kind}: {error.message}"[:CUT])
    assert pm.rule == failure.rule and pm.winner is not None and pm.winner.version == 3


def test_the_version_read_without_a_text_leads_there_too(failed: tuple[Failure, Path, PeerError]) -> None:
    failure, path, _ = failed
    operation = {"WRITE": "OVERWRITE" if "OVERWRITE" in failure.statement else "APPEND"}.get(
        failure.operation, failure.operation)
    pm = dn.post_mortem(path, read_version=2, operation=operation, predicate=failure.predicate)
    if failure.rule not in ("metadata", "protocol"):  # some changes of these deltanb would have adopted
        assert pm.winner is not None and (pm.winner.version, pm.rule) == (3, failure.rule)


BY_EXCEPTION: dict[str, set[str]] = {}
for _rule in RULES:
    if _rule.exception is not None:
        BY_EXCEPTION.setdefault(_rule.exception.__name__, set()).add(_rule.name)
LOST = [one for one in SCENARIOS if one["expected"]["outcome"] in BY_EXCEPTION]


@pytest.mark.parametrize("scenario", every(6, LOST), ids=lambda one: one["id"])
def test_every_scenario_that_delta_spark_loses_is_explained(
    delta_spark: DeltaSpark, scenario: dict[str, Any], tmp_path: Path
) -> None:
    """Its own transactions fail by every rule; their tables have whatever the scenarios put there."""
    path, first = tmp_path / "table", len(scenario["setup_commits"])
    with pytest.raises(PeerError) as ended:
        decide(delta_spark, scenario, path)
    pm = dn.post_mortem(path, ended.value.trace, read_version=first - 1 if first else None)
    assert set((pm.rule or "").split(" or ")) & BY_EXCEPTION[scenario["expected"]["outcome"]], pm.verdict
    assert pm.winner is not None
    assert first <= pm.winner.version < first + len(scenario["winners"])
