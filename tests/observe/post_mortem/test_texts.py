"""The known texts of failed commits: each example is its own text, and no text is too odd to be looked at."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import deltanb as dn
from deltanb import errors
from deltanb.errors import DeltaConcurrentModificationException
from deltanb.observe.post_mortem.error_text import parse_error
from deltanb.observe.post_mortem.post_mortem import post_mortem
from deltanb.observe.post_mortem.texts import DATABRICKS, OURS, SPARK, TEXTS, Text, as_markdown
from deltanb.testing import MemoryStore, TableBuilder, add
from deltanb.transaction.conflict_rules import RULES
from deltanb.transaction.conflicts import _FILE_MESSAGES, _OTHER_MESSAGES
from tests.pages import assert_part

PAGE = Path(__file__).resolve().parents[3] / "docs" / "post-mortems.md"
COMMIT = ('{"timestamp":1728639379364,"userId":"521","userName":"ann","operation":"WRITE",'
          '"operationParameters":{"mode":Append,"statsOnLoad":false,"partitionBy":[]},"notebook":{"notebookId":"12"},"clusterId":"1102",'
          '"readVersion":4,"isolationLevel":"WriteSerializable","isBlindAppend":false,"operationMetrics":'
          '{"numFiles":"3"},"tags":{"restoresDeletedRows":"false"},"engineInfo":'
          '"Databricks-Runtime/13.3.x-scala2.12","txnId":"27fd66c8-5027"}')
"""A commitInfo as texts have it: the mode is not quoted, so that it is no JSON."""


@pytest.mark.parametrize("text", TEXTS, ids=lambda one: one.code)
def test_every_example_is_understood_as_itself(text: Text) -> None:
    it = parse_error(f"Error: {text.example}. Please try again.")
    assert it.text is not None and it.text.rules == text.rules
    if not text.is_name:
        assert it.text is text
    known = set(text.pattern.groupindex) & {"version", "partition", "file", "attempts", "domain"}
    always = known & {"version", "attempts", "domain"} if text.code != "feature-drop" else set()
    assert always <= set(it.facts)


def test_codes_are_stable_names_and_rules_are_those_of_the_house() -> None:
    codes = [text.code for text in TEXTS]
    assert len(codes) == len(set(codes))
    rules = {rule.name for rule in RULES}
    for text in TEXTS:
        assert set(text.rules) <= rules and text.writers and text.meaning and not text.meaning.endswith(".")
        assert "|" not in text.example + text.meaning


def test_every_rule_that_ends_a_commit_has_a_text() -> None:
    ending = {rule.name for rule in RULES if rule.exception is not None}
    assert ending <= {name for text in TEXTS if not text.is_name for name in text.rules}


def test_our_own_messages_are_known() -> None:
    """Every message that a conflict of ours can have, from the table that makes them."""
    values = {"operation": "DELETE", "table": "ducks", "version": 7, "where": " in the partition [a=1]",
              "doc": "", "empty": ""}
    messages = {kind: " ".join(parts).format(**values) for kind, parts in _FILE_MESSAGES.items()}
    messages |= {kind: text.format(**values) for kind, text in _OTHER_MESSAGES.items()}
    by_kind = {error.error_class: error for error in vars(errors).values()
               if isinstance(error, type) and issubclass(error, DeltaConcurrentModificationException)}
    for kind, message in messages.items():
        it = parse_error(message)
        assert it.text is not None and not it.text.is_name, message
        assert set(it.rules) <= {rule.name for rule in RULES if rule.exception is by_kind[kind]}
        if kind in _FILE_MESSAGES:
            assert (it.facts["version"], it.facts["partition"]) == (7, "[a=1]")


def test_a_text_of_databricks_leads_to_the_commit_by_its_id() -> None:
    builder = TableBuilder(MemoryStore()).create("id long")
    for at in range(3):
        txn_id = "27fd66c8-5027" if at == 1 else f"other-{at}"
        builder.commit({"commitInfo": {"operation": "WRITE", "timestamp": 1728639379364, "userName": "ann",
                                       "txnId": txn_id}}, add(f"f{at}"))
    text = ("com.databricks.sql.transaction.tahoe.ConcurrentAppendException: [DELTA_CONCURRENT_APPEND] "
            "ConcurrentAppendException: Files were added to the root of the table by a concurrent update. "
            f"Please try the operation again.\nConflicting commit: {COMMIT}\nRefer to "
            "https://docs.databricks.com/delta/concurrency-control.html for more details.")
    pm = post_mortem(builder.store, text)
    facts = {fact.name: fact.value for fact in pm.facts}
    assert facts["client"] == DATABRICKS and facts["winner"] == 2
    assert (pm.rule, pm.certainty) == ("append", "proved")


@pytest.mark.parametrize("cut", range(40, 900, 37))
def test_a_text_cut_off_anywhere_is_understood_as_far_as_it_goes(cut: int) -> None:
    text = ("io.delta.exceptions.ConcurrentAppendException: Files were added to partition [day=mon] by a "
            f"concurrent update. Please try the operation again.\nConflicting commit: {COMMIT}")
    it = parse_error(text[:cut])
    assert (it.text is not None) is (cut >= len("io.delta.exceptions.ConcurrentAppendException"))
    if "concurrent update" in text[:cut]:
        assert it.facts["partition"] == "[day=mon]"
    if '"txnId":"27fd66c8-5027"' in text[:cut]:
        assert it.facts["winner_txn"] == "27fd66c8-5027"


def test_the_last_of_several_failures_counts_and_the_others_are_said() -> None:
    table = dn.create(MemoryStore(), {"id": [1]})
    for _ in range(4):
        table.append({"id": [2]})
    sentence = "a concurrent WRITE added data to table ducks committed at version {}."
    text = "\n".join(f"attempt {n}: ConcurrentAppendException: {sentence.format(n)}" for n in (2, 3, 4))
    pm = dn.post_mortem(table, text, operation="DELETE")
    assert pm.winner is not None and pm.winner.version == 4
    assert "append at version 2, append at version 3" in "\n".join(pm.remarks)


def test_a_row_level_text_of_databricks_says_that_rows_met() -> None:
    table = dn.create(MemoryStore(), {"id": [1]})
    table.append({"id": [2]})
    text = ("[DELTA_CONCURRENT_APPEND.ROW_LEVEL_CHANGES] Transaction conflict detected. A concurrent MERGE "
            "added data to table ducks committed at version 1. The concurrent operation modified the same "
            "rows that this transaction attempted to modify.")
    pm = dn.post_mortem(table, text)
    assert (pm.rows_met.answer, pm.rows_met.by) == ("yes", "the text")


def test_the_domain_of_a_text_is_the_job_s() -> None:
    from deltanb.actions import DomainMetadata

    table = dn.create(MemoryStore(), {"id": [1]}, properties={"delta.feature.domainMetadata": "supported"})
    table.log.start_transaction().commit([DomainMetadata("acme.x", "{}")], "Manual Update")
    text = "[DELTA_CONCURRENT_TRANSACTION] A conflicting metadata domain acme.x is added."
    pm = dn.post_mortem(table, text, read_version=0)
    assert pm.winner is not None and (pm.winner.version, pm.rule) == (1, "domain metadata")


@given(st.text(max_size=400))
def test_no_text_raises(text: str) -> None:
    it = parse_error(text)
    assert it.text is None or it.facts is not None


PIECES = [*(text.example for text in TEXTS), "\n", "\x1b[31m", "> ", "Conflicting commit: {", "1: ", "\\u12",
          '"', "…"]


@given(st.lists(st.sampled_from(PIECES), max_size=12))
def test_no_mixture_of_texts_raises(parts: list[str]) -> None:
    parse_error(" ".join(parts))


STORE = dn.create(MemoryStore(), {"id": [1]}).log.store


@given(st.text(max_size=200))
def test_no_text_about_a_table_raises(text: str) -> None:
    pm = post_mortem(STORE, text)
    assert pm.verdict and pm.status in (0, 3)


@pytest.mark.parametrize("part", [
    "a concurrent WRITE added data to table ", "Conflicting commit: {", "DELTA_CONCURRENT_APPEND.",
    "(for example ", "your A READ", "read files where ", "> " * 50, "a " * 50, "\x1b[", "\x1b]",
    "Files were added to partition [", "predicate  x  ", "x.", "a$", "AError", "deltalake",
    "DELTA_CONCURRENT_",
    'Conflicting commit: {"txnId":"', "0", "\\n",
    "a concurrent WRITE added data to table t committed at version 1. The concurrent operation modified data "
    "in the partition [", "(for example x in partition [",
    "This commit has failed as it has been tried 5 times but did not succeed "])
def test_long_texts_take_time_by_their_length(part: str) -> None:
    """Four times the length takes four times as long, and not sixteen times."""
    def seconds(length: int) -> float:
        text = part * (length // len(part)) + "\nProtocol changed since last commit"
        best = 9.0
        for _ in range(3):
            begin = time.process_time()
            parse_error(text)
            best = min(best, time.process_time() - begin)
        return best

    assert seconds(160_000) < 0.02 + 8 * seconds(40_000)


def test_a_run_of_blanks_is_gone_through_once() -> None:
    def seconds(blanks: int) -> float:
        begin = time.process_time()
        parse_error(f"predicate  x{' ' * blanks}\xa0y")
        return time.process_time() - begin
    assert seconds(80_000) < 0.02 + 8 * min(seconds(20_000) for _ in range(3))


@pytest.mark.parametrize("text", [
    "a concurrent WRITE added data to table ducks committed at version {}",
    "This commit has failed as it has been tried {} times but did not succeed",
    "Tried committing existing table version: {}", "Failed to commit transaction: {}",
    'MetadataChangedException: Conflicting commit: {{"timestamp":{},', "read version {} → wanted 7",
    "ConcurrentAppendException: Conflicting commit: version {}"])
@pytest.mark.parametrize("digits", [18, 19, 5_000])
def test_a_number_of_any_length_is_looked_at(text: str, digits: int) -> None:
    builder = TableBuilder(MemoryStore("memory:///lake/ducks")).create("id long")
    builder.commit(add("a"))
    pm = post_mortem(builder.store, "Protocol changed since last commit\n" + text.format("9" * digits))
    assert pm.status in (0, 3) and str(pm) and pm.to_json()
    assert any("has more digits" in remark for remark in pm.remarks) is (digits > 18)


def test_a_log_of_a_whole_night_is_read_from_its_end() -> None:
    draw = random.Random(1)
    noise = "\n".join(f"INFO {draw.random()} executor did task {at}" for at in range(60_000))
    text = f"{noise}\nError: a concurrent WRITE added data to table d committed at version 3."
    assert parse_error(text).facts["version"] == 3


# -- the documentation ------------------------------------------------------------------------------------


def test_the_page_has_every_text(update_golden: bool) -> None:
    assert_part(PAGE, "texts", as_markdown(), update_golden)


def test_the_page_names_every_writer_change_and_bound() -> None:
    from deltanb.observe.post_mortem import before, judge, rows_met
    from deltanb.observe.post_mortem.remedies import CHANGES

    page = " ".join(PAGE.read_text("utf-8").split())
    for words in (*CHANGES, OURS, SPARK, "delta-rs"):
        assert words in page, words
    bounds: list[Any] = [judge.MAX_WINNERS, judge.MAX_GUESSED, rows_met.MAX_ROWS, before.MAX_COMMITS]
    for bound in bounds:
        assert f"{bound:,}" in page, bound
