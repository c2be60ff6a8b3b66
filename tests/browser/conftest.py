"""Chromium, a Jupyter server, windows without a network, and where their pictures go."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.hosts import Reader, Server
from tests.groups import service
from tests.machine import chromium

ARTEFACTS = "DELTANB_ARTEFACTS"
"""The variable that says where the pictures of a run are kept; else beside pytest's temporary files."""
VIEW = {"width": 1300, "height": 1400}  # tall: a picture has all that a notebook shows
FLAGS = [
    "--no-sandbox", "--disable-gpu",
    # Whatever the pages try, and the browser itself: no name outside this machine is known.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--disable-background-networking",
]
FAILED = pytest.StashKey[bool]()
_screenshots: list[Path] = []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say where the pictures are."""
    if _screenshots:
        folder = _screenshots[0].parent
        terminalreporter.write_line(f"{len(_screenshots)} pictures of what the browser showed: {folder}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Let fixtures know of a failure: what the page showed then is kept, too."""
    report = yield
    if report.failed:
        item.stash[FAILED] = True
    return report


@service
def browser() -> Iterator[Any]:
    """Headless Chromium, Debian's or any other on PATH."""
    if chromium() is None:
        pytest.skip("no Chromium on PATH")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One Jupyter server for all tests, JupyterLab and Notebook 7 at once."""
    pytest.importorskip("jupyterlab")
    server = Server(tmp_path_factory.mktemp("jupyter"))
    yield server
    server.stop()


@pytest.fixture
def offline(browser: Any) -> Iterator[Reader]:
    """A window without a server: for pages that are files."""
    reader = Reader(browser.new_context(viewport=VIEW))
    yield reader
    reader.context.close()


@pytest.fixture(params=["light", "dark"])
def theme(request: pytest.FixtureRequest, server: Server) -> str:
    """JupyterLab Light and JupyterLab Dark, one after the other."""
    server.set_theme(request.param)
    return str(request.param)


@pytest.fixture(scope="session")
def _pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = os.environ.get(ARTEFACTS)
    made = Path(folder) if folder else tmp_path_factory.getbasetemp() / "pictures"
    made.mkdir(parents=True, exist_ok=True)
    return made


@pytest.fixture
def picture(_pictures: Path, request: pytest.FixtureRequest) -> Callable[..., bytes]:
    """Take a picture of a page or a part of it, keep it under the test's name, and return it as PNG."""

    def take(part: Any, name: str = "") -> bytes:
        test = request.node.name.removeprefix("test_").replace("[", "-").rstrip("]")
        path = _pictures / f"{test}{'-' + name if name else ''}.png"
        _screenshots.append(path)
        png: bytes = part.screenshot(path=path)
        return png

    return take


@pytest.fixture
def reader(
    browser: Any, server: Server, picture: Callable[..., bytes], request: pytest.FixtureRequest
) -> Iterator[Reader]:
    """A window on the server. At its end: nothing outside this machine was asked for."""
    reader = Reader(browser.new_context(viewport=VIEW), server)
    yield reader
    if FAILED in request.node.stash:
        for at, page in enumerate(reader.context.pages):
            picture(page, f"failed-{at}")
    reader.context.close()
    server.end_kernels()
    assert reader.refused == []
