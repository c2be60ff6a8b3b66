"""Every order of three writers' steps, with the real commit steps, on a log that is a dict."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from deltanb import errors
from deltanb.actions import Action, AddFile, CommitInfo, from_json
from deltanb.observe.schedule import Log, Writer, answer_from, interleavings
from deltanb.testing import MemoryStore, TableBuilder, add
from deltanb.transaction.commit import commit_steps
from deltanb.transaction.current import CurrentTransaction
from deltanb.transaction.delta_log import DeltaLog
from deltanb.transaction.operations import Operation
from deltanb.transaction.steps import Committed, Failed, PutIfAbsent, ReadWinner, Recognised, Step


def table() -> DeltaLog:
    builder = TableBuilder(MemoryStore()).create("id long, part integer", partition_by=["part"])
    return builder.commit(add("part=1/a", {"part": "1"}), add("part=2/b", {"part": "2"})).log


def prepared(log: DeltaLog, actions: list[Action], *predicates: str) -> CurrentTransaction:
    txn = log.start_transaction()
    if predicates:
        txn.filter_files(*predicates)
    txn.commit_steps(actions, Operation("WRITE")).close()
    current = txn.prepared
    assert current is not None
    return current


def file(path: str, part: int) -> AddFile:
    return AddFile(path=path, partition_values={"part": str(part)}, size=1, modification_time=1)


def writers_of(currents: list[CurrentTransaction], answers: list[Any] | None = None,
               is_final: bool = False) -> Callable[[], list[Writer]]:
    def start() -> list[Writer]:
        return [
            Writer(commit_steps(c, max_attempts=10, clock=lambda: 0, is_final=is_final),
                   answers[i]() if answers else answer_from)
            for i, c in enumerate(currents)
        ]

    return start


def three(log: DeltaLog) -> list[CurrentTransaction]:
    """A blind append to part 1, a rewrite of part 1, a delete in part 2."""
    part_1 = next(f for f in log.snapshot.files_for_scan().to_pylist(maps_as_pydicts="lossy")
                  if f["path"] == "part=1/a")
    part_2 = next(f for f in log.snapshot.files_for_scan().to_pylist(maps_as_pydicts="lossy")
                  if f["path"] == "part=2/b")
    return [
        prepared(log, [file("part=1/new", 1)]),
        prepared(log, [AddFile.from_row(part_1).remove(1), file("part=1/rewritten", 1)],
                 "part = 1"),
        prepared(log, [AddFile.from_row(part_2).remove(1)], "part = 2"),
    ]


def start_log(log: DeltaLog) -> Log:
    return {v: log.store.read(f"_delta_log/{v:020d}.json") for v in (0, 1)}


def txn_ids(log: Log) -> Counter[str]:
    counts: Counter[str] = Counter()
    for version, body in log.items():
        if version > 1:
            info = from_json(body.splitlines()[0])
            assert isinstance(info, CommitInfo)
            counts[info.txn_id] += 1
    return counts


def test_every_order_of_three_writers_is_as_good_as_one_after_another() -> None:
    log = table()
    currents, first = three(log), start_log(log)
    outcomes: Counter[tuple[str, ...]] = Counter()
    runs = 0
    for writers, ended in interleavings(writers_of(currents), first):
        runs += 1
        assert sorted(ended) == list(range(len(ended))), "no gap in the log"
        won = {i: w.outcome.version for i, w in enumerate(writers)
               if isinstance(w.outcome, Committed)}
        assert len(set(won.values())) == len(won) == len(ended) - 2, "one version a commit"
        ids = txn_ids(ended)
        assert ids == Counter(currents[i].txn_id for i in won), "what committed is in the log, once"
        assert {0, 2} <= won.keys(), "an append and a delete elsewhere always commit"
        if 1 in won:
            assert won[1] < won[0], "the rewrite did not see the append, so it comes before it"
        else:
            assert isinstance(writers[1].outcome, errors.ConcurrentAppendException)
            assert writers[1].outcome.conflict.version == won[0]
        outcomes[tuple(type(w.outcome).__name__ for w in writers)] += 1
    assert runs > 1000
    assert len(outcomes) == 2, "both the won and the lost rewrite occur"


def losing_response(of_put: int) -> Callable[[], Callable[[Step, Log], Any]]:
    """Answers in which one put lands but its response is lost."""

    def make() -> Callable[[Step, Log], Any]:
        puts = 0

        def answer(step: Step, log: Log) -> Any:
            nonlocal puts
            reply = answer_from(step, log)
            if isinstance(step, PutIfAbsent):
                puts += 1
                return None if puts == of_put else reply
            return reply

        return answer

    return make


def test_a_lost_response_never_commits_twice_in_any_order() -> None:
    log = table()
    currents, first = three(log)[:2], start_log(log)
    recognised = 0
    for lost in (1, 2):
        answers = [losing_response(lost), lambda: answer_from]
        for writers, ended in interleavings(writers_of(currents, answers), first):
            assert isinstance(writers[0].outcome, Committed)
            assert txn_ids(ended)[currents[0].txn_id] == 1
            assert json.loads(ended[writers[0].outcome.version].splitlines()[0])[
                "commitInfo"]["txnId"] == currents[0].txn_id
            recognised += any(isinstance(s, Recognised) for s in writers[0].trace)
    assert recognised > 0


class Stop(Exception):
    """An interrupt: neither an answer of the store nor one of its errors."""


def interrupted(of_put: int, *, lands: bool) -> Callable[[], Callable[[Step, Log], Any]]:
    """Answers in which one put is interrupted, before or after it did its work."""

    def make() -> Callable[[Step, Log], Any]:
        puts = 0

        def answer(step: Step, log: Log) -> Any:
            nonlocal puts
            puts += isinstance(step, PutIfAbsent)
            if isinstance(step, PutIfAbsent) and puts == of_put:
                if lands:
                    answer_from(step, log)
                return Stop()
            return answer_from(step, log)

        return answer

    return make


@pytest.mark.parametrize("lands", [True, False])
@pytest.mark.parametrize("is_final", [True, False])
def test_an_interrupted_commit_knows_in_any_order_whether_it_landed(lands: bool, is_final: bool) -> None:
    log = table()
    currents, first = three(log)[:2], start_log(log)
    seen: Counter[str] = Counter()
    for of_put in (1, 2):
        answers = [interrupted(of_put, lands=lands), lambda: answer_from]
        for writers, ended in interleavings(writers_of(currents, answers, is_final), first):
            is_there = txn_ids(ended)[currents[0].txn_id] == 1
            assert txn_ids(ended)[currents[0].txn_id] <= 1
            error, last = writers[0].outcome, writers[0].trace[-1]
            if isinstance(error, Stop):
                assert isinstance(last, Committed | Failed)
                assert isinstance(last, Committed) == is_there
                assert is_there == any("was committed" in note for note in notes(error))
                if isinstance(last, Failed) and is_final:
                    assert not last.may_have_landed, "the log says that it is not there"
                if isinstance(last, Failed) and last.may_have_landed:
                    assert currents[0].txn_id in notes(error)[0]
            seen[type(last).__name__ + str(getattr(last, "may_have_landed", ""))] += 1
    assert seen["Committed"] > 0
    assert (seen["FailedTrue"] > 0) == (not lands and not is_final)


def notes(error: BaseException) -> list[str]:
    return list(getattr(error, "__notes__", ()))


def test_a_winner_that_cannot_be_read_for_a_while_changes_no_outcome() -> None:
    """Each read fails at first: the put, which then says whether the version is taken, leads on."""
    log = table()
    currents, first = three(log), start_log(log)

    def make() -> Callable[[Step, Log], Any]:
        reads = 0

        def answer(step: Step, log: Log) -> Any:
            nonlocal reads
            reads += isinstance(step, ReadWinner)
            return OSError("later") if isinstance(step, ReadWinner) and reads == 1 else answer_from(step, log)

        return answer

    puts: Counter[int] = Counter()
    for writers, ended in interleavings(
            writers_of(currents[:2], [make, lambda: answer_from], True), first):
        won = [i for i, w in enumerate(writers) if isinstance(w.outcome, Committed)]
        assert 0 in won and txn_ids(ended) == Counter(currents[i].txn_id for i in won)
        puts[sum(isinstance(step, PutIfAbsent) for step in writers[0].trace)] += 1
    assert puts[1] and puts[3], "the version is put, found taken and unreadable, put again, then the next one"


def test_creators_of_one_table_agree_on_who_made_it() -> None:
    log = DeltaLog.for_table(MemoryStore())
    metadata = from_json(json.dumps({"metaData": {
        "id": "x", "format": {"provider": "parquet", "options": {}}, "partitionColumns": [],
        "schemaString": '{"type":"struct","fields":[]}', "configuration": {}}}))
    currents = []
    for _ in range(3):
        txn = log.start_transaction()
        txn.commit_steps([metadata], "CREATE TABLE").close()
        assert txn.prepared is not None
        currents.append(txn.prepared)
    for writers, ended in interleavings(writers_of(currents), {}):
        assert list(ended) == [0]
        names = Counter(type(w.outcome).__name__ for w in writers)
        assert names == {"Committed": 1, "ProtocolChangedException": 2}
