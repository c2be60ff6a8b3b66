"""What the documentation says of a verification: its table of kinds is the code's."""

from __future__ import annotations

from pathlib import Path

from deltanb.observe.verify.kinds import BLIND_SPOTS, KINDS, TOPICS, as_markdown
from deltanb.observe.verify.report import POSSIBLE, PROVED
from deltanb.observe.verify.verify import MAX_OF_KIND
from tests.pages import assert_part

PAGE = Path(__file__).resolve().parents[2] / "docs" / "verification.md"


def test_the_page_has_every_kind_and_every_blind_spot(update_golden: bool) -> None:
    assert_part(PAGE, "kinds", as_markdown(), update_golden)


def test_the_page_has_the_bound_of_what_is_listed() -> None:
    assert f"the first {MAX_OF_KIND} findings are listed" in " ".join(PAGE.read_text("utf-8").split())


def test_kinds_have_codes_of_their_own_topics_and_one_sentence_each() -> None:
    assert {kind.topic for kind in KINDS.values()} == set(TOPICS)
    for code, kind in KINDS.items():
        assert code == kind.code and code == code.lower() and " " not in code
        assert kind.certainty in (PROVED, POSSIBLE)
        for text in (kind.meaning, kind.remedy):
            assert text and not text.endswith(".") and "|" not in text
    assert not set(KINDS) & set(BLIND_SPOTS)
