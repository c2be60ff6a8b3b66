"""The reference of the site, made from the code: nothing in it is written a second time.

What lives here: which pages there are. Each maker answers its pages, file name -> reStructuredText.
What it does not know: the site around them.
"""

from __future__ import annotations

from pathlib import Path

from docs.reference import command_line, errors, features, names, options, properties, rest

MAKERS = (names, errors, options, properties, features, command_line, rest)


def write_reference(folder: Path) -> None:
    """Write all pages into a folder."""
    for maker in MAKERS:
        for name, text in maker.pages().items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
