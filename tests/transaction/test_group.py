"""Many tables, one commit: every order of transfers and an audit, and every answer a catalog can give."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from deltanb import errors
from deltanb.actions import Action, AddFile
from deltanb.log.commits import PublishedCommits
from deltanb.observe.schedule import Writer, interleavings
from deltanb.options import set_options
from deltanb.schema.protocol import GROUPS, supports
from deltanb.testing import MemoryStore, TableBuilder, add
from deltanb.transaction.commit import commit_steps
from deltanb.transaction.current import CurrentTransaction
from deltanb.transaction.delta_log import DeltaLog
from deltanb.transaction.group import (
    AskOutcome,
    GroupCommitted,
    GroupFailed,
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
from deltanb.transaction.steps import Committed, Failed, ReadWinner, Step

NAMES = ("a", "b", "c")


@dataclass
class Catalog:
    """All of a group's I/O on dicts: what is staged, and the log of each table."""

    logs: dict[str, dict[int, bytes]]
    seq: int = 0
    ratified: dict[str, int] = field(default_factory=dict)
    """txn id -> its place in the order"""
    is_asserting: bool = True
    """A control: without it tables that were only read may change meanwhile."""
    is_publishing_early: bool = False
    """A control: staged commits count at once."""

    def answer(self, step: Step, _: Any = None) -> Any:
        match step:
            case MemberStep(name, ReadWinner(version)):
                return self.logs[name].get(version)
            case Stage(name, version, body):
                if self.is_publishing_early:
                    self.logs[name].setdefault(version, body)
                return body
            case Ratify():
                return self.ratify(step)
            case AskOutcome(txn_id):
                return Ratified(self.ratified[txn_id]) if txn_id in self.ratified else False
        return None

    def ratify(self, step: Ratify) -> Ratified | Refused:
        newest = {name: max(log) for name, log in self.logs.items()}
        if self.is_publishing_early:
            return Ratified(0)
        late = {name for name, version, _ in step.proposals if newest[name] != version - 1}
        if self.is_asserting:
            late |= {name for name, version in step.stands if newest[name] != version}
        if late:
            return Refused({name: newest[name] for name in late})
        for name, version, body in step.proposals:
            self.logs[name][version] = body
        self.seq += 1
        self.ratified[step.txn_id] = self.seq
        return Ratified(self.seq)


MANAGED = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["catalogManaged"],
           "writerFeatures": ["catalogManaged", "inCommitTimestamp"]}
GROUPED = {**MANAGED, "writerFeatures": [*MANAGED["writerFeatures"], GROUPS]}


def lake(protocols: Mapping[str, Mapping[str, Any]]) -> dict[str, DeltaLog]:
    """Tables with one file for each of two accounts."""
    stores = {name: TableBuilder(MemoryStore(f"memory:///{name}")).create(
        "id long, account string", partition_by=["account"], protocol=protocol)
              .commit(add("account=x/0", {"account": "x"}), add("account=y/0", {"account": "y"})).store
              for name, protocol in protocols.items()}
    return {name: DeltaLog(store, PublishedCommits(store)) for name, store in stores.items()}


def logs_of(tables: dict[str, DeltaLog]) -> dict[str, dict[int, bytes]]:
    return {name: {v: log.store.read(f"_delta_log/{v:020d}.json") for v in (0, 1)}
            for name, log in tables.items()}


def rewritten(log: DeltaLog, txn_id: str, account: str) -> CurrentTransaction:
    """A transaction that replaces the file of one account, which it has read."""
    with set_options(new_id=lambda: txn_id):
        txn = log.start_transaction()
        actions: list[Action] = [file.remove(1) for file in txn.filter_files(f"account = '{account}'")]
        actions.append(AddFile(path=f"account={account}/{txn_id}", partition_values={"account": account},
                               size=1, modification_time=1))
        return txn.prepare(actions, Operation("UPDATE"))


def appended(log: DeltaLog, txn_id: str) -> CurrentTransaction:
    with set_options(new_id=lambda: txn_id):
        file = AddFile(path=f"account=z/{txn_id}", partition_values={"account": "z"}, size=1,
                       modification_time=1)
        return log.start_transaction().prepare([file], Operation("WRITE"))


def only_read(log: DeltaLog, txn_id: str) -> CurrentTransaction:
    with set_options(new_id=lambda: txn_id):
        txn = log.start_transaction()
        txn.read_whole_table()
        return txn.prepare([], Operation("AUDIT", changes_data=True))


def writes(name: str, current: CurrentTransaction, attempts: int = 10) -> Member:
    steps = commit_steps(current, max_attempts=attempts, clock=lambda: 0, is_final=True, joins=True)
    return Member(name, name, steps, joins=True)


def stands(name: str, current: CurrentTransaction, attempts: int = 10) -> Member:
    return Member(name, name, stand_steps(current, max_attempts=attempts, clock=lambda: 0))


class GroupWriter(Writer):
    """A group of which one step of I/O is done at a time; on whichever catalog the run has."""

    def __init__(self, members: list[Member], txn_id: str, unseen: tuple[type, ...] = (Publish,),
                 catalog: str = "") -> None:
        """``unseen`` steps change nothing that others see: they need no place in the order."""
        super().__init__(self._only_seen(group_steps(members, txn_id, catalog), unseen))

    def _only_seen(self, steps: Any, unseen: tuple[type, ...]) -> Any:
        reply = None
        while True:
            try:
                step = steps.send(reply)
            except StopIteration as stop:
                return stop.value
            reply = self.answer(step, {}) if isinstance(step, unseen) else (yield step)


def runs(groups: Callable[[], list[GroupWriter]], logs: dict[str, dict[int, bytes]], **control: bool) -> Any:
    """Every order of the groups: (writers, catalog)."""
    catalogs: list[Catalog] = []

    def start() -> list[GroupWriter]:
        catalogs.append(Catalog({name: dict(log) for name, log in logs.items()}, **control))
        for writer in (made := groups()):
            writer.answer = lambda step, _, catalog=catalogs[-1]: catalog.answer(step)
        return made

    for writers, _ in interleavings(start, {}):
        yield writers, catalogs[-1]


def ids(catalog: Catalog, name: str) -> dict[str, int]:
    """txn id -> the version it committed."""
    versions = {}
    for version, body in catalog.logs[name].items():
        if version > 1:
            [txn_id] = [line["commitInfo"]["txnId"] for line in map(json.loads, body.splitlines())
                        if "commitInfo" in line]
            assert txn_id not in versions
            versions[txn_id] = version
    return versions


@pytest.fixture(scope="module", params=[MANAGED, GROUPED], ids=["apart", "in a group"])
def tables(request: pytest.FixtureRequest) -> dict[str, DeltaLog]:
    """Tables without the feature of transaction groups, and with it."""
    return lake(dict.fromkeys(NAMES, request.param))


def is_grouped(tables: dict[str, DeltaLog]) -> bool:
    return supports(tables["a"].snapshot.protocol, GROUPS)


@pytest.mark.slow
def test_every_order_of_two_transfers_and_an_audit_is_as_good_as_one_after_another(tables: Any) -> None:
    """ann and ben move money of other accounts from a to b; the audit reads both and writes to c."""
    prepared = {
        "ann": [("a", rewritten(tables["a"], "ann", "x")), ("b", rewritten(tables["b"], "ann", "x"))],
        "ben": [("a", rewritten(tables["a"], "ben", "y")), ("b", rewritten(tables["b"], "ben", "y"))]}
    audit = [("a", only_read(tables["a"], "eve")), ("b", only_read(tables["b"], "eve"))]
    report = appended(tables["c"], "eve")

    def groups() -> list[GroupWriter]:
        made = [GroupWriter([writes(name, current) for name, current in prepared[who]], who, (Publish, Stage))
                for who in ("ann", "ben")]
        return [*made, GroupWriter([*(stands(n, c) for n, c in audit), writes("c", report)], "eve",
                                   (Publish, Stage))]

    outcomes: Counter[tuple[str, ...]] = Counter()
    for writers, catalog in runs(groups, logs_of(tables)):
        in_a, in_b, in_c = (ids(catalog, name) for name in NAMES)
        assert in_a == in_b, "torn, or in two orders"
        assert in_a.keys() == {"ann", "ben"}, "transfers of other accounts do not end each other"
        eve = writers[2].outcome
        if isinstance(eve, GroupCommitted):
            assert in_c == {"eve": 2}
            assert eve.seq == 1, "what it read was still the newest state of both"
        else:
            assert isinstance(eve, errors.DeltaConcurrentModificationException)
            assert in_c == {}
        for name in NAMES:
            assert sorted(catalog.logs[name]) == list(range(len(catalog.logs[name]))), "no gap"
        outcomes[tuple(type(w.outcome).__name__ for w in writers)] += 1
    assert sum(outcomes.values()) > 1000
    assert len(outcomes) == 2, "both a good and a late audit occur"


def two_doctors(tables: Any) -> Callable[[], list[GroupWriter]]:
    """Each reads the table that the other one writes."""
    ann = only_read(tables["a"], "ann"), rewritten(tables["b"], "ann", "x")
    ben = rewritten(tables["a"], "ben", "x"), only_read(tables["b"], "ben")
    return lambda: [GroupWriter([stands("a", ann[0]), writes("b", ann[1])], "ann"),
                    GroupWriter([writes("a", ben[0]), stands("b", ben[1])], "ben")]


def test_no_two_commit_on_what_the_other_one_changed(tables: Any) -> None:
    for writers, _ in runs(two_doctors(tables), logs_of(tables)):
        won = [isinstance(w.outcome, GroupCommitted) for w in writers]
        [lost] = [w.outcome for w in writers if not isinstance(w.outcome, GroupCommitted)]
        assert sorted(won) == [False, True]
        assert isinstance(lost, errors.DeltaConcurrentModificationException)


def test_without_the_assertion_they_do(tables: Any) -> None:
    skewed = [all(isinstance(w.outcome, GroupCommitted) for w in writers)
              for writers, _ in runs(two_doctors(tables), logs_of(tables), is_asserting=False)]
    assert any(skewed)


def test_published_before_it_is_ratified_it_is_torn(tables: Any) -> None:
    ann = [rewritten(tables[name], "ann", "x") for name in "ab"]
    ben = [rewritten(tables[name], "ben", "x") for name in "ba"]

    def groups() -> list[GroupWriter]:
        return [GroupWriter([writes("a", ann[0]), writes("b", ann[1])], "ann"),
                GroupWriter([Member("b", "0", writes("b", ben[0]).steps), writes("a", ben[1])], "ben")]

    def is_torn(catalog: Catalog) -> bool:
        return ids(catalog, "a") != ids(catalog, "b")

    assert any(is_torn(catalog) for _, catalog in runs(groups, logs_of(tables), is_publishing_early=True))
    assert not any(is_torn(catalog) for _, catalog in runs(groups, logs_of(tables)))


# -- one group, and what it is answered ------------------------------------------------------------


def run(members: list[Member], catalog: Catalog, says: Callable[[Step], Any] | None = None,
        txn_id: str = "ann") -> list[Step]:
    """The steps of one group to its end; ``says`` answers before the catalog does, unless it gives ...."""
    steps, reply, seen = group_steps(members, txn_id, "lake"), None, []
    while True:
        try:
            step = steps.send(reply)
        except StopIteration as stop:
            assert stop.value in seen
            return seen
        except BaseException as error:
            error.seen = seen  # type: ignore[attr-defined]
            raise
        seen.append(step)
        reply = ... if says is None else says(step)
        if reply is ...:
            reply = catalog.answer(step)


def transfer(tables: Any) -> list[Member]:
    return [writes("b", rewritten(tables["b"], "ann", "x")), writes("a", rewritten(tables["a"], "ann", "x"))]


def news(seen: list[Step], kind: type) -> dict[str, Any]:
    return {s.name: s.step for s in seen if isinstance(s, MemberStep) and isinstance(s.step, kind)}


def test_tables_are_staged_in_the_order_of_their_ids_ratified_once_and_published(tables: Any) -> None:
    seen = run(transfer(tables), Catalog(logs_of(tables)))
    assert [type(s).__name__ for s in seen if not isinstance(s, MemberStep)] == [
        *["Grouped"] * is_grouped(tables), "Stage", "Stage", "Ratify", "GroupCommitted", "Publish", "Publish"]
    assert [s.name for s in seen if isinstance(s, Stage)] == ["a", "b"]
    assert {name: step.version for name, step in news(seen, Committed).items()} == {"a": 2, "b": 2}
    [done] = [s for s in seen if isinstance(s, GroupCommitted)]
    assert (done.txn_id, done.seq, done.versions) == ("ann", 1, {"a": 2, "b": 2})


def test_only_the_table_that_lost_is_checked_again(tables: Any) -> None:
    """Only this one is staged again, unless the commits name each other's versions."""
    catalog = Catalog(logs_of(tables))
    run([writes("b", appended(tables["b"], "ben"))], catalog)
    seen = run(transfer(tables), catalog)
    assert [(s.name, s.version) for s in seen if isinstance(s, Stage)] == [
        ("a", 2), ("b", 2), *[("a", 2)] * is_grouped(tables), ("b", 3)]
    read = [s.name for s in seen if isinstance(s, MemberStep) and isinstance(s.step, ReadWinner)]
    assert read == ["b", "b"], "the winner, and that there is no second one"
    [first, second] = [s for s in seen if isinstance(s, Ratify)]
    assert (first.proposals[0] == second.proposals[0]) is not is_grouped(tables)


def test_a_conflict_of_one_ends_all_and_the_others_are_told(tables: Any) -> None:
    catalog = Catalog(logs_of(tables))
    run([writes("b", rewritten(tables["b"], "ben", "x"))], catalog)
    with pytest.raises(errors.DeltaConcurrentModificationException) as caught:
        run(transfer(tables), catalog)
    seen = caught.value.seen
    failed = news(seen, Failed)
    assert isinstance(failed["a"].error, errors.TransactionAbandoned)
    assert (failed["a"].error.culprit, failed["a"].may_have_landed) == ("b", False)
    assert failed["b"].error is caught.value
    assert (seen[-1].name, seen[-1].error, seen[-1].may_have_landed) == ("b", caught.value, False)
    assert max(catalog.logs["a"]) == 1


@pytest.mark.parametrize("lost", [OSError("gone"), None, TimeoutError("no answer")])
def test_a_ratification_whose_answer_is_lost_is_found(tables: Any, lost: Any) -> None:
    catalog = Catalog(logs_of(tables))

    def says(step: Step) -> Any:
        if isinstance(step, Ratify):
            catalog.ratify(step)
            return lost
        return ...

    seen = run(transfer(tables), catalog, says)
    assert sum(isinstance(s, Ratify) for s in seen) == sum(isinstance(s, AskOutcome) for s in seen) == 1
    assert max(catalog.logs["a"]) == max(catalog.logs["b"]) == 2


def test_one_that_did_not_arrive_is_sent_again(tables: Any) -> None:
    catalog, sent = Catalog(logs_of(tables)), []

    def says(step: Step) -> Any:
        if isinstance(step, Ratify):
            sent.append(step)
            return OSError("refused") if len(sent) < 3 else ...
        return ...

    run(transfer(tables), catalog, says)
    assert len(sent) == 3
    assert sent[0] == sent[1] == sent[2]


def test_a_catalog_that_never_ratifies_is_a_storage_error_and_nobody_is_left_in_doubt(tables: Any) -> None:
    with pytest.raises(errors.StorageError, match="did not ratify it in 4 tries") as caught:
        run(transfer(tables), Catalog(logs_of(tables)),
            lambda step: OSError("down") if isinstance(step, Ratify) else ...)
    assert not any(step.may_have_landed for step in news(caught.value.seen, Failed).values())


def test_what_the_catalog_cannot_say_is_unknown_to_every_table(tables: Any) -> None:
    with pytest.raises(errors.CommitOutcomeUnknown, match="transaction ann was ratified") as caught:
        run([*transfer(tables), stands("c", only_read(tables["c"], "ann"))], Catalog(logs_of(tables)),
            lambda step: OSError("down") if isinstance(step, Ratify | AskOutcome) else ...)
    failed = news(caught.value.seen, Failed)
    assert failed.keys() == {"a", "b"}
    for step in failed.values():
        assert step.may_have_landed
        assert isinstance(step.error, errors.CommitOutcomeUnknown)
    last = caught.value.seen[-1]
    assert isinstance(last, GroupFailed)
    assert last.may_have_landed


def test_what_is_certain_is_not_asked(tables: Any) -> None:
    refusal = errors.StorageError("no permission")
    with pytest.raises(errors.StorageError) as caught:
        run(transfer(tables), Catalog(logs_of(tables)),
            lambda step: refusal if isinstance(step, Ratify) else ...)
    assert caught.value is refusal
    assert not any(isinstance(s, AskOutcome) for s in refusal.seen)


def test_what_cannot_be_staged_ends_all(tables: Any) -> None:
    with pytest.raises(errors.StorageError, match="table b: version 2 could not be staged") as caught:
        run(transfer(tables), Catalog(logs_of(tables)),
            lambda step: OSError(28, "full") if isinstance(step, Stage) and step.name == "b" else ...)
    assert caught.value.errno == 28
    assert news(caught.value.seen, Failed)["a"].error.culprit == "b"


def places(tables: Any) -> int:
    return len(run(transfer(tables), Catalog(logs_of(tables))))


@pytest.mark.parametrize("is_reply", [False, True], ids=["before the step", "during the step"])
def test_an_interrupt_at_any_step_leaves_nobody_with_a_wrong_belief(tables: Any, is_reply: bool) -> None:
    """Thrown in: the step was not begun. In reply: it was done, and nobody heard of it."""
    for place in range(places(tables)):
        catalog, failed, landed, ended = Catalog(logs_of(tables)), {}, set(), None
        steps, at, reply = group_steps(transfer(tables), "ann"), 0, None
        step = steps.send(None)
        while True:
            if isinstance(step, MemberStep) and isinstance(step.step, Failed):
                failed[step.name] = step.step
            if isinstance(step, MemberStep) and isinstance(step.step, Committed):
                landed.add(step.name)
            interrupted, at = at == place, at + 1
            reply = None if interrupted and not is_reply else catalog.answer(step)
            try:
                if interrupted and is_reply and step.asks:
                    step = steps.send(KeyboardInterrupt())
                elif interrupted:
                    step = steps.throw(KeyboardInterrupt())
                else:
                    step = steps.send(reply)
            except KeyboardInterrupt as error:
                ended = error
                break
            except StopIteration:
                break
        is_there = "ann" in catalog.ratified
        assert ids(catalog, "a") == ids(catalog, "b")
        if is_there:
            assert landed == {"a", "b"}
            assert not failed
            assert ended is None or any("was committed" in note for note in ended.__notes__)
        else:
            assert isinstance(ended, KeyboardInterrupt)
            assert not landed
            assert not any(step.may_have_landed for step in failed.values())


def test_a_table_that_is_only_read_goes_on_past_commits_that_do_not_matter_to_it(tables: Any) -> None:
    """Its reads are of account x; somebody rewrites account y."""
    catalog = Catalog(logs_of(tables))
    run([writes("a", rewritten(tables["a"], "ben", "y"))], catalog)
    with set_options(new_id=lambda: "ann"):
        txn = tables["a"].start_transaction()
        list(txn.filter_files("account = 'x'"))
        read = txn.prepare([], Operation("AUDIT", changes_data=True))
    seen = run([stands("a", read), writes("c", appended(tables["c"], "ann"))], catalog)
    assert [s.stands for s in seen if isinstance(s, Ratify)] == [(("a", 1),), (("a", 2),)]
    [done] = [s for s in seen if isinstance(s, GroupCommitted)]
    assert done.versions == {"c": 2}


@pytest.mark.parametrize("names", [(), ("a", "a")])
def test_no_table_or_one_twice_is_refused(tables: Any, names: tuple[str, ...]) -> None:
    members = [writes(name, appended(tables[name], "ann")) for name in names]
    with pytest.raises(errors.InvalidArgument, match="at least one table, and each once"):
        run(members, Catalog(logs_of(tables)))
