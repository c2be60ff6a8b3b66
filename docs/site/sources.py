"""All sources of the site in one folder, as Sphinx wants them.

What lives here: which file of the checkout becomes which page, and links between these files, which become
links between the pages. A link to a file that is no page becomes its text, one to no file is an error.
What it does not know: what notebooks hold (``notebooks``), how the reference is made (``docs/reference``).
"""

from __future__ import annotations

import posixpath
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from docs.reference import write_reference
from docs.site.charts import with_charts
from docs.site.front import MARK, with_picture
from docs.site.notebooks import for_pages

ROOT = Path(__file__).resolve().parent.parent.parent
SECTION_OF = {
    **dict.fromkeys(("peers", "spark-options", "sql", "unity-server", "what-works"), "reference"),
    **dict.fromkeys(("rows-in-and-out", "ask-a-table", "together"), "how-to"),
}
"""Pages of ``docs`` that are looked things up in, and those that show how; the others explain."""
LINK = re.compile(r"(?<!!)\[(?P<text>[^\[\]]*(?:\[[^\]]*\])?[^\[\]]*)\]\((?P<target>[^()\s]+)\)")
PICTURE = re.compile(
    r'<picture>\s*<source media="\(prefers-color-scheme: dark\)" srcset="(?P<dark>[^"]+)">\s*'
    r'<img src="(?P<light>[^"]+)"[^>]*?alt="(?P<alt>[^"]+)">\s*</picture>')
PLAIN = re.compile(r"^!\[(?P<alt>[^\]]+)\]\((?P<both>[\w-]+\.svg)\)$", re.MULTILINE)
MOVING = re.compile(r'<img src="(?P<both>docs/pictures/[^"]+)"[^>]*?alt="(?P<alt>[^"]+)">')
QUESTIONS = "```{questions}\n```\n"
"""Where on a page the tutorials are listed with their questions."""
SECTIONS = ("how-to", "explanation")
"""Folders of ``docs`` that are sections of the site: the first page of each is its ``index.md``."""


def pages() -> dict[str, str]:
    """Each file of the checkout that is a page -> where it is in the site."""
    places = {"README.md": "tutorials/readme.md", "CHANGELOG.md": "reference/changelog.md"}
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        places[f"notebooks/{path.name}"] = f"tutorials/{path.name}"
    for path in sorted((ROOT / "docs").glob("*.md")):
        places[f"docs/{path.name}"] = f"{SECTION_OF.get(path.stem, 'explanation')}/{path.name}"
    for section in SECTIONS:
        for path in sorted((ROOT / "docs" / section).glob("*.md")):
            places[f"docs/{section}/{path.name}"] = f"{section}/{path.name}"
    for path in sorted((ROOT / "docs" / "site").rglob("*.md")):
        places[path.relative_to(ROOT).as_posix()] = path.relative_to(ROOT / "docs" / "site").as_posix()
    return places


def gather(folder: Path) -> None:
    """Write all sources into a folder."""
    places = pages()
    for name, place in places.items():
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        text = (ROOT / name).read_text("utf-8")
        if name.endswith(".ipynb"):
            text = for_pages(text, lambda markdown, name=name: relinked(markdown, name, places))
        else:
            if QUESTIONS in text:
                text = text.replace(QUESTIONS, questions((ROOT / "README.md").read_text("utf-8")))
            text = with_charts(themed(relinked(text, name, places)))
            if name in {f"docs/{section}/index.md" for section in SECTIONS}:
                section = posixpath.dirname(place)
                text += contents(text, [posixpath.basename(each).removesuffix(".md")
                                        for each in places.values() if posixpath.dirname(each) == section])
            if name == "README.md":
                text = text.replace("# deltanb\n", "# deltanb in five minutes\n", 1)
            if MARK in text:
                text = with_picture(text)
        target.write_text(text, "utf-8")
    shutil.copytree(ROOT / "docs" / "pictures", folder / "pictures")
    for section in SECTIONS:
        for path in (ROOT / "docs" / section).glob("*.svg"):
            shutil.copy(path, folder / section)
    write_reference(folder / "reference")


def questions(readme: str) -> str:
    """What each tutorial asks, as the README lists them.

    >>> questions("1. [One](notebooks/1.ipynb): why\\n   me?\\n2. [Two](notebooks/2.ipynb): who?\\n\\nMore.")
    '1. [One](../../../notebooks/1.ipynb): why\\n   me?\\n2. [Two](../../../notebooks/2.ipynb): who?\\n'
    """
    listed = re.search(r"(?:^\d+\. \[.*\n(?: +.*\n)*)+", readme, re.MULTILINE)
    assert listed, "README lists no tutorials"
    return listed[0].replace("](notebooks/", "](../../../notebooks/")


def contents(index: str, names: list[str]) -> str:
    """The order of a section's pages for Sphinx, under the headings of its first page; at its end all others.

    >>> index = "* [Two](two.md): second\\n## Past\\n* [One](../one.md)\\n* [Elsewhere](../no.md)"
    >>> contents(index, ["index", "one", "two"]).split()
    ['```{toctree}', ':hidden:', 'two', '```', '```{toctree}', ':hidden:', ':caption:', 'Past', 'one', '```']
    """
    first, *parts = re.split(r"^## ", index, flags=re.MULTILINE)
    groups = {"": _listed(first, names)}
    groups |= {part.partition("\n")[0]: _listed(part, names) for part in parts}
    known = {"index", *(name for listed in groups.values() for name in listed)}
    groups["Further"] = [name for name in names if name not in known]
    return "\n".join(_tree(heading, listed) for heading, listed in groups.items() if listed)


def _tree(heading: str, listed: list[str]) -> str:
    caption = [f":caption: {heading}"] if heading else []
    return "\n".join(["", "```{toctree}", ":hidden:", *caption, "", *listed, "```", ""])


def _listed(part: str, names: list[str]) -> list[str]:
    """The pages of a section that a list names."""
    links = re.findall(r"^\* \[[^\]]+\]\((?:\.\./)?([\w-]+)\.md\)", part, re.MULTILINE)
    return [name for name in links if name in names]


def relinked(markdown: str, name: str, places: dict[str, str]) -> str:
    """Markdown of a file of the checkout, its links as the site has them.

    Raises:
        LookupError: a link leads to no file of the checkout.

    >>> places = {"README.md": "tutorials/readme.md", "notebooks/01-a.ipynb": "tutorials/01-a.ipynb"}
    >>> relinked("[one](notebooks/01-a.ipynb#x), [code](deltanb/options.py)", "README.md", places)
    '[one](01-a.ipynb#x), code'
    """
    here = posixpath.dirname(places[name])

    def link(match: re.Match[str]) -> str:
        target, mark, anchor = match["target"].partition("#")
        if ":" in target:
            return match[0]
        if not target:
            return f"[{match['text']}](#{anchor.lower()})"
        own = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
        place = places.get(own)
        if place is None and own.startswith(("docs/site/reference/", "docs/reference/")):  # it is made here
            place = f"reference/{own.partition('reference/')[2]}"
        if place is None:
            if not (ROOT / own).exists():
                raise LookupError(f"{name} has a link to {target}, where there is no file")
            return match["text"]
        return f"[{match['text']}]({posixpath.relpath(place, here)}{mark}{anchor.lower()})"

    return outside_code(markdown, lambda text: LINK.sub(link, text))


def outside_code(markdown: str, change: Callable[[str], str]) -> str:
    """Markdown in which all but blocks of code is changed."""
    pieces = re.split(r"(^```[a-z]+\n.*?^```$)", markdown, flags=re.DOTALL | re.MULTILINE)
    return "".join(piece if number % 2 else change(piece) for number, piece in enumerate(pieces))


def themed(markdown: str) -> str:
    """Pictures that follow the reader's system, as GitHub has them, as ones that follow the site's switch.

    Each leads to itself alone, where a phone has room for it.

    >>> print(themed("![a curve](curve.svg)"))
    ```{image} curve.svg
    :alt: a curve
    :width: 828px
    :class: dark-light
    ```
    <BLANKLINE>
    """

    def image(match: re.Match[str], name: str) -> str:
        # The theme lays a light ground below what is neither for one scheme nor marked as for both.
        scheme = ":class: dark-light" if name == "both" else f":class: only-{name}"
        place = f"/{match[name].removeprefix('docs/')}" if "/" in match[name] else match[name]
        return "\n".join([f"```{{image}} {place}", f":alt: {match['alt']}",
                          ":width: 828px", scheme, "```", ""])

    markdown = PICTURE.sub(lambda match: f"{image(match, 'light')}\n{image(match, 'dark')}", markdown)
    for pattern in (PLAIN, MOVING):
        markdown = pattern.sub(lambda match: image(match, "both"), markdown)
    return markdown
