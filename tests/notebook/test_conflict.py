"""The conflict view: what it says of every kind, in text and HTML."""

from __future__ import annotations

from dataclasses import replace

import pytest

import deltanb as dn
from deltanb.actions import CommitInfo
from deltanb.notebook import bundle
from deltanb.notebook.drawing import conflict as drawing
from deltanb.notebook.views import conflict
from deltanb.notebook.views import registry as views
from deltanb.options import set_options
from deltanb.testing import MemoryStore
from tests.notebook import samples
from tests.notebook.looks import assert_consistent, assert_golden


@pytest.mark.parametrize("kind", samples.KINDS)
def test_every_kind_is_shown(kind: str, update_golden: bool) -> None:
    sample = samples.KINDS[kind]()
    page = assert_consistent(sample)
    assert "Nothing was written." in page.text
    assert_golden(sample, f"conflict_{kind}", update_golden)


def test_both_sides_have_the_same_rows() -> None:
    you, winner = views.fields(samples.append()).sides
    assert [label for label, _ in you.facts] == [label for label, _ in winner.facts]


def test_the_overlap_is_said_in_words_and_comes_first() -> None:
    view = views.fields(samples.append())
    assert [row.is_met for row in view.rows] == [True, True, False, False, False]
    page = assert_consistent(samples.append())
    assert page.text.count("← matches your predicate") == 2
    marked = [attrs.get("class") for tag, attrs in page.tags if tag == "tr"]
    assert marked.count("dnb-mark") == 2


def test_checks_are_a_list_in_their_order() -> None:
    page = assert_consistent(samples.append())
    assert [tag for tag, _ in page.tags].count("ol") == 1
    signs = [line.strip()[0] for line in page.words if line.strip()[:1] in ("✓", "✕", "–")]
    assert signs[-9:] == ["✓", "✓", "–", "✓", "✓", "✕", "–", "–", "–"]


@pytest.mark.parametrize(("states", "words"), [
    (["passed"] * 4 + ["does not apply", "failed"] + ["not reached"] * 3,
     "5 others passed or do not apply, 3 not reached"),
    (["passed"] * 7 + ["does not apply", "failed"], "8 others passed or do not apply"),
    (["passed", "failed"] + ["not reached"] * 7, "1 other passed, 7 not reached"),
    (["does not apply", "failed"], "1 other does not apply"),
    (["failed"] + ["not reached"] * 8, "8 not reached"),
    (["failed"], ""),
])
def test_the_checks_that_did_not_fail_are_counted_in_words(states: list[str], words: str) -> None:
    shown = [check for check in samples.append().checks if check.state == "failed"]
    sample = replace(samples.append(), checks=tuple(replace(shown[0], state=state) for state in states))
    assert drawing.other_checks(views.fields(sample)) == words


def test_the_check_that_failed_stands_above_the_fold_and_all_of_them_below() -> None:
    source = str(bundle.mimebundle(samples.append())["text/html"])
    above, _, fold = source[source.index("<b>Checks</b>"):].partition("<details")
    fold = fold[: fold.index("</details>")]
    assert "✕ files were added where you read" in above
    assert "<li>" not in above
    assert "open" not in fold[: fold.index(">")]
    assert ">5 others passed or do not apply, 3 not reached</summary>" in fold
    assert fold.count("<li>") == len(samples.append().checks)


@pytest.mark.parametrize("kind", samples.KINDS)
def test_the_checks_fit_on_a_line_of_the_text(kind: str) -> None:
    [line] = [line for line in bundle.text(samples.KINDS[kind]()).splitlines() if line.startswith("Checks  ")]
    assert not line.endswith("…")


def test_one_check_alone_has_nothing_to_unfold() -> None:
    source = str(bundle.mimebundle(samples.write())["text/html"])
    assert source.count("<details") == 1  # the advice


def test_a_long_overlap_is_capped_and_says_so() -> None:
    page = assert_consistent(samples.large(332))
    assert "332 actions in conflict" in page.text
    assert "and 312 more in conflict, and 332 others" in page.text
    rows = [tag for tag, _ in page.tags].count("tr")
    assert rows == 20 + 2
    assert "and 330 more" in bundle.text(samples.large(332))


def test_a_huge_commit_is_counted_but_not_walked() -> None:
    sample = samples.large(conflict.MAX_LOOK + 5)
    view = views.fields(sample)
    assert view.met == conflict.MAX_LOOK + 5
    assert len(view.rows) < view.total
    assert_consistent(sample)


def test_max_rows_is_obeyed() -> None:
    with set_options(max_rows=3):
        page = assert_consistent(samples.large(10))
    assert [tag for tag, _ in page.tags].count("tr") == 3 + 2


def test_differences_tell_which_one_cannot_be_adopted() -> None:
    view = views.fields(samples.metadata())
    assert view.overlap == "Differences"
    assert [row.is_met for row in view.rows] == [True, False]
    page = assert_consistent(samples.metadata())
    assert "✕ cannot adopt it" in page.text and "✓ can adopt it" in page.text


def test_a_domain_is_not_called_an_application() -> None:
    assert "metadata domain app.lineage" in bundle.text(samples.domain())
    assert "application stream-1" in bundle.text(samples.transaction()).replace("\n ", "")


def test_a_winner_that_says_nothing_of_itself() -> None:
    _, winner = views.fields(samples.protocol()).sides
    assert winner.note == "committed first"
    assert dict(winner.facts)["operation"] == ["not recorded"]


def test_hostile_names_stay_text() -> None:
    evil = samples.add("<img src=x>\n\u202e")
    sample = replace(samples.append(), files=(evil,), winner_actions=(evil,),
                     predicates=("<script>alert(1)</script>",), advice=("`<b>`",))
    page = assert_consistent(sample)
    assert "<img src=x>\\n\\u202e" in page.text


def test_the_sentence_has_no_time_and_no_file_name() -> None:
    for make in samples.KINDS.values():
        sentence = conflict.sentence(views.fields(make()))
        assert "\n" not in sentence
        assert "part-" not in sentence and "09:14" not in sentence


def test_a_predicate_that_cannot_tell_files_apart_only_may_match() -> None:
    for sample in (samples.unpartitioned(), replace(samples.append(), predicate="qty < 0")):
        page = assert_consistent(sample)
        assert "← may match your predicate" in page.text
        assert "← matches" not in page.text


def test_a_scan_of_everything_is_called_so() -> None:
    sample = replace(samples.append(), predicates=("TRUE", "day = '2026-03-02'"), predicate="TRUE")
    view = views.fields(sample)
    assert dict(view.sides[0].facts)["predicate"] == "the whole table"
    assert "read the whole table, and version 18 by etl-b added 2 files there" in bundle.text(
        sample).replace("\n ", "")


def test_a_file_changed_in_place_is_read_removed_and_added() -> None:
    """A new deletion vector: the same path removed and added."""
    again = samples.add("part-0009")
    sample = replace(samples.append(), your_actions=(samples.remove("part-0009"), again))
    page = assert_consistent(sample)
    assert "part-0009.parquet read, removed" in page.text
    assert page.text.count("part-0009.parquet") == 2


def test_a_read_file_beyond_those_kept_is_still_named() -> None:
    sample = replace(samples.delete_read(), read_files=())
    page = assert_consistent(sample)
    assert "part-0007.parquet read ← removed what you read" in page.text
    assert "whole table" not in page.text
    whole = replace(sample, whole_table=True, predicates=("TRUE",), predicate="TRUE")
    assert "read the whole table ← removed what you read" in assert_consistent(whole).text


def test_a_commit_that_tells_nonsense_of_itself() -> None:
    """commitInfo is free: nothing in it is of a sure type."""
    winner = CommitInfo(operation=3, operation_parameters=[1], timestamp="yesterday",
                        read_version={}, isolation_level=["x"], user_name=7)
    page = assert_consistent(replace(samples.append(), winner=winner))
    assert "committed yesterday" in page.text


CONSTRAINT = "delay IS NULL OR delay BETWEEN -60 AND 1440"
JOBS = {
    CONSTRAINT: lambda table: table.add_constraint("sane", CONSTRAINT),
    "t.id = s.id AND t.delay = s.delay": lambda table: table.merge(
        {"id": [1, 2], "delay": [5, 6]}, "t.id = s.id AND t.delay = s.delay", target_alias="t",
        source_alias="s").when_matched_update_all().when_not_matched_insert_all().execute(),
}


@pytest.mark.parametrize("condition", JOBS)
def test_the_condition_is_the_one_that_a_person_wrote(condition: str) -> None:
    """A constraint reads by what would break it, a MERGE by the values of its source: nobody wrote those."""
    table = dn.create(MemoryStore("memory:///lake/departures"), {"id": [1, 2], "delay": [1, 2]})
    rival = {"id": [3], "delay": [3]}
    race = dn.race(table, {"etl": lambda table: table.append(rival), "you": JOBS[condition]})
    sample = race.outcomes["you"].conflict
    text = bundle.text(sample).replace("\n ", "")
    assert f"read files for {condition}, and version 1 by etl" in text
    assert "NOT (" not in text and "id = 1" not in text
    assert [track.predicate for track in table.timeline().tracks if not track.is_committed] == [condition]
    JOBS[condition](table)
    assert table.timeline().tracks[-1].predicate == condition
