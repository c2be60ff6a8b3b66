"""The transaction's guards, registries, status, messages, and what follows a commit."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from deltanb import errors
from deltanb.actions import AddFile, CommitInfo, Metadata, Protocol, SetTransaction, from_dict
from deltanb.options import set_options
from deltanb.schema.types import PrimitiveType, StructField, StructType
from deltanb.testing import (
    AnswerExists,
    Fail,
    Lose,
    LoseResponse,
    MemoryStore,
    ScriptedStore,
    TableBuilder,
    add,
)
from deltanb.transaction.delta_log import DeltaLog
from deltanb.transaction.hooks import FunctionHook
from deltanb.transaction.operations import RECOMMITS_FILES, Operation
from deltanb.transaction.steps import (
    Backoff,
    Checked,
    Committed,
    Lost,
    Prepared,
    PutIfAbsent,
    ReadWinner,
    Recognised,
)
from deltanb.transaction.transaction import OptimisticTransaction

RIVAL = ({"commitInfo": {"operation": "WRITE", "isBlindAppend": True, "txnId": "rival"}},
         add("rival", {"part": "2"}))


def new_log(script: Any = (), **properties: str) -> DeltaLog:
    builder = TableBuilder(MemoryStore()).create(
        "id long, part integer", partition_by=["part"], properties=properties)
    builder.commit(add("part=1/a", {"part": "1"}), add("part=2/b", {"part": "2"}))
    return DeltaLog.for_table(ScriptedStore(builder.store, script))


def file(path: str, part: int = 1) -> AddFile:
    return AddFile(path=path, partition_values={"part": str(part)}, size=1, modification_time=1,
                   stats='{"numRecords":2}')


def info_of(log: DeltaLog, version: int) -> CommitInfo:
    first = log.read_commit(version)[0]
    assert isinstance(first, CommitInfo)
    return first


# -- the main flow ---------------------------------------------------------------------------------


def test_a_commit_says_who_did_what() -> None:
    log = new_log()
    txn = log.start_transaction()
    parameters = {"mode": "Append", "partitionBy": ["part"], "none": None, "auto": False, "n": 3}
    operation = Operation("WRITE", parameters, metrics={"numFiles": 1}, user_metadata="nightly")
    with set_options(clock=lambda: 77, user_name="ana"):
        version = txn.commit([file("part=1/c")], operation)
    assert version == 2
    info = info_of(log, version)
    assert info.to_value() == {
        "timestamp": 77, "userName": "ana", "operation": "WRITE",
        "operationParameters": {"mode": "Append", "partitionBy": '["part"]', "none": None, "auto": False,
                                "n": 3},
        "readVersion": 1, "isolationLevel": "Serializable", "isBlindAppend": True,
        "operationMetrics": {"numFiles": "1"}, "userMetadata": "nightly",
        "engineInfo": info.engine_info, "txnId": txn.txn_id,
    }
    assert info.engine_info.startswith("deltanb/")
    assert txn.status == "committed"
    assert txn.committed is not None
    assert log.snapshot.version == 2, "the log's snapshot has moved with the commit"


def test_the_first_commit_of_the_old_demo_under_the_protocol_of_today() -> None:
    """An add and its own removal in one commit is a contradiction in the log's terms."""
    log = new_log()
    one = file("foo")
    with pytest.raises(errors.DuplicateActions, match="add/remove"):
        log.start_transaction().commit([one, one.remove()], "Manual Update")
    log.with_new_transaction(lambda txn: txn.commit([one]))
    assert "foo" in log.snapshot.files["path"].to_pylist()


def test_steps_of_a_commit_that_loses_one_race_in_order() -> None:
    log = new_log([Lose(RIVAL)])
    txn = log.start_transaction()
    seen: list[Any] = []
    steps = txn.commit_steps([file("c")], "WRITE")
    from deltanb.transaction.drive import drain

    committed = drain(steps, txn.committer, seen.append)
    assert [type(s).__name__ for s in seen] == [
        "Prepared", "PutIfAbsent", "ReadWinner", "Lost", "Checked", "ReadWinner", "Rebased",
        "PutIfAbsent", "Committed"]
    assert committed.version == 3
    assert committed.attempts == 2
    assert [lost.version for lost in txn.attempts] == [2]
    assert isinstance(seen[0], Prepared)
    assert isinstance(seen[4], Checked)
    assert {c.state for c in seen[4].checks} <= {"passed", "does not apply"}


def test_many_winners_cost_one_read_each_and_no_put() -> None:
    log = new_log()
    txn = log.start_transaction()
    rivals = TableBuilder(log.store.inner, version=1)  # type: ignore[attr-defined]
    for number in range(5):
        rivals.commit(RIVAL[0], add(f"r{number}", {"part": "2"}))
    assert txn.commit([file("c")], "WRITE") == 7
    commits = [name for name in log.store.puts if name.endswith(".json")]  # type: ignore[attr-defined]
    assert [int(name[-10:-5]) for name in commits] == [2, 7]


# -- the three outcomes ----------------------------------------------------------------------------


@pytest.mark.parametrize("mishap", [LoseResponse(), AnswerExists()])
def test_a_lost_response_is_recognised_as_our_own_commit(mishap: Any) -> None:
    log = new_log([mishap])
    txn = log.start_transaction()
    assert txn.commit([file("c")], "WRITE") == 2
    assert log.update().version == 2
    assert log.snapshot.files["path"].to_pylist().count("c") == 1


def test_a_put_that_failed_without_writing_is_tried_again() -> None:
    log = new_log([Fail(), Fail()])
    assert log.start_transaction().commit([file("c")], "WRITE") == 2


def test_a_store_that_never_answers_leaves_the_outcome_unknown_and_says_so() -> None:
    log = new_log([Fail()] * 10)
    txn = log.start_transaction()
    with pytest.raises(errors.CommitOutcomeUnknown, match=txn.txn_id) as caught:
        txn.commit([file("c")], "WRITE")
    assert caught.value.version == 2
    assert "no space left on device" in str(caught.value)
    assert txn.status == "unknown"
    with pytest.raises(errors.IllegalStateError, match=f"may have committed; look .* {txn.txn_id}"):
        txn.commit([file("c")], "WRITE")
    assert log.update().version == 1


def test_too_many_lost_races_end_with_the_message_of_the_reference() -> None:
    rivals = [Lose(({"commitInfo": {"txnId": str(i)}}, add(f"r{i}", {"part": "2"})))
              for i in range(4)]
    log = new_log(rivals)
    txn = log.start_transaction()
    with set_options(max_commit_attempts=2, timer=lambda: 5), \
            pytest.raises(errors.MaxCommitRetriesExceeded) as caught:
        txn.commit([file("c")], "WRITE")
    assert str(caught.value) == (
        "This commit has failed as it has been tried 3 times but did not succeed.\n"
        "This can be caused by the Delta table being committed continuously by many concurrent "
        "commits.\n\nCommit started at version: 2\nCommit failed at version: 4\n"
        "Number of actions attempted to commit: 1\nTotal time spent attempting this commit: 0 ms")
    assert [lost.attempt for lost in txn.attempts] == [0, 1, 2]


def test_backoff_is_a_step_that_the_driver_waits_for() -> None:
    log = new_log([Lose(RIVAL)])
    txn = log.start_transaction()
    waited: list[float] = []
    from deltanb.transaction.drive import answer

    with set_options(backoff=lambda attempt: attempt / 8):
        steps, reply, kinds = txn.commit_steps([file("c")], "WRITE"), None, []
        while True:
            try:
                step = steps.send(reply)
            except StopIteration:
                break
            kinds.append(type(step))
            reply = answer(step, txn.committer, waited.append)
    assert waited == [0.125]
    assert kinds.index(Backoff) == kinds.index(Committed) - 2


def test_a_large_commit_loses_at_once() -> None:
    log = new_log([Lose(RIVAL)])
    txn = log.start_transaction()
    with pytest.raises(errors.ConcurrentWriteException) as caught:
        txn.commit_large([file("c")], Operation("RESTORE"))
    assert caught.value.conflict.version == 2
    assert log.update().version == 2


def test_a_large_commit_writes_a_checkpoint() -> None:
    log = new_log()
    version = log.start_transaction().commit_large(iter([file("c")]), Operation("CLONE"))
    assert any(f"{version:020d}.checkpoint" in name
               for name in log.store.list_names("_delta_log/"))


# -- guards ----------------------------------------------------------------------------------------


def test_a_transaction_commits_once() -> None:
    txn = new_log().start_transaction()
    txn.commit([file("c")], "WRITE")
    with pytest.raises(errors.InvalidTransaction, match=r"^Transaction already committed\.$") as e:
        txn.commit([file("d")], "WRITE")
    assert isinstance(e.value, AssertionError)


def metadata(log: DeltaLog, **changes: Any) -> Metadata:
    return log.snapshot.metadata.replace(**changes)


def test_metadata_is_set_once_and_before_data() -> None:
    log = new_log()
    txn = log.start_transaction()
    new = metadata(log, description="x")
    txn.update_metadata(new)
    assert txn.metadata is new
    message = r"^Cannot change the metadata more than once in a transaction\.$"
    with pytest.raises(errors.InvalidTransaction, match=message):
        txn.update_metadata(new)
    with pytest.raises(errors.InvalidTransaction, match=message):
        txn.commit([new], "SET TBLPROPERTIES")
    assert txn.commit([], "SET TBLPROPERTIES") == 2
    assert log.snapshot.metadata.description == "x"


def test_metadata_cannot_follow_data() -> None:
    log = new_log()
    txn = log.start_transaction()
    txn.has_written = True
    with pytest.raises(errors.InvalidTransaction, match="has already written data"):
        txn.update_metadata(metadata(log))


def test_a_first_commit_needs_metadata() -> None:
    log = DeltaLog.for_table(MemoryStore())
    with pytest.raises(errors.MetadataAbsent, match="dn.create"):
        log.start_transaction().commit([AddFile(path="a")], "WRITE")
    assert log.update().version == -1


def test_a_first_commit_is_given_a_protocol() -> None:
    log = DeltaLog.for_table(MemoryStore())
    schema = StructType([StructField("id", PrimitiveType("long"))]).to_json()
    txn = log.start_transaction()
    txn.update_metadata_for_new_table(
        Metadata("x", schema, configuration={"delta.enableDeletionVectors": "true"}))
    assert txn.commit([], "CREATE TABLE") == 0
    assert log.snapshot.protocol.supports("deletionVectors")
    with pytest.raises(errors.IllegalStateError, match="exists at version 0"):
        log.start_transaction().update_metadata_for_new_table(Metadata("x", schema))


@pytest.mark.parametrize(("schema", "partition_by", "properties", "message"), [
    ([("a", "long"), ("A", "long")], [], {}, r"duplicate column\(s\).*: A "),
    ([("a b", "long")], [], {}, "invalid character.*space"),
    ([("a", "long")], ["b"], {}, "partition column b is not in the schema"),
    ([("a", "long"), ("b", "long")], ["A"], {}, "did you mean a"),
    ([("a", "long")], ["a"], {}, "cannot use all columns"),
    ([("a", "long"), ("b", "variant")], ["b"], {}, "its type is variant"),
    ([("_change_type", "long")], [], {"delta.enableChangeDataFeed": "true"}, "_change_type"),
    ([("a", "long")], [], {"delta.checkpointInterval": "0"}, "checkpointInterval"),
    ([("a", "long")], [], {"delta.isolationLevel": "Loose"}, "Serializable"),
])
def test_metadata_no_table_may_have(
    schema: list[tuple[str, str]], partition_by: list[str], properties: dict[str, str],
    message: str,
) -> None:
    log = DeltaLog.for_table(MemoryStore())
    fields = StructType([StructField(n, PrimitiveType(t)) for n, t in schema])
    new = Metadata("x", fields.to_json(), tuple(partition_by), properties)
    with pytest.raises((errors.InvalidSchema, errors.InvalidArgument), match=message):
        log.start_transaction().update_metadata(new)
    with pytest.raises((errors.InvalidSchema, errors.InvalidArgument), match=message):
        log.start_transaction().commit([new], "CREATE TABLE")
    assert log.update().version == -1


def test_an_append_only_table_keeps_its_files() -> None:
    log = new_log(**{"delta.appendOnly": "true"})
    txn = log.start_transaction()
    with pytest.raises(errors.AppendOnlyTable, match=r"only allow appends.*part=1/a"):
        txn.commit([txn.filter_files("part = 1")[0].remove()], "DELETE")
    txn = log.start_transaction()
    first = txn.filter_files("part = 1")[0]
    assert txn.commit([first.remove(data_change=False), file("z").replace(data_change=False)],
                      "OPTIMIZE") == 2


def test_a_vector_needs_the_feature_and_the_count() -> None:
    vector = {"storageType": "i", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": 1}
    marked = from_dict(add("v", {"part": "1"}, deletionVector=vector))
    with pytest.raises(errors.UnsupportedProtocol, match="deletion vector"):
        new_log().start_transaction().commit([marked], "DELETE")
    log = new_log()
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"],
                "writerFeatures": ["deletionVectors"]}
    TableBuilder(log.store).commit({"protocol": protocol}, version=2)
    log.update()
    with pytest.raises(errors.DeletionVectorMissingNumRecords, match="numRecords"):
        log.start_transaction().commit([marked], "DELETE")


VECTOR = {"storageType": "i", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": 1}


def log_with_vectors(enabled: str) -> Any:
    """A table of the feature, with two files, of which "new" may become one with a vector."""
    log = new_log(**{"delta.enableDeletionVectors": enabled})
    TableBuilder(log.store).commit({"protocol": {
        "minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"],
        "writerFeatures": ["deletionVectors"]}}, version=2)
    log.update()
    return log


def marked(stats: str | None) -> Any:
    return from_dict(add("v", {"part": "1"}, deletionVector=VECTOR, stats=stats))


@pytest.mark.parametrize("operation", ["DELETE", "WRITE", "OPTIMIZE", "a name of my own"])
def test_a_vector_makes_bounds_wide(operation: str) -> None:
    log = log_with_vectors("true")
    for stats in ('{"numRecords":3,"tightBounds":true}', '{"numRecords":3}',
                  '{"numRecords":3,"tightBounds":null}'):
        with pytest.raises(errors.DeletionVectorWithTightBounds, match=r"v has.*tightBounds") as raised:
            log.start_transaction().commit([marked(stats)], operation)
        assert raised.value.path == "v" and log.update().version == 2
    wide = marked('{"numRecords":3,"tightBounds":false}')
    assert log.start_transaction().commit([wide], operation) == 3


def test_files_with_vectors_are_committed_again_as_they_are() -> None:
    """Bounds that were made tight since, and vectors from a time when they were enabled, stay."""
    log = log_with_vectors("false")
    for version, name in enumerate(sorted(RECOMMITS_FILES), 3):
        assert log.start_transaction().commit([marked('{"numRecords":3}')], name) == version


def test_a_manual_update_may_say_what_it_likes_of_its_bounds() -> None:
    log = log_with_vectors("true")
    assert log.start_transaction().commit([marked('{"numRecords":3,"tightBounds":true}')]) == 3


@pytest.mark.parametrize("operation", ["DELETE", None])
def test_new_vectors_want_the_property(operation: str | None) -> None:
    log = log_with_vectors("false")
    with pytest.raises(errors.DeletionVectorsDisabled, match="delta.enableDeletionVectors"):
        log.start_transaction().commit([marked('{"numRecords":3,"tightBounds":false}')], operation)
    assert log.update().version == 2


def test_a_protocol_is_not_lowered_by_the_way() -> None:
    log = new_log()
    with pytest.raises(errors.InvalidTransaction, match="cannot be downgraded"):
        log.start_transaction().commit([Protocol(1, 1)], "WRITE")


def test_a_feature_we_cannot_write_is_refused_by_name_and_nothing_is_written() -> None:
    log = new_log()
    TableBuilder(log.store).commit({"protocol": {
        "minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["fromTheFuture"]}},
        version=2)
    log.update()
    with pytest.raises(errors.UnsupportedProtocol, match="fromTheFuture"):
        log.start_transaction().commit([file("c")], "WRITE")
    assert log.update().version == 2


def test_no_action_is_no_commit() -> None:
    with pytest.raises(errors.InvalidAction, match="str"):
        new_log().start_transaction().commit(["nonsense"], "WRITE")  # type: ignore[list-item]


def test_what_is_no_list_is_no_commit() -> None:
    with pytest.raises(errors.InvalidAction, match="list of actions, found NoneType"):
        new_log().start_transaction().commit(None, "WRITE")  # type: ignore[arg-type]


def test_a_place_without_a_table_has_no_metadata() -> None:
    with pytest.raises(errors.TableNotFound, match="create it"):
        _ = DeltaLog.for_table(MemoryStore()).start_transaction().metadata


def test_an_ended_transaction_says_how_it_ended() -> None:
    log = new_log([Lose(({"commitInfo": {}}, add("x", {"part": "1"})))])
    txn = log.start_transaction()
    txn.filter_files("part = 1")
    with pytest.raises(errors.ConcurrentAppendException):
        txn.commit([file("c")], "WRITE")
    with pytest.raises(errors.IllegalStateError, match=r"on table \S+ has failed: .*[^.]; start a new one"):
        txn.filter_files()


def test_a_transaction_says_how_far_it_is() -> None:
    txn = new_log().start_transaction()
    steps = txn.commit_steps([file("c")], "WRITE")
    next(steps)
    with pytest.raises(errors.IllegalStateError, match=r"on table \S+ is being committed; start a new one"):
        txn.filter_files()
    txn = new_log().start_transaction()
    version = txn.commit([file("c")], "WRITE")
    with pytest.raises(errors.IllegalStateError, match=rf"has committed v{version}; start a new one"):
        txn.filter_files()


def test_a_closed_stepper_abandons_the_transaction() -> None:
    txn = new_log().start_transaction()
    steps = txn.commit_steps([file("c")], "WRITE")
    next(steps)
    steps.close()
    assert txn.status == "abandoned"
    with pytest.raises(errors.IllegalStateError, match="abandoned"):
        txn.commit([file("c")], "WRITE")


# -- what was read ---------------------------------------------------------------------------------


def test_a_scan_remembers_its_partition_conjuncts() -> None:
    txn = new_log().start_transaction()
    scan = txn.filter_files("part = 1 AND id > 5", "part < 9")
    assert [f.path for f in scan] == ["part=1/a"]
    assert scan.table.column_names[0] == "path"
    remembered = txn.reads.scans[0]
    assert remembered.partition_text == "part = 1 AND part < 9"
    assert remembered.text == "part = 1 AND id > 5 AND part < 9"


def test_a_scan_that_finds_nothing_is_remembered() -> None:
    txn = new_log().start_transaction()
    assert len(txn.filter_files("part = 77")) == 0
    assert txn.reads.depends_on_files


def test_a_scan_is_a_sequence() -> None:
    scan = new_log().start_transaction().filter_files()
    assert len(scan) == 2
    assert scan[-1].path == "part=2/b"
    assert [f.path for f in scan[:1]] == ["part=1/a"]
    with pytest.raises(IndexError):
        scan[2]


def test_an_application_reads_its_version() -> None:
    log = new_log()
    txn = log.start_transaction()
    assert txn.txn_version("app") == -1
    txn.commit([SetTransaction("app", 4)], "STREAMING UPDATE")
    assert log.start_transaction().txn_version("app") == 4


def test_a_column_that_is_not_there_is_named() -> None:
    with pytest.raises(errors.InvalidPredicate, match="prat"):
        new_log().start_transaction().filter_files("prat = 1")


# -- the thread's transaction ----------------------------------------------------------------------


def test_one_active_transaction_a_thread() -> None:
    log = new_log()

    def work(txn: OptimisticTransaction) -> int:
        assert OptimisticTransaction.get_active() is txn
        message = "^Cannot set a new txn as active when one is already active$"
        with pytest.raises(errors.IllegalStateError, match=message):
            log.with_new_transaction(lambda other: None)
        return txn.commit([file("c")], "WRITE")

    assert log.with_new_transaction(work) == 2
    assert OptimisticTransaction.get_active() is None


def test_hooks_run_outside_the_transaction() -> None:
    log = new_log()
    seen: list[Any] = []

    def work(txn: OptimisticTransaction) -> None:
        txn.register_post_commit_hook(FunctionHook(
            "look", lambda committed, snapshot: seen.append(
                (OptimisticTransaction.get_active(), committed.version, snapshot.version))))
        txn.commit([file("c")], "WRITE")

    log.with_new_transaction(work)
    assert seen == [(None, 2, 2)]


# -- messages --------------------------------------------------------------------------------------


def test_the_log_messages_of_the_reference(caplog: pytest.LogCaptureFixture) -> None:
    log = new_log([Lose(RIVAL)])
    with caplog.at_level(logging.DEBUG, "deltanb.transaction"), set_options(timer=lambda: 9):
        log.start_transaction().commit([file("c")], "WRITE")
    assert [(r.levelname, r.getMessage()) for r in caplog.records] == [
        ("DEBUG", "Attempting to commit version 2 with 1 actions with Serializable isolation level"),
        ("INFO", "Completed checking for conflicts Version: 2 Attempt: 1 Time: 0 ms"),
        ("INFO", "No logical conflicts with deltas [2, 3), retrying."),
        ("DEBUG", "Attempting to commit version 3 with 1 actions with Serializable isolation level"),
        ("INFO", f"Committed delta #3 to {log.path}/_delta_log"),
    ]


def test_columns_of_a_table_that_maps_them_have_ids() -> None:
    txn = new_log().start_transaction()
    mapped = {"delta.columnMapping.mode": "name"}
    with pytest.raises(errors.InvalidSchema, match=r"delta.columnMapping.id or .*physicalName"):
        txn.update_metadata(txn.metadata.replace(configuration=mapped))


def test_each_winner_is_logged_with_its_version(caplog: pytest.LogCaptureFixture) -> None:
    log = new_log()
    txn = log.start_transaction()
    for name in "xyz":
        log.start_transaction().commit([file(name)], "WRITE")
    times = iter(range(0, 900_000_000, 10_000_000))
    with caplog.at_level(logging.INFO, "deltanb.transaction"), set_options(timer=lambda: next(times)):
        assert txn.commit([file("c")], "WRITE") == 5
    messages = [r.getMessage() for r in caplog.records]
    assert messages[:4] == [
        "Completed checking for conflicts Version: 2 Attempt: 1 Time: 10 ms",
        "Completed checking for conflicts Version: 3 Attempt: 1 Time: 20 ms",
        "Completed checking for conflicts Version: 4 Attempt: 1 Time: 30 ms",
        "No logical conflicts with deltas [2, 5), retrying."]


def test_a_winner_that_ends_the_commit_is_not_said_to_be_checked(caplog: pytest.LogCaptureFixture) -> None:
    log = new_log([Lose(RIVAL)])
    txn = log.start_transaction()
    txn.read_whole_table()
    with caplog.at_level(logging.INFO, "deltanb.transaction"), pytest.raises(
            errors.ConcurrentAppendException):
        txn.commit([file("c")], "WRITE")
    assert "Completed checking" not in caplog.text


def test_the_rebased_transaction_is_given_back() -> None:
    builder = TableBuilder(MemoryStore()).create(protocol={
        "minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["rowTracking", "domainMetadata"]})
    mark = {"domain": "delta.rowTracking", "configuration": '{"rowIdHighWaterMark":9}', "removed": False}
    log = DeltaLog.for_table(ScriptedStore(builder.store, [Lose(({"domainMetadata": mark},))]))
    txn = log.start_transaction()
    added = AddFile(path="c", partition_values={}, size=1, modification_time=1, stats='{"numRecords":2}')
    before = txn.prepare([added], "WRITE")
    assert txn.prepared is None
    assert txn.commit([added], "WRITE") == 2
    now = txn.prepared
    assert now is not None and txn.committed is not None and now is txn.committed.transaction
    assert [a.base_row_id for a in before.actions if isinstance(a, AddFile)] == [0]
    assert [a.base_row_id for a in now.actions if isinstance(a, AddFile)] == [10]
    assert txn.committed.actions == (now.commit_info, *now.actions)


def test_hooks_need_a_commit() -> None:
    with pytest.raises(errors.InvalidTransaction, match="post commit hooks before committing"):
        new_log().start_transaction().run_post_commit_hooks()


def test_a_failing_hook_is_logged_and_the_commit_stands(caplog: pytest.LogCaptureFixture) -> None:
    log = new_log()
    txn = log.start_transaction()
    failures: list[Any] = []

    def fail(*_: Any) -> None:
        raise RuntimeError("no")

    txn.register_post_commit_hook(FunctionHook("mail", fail, lambda e, v: failures.append((str(e), v))))
    with caplog.at_level(logging.ERROR, "deltanb.transaction"):
        assert txn.commit([file("c")], "WRITE") == 2
    assert failures == [("no", 2)]
    assert "Error when executing post-commit hook mail for commit 2" in caplog.text
    assert log.update().version == 2


# -- built-in hooks --------------------------------------------------------------------------------


def test_a_checkpoint_every_interval_and_a_checksum_every_commit() -> None:
    log = new_log(**{"delta.checkpointInterval": "3"})
    for i in range(5):
        log.start_transaction().commit([file(f"f{i}")], "WRITE")
    names = [n.rsplit("/", 1)[1] for n in log.store.list_names("_delta_log/")]
    assert [n for n in names if "checkpoint." in n] == [
        f"{v:020d}.checkpoint.parquet" for v in (3, 6)]
    assert [n for n in names if n.endswith(".crc")] == [f"{v:020d}.crc" for v in range(2, 7)]
    checksum = json.loads(log.store.read(f"_delta_log/{6:020d}.crc"))
    assert checksum["numFiles"] == 7
    DeltaLog.clear_cache()
    again = DeltaLog.for_table(log.store.inner).snapshot  # type: ignore[attr-defined]
    assert again.checkpoint_version == 6
    assert again.num_files == 7


def test_manifests_follow_the_commits_that_touch_their_partition() -> None:
    log = new_log(**{"delta.compatibility.symlinkFormatManifest.enabled": "true"})
    log.start_transaction().commit([file("part=1/c")], "WRITE")
    one = "_symlink_format_manifest/part=1/manifest"
    assert log.store.read(one).decode().splitlines() == [
        f"{log.path}/part=1/a", f"{log.path}/part=1/c"]
    assert log.store.status("_symlink_format_manifest/part=2/manifest") is None
    txn = log.start_transaction()
    txn.commit([f.remove() for f in txn.filter_files("part = 1")], "DELETE")
    assert log.store.status(one) is None


# -- commit lock -----------------------------------------------------------------------------------


class NoteLock:
    def __init__(self) -> None:
        self.taken = 0

    def __enter__(self) -> None:
        self.taken += 1

    def __exit__(self, *_: Any) -> None:
        return None


@pytest.mark.parametrize(("option", "partial", "taken"), [
    (None, False, 0), (None, True, 1), (True, False, 1), (False, True, 0)])
def test_the_lock_is_taken_where_partial_writes_show(
    option: bool | None, partial: bool, taken: int
) -> None:
    log = new_log()
    log.store.is_partial_write_visible = partial
    note = log.commit_lock = NoteLock()  # type: ignore[assignment]
    with set_options(commit_lock=option):
        log.start_transaction().commit([file("c")], "WRITE")
    assert note.taken == taken


# -- row tracking and in-commit timestamps ---------------------------------------------------------


def tracked() -> DeltaLog:
    builder = TableBuilder(MemoryStore()).create(
        "id long", properties={"delta.enableInCommitTimestamps": "true"}, protocol={
            "minReaderVersion": 1, "minWriterVersion": 7,
            "writerFeatures": ["rowTracking", "domainMetadata", "inCommitTimestamp"]})
    builder.damage(0, b'{"commitInfo":{"inCommitTimestamp":5000}}\n'
                   + builder.store.read(f"_delta_log/{0:020d}.json"))
    return builder.log


def test_row_ids_follow_the_mark_and_the_rebase() -> None:
    log = tracked()
    slow, quick = log.start_transaction(), log.start_transaction()
    plain = AddFile(path="q", partition_values={}, stats='{"numRecords":3}')
    quick.commit([plain], "WRITE")
    assert slow.commit([plain.replace(path="s")], "WRITE") == 2
    row_ids = {r["path"]: (r["base_row_id"], r["default_row_commit_version"])
             for r in log.snapshot.files.to_pylist()}
    assert row_ids == {"q": (0, 1), "s": (3, 2)}
    domain = log.snapshot.domain_metadata["delta.rowTracking"]
    assert json.loads(domain.configuration) == {"rowIdHighWaterMark": 5}
    DeltaLog.clear_cache()
    assert DeltaLog.for_table(log.store).snapshot.domain_metadata == log.snapshot.domain_metadata


def test_in_commit_timestamps_only_grow() -> None:
    log = tracked()
    with set_options(clock=lambda: 100):
        slow, quick = log.start_transaction(), log.start_transaction()
        plain = AddFile(path="q", partition_values={}, stats='{"numRecords":1}')
        quick.commit([plain], "WRITE")
        slow.commit([plain.replace(path="s")], "WRITE")
    assert [info_of(log, v).in_commit_timestamp for v in (0, 1, 2)] == [5000, 5001, 5002]
    assert log.snapshot.timestamp == 5002


def test_the_enablement_of_timestamps_is_stamped_anew_after_a_lost_race() -> None:
    builder = TableBuilder(MemoryStore()).create("id long")
    rival = ({"commitInfo": {"timestamp": 900, "txnId": "r"}}, add("r"))
    log = DeltaLog.for_table(ScriptedStore(builder.store, [Lose(rival)]))
    new = metadata(log, configuration={"delta.enableInCommitTimestamps": "true"})
    with set_options(clock=lambda: 100):
        assert log.start_transaction().commit([new], "SET TBLPROPERTIES") == 2
    configuration = log.snapshot.metadata.configuration
    assert configuration["delta.inCommitTimestampEnablementVersion"] == "2"
    assert configuration["delta.inCommitTimestampEnablementTimestamp"] == "901"
    assert info_of(log, 2).in_commit_timestamp == 901


def test_replies_of_a_driver_may_be_bytes_actions_or_winners() -> None:
    log = new_log()
    body = b"\n".join(json.dumps(line).encode() for line in RIVAL)
    for reply in (body, [from_dict(line) for line in RIVAL]):
        txn = log.start_transaction()
        steps = txn.commit_steps([file("c")], "WRITE")
        seen = []
        answers = {PutIfAbsent: iter([False, True]), ReadWinner: iter([reply, None])}
        step = next(steps)
        try:
            while True:
                seen.append(type(step))
                source = answers.get(type(step))
                step = steps.send(next(source) if source else None)
        except StopIteration as stop:
            assert stop.value.version == 3
        assert Lost in seen
        assert Recognised not in seen


def test_a_clock_of_its_own_stamps_its_commit_and_its_files() -> None:
    log = DeltaLog.for_table(TableBuilder(MemoryStore()).create("id long").store)
    txn = log.start_transaction(clock=lambda: 1_234_567_890_123)
    [file] = txn.write_files({"id": [1]}, target_file_size=1000, data_change=True)
    version = txn.commit([file], "WRITE")
    info = next(action for action in log.read_commit(version) if isinstance(action, CommitInfo))
    assert (txn.start_time, file.modification_time, info.timestamp) == (1_234_567_890_123,) * 3
    assert log.start_transaction().start_time != txn.start_time
    with pytest.raises(errors.InvalidArgument, match="clock=3 is not a function"):
        log.start_transaction(clock=3)  # type: ignore[arg-type]
