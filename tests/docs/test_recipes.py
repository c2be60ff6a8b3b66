"""Recipes and explanations: their code gives what they show, and their links lead somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from tests.pages import blocks_of, run_page

DOCS = Path(__file__).resolve().parents[2] / "docs"
HOW_TO = sorted((DOCS / "how-to").glob("*.md"))
PAGES = HOW_TO + sorted((DOCS / "explanation").glob("*.md"))
RECIPES = [path for path in HOW_TO if not path.stem.startswith(("index", "coming-from"))]
LEAST_RECIPES = 25
SPARK = "dn.spark("
"""What a page has in its code that starts Spark."""


@pytest.fixture
def s3(s3_server: Any, bucket: str) -> dict[str, str]:
    """What stands for a service with the protocol of S3 on a page."""
    return {"http://localhost:9000": s3_server.endpoint, "s3://lake": bucket}


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    pytest.importorskip("psycopg", reason="no PostgreSQL: psycopg is not installed")
    pytest.importorskip("sqlalchemy", reason="the catalog is an extra: pip install 'deltanb[catalog]'")
    from tests.catalog.postgresql import NoServer, running

    try:
        with running() as url:
            yield url
    except NoServer as error:
        pytest.skip(f"no PostgreSQL: {error}")


@pytest.fixture
def postgresql(postgresql_server: str) -> dict[str, str]:
    return {"postgresql://ann@localhost/lake": postgresql_server}


@pytest.fixture
def unity(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A server that answers clients of Unity Catalog."""
    pytest.importorskip("uvicorn", reason="the server is an extra: pip install 'deltanb[catalog]'")
    from deltanb.catalog.rest.server.serving import serve

    with serve(f"sqlite:///{tmp_path}/unity.db", tmp_path / "unity") as server:
        yield {"uc://localhost:8080/unity": server.url.replace("http://", "uc://") + "/default"}


SERVERS = {"http://localhost:9000": "s3", "postgresql://ann@localhost/lake": "postgresql",
           "uc://localhost:8080/unity": "unity"}
"""An address on a page, and the fixture that puts one of a server on loopback in its place."""


def marked(path: Path) -> Any:
    is_spark = any(SPARK in block.code for block in blocks_of(path.read_text("utf-8")))
    return pytest.param(path, id=f"{path.parent.name}/{path.stem}", marks=[pytest.mark.spark] * is_spark)


@pytest.mark.parametrize("path", [marked(path) for path in PAGES])
def test_a_page_gives_what_it_shows(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest,
    update_golden: bool,
) -> None:
    """Each page in a folder of its own, with the clock and the ids of a lesson."""
    text = path.read_text("utf-8")
    if request.node.get_closest_marker("spark") is not None:
        request.getfixturevalue("spark")
    for address, fixture in SERVERS.items():
        if address in text:
            for name, place in request.getfixturevalue(fixture).items():
                text = text.replace(name, place)
    folder = tmp_path / "page"
    folder.mkdir()
    monkeypatch.chdir(folder)
    with dn.teaching(seed=1), dn.set_options(durability="none"):
        assert run_page(path, text, update_golden) == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_links_lead_somewhere(path: Path) -> None:
    text = path.read_text("utf-8")
    links = [link for link in re.findall(r"(?<!\\)\]\(([^)]+)\)", text) if "://" not in link]
    for link in links:
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        assert target.exists(), link
        assert not anchor or anchor in anchors_of(target), link


def anchors_of(path: Path) -> set[str]:
    """The anchors that headings of a page have, on GitHub and in MyST."""
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-")
            for heading in re.findall(r"^#+ (.*)$", path.read_text("utf-8"), re.MULTILINE)}


def test_there_are_enough_recipes() -> None:
    assert len(RECIPES) >= LEAST_RECIPES


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_has_its_parts(path: Path) -> None:
    """Title, when one needs it, code with what it gives, what can go wrong, and where to go on."""
    text = path.read_text("utf-8")
    assert text.startswith("# ") and re.sub(r"[^\w -]", "", text[2:].partition("\n")[0])
    begin = text.partition("\n")[2].partition("```python")[0]
    assert 1 <= len(re.findall(r"[.?](?:\s|$)", begin.partition("\n## ")[0])) <= 5, begin
    blocks = blocks_of(text)
    assert any(block.output for block in blocks)
    assert "\n## What can go wrong\n" in text
    further = text.partition("\n## Further\n")[2]
    assert re.search(r"\]\([\w-]+\.md", further) and "../../notebooks/" in further, further


def test_every_recipe_is_reached_from_another_page() -> None:
    linked: set[Path] = set()
    for page in PAGES:
        linked |= {(page.parent / link.partition("#")[0]).resolve()
                   for link in re.findall(r"\]\(([^)]+)\)", page.read_text("utf-8"))} - {page}
    assert [path.stem for path in RECIPES if path not in linked] == []


def test_a_difference_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    text = "# A page\n\n```python\nx = 1\nx + 1\n```\n\n```text\n3\n```\n\n```python\nprint(x)\n```\n"
    page.write_text(text, "utf-8")
    first, second = run_page(page, text, update=False)
    assert "page.md:3" in first and "Expected:\n    3\nGot:\n    2" in first
    assert "page.md:12" in second and "Got:\n    1" in second
    assert run_page(page, text, update=True) == []
    assert run_page(page, page.read_text("utf-8"), update=False) == []


def test_an_error_that_a_page_does_not_show_is_raised(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    raising = "```python\nint('x')\n```\n"
    page.write_text(raising, "utf-8")
    with pytest.raises(ValueError, match="invalid literal"):
        run_page(page, page.read_text("utf-8"), update=False)
    page.write_text(raising + "\n```text\nValueError: invalid literal ...\n```\n", "utf-8")
    assert run_page(page, page.read_text("utf-8"), update=False) == []


SCENES = {
    "conflicts": 'table = dn.create("t", {"id": [1], "day": ["mon"]}, partition_by="day")',
    "log-cache": "",
    "rows-in-and-out": 'flights = dn.create("flights", {"month": [1], "carrier": ["UA"], "delay": [3]})',
    "sql": 'dn.create("lake/flights", {"month": [1], "carrier": ["UA"], "delay": [3]})',
    "unity": "",
    "unity-server": "",
}
"""What stands before the calls of a page."""
ELSEWHERE = ("uc://", "spark", "s3://")
"""What is in calls that go to a service nobody has here; they are read, and not made."""


def calls_of(path: Path) -> list[str]:
    """The blocks of a page that show calls and not what they give."""
    return [block.code for block in blocks_of(path.read_text("utf-8"))
            if not block.code.startswith((">>> ", "%%"))]


def test_every_page_with_calls_alone_has_a_scene() -> None:
    assert {path.stem for path in DOCS.glob("*.md") if calls_of(path)} == {*SCENES}


@pytest.mark.parametrize("name", SCENES)
def test_calls_without_what_they_give_run(
        name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "page"
    folder.mkdir()
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {"dn": dn, "__name__": name}
    with dn.teaching(seed=1), dn.set_options(journal=None, log_cache=None), ExitStack() as ends:
        exec(SCENES[name], names)
        for code in calls_of(DOCS / f"{name}.md"):
            made = compile(code.replace("/var/", f"{tmp_path}/var/"), f"{name}.md", "exec")
            if not any(word in code for word in ELSEWHERE):
                exec(made, names)
                if "server" in names:
                    ends.enter_context(names.pop("server"))
