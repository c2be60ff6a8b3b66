"""Jobs that really fail: two commands of ours on one table, of which the second loses, by kind.

Each failure says what an answer must say of it; the tests go through all of them in every form in which a
job's end reaches people.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import deltanb as dn

DUCKS = {"id": [1, 2, 3, 4], "day": ["mon", "mon", "tue", "tue"], "nephews": [3, 0, 1, 0]}
NEW = {"id": [7], "day": ["mon"], "nephews": [2]}
Work = Callable[[Any], Any]


@dataclass(frozen=True)
class Failure:
    """``win`` commits first, ``lose`` fails by ``rule``; ``operation`` and ``predicate`` are the loser's.

    ``met`` is the answer to whether rows met, ``met_by_text`` that of its text alone, if it is another;
    ``certain`` are remedies that must be proved, by kind. ``by_facts`` is the rule that operation, predicate
    and version lead to without a text, if it is another.
    """

    name: str
    win: Work
    lose: Work
    rule: str
    operation: str
    predicate: str | None = None
    met: str = "not about rows"
    certain: frozenset[str] = frozenset()
    by_facts: str | None = "the same"
    partition_by: str | tuple[()] = "day"
    met_by_text: str = "the same"

    def __str__(self) -> str:
        return self.name

    @property
    def asked_for(self) -> str | None:
        """The condition of the rows that the loser looked for: of a constraint, those that break it."""
        is_constraint = self.operation == "ADD CONSTRAINT" and self.predicate is not None
        return f"NOT ({self.predicate})" if is_constraint else self.predicate


def append(**values: Any) -> Work:
    return lambda table: table.append({**NEW, **{name: [value] for name, value in values.items()}})


def batch(table: Any) -> Any:
    txn = table.log.start_transaction()
    number = txn.txn_version("nightly") + 1
    return txn.commit([dn.actions.SetTransaction("nightly", number)], "STREAMING UPDATE")


def merge(table: Any, *ids: int) -> Any:
    ids = ids or (1,)
    source = {"id": list(ids), "day": ["mon"] * len(ids), "nephews": [5] * len(ids)}
    return (table.merge(source, "t.id = s.id AND t.day = 'mon'", target_alias="t", source_alias="s")
            .when_matched_update_all().when_not_matched_insert_all().execute())


def merge_many(table: Any) -> Any:
    return merge(table, *range(10, 50))


FAILURES = [
    Failure("delete ∥ append of a row it would delete", append(), lambda t: t.delete("day = 'mon'"),
            "append", "DELETE", "day = 'mon'", "yes", frozenset({"isolation level", "another time"})),
    Failure("delete ∥ append of another row", append(), lambda t: t.delete("nephews = 0"),
            "append", "DELETE", "nephews = 0", "no", frozenset({"isolation level", "row-level rules"})),
    Failure("delete ∥ append elsewhere", append(id=9), lambda t: t.delete("id = 3"),
            "append", "DELETE", "id = 3", "no", frozenset({"partition predicate", "row-level rules"})),
    Failure("delete ∥ append in a table without partitions", append(), lambda t: t.delete("day = 'tue'"),
            "append", "DELETE", "day = 'tue'", "no", frozenset({"partitioning", "row-level rules"}),
            partition_by=()),
    Failure("update ∥ update of another row", lambda t: t.update({"nephews": "9"}, where="id = 2"),
            lambda t: t.update({"nephews": "8"}, where="id = 1"), "append", "UPDATE", "id = 1", "no"),
    Failure("update ∥ update of the same row", lambda t: t.update({"nephews": "9"}, where="id = 1"),
            lambda t: t.update({"nephews": "8"}, where="id = 1"), "append", "UPDATE", "id = 1", "yes"),
    Failure("delete ∥ delete of a partition", lambda t: t.delete("day = 'mon'"),
            lambda t: t.delete("day = 'mon'"), "delete / read", "DELETE", "day = 'mon'", "yes"),
    Failure("merge ∥ append", append(), merge, "append", "MERGE", "id = 1", "no",
            frozenset({"isolation level"})),
    Failure("merge of many rows ∥ append", append(), merge_many, "append", "MERGE",
            f"id IN ({', '.join(map(str, range(10, 50)))}) AND day = 'mon'", "no",
            frozenset({"isolation level"}), met_by_text="possible"),  # of such a source a text has no values
    Failure("merge ∥ append of its row", append(id=1), merge, "append", "MERGE", "id = 1 AND day = 'mon'",
            "yes", frozenset({"isolation level"})),
    Failure("constraint ∥ append of a row that it allows", append(),
            lambda t: t.add_constraint("sane", "nephews >= 0"), "append", "ADD CONSTRAINT", "nephews >= 0",
            "no", frozenset({"another time"}), by_facts=None),
    Failure("overwrite ∥ append", append(), lambda t: t.overwrite(NEW), "append", "OVERWRITE", None, "yes",
            frozenset({"isolation level"}), met_by_text="unknown"),
    Failure("overwrite of a partition ∥ append", append(),
            lambda t: t.overwrite({**NEW, "nephews": [1]}, where="day = 'mon'"), "append", "OVERWRITE",
            "day = 'mon'", "yes"),
    Failure("optimize ∥ delete", lambda t: t.delete("id = 3"), lambda t: t.optimize(),
            "delete / delete", "OPTIMIZE", by_facts="delete / read"),
    Failure("schema ∥ schema", lambda t: t.add_columns({"a": "int"}), lambda t: t.add_columns({"b": "int"}),
            "metadata", "ADD COLUMNS", None, certain=frozenset({"another time"})),
    Failure("protocol ∥ protocol", lambda t: t.upgrade_protocol(1, 4), lambda t: t.upgrade_protocol(3, 7),
            "protocol", "UPGRADE PROTOCOL"),
    Failure("batch ∥ batch of one application", batch, batch, "application id", "STREAMING UPDATE",
            by_facts=None),
]


def fail(failure: Failure, place: Any) -> tuple[Any, dn.errors.DeltaConcurrentModificationException]:
    """The table after both, and what the loser ended with."""
    table = dn.create(place, DUCKS, partition_by=failure.partition_by)
    table.append({"id": [5], "day": ["tue"], "nephews": [1]})
    ended = dn.race(table, {"ann": failure.win, "ben": failure.lose}).outcomes
    error = ended["ben"]
    assert isinstance(error, dn.errors.DeltaConcurrentModificationException), (failure.name, ended)
    return table, error


def printed(error: BaseException) -> str:
    """What a script or a log has of it."""
    return "".join(traceback.format_exception(type(error), error, error.__traceback__))
