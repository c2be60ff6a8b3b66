"""Jobs of ours that really fail, explained from the exception, from its text in all forms, and from facts."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import deltanb as dn
from deltanb.observe.post_mortem.error_text import parse_error
from deltanb.observe.post_mortem.remedies import CHANGES
from deltanb.observe.post_mortem.report import PostMortem
from deltanb.observe.post_mortem.texts import OURS
from deltanb.observe.tracks import stated_condition
from deltanb.testing import MemoryStore
from deltanb.transaction.conflict_rules import RULES
from deltanb.transaction.journal import journal_of
from tests.observe.post_mortem.failures import FAILURES, Failure, append, fail, printed

CUT = 1_000
"""Characters that trackers of tickets keep of a field."""
PASTED: dict[str, Callable[[str], str]] = {
    "as printed": lambda text: text,
    "quoted": lambda text: "\n".join(f"> {line}" for line in text.splitlines()),
    "quoted twice": lambda text: "\n".join(f"> > {line}" for line in text.splitlines()),
    "with the numbers of its lines": lambda text: "\n".join(
        f"{at:6d}\t{line}" for at, line in enumerate(text.splitlines(), 1)),
    "numbered as editors do": lambda text: "\n".join(
        f"{at} | {line}" for at, line in enumerate(text.splitlines(), 1)),
    "in colours": lambda text: "\n".join(
        f"\x1b[0;31m{line}\x1b[0m" for line in text.splitlines()),
    "twice": lambda text: f"{text}\nDuring handling of the above exception, another exception occurred:\n"
                          f"{text}",
    "in a log": lambda text: "".join(
        f"26/11/26 02:14:07 ERROR executor: {line}\n" for line in text.splitlines()),
    "as a string of JSON": json.dumps,
    "with the line ends of Windows": lambda text: text.replace("\n", "\r\n"),
}


@pytest.fixture(scope="module", params=FAILURES, ids=str)
def failed(request: pytest.FixtureRequest) -> tuple[Failure, Any, Any]:
    """A failure, its table, and the exception."""
    failure: Failure = request.param
    return failure, *fail(failure, MemoryStore())


def check(pm: PostMortem, failure: Failure) -> None:
    """What every explanation says, however it came by it."""
    assert pm.winner is not None and pm.winner.version == 2 and pm.winner.writer == "ann"
    assert pm.rule == failure.rule
    assert f"the rule {failure.rule!r}" in pm.verdict and "ersion 2 (" in pm.verdict
    assert {one.kind for one in pm.would_have_passed} <= set(CHANGES)


def test_the_exception_explains_itself(failed: tuple[Failure, Any, Any]) -> None:
    failure, table, error = failed
    pm = dn.post_mortem(table, error)
    check(pm, failure)
    assert (pm.certainty, pm.status) == ("proved", 0)
    assert pm.conflict is error.conflict and not pm.remarks
    assert pm.rows_met.answer == failure.met
    assert not any(fact.is_inferred for fact in pm.facts)
    proved = {one.kind for one in pm.would_have_passed if one.certainty == "proved"}
    assert failure.certain <= proved and "another time" in proved


def test_its_text_names_the_winner_and_the_rule(failed: tuple[Failure, Any, Any]) -> None:
    failure, table, error = failed
    pm = dn.post_mortem(table, printed(error))
    check(pm, failure)
    assert (pm.certainty, pm.status) == ("proved", 0)
    assert pm.rows_met.answer == (failure.met if failure.met_by_text == "the same" else failure.met_by_text)
    with_more = dn.post_mortem(
        table, printed(error), predicate=failure.predicate, operation=failure.operation)
    assert with_more.rows_met.answer == failure.met


def test_version_operation_and_predicate_lead_to_the_same_without_a_text(
    failed: tuple[Failure, Any, Any]
) -> None:
    failure, table, _ = failed
    pm = dn.post_mortem(table, read_version=1, operation=failure.operation, predicate=failure.predicate)
    rule = failure.rule if failure.by_facts == "the same" else failure.by_facts
    assert pm.rule == rule
    if rule is None:
        assert (pm.certainty, pm.status) == ("unexplained", 3)
        return
    assert pm.winner is not None and pm.winner.version == 2
    if rule == failure.rule:
        assert (pm.certainty, pm.rows_met.answer) == ("proved", failure.met)


@pytest.mark.parametrize("form", PASTED)
def test_a_text_is_understood_however_it_was_pasted(failed: tuple[Failure, Any, Any], form: str) -> None:
    failure, table, error = failed
    expected, pm = dn.post_mortem(table, printed(error)), dn.post_mortem(table, PASTED[form](printed(error)))
    check(pm, failure)
    assert pm.verdict == expected.verdict
    known = {fact.name: fact.value for fact in pm.facts}
    if form != "in a log":  # a column that begins a line is behind the log's own words there
        assert known == {fact.name: fact.value for fact in expected.facts}


@pytest.mark.parametrize("form", [printed, lambda error: str(error.conflict)], ids=["traceback", "card"])
def test_our_sentence_names_the_operation(failed: tuple[Failure, Any, Any], form: Callable[..., str]) -> None:
    """Behind it is the name of the table; nothing else of a card does."""
    failure, _, error = failed
    facts = parse_error(form(error)).facts
    assert facts["operation"] == error.conflict.operation.name
    assert facts.get("predicate") == (stated_condition(error.conflict.operation) or failure.predicate)
    if failure.rule == "append" and failure.predicate is not None:
        assert facts["engine"] == OURS


def test_what_a_tracker_keeps_of_a_message_is_enough(failed: tuple[Failure, Any, Any]) -> None:
    failure, table, error = failed
    text = f"{type(error).__module__}.{type(error).__name__}: {error.message}"[:CUT]
    check(dn.post_mortem(table, text), failure)


def test_the_name_alone_leads_to_what_it_could_have_been(failed: tuple[Failure, Any, Any]) -> None:
    failure, table, error = failed
    text = f"job nightly failed with {type(error).__name__}: Tra"
    assert failure.rule in parse_error(text).rules
    pm = dn.post_mortem(table, text, operation=failure.operation, predicate=failure.predicate)
    assert pm.certainty != "proved" and failure.rule in {rule.name for rule in RULES}
    if pm.winner is not None:
        assert pm.winner.outcome == "would have ended it"


def test_every_rule_that_ends_a_commit_ends_one_here() -> None:
    """The matrix grows with the rules."""
    ending = {rule.name for rule in RULES if rule.exception is not None}
    by_text = {"domain metadata"}  # tests/observe/post_mortem/test_texts.py
    assert {failure.rule for failure in FAILURES} == ending - by_text


def test_the_journal_is_not_needed(tmp_path: Any) -> None:
    """In another process there is nothing but the exception, for instance out of a pickle."""
    failure = FAILURES[1]
    table, error = fail(failure, tmp_path / "ducks")
    journal_of(table.log).clear()
    pm = dn.post_mortem(tmp_path / "ducks", pickle.loads(pickle.dumps(error)))
    check(pm, failure)
    assert (pm.certainty, pm.rows_met.answer) == ("proved", failure.met)
    assert failure.certain <= {one.kind for one in pm.would_have_passed if one.certainty == "proved"}


def test_a_constraint_that_the_winners_rows_break_is_met_and_passes_at_no_other_time() -> None:
    failure = Failure("constraint ∥ append", append(nephews=-1),
                      lambda table: table.add_constraint("sane", "nephews >= 0"), "append", "ADD CONSTRAINT")
    table, error = fail(failure, MemoryStore())
    for known in (error, printed(error)):
        pm = dn.post_mortem(table, known)
        assert (pm.rows_met.answer, pm.rows_met.rows) == ("yes", 1)
        assert "another time" not in {one.kind for one in pm.would_have_passed}


def test_values_that_a_merge_read_by_are_shown_where_they_are_few() -> None:
    """A long list is nothing that anybody wrote, and few would read it."""
    shown = {}
    for failure in FAILURES:
        if failure.operation == "MERGE":
            _, error = fail(failure, MemoryStore())
            shown[failure.name] = "files read" in str(error.conflict)
    assert shown and all(is_shown == ("many" not in name) for name, is_shown in shown.items())
