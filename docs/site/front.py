"""The first page's example, which runs whenever the site is built.

What lives here: the blocks of Python of a page, run one after the other, and the picture of what the last one
shows.
What it does not know: what they do.
"""

from __future__ import annotations

import re
import tempfile
from typing import Any

from docs.pictures import lesson

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
MARK = "```{shown}\n```"
"""Where on the page the picture goes."""


def with_picture(markdown: str) -> str:
    """A page, with what its last block of Python shows in place of the mark."""
    html = run(markdown)._repr_mimebundle_()["text/html"]
    return markdown.replace(MARK, f'```{{raw}} html\n<div class="shown">{html}</div>\n```')


def run(markdown: str) -> Any:
    """Run a page's blocks of Python in a folder of their own, as a lesson; the value of the last line."""
    *statements, last = BLOCK.findall(markdown)
    names: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, lesson(folder):
        for block in statements:
            exec(block, names)
        return eval(last, names)
