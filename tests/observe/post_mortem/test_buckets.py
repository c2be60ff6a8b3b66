"""A job on a table in a bucket: the same answer, nothing written, and few answers of the store waited for."""

from __future__ import annotations

from typing import Any

import pytest

import deltanb as dn
from deltanb.testing.s3_server import S3Server, rounds
from tests.observe.post_mortem.failures import DUCKS, FAILURES, NEW, fail, printed

pytest.importorskip("obstore")
COMMITS = 40
LATENCY = 0.03
FAILURE = FAILURES[1]


@pytest.fixture
def table(s3_server: S3Server, bucket: str) -> Any:
    """A table with many commits, at whose last one a DELETE has failed."""
    made = dn.create(f"{bucket}/lake/ducks", DUCKS, partition_by="day", storage_options=s3_server.options)
    for _ in range(COMMITS):
        made.append({**NEW, "day": ["tue"], "nephews": [1]})
    return made


def test_the_same_as_in_a_folder_and_with_few_rounds(table: Any, s3_server: S3Server, tmp_path: Any) -> None:
    ended = dn.race(table, {"ann": FAILURE.win, "ben": FAILURE.lose})
    text = printed(ended.outcomes["ben"])
    dn.flush()
    dn.DeltaLog.clear_cache()
    with s3_server.counted(LATENCY) as requests:
        pm = dn.post_mortem(table.path, text, storage_options=s3_server.options)
    assert (pm.rule, pm.certainty) == ("append", "proved")
    assert pm.winner is not None and pm.winner.version == COMMITS + 1
    assert pm.rows_met.answer == FAILURE.met
    _, error = fail(FAILURE, tmp_path / "ducks")
    in_folder = dn.post_mortem(tmp_path / "ducks", printed(error))
    assert [one.kind for one in pm.would_have_passed] == [one.kind for one in in_folder.would_have_passed]
    assert {request.method for request in requests} <= {"GET", "HEAD"}
    assert rounds(requests) < COMMITS


def test_a_search_for_a_commit_by_its_id_reads_many_at_a_time(table: Any, s3_server: S3Server) -> None:
    txn_id = table.history()[-3].txn_id
    dn.flush()
    text = f'MetadataChangedException: Conflicting commit: {{"timestamp":1,"txnId":"{txn_id}"}}'
    with s3_server.counted(LATENCY) as requests:
        pm = dn.post_mortem(table.path, text, storage_options=s3_server.options)
    assert next(fact.value for fact in pm.facts if fact.name == "winner") == 2
    assert rounds(requests) < COMMITS
