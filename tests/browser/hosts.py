"""Places where notebooks are read: a Jupyter server on this machine, and pages that reach nothing else.

What lives here: :class:`Server` (JupyterLab and Notebook 7 are two pages of one), :class:`Reader` (a
browser's window whose every request outside is refused and noted), and how to write and run a notebook.
What it does not know: what the notebooks show.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
from nbformat.sign import NotebookNotary
from nbformat.v4 import new_code_cell, new_notebook, new_output
from playwright.sync_api import expect

from tests.patience import PATIENCE

LAST_WORDS = 10  # seconds that the server has to end by itself
TOKEN = "secret"
APPS = {"lab": "lab/tree", "notebook": "notebooks"}
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}
SETTINGS = {
    # News and updates are asked for on the network, by the server.
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    # Cells that are out of sight are drawn too.
    "notebook-extension/tracker": {"windowingMode": "none"},
}
KERNEL = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
ERROR = "[data-mime-type='application/vnd.jupyter.error']"
KERNEL_WAITS = """() =>
    window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.status === "idle" """
ALL_RUN_OR_ONE_FAILED = f"""() => document.querySelector(`{ERROR}`)
    || [...document.querySelectorAll(".jp-Notebook .jp-CodeCell .jp-InputArea-prompt")].every(
        prompt => /^\\[\\d+\\]:$/.test(prompt.innerText.trim()))"""
DONE = re.compile(r"^\[\d+\]:$")  # the prompt of a cell that has run


class Server:
    """A Jupyter server on the loopback, with settings, kernels' files and notebooks of its own."""

    def __init__(self, folder: Path) -> None:
        self.notebooks = folder / "notebooks"
        self.notebooks.mkdir(parents=True)
        self._data, self._settings = folder / "data", folder / "settings"
        for name, value in SETTINGS.items():
            self._set(name, value)
        inherited = {name: value for name, value in os.environ.items()
                     if name != "CI" and not name.startswith(("PYTEST", "JUPYTER", "JPY", "IPYTHON"))}
        folders = {f"JUPYTER_{name.upper()}_DIR": folder / name for name in ("config", "data", "runtime")}
        folders |= {"IPYTHONDIR": folder / "ipython", "TMPDIR": _made(folder / "tmp")}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", "--no-browser", "--ip=127.0.0.1", f"--port={free_port()}",
             "--allow-root", f"--IdentityProvider.token={TOKEN}",
             f"--ServerApp.root_dir={self.notebooks}", "--LabApp.extension_manager=readonly",
             "--LabApp.expose_app_in_browser=True", "--JupyterNotebookApp.expose_app_in_browser=True",
             f"--LabApp.user_settings_dir={self._settings}",
             f"--LabApp.workspaces_dir={folder / 'workspaces'}"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder,
            env={**inherited, **{name: str(path) for name, path in folders.items()}})
        too_late = threading.Timer(PATIENCE, self._process.kill)
        too_late.start()
        self.url = self._address()
        too_late.cancel()
        # Nobody reads on, so somebody must: a full pipe would hold the server.
        threading.Thread(target=self._drain, daemon=True).start()

    def write(self, name: str, *cells: Any, trusted: bool = True) -> str:
        """A notebook of these cells in a folder of its own; its path. Text is a cell not run yet."""
        made = [new_code_cell(cell) if isinstance(cell, str) else cell for cell in cells]
        notebook = new_notebook(cells=made, metadata=KERNEL)
        if trusted:
            NotebookNotary(data_dir=str(_made(self._data))).sign(notebook)
        nbformat.write(notebook, _made(self.notebooks / name) / f"{name}.ipynb")
        return f"{name}/{name}.ipynb"

    def set_theme(self, theme: str) -> None:
        """Light or dark for every page opened from now on."""
        self._set("apputils-extension/themes", {"theme": THEMES[theme]})

    def end_kernels(self) -> None:
        """Stop every kernel: two cores carry one at a time well."""
        for session in self._ask("GET", "api/sessions"):
            self._ask("DELETE", f"api/sessions/{session['id']}")

    def stop(self) -> None:
        """End the server and wait for it."""
        self.end_kernels()
        self._process.terminate()
        try:
            self._process.wait(timeout=LAST_WORDS)
        except subprocess.TimeoutExpired:  # a kernel that does not end holds it; kernels follow their server
            self._process.kill()
            self._process.wait(timeout=PATIENCE)

    def _set(self, name: str, value: dict[str, Any]) -> None:
        path = self._settings / "@jupyterlab" / f"{name}.jupyterlab-settings"
        _made(path.parent)
        path.write_text(json.dumps(value))

    def _address(self) -> str:
        assert self._process.stdout is not None
        printed = []
        for line in self._process.stdout:
            printed.append(line)
            if match := re.search(r"http://127\.0\.0\.1:(\d+)(?=/)", line):
                _wait_for_port(self._process, int(match[1]))
                return match[0]
        raise AssertionError("the Jupyter server ended without an address:\n" + "".join(printed))

    def _drain(self) -> None:
        assert self._process.stdout is not None
        for _ in self._process.stdout:
            pass

    def _ask(self, method: str, path: str) -> Any:
        asked = urllib.request.Request(
            f"{self.url}/{path}", headers={"Authorization": f"token {TOKEN}"}, method=method)
        with urllib.request.urlopen(asked, timeout=PATIENCE) as answer:
            body = answer.read()
        return json.loads(body) if body else None


@dataclass
class Reader:
    """A window of the browser, and every address outside this machine that its pages asked for."""

    context: Any
    server: Server | None = None
    address: str = ""
    """That of another server whose pages it reads."""
    refused: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        address = self.server.url if self.server else self.address
        inside = r"file:|data:|blob:|about:" + (f"|{re.escape(address)}/" if address else "")
        self.context.route(re.compile(f"^(?!{inside})"), self._refuse)
        self.context.set_default_timeout(PATIENCE * 1000)
        expect.set_options(timeout=PATIENCE * 1000)

    def _refuse(self, route: Any) -> None:
        self.refused.append(route.request.url)
        route.abort()

    def open(self, path: str, app: str = "lab") -> Any:
        """The page of a notebook, once its kernel waits: what is to run earlier is dropped."""
        assert self.server is not None
        page = self.context.new_page()
        page.goto(f"{self.server.url}/{APPS[app]}/{path}?reset&token={TOKEN}")
        page.locator(".jp-Notebook .jp-CodeCell").first.wait_for()
        page.wait_for_function(KERNEL_WAITS)
        return page

    def run(self, path: str, app: str = "lab", is_failing: bool = False) -> Any:
        """The page of a notebook whose cells have all run, by *Run All Cells* as a person would.

        ``is_failing``: its last cell ends with an error.
        """
        page = self.open(path, app)
        page.locator(".lm-MenuBar-itemLabel", has_text=re.compile("^Run$")).click()
        page.locator(".lm-Menu-itemLabel", has_text=re.compile("^Run All Cells$")).click()
        page.wait_for_function(ALL_RUN_OR_ONE_FAILED)
        failed = page.locator(ERROR).all_inner_texts()
        if not is_failing:
            assert not failed, failed[0]
        expect(prompts(page).last).to_have_text(DONE)
        return page


def prompts(page: Any) -> Any:
    """The prompts of the notebook's cells."""
    return page.locator(".jp-Notebook .jp-CodeCell .jp-InputArea-prompt")


def outputs(page: Any) -> Any:
    """What the notebook's cells show."""
    return page.locator(".jp-Notebook .jp-OutputArea-output")


def cell(page: Any, at: int) -> Any:
    """A cell of code, with what it shows."""
    return page.locator(".jp-Notebook .jp-CodeCell").nth(at)


def shown(*bundles: dict[str, Any], source: str = "table") -> Any:
    """A cell that has run, with an output of each bundle."""
    stored = [new_output("display_data", data=bundle) for bundle in bundles]
    return new_code_cell(source, outputs=stored, execution_count=1)


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for_port(process: subprocess.Popen[str], port: int) -> None:
    while process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
    raise AssertionError("the Jupyter server ended before it listened")


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
