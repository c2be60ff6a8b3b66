"""What the documentation says of a checkup: its table of kinds is the code's."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import deltanb as dn
from deltanb.observe.checkup.commits import MAX_COMMITS
from deltanb.observe.checkup.kinds import BLIND_SPOTS, FAIL_ON, FIGURES, KINDS, TOPICS, as_markdown
from deltanb.observe.checkup.storage import MAX_LISTED
from deltanb.table.contract import declared
from tests.pages import assert_part

PAGE = Path(__file__).resolve().parents[2] / "docs" / "checkup.md"


def test_the_page_has_every_kind_every_figure_and_every_blind_spot(update_golden: bool) -> None:
    assert_part(PAGE, "kinds", as_markdown(), update_golden)


def test_the_page_has_the_bounds_of_what_is_read() -> None:
    words = " ".join(PAGE.read_text("utf-8").split())
    assert f"The newest {MAX_COMMITS} commits are read" in words
    assert f"the first {MAX_LISTED:,} files are listed" in words


def test_kinds_have_codes_of_their_own_topics_figures_and_one_sentence_each() -> None:
    assert {kind.topic for kind in KINDS.values()} == set(TOPICS)
    assert {name for kind in KINDS.values() for name in kind.figures} == set(FIGURES)
    assert (*KINDS, "any") == FAIL_ON and not set(KINDS) & set(BLIND_SPOTS)
    for code, kind in KINDS.items():
        assert code == kind.code and code == code.lower() and " " not in code
        for text in (kind.meaning, kind.threshold):
            assert text and not text.endswith(".") and "|" not in text
        assert set(kind.saves) <= {"files", "bytes", "requests", "rows"}


COMMANDS = [(kind.code, case) for kind in KINDS.values() for case in kind.commands]


@pytest.mark.parametrize(("code", "case"), COMMANDS)
def test_a_command_is_of_methods_that_there_are(code: str, case: str) -> None:
    """Those of a table are declared, and those of its log are found on it."""
    kind = KINDS[code]
    finding = kind("", {}, {}, reads=0, writes=0, case=case, columns=("a",), size=1, names="a")
    calls = [node.func for node in ast.walk(ast.parse(finding.command)) if isinstance(node, ast.Call)]
    assert calls
    for call in calls:
        assert isinstance(call, ast.Attribute)
        if isinstance(call.value, ast.Name):
            assert call.value.id == "table" and call.attr in declared(dn.DeltaTable)
        else:
            assert ast.unparse(call.value) == "table.log" and callable(getattr(dn.DeltaLog, call.attr))
