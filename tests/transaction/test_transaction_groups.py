"""Transaction groups: the commits of several tables name each other and their versions, in every order of
writers and after every loss."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Generator
from typing import Any

import pytest

import deltanb as dn
from deltanb import actions, errors
from deltanb.actions import AddFile, CommitInfo, Participant, Protocol, TransactionGroup
from deltanb.actions.markers import GROUP_TAG
from deltanb.schema.protocol import CATALOG_MANAGED, GROUPS, check_groups
from deltanb.testing import MemoryStore, TableBuilder, add
from deltanb.transaction.commit import commit_steps
from deltanb.transaction.group import (
    Grouped,
    Member,
    MemberStep,
    Publish,
    Ratified,
    Ratify,
    Refused,
    Stage,
    group_steps,
    stand_steps,
)
from deltanb.transaction.operations import Operation
from deltanb.transaction.steps import Join, PutIfAbsent, Step
from tests.notebook.looks import assert_consistent
from tests.transaction.test_group import (
    GROUPED,
    MANAGED,
    NAMES,
    Catalog,
    GroupWriter,
    appended,
    ids,
    lake,
    logs_of,
    only_read,
    rewritten,
    run,
    runs,
    stands,
    writes,
)


@pytest.fixture(scope="module")
def tables() -> Any:
    """Three tables with the feature."""
    return lake(dict.fromkeys(NAMES, GROUPED))


@pytest.fixture(scope="module")
def mixed() -> Any:
    """The table b lacks the feature."""
    return lake({"a": GROUPED, "b": MANAGED, "c": GROUPED})


def group_in(body: bytes) -> dict[str, Any] | None:
    """The transaction group that a commit names."""
    groups = [line["transactionGroup"] for line in map(json.loads, body.splitlines())
              if "transactionGroup" in line]
    assert len(groups) <= 1
    return groups[0] if groups else None


def tag_in(body: bytes) -> Any:
    return (json.loads(body.splitlines()[0])["commitInfo"].get("tags") or {}).get(GROUP_TAG)


def check_groups_of(catalog: Catalog, written: dict[str, set[str]]) -> None:
    """Each transaction has one group, which says of each of its tables the version that it has there."""
    landed = {name: ids(catalog, name) for name in NAMES}
    for txn_id, names in written.items():
        versions = {name: landed[name][txn_id] for name in names if txn_id in landed[name]}
        bodies = [catalog.logs[name][version] for name, version in versions.items()]
        if len(names) == 1:
            assert [group_in(body) for body in bodies] == [None] * len(bodies)
            continue
        assert versions.keys() == names or not versions, "torn"
        for body in bodies:
            assert group_in(body) == {
                "transactionId": txn_id, "coordinatingCatalog": "lake",
                "participants": [{"tableId": name, "proposedVersion": versions[name]}
                                 for name in sorted(names)]}
            assert tag_in(body) == txn_id


# -- every order -----------------------------------------------------------------------------------


def group_of(txn_id: str, *members: Member) -> GroupWriter:
    return GroupWriter(list(members), txn_id, (Publish, Stage), "lake")


@pytest.mark.slow
def test_in_every_order_of_three_writers_all_commits_of_a_transaction_name_the_same_versions(
    tables: Any,
) -> None:
    """Each appends to two of three tables, or to one, so that each may lose to each of the others."""
    written = {"ann": {"a", "b"}, "ben": {"b", "c"}, "eve": {"b"}}
    prepared = {who: {name: appended(tables[name], who) for name in names} for who, names in written.items()}
    restaged: Counter[bool] = Counter()
    for writers, catalog in runs(lambda: [
            group_of(who, *(writes(name, current) for name, current in prepared[who].items()))
            for who in written], logs_of(tables)):
        assert all(type(writer.outcome).__name__ == "GroupCommitted" for writer in writers)
        check_groups_of(catalog, written)
        for writer in writers:
            attempts = sum(isinstance(step, Ratify) for step in writer.trace)
            groups = sum(isinstance(step, Grouped) for step in writer.trace)
            assert groups in (0, attempts)
            restaged[groups > 1] += 1
    assert min(restaged.values()) > 10, "some lost, and some did not"


@pytest.mark.slow
def test_in_every_order_conflicts_leave_no_torn_group(tables: Any) -> None:
    """ann and ben rewrite one account of a and b; eve read a, and appends to b and c."""
    who = ("ann", "ben")
    prepared = {name: {table: rewritten(tables[table], name, "x") for table in "ab"} for name in who}
    read, adds = only_read(tables["a"], "eve"), {name: appended(tables[name], "eve") for name in "bc"}
    written = {"ann": {"a", "b"}, "ben": {"a", "b"}, "eve": {"b", "c"}}
    outcomes: Counter[tuple[str, ...]] = Counter()
    for writers, catalog in runs(lambda: [
            *(group_of(name, *(writes(table, current) for table, current in prepared[name].items()))
              for name in who),
            group_of("eve", stands("a", read), *(writes(name, current) for name, current in adds.items()))],
            logs_of(tables)):
        check_groups_of(catalog, written)
        outcomes[tuple(type(writer.outcome).__name__ for writer in writers)] += 1
    assert len(outcomes) > 2


# -- one group, step by step -----------------------------------------------------------------------


def stages(seen: list[Step]) -> list[tuple[str, int]]:
    return [(step.name, step.version) for step in seen if isinstance(step, Stage)]


def bodies(seen: list[Step]) -> list[dict[str, Any] | None]:
    return [group_in(step.body) for step in seen if isinstance(step, Stage)]


def lose(catalog: Catalog, name: str, current: Any) -> None:
    """Somebody else commits to a table alone."""
    run([writes(name, current)], catalog, txn_id=current.txn_id)


def test_all_versions_are_known_before_the_first_body_is_made(tables: Any) -> None:
    catalog = Catalog(logs_of(tables))
    seen = run([writes(name, appended(tables[name], "ann")) for name in "ab"], catalog)
    kinds = [type(step.step if isinstance(step, MemberStep) else step).__name__ for step in seen]
    assert kinds[:5] == ["Prepared", "Prepared", "Grouped", "Stage", "Stage"]
    first, second = bodies(seen)
    assert first == second
    assert first is not None
    assert first["participants"] == [{"tableId": name, "proposedVersion": 2} for name in "ab"]


@pytest.mark.parametrize("losers", ["a", "c", "ac", "abc"])
def test_after_a_loss_all_of_the_group_are_staged_again(tables: Any, losers: str) -> None:
    catalog = Catalog(logs_of(tables))
    for name in losers:
        lose(catalog, name, appended(tables[name], "ben"))
    seen = run([writes(name, appended(tables[name], "ann")) for name in NAMES], catalog)
    behind = [(name, 3 if name in losers else 2) for name in NAMES]
    assert stages(seen) == [*((name, 2) for name in NAMES), *behind]
    assert all(group == bodies(seen)[0] for group in bodies(seen)[:3])
    for group in bodies(seen)[3:]:
        assert group is not None
        assert [(p["tableId"], p["proposedVersion"]) for p in group["participants"]] == behind
    check_groups_of(catalog, {"ann": set(NAMES)})


def test_a_group_that_loses_again_and_again_counts_attempts_of_the_losers_alone(tables: Any) -> None:
    catalog, left = Catalog(logs_of(tables)), ["b", "b", "a"]

    def says(step: Step) -> Any:
        if isinstance(step, Ratify) and left:
            name = left.pop(0)
            lose(catalog, name, appended(tables[name], f"ben{len(left)}"))
        return ...

    seen = run([writes(name, appended(tables[name], "ann"), attempts=2) for name in "ab"], catalog, says)
    assert len(stages(seen)) == 8
    assert [step.step.attempts for step in seen  # type: ignore[attr-defined]
            if isinstance(step, MemberStep) and type(step.step).__name__ == "Committed"] == [2, 3]
    check_groups_of(catalog, {"ann": {"a", "b"}})


def pointed(name: str) -> Member:
    """A table without versions, as an Iceberg table takes part."""
    def steps() -> Generator[Step, Any, Step]:
        attempt = 0
        while True:
            attempt += 1
            put = PutIfAbsent(attempt, b"", attempt, 0, "")
            if (yield put) is True:
                return put

    return Member(name, name, steps())


def test_tables_outside_of_the_group_lose_without_it(tables: Any) -> None:
    """An Iceberg table, and one that was only read: nothing of the group is staged again."""
    catalog, refused = Catalog(logs_of(tables)), [Refused({"p": "moved"})]  # type: ignore[dict-item]
    lose(catalog, "c", rewritten(tables["c"], "ben", "y"))

    def says(step: Step) -> Any:
        if isinstance(step, Ratify):
            if refused:
                return refused.pop()
            late = {name: max(catalog.logs[name]) for name, version in step.stands
                    if max(catalog.logs[name]) != version}
            return Refused(late) if late else Ratified(7)
        return ...

    txn = tables["c"].start_transaction()
    list(txn.filter_files("account = 'x'"))
    read = txn.prepare([], Operation("AUDIT", changes_data=True))
    seen = run([pointed("p"), Member("c", "c", stand_steps(read, max_attempts=9, clock=lambda: 0)),
                *(writes(name, appended(tables[name], "ann")) for name in "ab")], catalog, says)
    assert stages(seen) == [("p", 1), ("a", 2), ("b", 2), ("p", 2)]
    assert sum(isinstance(step, Grouped) for step in seen) == 1
    [group, _] = [group for group in bodies(seen) if group is not None]
    assert [p["tableId"] for p in group["participants"]] == ["a", "b"]


def test_one_written_table_is_in_no_group(tables: Any) -> None:
    catalog = Catalog(logs_of(tables))
    seen = run([writes("a", appended(tables["a"], "ann")), stands("b", only_read(tables["b"], "ann"))],
               catalog)
    assert not any(isinstance(step, Grouped) for step in seen)
    assert bodies(seen) == [None]
    assert tag_in(catalog.logs["a"][2]) is None


def test_where_a_written_table_lacks_the_feature_no_commit_names_a_group(mixed: Any) -> None:
    catalog = Catalog(logs_of(mixed))
    lose(catalog, "a", appended(mixed["a"], "ben"))
    seen = run([writes(name, appended(mixed[name], "ann")) for name in NAMES], catalog)
    assert [step for step in seen if isinstance(step, Grouped)] == [Grouped(None, ("b",))]
    assert Counter(stages(seen)) == {("a", 2): 1, ("b", 2): 1, ("c", 2): 1, ("a", 3): 1}
    assert bodies(seen) == [None] * 4


def test_one_that_is_only_read_may_lack_the_feature(mixed: Any) -> None:
    catalog = Catalog(logs_of(mixed))
    seen = run([stands("b", only_read(mixed["b"], "ann")),
                *(writes(name, appended(mixed[name], "ann")) for name in "ac")], catalog)
    first, second = bodies(seen)
    assert first == second
    assert first is not None


def test_what_cannot_be_staged_the_second_time_ends_all(tables: Any) -> None:
    catalog, staged = Catalog(logs_of(tables)), []
    lose(catalog, "b", appended(tables["b"], "ben"))

    def says(step: Step) -> Any:
        if isinstance(step, Stage):
            staged.append(step.name)
            return OSError(28, "full") if staged == ["a", "b", "a"] else ...
        return ...

    with pytest.raises(errors.StorageError, match="table a: version 2 could not be staged") as caught:
        run([writes(name, appended(tables[name], "ann")) for name in "ab"], catalog, says)
    assert caught.value.seen[-1].name == "a"  # type: ignore[attr-defined]
    assert max(catalog.logs["a"]) == 1


@pytest.mark.parametrize("is_reply", [False, True], ids=["before the step", "during the step"])
def test_an_interrupt_at_any_step_after_a_loss_leaves_nothing_or_all(tables: Any, is_reply: bool) -> None:
    def begin() -> tuple[Catalog, Any]:
        catalog = Catalog(logs_of(tables))
        lose(catalog, "b", appended(tables["b"], "ben"))
        return catalog, group_steps([writes(name, appended(tables[name], "ann")) for name in "ab"], "ann",
                                    "lake")

    place, is_over = 0, False
    while not is_over:
        catalog, steps = begin()
        step, at, ended = steps.send(None), 0, None
        while True:
            is_struck, at = at == place, at + 1
            reply = None if is_struck and not is_reply else catalog.answer(step)
            try:
                if not is_struck:
                    step = steps.send(reply)
                elif is_reply and step.asks:
                    step = steps.send(KeyboardInterrupt())
                else:
                    step = steps.throw(KeyboardInterrupt())
            except KeyboardInterrupt as error:
                ended = error
                break
            except StopIteration:
                break
        check_groups_of(catalog, {"ann": {"a", "b"}})
        assert (3 in catalog.logs["b"]) == ("ann" in catalog.ratified)
        assert ended is not None or "ann" in catalog.ratified
        is_over, place = at <= place, place + 1
    assert place > 15


@pytest.mark.parametrize("lost", [OSError("gone"), None])
def test_the_group_of_a_ratification_without_an_answer_is_found(tables: Any, lost: Any) -> None:
    catalog = Catalog(logs_of(tables))

    def says(step: Step) -> Any:
        if isinstance(step, Ratify):
            catalog.ratify(step)
            return lost
        return ...

    seen = run([writes(name, appended(tables[name], "ann")) for name in "ab"], catalog, says)
    assert len(stages(seen)) == 2
    check_groups_of(catalog, {"ann": {"a", "b"}})


def test_the_commit_of_one_table_alone_is_not_asked(tables: Any) -> None:
    current = appended(tables["a"], "ann")
    steps = commit_steps(current, max_attempts=1, clock=lambda: 0, is_final=True)
    seen = [steps.send(None), steps.send(None)]
    assert not any(isinstance(step, Join) for step in seen)


# -- control ---------------------------------------------------------------------------------------


def test_bodies_made_before_all_versions_are_known_would_be_seen(
    tables: Any, monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A group whose other members are not staged again names a version that one of them does not have."""
    from deltanb.transaction import group

    join: Callable[..., Any] = group._join

    def careless(state: Any) -> Any:
        if state.joined is None:
            return (yield from join(state))
        action = state.action()
        for name in [name for name, wait in state.waits.items() if isinstance(wait, Join)]:
            yield from group._drive(state, name, action)

    monkeypatch.setattr(group, "_join", careless)
    catalog = Catalog(logs_of(tables))
    lose(catalog, "b", appended(tables["b"], "ben"))
    run([writes(name, appended(tables[name], "ann")) for name in "ab"], catalog)
    with pytest.raises(AssertionError):
        check_groups_of(catalog, {"ann": {"a", "b"}})


# -- the action, and the feature -------------------------------------------------------------------

WHOLE = {"transactionId": "t", "participants": [{"tableId": "a", "proposedVersion": 1}],
         "coordinatingCatalog": "lake"}


@pytest.mark.parametrize("value", [
    {}, 5, {**WHOLE, "participants": {"a": 1}}, {**WHOLE, "participants": [1]}, {**WHOLE, "transactionId": 7},
    {**WHOLE, "participants": [{"tableId": "a"}]}, {**WHOLE, "participants": [{"tableId": "a",
                                                                             "proposedVersion": "1"}]},
    *({key: value for key, value in WHOLE.items() if key != left} for left in WHOLE)], ids=str)
def test_one_that_is_not_as_proposed_is_kept_as_it_is(value: Any) -> None:
    """Readers may ignore it, so it makes no table unreadable."""
    line = {"transactionGroup": value}
    action = actions.from_json(json.dumps(line))
    assert isinstance(action, actions.UnknownAction)
    assert json.loads(action.to_json()) == line
    with pytest.raises(errors.InvalidAction):
        TransactionGroup.from_value(value)


def test_a_participant_is_no_action_of_its_own() -> None:
    line = {"participant": {"tableId": "a", "proposedVersion": 1}}
    assert actions.from_dict(line) == actions.UnknownAction("participant", line["participant"])


def test_only_a_transaction_of_several_tables_names_a_group(tables: Any) -> None:
    """What somebody passes to a commit is left out, as a commitInfo is."""
    passed = TransactionGroup("t", (Participant("a", 1),), "lake")
    txn = tables["a"].start_transaction()
    current = txn.prepare([AddFile("account=z/1", {"account": "z"}, 1, 1), passed, CommitInfo()], "WRITE")
    assert [type(action) for action in current.lines] == [CommitInfo, AddFile]


@pytest.mark.parametrize(("features", "is_managed", "is_refused"), [
    ((GROUPS,), True, True), ((GROUPS,), False, True), ((GROUPS, CATALOG_MANAGED), False, True),
    ((GROUPS, CATALOG_MANAGED), True, False), ((), False, False)])
def test_only_a_table_that_a_catalog_manages_is_written_with_the_feature(
    features: tuple[str, ...], is_managed: bool, is_refused: bool,
) -> None:
    protocol = Protocol(3, 7, (), features)
    if not is_refused:
        return check_groups(protocol, "ducks", is_managed)
    with pytest.raises(errors.UnsupportedProtocol, match=GROUPS) as caught:
        check_groups(protocol, "ducks", is_managed)
    assert caught.value.features == (GROUPS,)
    return None


@pytest.mark.parametrize("value", [
    {"transactionId": "t", "coordinatingCatalog": "x",
     "participants": [{"tableId": "a", "proposedVersion": 1}, {"tableId": "b", "proposedVersion": 9}]},
    {"transactionId": 5}, "new"], ids=["whole", "damaged", "text"])
def test_any_table_with_the_action_is_read_and_written(value: Any) -> None:
    """Nobody needs the feature to read it, or to commit after it."""
    builder = TableBuilder(MemoryStore()).create("id long").commit(
        add("a", stats='{"numRecords":3}'), {"transactionGroup": value})
    table = dn.open(builder.store)
    assert table.version == 1
    assert len(table.snapshot.files) == 1
    assert_consistent(table.commit(1))
    table.append({"id": [1]})
    table.log.checkpoint()
    assert table.version == 2
    assert len(dn.open(builder.store).snapshot.files) == 2


def test_a_table_by_path_that_has_it_is_read_and_not_written() -> None:
    builder = TableBuilder(MemoryStore()).create("id long", protocol={
        "minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": [GROUPS]})
    table = dn.open(builder.store)
    assert table.to_arrow().num_rows == 0
    with pytest.raises(errors.UnsupportedProtocol, match=GROUPS):
        table.append({"id": [1]})
