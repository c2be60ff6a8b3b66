"""What built pages still need for readers with a keyboard or a screen reader.

What lives here: changes to HTML that Sphinx, its theme and stored outputs have no setting for.
What it does not know: what a page is about.
"""

from __future__ import annotations

import re
from pathlib import Path

UNUSED = ("*.map", "*.js.LICENSE.txt", "webpack-macros.html", ".buildinfo")
"""What the theme brings for whoever changes it."""
ARGUMENTS = re.compile(r'<dl>\s*((?:<dd><em class="sig-param">.*?</em>,?</dd>\s*)+)</dl>')


def finish(folder: Path) -> None:
    """Change all pages of a site."""
    for pattern in UNUSED:
        for path in folder.rglob(pattern):
            path.unlink()
    for path in folder.rglob("*.html"):
        path.write_text(finished(path.read_text("utf-8")), "utf-8")


def finished(page: str) -> str:
    """A page as it is published.

    The theme's switches in lists of pages get a name, parts of outputs that scroll can be reached by a
    keyboard, and the arguments of a signature are a list in place of descriptions of nothing.

    >>> finished('<div class="dnb-part dnb-scroll">')
    '<div class="dnb-part dnb-scroll" tabindex="0">'
    >>> finished('<dl><dd><em class="sig-param">a</em>,</dd></dl>')
    '<ul class="sig-params"><li><em class="sig-param">a</em>,</li></ul>'
    """
    page = page.replace('<summary><span class="toctree-toggle"',
                        '<summary aria-label="pages below"><span class="toctree-toggle"')
    page = re.sub(r'(<(?:div|form) class="[^"]*\bdnb-(?:scroll|tl)\b[^"]*")', r'\1 tabindex="0"', page)
    return ARGUMENTS.sub(lambda match: f'<ul class="sig-params">{_items(match[1])}</ul>', page)


def _items(arguments: str) -> str:
    return arguments.replace("<dd>", "<li>").replace("</dd>", "</li>")
