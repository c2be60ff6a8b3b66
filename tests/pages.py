"""Pages of the documentation that have parts written from the code.

What lives here: the comparison of such a part with the code, and its writing anew.
What it does not know: what a page is about.
"""

from __future__ import annotations

import os
from pathlib import Path


def assert_part(page: Path, name: str, text: str, update: bool) -> None:
    """The part of the page between ``<!-- name: … -->`` and ``<!-- end of name -->`` is this text;
    ``--update-golden`` writes it anew."""
    end = f"<!-- end of {name} -->"
    before, begin, rest = page.read_text("utf-8").partition(f"<!-- {name}: ")
    remark, arrow, part = rest.partition("-->\n")
    _, is_ended, after = part.partition(end)
    assert begin and arrow and is_ended
    if update:
        page.write_text(f"{before}{begin}{remark}{arrow}\n{text}\n{end}{after}", "utf-8")
    test = os.environ["PYTEST_CURRENT_TEST"].partition("::")[0]
    assert f"\n{text}\n{end}" in page.read_text("utf-8"), \
        f"out of date: pytest {test} --update-golden writes it"
