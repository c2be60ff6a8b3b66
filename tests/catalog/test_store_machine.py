"""Whatever is done to a catalog in whatever order, it says what a dict would."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from deltanb.catalog.store.ledgers import Answer
from deltanb.catalog.store.names import TableName
from deltanb.catalog.store.ratification import Asserted, DeltaCommit, IcebergSwap, Ratified, Refused
from deltanb.catalog.store.store import CatalogStore, Replayed
from deltanb.errors import IdempotencyKeyReused, TableAlreadyExists, TableNotFound
from tests.examples import few

NAMES = ["a", "b", "c", "d"]
names = st.sampled_from(NAMES)


class Model:
    """A table, as a dict would have it."""

    def __init__(self, table_id: str, pointer: Any) -> None:
        self.table_id, self.pointer = table_id, pointer
        self.published = 0
        self.tail: list[tuple[int, str]] = []  # (version, transaction)


def machine(new_url: Callable[[], str]) -> type[RuleBasedStateMachine]:
    """The rules of a catalog, each example on a database of its own."""

    class Catalog(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.store = CatalogStore(new_url(), durability="none")
            self.store.namespaces.create("ns")
            self.tables: dict[str, Model] = {}
            self.history: list[tuple[str, dict[str, tuple[str | None, str | None]]]] = []
            self.answers: dict[str, Answer] = {}
            self.count = 0

        def teardown(self) -> None:
            self.store.close()

        def fresh(self) -> str:
            self.count += 1
            return f"id{self.count}"

        @rule(name=names, is_delta=st.booleans())
        def register(self, name: str, is_delta: bool) -> None:
            table_id = self.fresh()
            pointer: int | str = 0 if is_delta else f"{table_id}/0"
            tables = self.store.tables
            try:
                if is_delta:
                    tables.register_delta(f"ns.{name}", table_id, 0, table_id=table_id)
                else:
                    tables.register_iceberg(f"ns.{name}", f"{table_id}/0", table_id=table_id)
            except TableAlreadyExists:
                assert name in self.tables
                return
            assert name not in self.tables
            self.tables[name] = Model(table_id, pointer)
            self.history.append(("register", {table_id: (None, str(pointer))}))

        @rule(name=names)
        def drop(self, name: str) -> None:
            try:
                self.store.tables.drop(f"ns.{name}")
            except TableNotFound:
                assert name not in self.tables
                return
            gone = self.tables.pop(name)
            self.history.append(("drop", {gone.table_id: (str(gone.pointer), None)}))

        @rule(old=names, new=names)
        def rename(self, old: str, new: str) -> None:
            if old == new:
                return
            try:
                self.store.tables.rename(f"ns.{old}", f"ns.{new}")
            except (TableNotFound, TableAlreadyExists) as error:
                assert (old not in self.tables) if isinstance(error, TableNotFound) else (new in self.tables)
                return
            self.tables[new] = self.tables.pop(old)

        @precondition(lambda self: self.tables)
        @rule(data=st.data())
        def ratify(self, data: st.DataObject) -> None:
            chosen = data.draw(st.lists(st.sampled_from(sorted(self.tables)), min_size=1, unique=True))
            proposals: list[Any] = []
            assertions: list[Any] = []
            expected: dict[str, Any] = {}
            for name in chosen:
                table = self.tables[name]
                off = data.draw(st.sampled_from([0, 0, 0, 1, -1]))
                asked = data.draw(st.sampled_from([name, name, name, NAMES[0]]))
                if off or asked != name:
                    expected[table.table_id] = table.pointer if asked == name else None
                old_name = TableName(("ns",), asked)
                if data.draw(st.booleans()):
                    is_delta, elsewhere = isinstance(table.pointer, int), "x" * abs(off)
                    pointer = table.pointer + (off if is_delta else elsewhere)
                    assertions.append(Asserted(table.table_id, old_name, pointer))
                elif isinstance(table.pointer, int):
                    version = table.pointer + 1 + off
                    proposals.append(DeltaCommit(table.table_id, old_name, version, inline=b"%d" % version))
                else:
                    before = table.pointer + "x" * abs(off)
                    proposals.append(IcebergSwap(table.table_id, old_name, before, f"{table.pointer}+"))
            key = data.draw(st.sampled_from([None, None, "k1", "k2"]))
            body = data.draw(st.sampled_from(["body", "body", "other"]))
            txn_id = self.fresh()
            answer = None if key is None else Answer(key, body, 200, txn_id, 2**50)
            try:
                result = self.store.ratify(txn_id, "ada", proposals, assertions, answer)
            except IdempotencyKeyReused:
                assert key is not None and self.answers[key].body_hash != body
                return
            if key in self.answers:
                assert result == Replayed(self.answers[key]) and self.answers[key].body_hash == body
                return
            if expected:
                assert result == Refused(expected)
                return
            changes = {}
            for proposal in proposals:
                table = next(t for t in self.tables.values() if t.table_id == proposal.table_id)
                is_delta = isinstance(proposal, DeltaCommit)
                after = proposal.version if is_delta else proposal.after
                changes[table.table_id] = (str(table.pointer), str(after))
                table.pointer = after
                if is_delta:
                    table.tail.append((after, txn_id))
            self.history.append((txn_id, changes))
            assert result == Ratified(len(self.history)) == self.store.outcome(txn_id)
            assert self.store.ratify(txn_id, "ada", proposals, assertions) == result
            if answer is not None:
                self.answers[answer.key] = answer

        @precondition(lambda self: any(isinstance(t.pointer, int) for t in self.tables.values()))
        @rule(data=st.data())
        def publish(self, data: st.DataObject) -> None:
            deltas = [name for name, t in sorted(self.tables.items()) if isinstance(t.pointer, int)]
            table = self.tables[data.draw(st.sampled_from(deltas))]
            version = data.draw(st.integers(0, int(table.pointer)))
            self.store.set_published(table.table_id, version)
            table.published = max(table.published, version)
            table.tail = [commit for commit in table.tail if commit[0] > table.published]

        @invariant()
        def says_what_a_dict_says(self) -> None:
            rows = self.store.tables.page("ns").items
            assert {row.name.name: (row.table_id, row.pointer) for row in rows} == {
                name: (table.table_id, table.pointer) for name, table in self.tables.items()}
            deltas = [table for table in self.tables.values() if isinstance(table.pointer, int)]
            tails = self.store.tails(table.table_id for table in deltas)
            for table in deltas:
                tail = tails[table.table_id]
                assert (tail.latest, tail.published) == (table.pointer, table.published)
                assert [(commit.version, commit.txn_id) for commit in tail.commits] == table.tail
                for version, _ in table.tail:
                    assert self.store.content(table.table_id, version) == b"%d" % version
            entries = self.store.history()
            assert [entry.seq for entry in entries] == list(range(1, len(self.history) + 1))
            assert [(e.summary or e.txn_id, dict(e.changes)) for e in entries] == self.history

    return Catalog


@pytest.mark.slow
def test_a_catalog_is_a_dict(new_url: Callable[[], str]) -> None:
    run_state_machine_as_test(
        machine(new_url), settings=few)
