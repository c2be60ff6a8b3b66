"""A page of its own: pictures of objects in a file that a browser opens, wherever it is.

What lives here: the frame around them. It loads nothing from the network and has no script but one that is
given, whose hash it names: its own policy forbids all else. It is light or dark as the system is.
What it does not know: what is shown on it.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping
from hashlib import sha256

from deltanb.notebook.drawing.colors import both, variables
from deltanb.notebook.drawing.html import Markup, join, tag
from deltanb.text.formatting import clean
from deltanb.text.safe_text import safe

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_STYLE = (
    ":root{color-scheme:light dark}"
    f"body{{max-width:72rem;margin:0 auto;padding:24px 16px 48px;background:{both('g')};"
    f"color:{both('t')};font:14px/1.55 system-ui,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}}"
    "h1{font-size:1.4rem;margin:0 0 12px}h2{font-size:1.1rem;margin:28px 0 8px}"
    ".facts{display:grid;grid-template-columns:8em 1fr;margin:0}"
    f".facts dt{{color:{both('m')}}}.facts dd{{margin:0;overflow-wrap:anywhere}}"
    "pre,code{font:13px/1.5 ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace}"
    f".preformatted{{margin:0;padding:10px 14px;border:1px solid {both('l')};border-radius:6px;"
    "white-space:pre-wrap;overflow-wrap:anywhere}"
    # Paper is white, and browsers print no grounds: whatever the scheme was, it is the light one.
    "@media print{:root,.dnb.dnb.dnb{color-scheme:light!important}"
    f".dnb-svg{{{variables(dark=False).replace(';', '!important;')}!important}}}}"
)


def page(
    title: str, parts: Iterable[tuple[str, Markup]], is_headed: bool = True, style: str = "", script: str = ""
) -> str:
    """A whole HTML document without its first line: the title, and the parts below their headings.

    ``is_headed``: the title is also the first heading. ``style`` is added to the page's own, ``script`` runs
    when all of it is there.

    >>> "<h1>a &lt; b</h1>" in page("a < b", [("", Markup("<p>c</p>"))])
    True
    """
    body = [tag("section", tag("h2", clean(heading)) if heading else None, part) for heading, part in parts]
    head = join(
        Markup('<meta charset="utf-8">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}{_allowed(script)}">'),
        tag("title", clean(title)), tag("style", Markup(_STYLE + style)))
    heading = tag("h1", clean(title)) if is_headed else ""
    code = f"<script>{script}</script>" if script else ""
    return f'<html lang="en"><head>{head}</head><body>{heading}{join(body)}{code}</body></html>\n'


def _allowed(script: str) -> str:
    """The policy's permission for a script, and for no other."""
    digest = b64encode(sha256(script.encode()).digest()).decode()
    return f"; script-src 'sha256-{digest}'" if script else ""


def facts(pairs: Mapping[str, str]) -> Markup:
    """Names and values as a list."""
    return tag("dl", [join(tag("dt", clean(key)), tag("dd", clean(value))) for key, value in pairs.items()],
               cls="facts")


def preformatted(text: str) -> Markup:
    """Text as it is."""
    return tag("pre", safe(text), cls="preformatted")
