"""What the README shows is what happens, and what it names is there."""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from deltanb import DeltaTable, teaching
from deltanb.schema.features import FEATURES
from docs import moving, pictures

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text("utf-8")
GUIDES = [(ROOT / "docs" / f"{name}.md").read_text("utf-8")
          for name in ("rows-in-and-out", "ask-a-table", "together")]
"""Pages whose examples go on where README's end, in this order."""
WORKS = (ROOT / "docs" / "what-works.md").read_text("utf-8")
MOST_LINES = 220


def test_it_is_read_in_five_minutes() -> None:
    assert len(README.splitlines()) <= MOST_LINES


def test_the_examples_give_what_they_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    failures: list[str] = []
    code = "\n".join(re.findall(r"```python\n(.*?)```", "".join([README, *GUIDES]), re.DOTALL))
    example = doctest.DocTestParser().get_doctest(code, {}, "README.md", "README.md", 0)
    assert len(example.examples) > 8
    with teaching(seed=1):
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        runner.run(example, out=failures.append)
    assert failures == []


def test_the_commands_it_names_are_there() -> None:
    commands = re.findall(r"`(\w+)`", WORKS.split("* **Commands**")[1].split("\n* ")[0])
    assert len(commands) > 3
    assert [name for name in commands if not hasattr(DeltaTable, name)] == []


def test_the_table_features_are_where_the_code_has_them() -> None:
    rows = {
        "read and written": lambda f: f.read and f.write == "yes",
        "read; written while not switched on": lambda f: f.read and f.write == "while inactive",
        "read, not written": lambda f: f.read and f.write == "no",
        "refused by name": lambda f: not f.read,
    }
    listed = {what: re.findall(r"`([\w-]+)`", WORKS.split(f"| {what} |")[1].split("\n")[0]) for what in rows}
    assert listed == {what: [name for name, feature in FEATURES.items() if holds(feature)]
                    for what, holds in rows.items()}


def test_links_and_tutorials_are_there() -> None:
    links = re.findall(r"\]\((?!https:)([^)]+)\)", README)
    assert len(links) > 3
    assert [link for link in links if not link.startswith("#") and not (ROOT / link).exists()] == []
    headings = {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-")
                for heading in re.findall(r"^#+ (.*)$", README, re.MULTILINE)}
    assert {link[1:] for link in links if link.startswith("#")} <= headings
    tutorials = {f"notebooks/{path.name}" for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert tutorials <= set(links)


def test_the_pictures_are_there_in_both_schemes_and_small() -> None:
    assert README.count('src="docs/pictures/race.svg"') == 1
    named = [name for name in re.findall(r'(?:src|srcset)="([^"]+)"', README) if name.endswith(".png")]
    assert named == [f"docs/pictures/{name}-{scheme}.png"
                     for name in pictures.SUBJECTS for scheme in ("dark", "light")]
    sizes = {name: (ROOT / name).stat().st_size for name in named}
    assert sum(sizes.values()) < 400_000, sizes
    figures = (ROOT / "docs" / "figures.md").read_text("utf-8")  # has the others
    assert {path.name for path in pictures.PICTURES.iterdir() if path.name not in figures} == {
        moving.PICTURE.name, *(Path(name).name for name in named)}


def test_the_moving_picture_is_of_the_first_example_and_well_formed() -> None:
    shown = moving.PICTURE.read_text("utf-8")
    assert shown == moving.made(), "out of date: run python docs/moving.py"
    ElementTree.fromstring(shown)
    assert "cleanup fails after losing v1" in shown and "prefers-reduced-motion" in shown
    assert len(shown) < 8_000 and "http" not in shown.replace("http://www.w3.org/2000/svg", "")


def test_the_pictures_show_what_the_first_example_gives(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    shown = {name: pictures.words(page) for name, page in pictures.pages(tmp_path).items()}
    assert "ConcurrentDeleteRead" in shown["conflict"] and "race lost, went on" in shown["timeline"]
    for name, text in shown.items():
        for scheme in pictures.SCHEMES:
            carried = pictures.words_in(pictures.PICTURES / f"{name}-{scheme}.png")
            assert carried == text, "the picture is out of date: run python docs/pictures.py"


def test_the_two_commands_name_extras_and_scripts_that_exist() -> None:
    assert "pip install -e '.[lab]' && deltanb lab" in README
    assert "pip install -e '.[test]' && pytest -n auto" in README
    script = (ROOT / ".ci" / "run").read_text("utf-8")
    assert re.search(r"^time pip install -q -e '\.\[test\]'\nstatus=0\npytest -n auto \|\|", script, re.M)
    settings = (ROOT / "pyproject.toml").read_text("utf-8")
    for expected in ("\nlab = [", "\ntest = [", "\ndeltanb = "):
        assert expected in settings
