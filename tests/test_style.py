"""Rules of the house that a script can check."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

ROOT = Path(__file__).resolve().parent.parent
MODULES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "deltanb").rglob("*.py"))
MAX_LINES = 600  # more is two modules
ONE_CLASS = {"deltanb/table/table.py", "deltanb/catalog/catalog.py", "deltanb/log/reader.py",
             "deltanb/log/snapshot.py", "deltanb/transaction/transaction.py",
             "deltanb/commands/merge/merge.py", "deltanb/observe/stepper.py", "deltanb/observe/what_if.py",
             "deltanb/locks/core/manager.py", "deltanb/locks/core/transaction.py", "deltanb/errors.py"}
"""What people hold is read in one piece, with an example of each method; it delegates all it does. So is the
tree of errors."""
MAX_MEDIAN_LINES = 250
NO_NAMES = frozenset(("found", "told", "said", "wanted", "kept", "given", "there", "standing", "having"))
MACHINE_PATH = re.compile(r"(?<![\w.-])/(?:work|root|home|Users)/\w")
TEXT_SUFFIXES = {".py", ".md", ".toml", ".cfg", ".css", ".ipynb", ".txt", ".yml", ".json", ".html"}


def test_modules_are_small() -> None:
    sizes = {name: len((ROOT / name).read_text("utf-8").splitlines()) for name in MODULES}
    assert {name: size for name, size in sizes.items() if size > MAX_LINES and name not in ONE_CLASS} == {}
    assert median(sizes.values()) <= MAX_MEDIAN_LINES


@pytest.mark.parametrize("name", MODULES)
def test_public_names_are_documented(name: str) -> None:
    tree = ast.parse((ROOT / name).read_text("utf-8"))
    missing = [label for label, node in documented_nodes(tree) if not ast.get_docstring(node)]
    assert missing == []


def test_how_many_examples_a_test_has_is_said_in_one_place() -> None:
    here = (ROOT / "tests").rglob("test_*.py")
    pattern = re.compile(r"max_examples=|derandomize=|deadline=")
    assert [path.name for path in here if pattern.search(path.read_text("utf-8"))] == [Path(__file__).name]


def documented_nodes(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """The module, its public functions and classes, and the public methods of those classes."""
    if tree.body:
        yield "module", tree
    for node in tree.body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef) or node.name.startswith("_"):
            continue
        yield node.name, node
        if isinstance(node, ast.ClassDef):
            inherits = bool(node.bases)
            for member in node.body:
                if (
                    isinstance(member, ast.FunctionDef)
                    and not member.name.startswith("_")
                    and not inherits  # an overriding method's contract is where it was first made
                ):
                    yield f"{node.name}.{member.name}", member


@pytest.mark.parametrize(
    "name", [name for name in MODULES if name.split("/")[1] in ("log", "transaction", "locks")]
)
def test_core_modules_say_what_they_do_not_know(name: str) -> None:
    tree = ast.parse((ROOT / name).read_text("utf-8"))
    if not tree.body:
        return
    rule_block = " ".join((ast.get_docstring(tree) or "").lower().split())
    assert ("lives here" in rule_block and "not know" in rule_block) or "rule 1" in rule_block


def modules_named_as_elsewhere(text: str) -> Iterator[str]:
    """Names of modules in parentheses in what a module says that it does not know."""
    missing = re.search(r"does not know:(.*?)(\n\n|$)", text, re.DOTALL)
    for group in re.findall(r"\(((?:``[a-z_/]+``(?:, | and )?)+)\)", missing[1] if missing else ""):
        yield from re.findall(r"``([a-z_/]+)``", group)


@pytest.mark.parametrize("name", MODULES)
def test_modules_that_a_module_names_exist(name: str) -> None:
    text = ast.get_docstring(ast.parse((ROOT / name).read_text("utf-8"))) or ""
    known = {f"/{other.removesuffix('.py')}" for other in MODULES} | {
        f"/{Path(other).parent}" for other in MODULES}
    for other in modules_named_as_elsewhere(text):
        assert any(module.endswith(f"/{other.rstrip('/')}") for module in known), other


def test_no_file_names_a_path_of_one_machine() -> None:
    lines = []
    for path in tracked_files():
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            if MACHINE_PATH.search(line) and "MACHINE_PATH" not in line:
                lines.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}")
    assert lines == []


@pytest.mark.parametrize("folder", ["deltanb", "tests", "docs", "notebooks"])
def test_names_say_what_a_thing_is(folder: str) -> None:
    """``rows``, ``files``, ``message`` and ``expected`` say it; that something was found or said does not."""
    lines = [f"{place}:{line}: {name}" for place, source in sources_in(ROOT / folder)
             for name, line in names_made_in(ast.parse(source)) if name.strip("_").lower() in NO_NAMES]
    assert lines == []


def test_the_names_that_are_none_are_seen_wherever_they_are_made() -> None:
    source = """
import a.b as said
from c import d as told
class Found:
    kept: int = 0
    def wanted(self, given, *having, **standing):
        self.there = [found for found in given if (kept := found)]
        with a as said, b as (told, *kept): pass
        try: pass
        except OSError as wanted: pass
        match given:
            case {"x": found, **told}: pass
            case [*said] as kept: pass
        lambda there: there
"""
    made = [name for name, _ in names_made_in(ast.parse(source)) if name.lower() in NO_NAMES]
    assert set(map(str.lower, made)) == NO_NAMES and len(made) == 20
    assert list(names_made_in(ast.parse("from hypothesis import given"))) == []  # another's name


def sources_in(folder: Path) -> Iterator[tuple[str, str]]:
    """Modules, and the code cells of notebooks without their magics, each with its place."""
    for path in sorted(folder.rglob("*.py")):
        yield path.relative_to(ROOT).as_posix(), path.read_text("utf-8")
    for path in sorted(folder.glob("*.ipynb")):
        for number, cell in enumerate(json.loads(path.read_text("utf-8"))["cells"]):
            lines = "".join(cell["source"]).split("\n") if cell["cell_type"] == "code" else []
            if lines and not lines[0].startswith("%%"):
                yield f"{path.name} cell {number}", "\n".join(
                    "" if line.startswith(("%", "!")) else line for line in lines)


def names_made_in(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Every name that is bound, with its line: variables, attributes, parameters, functions, imports."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(
                arg=name
            ) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(
                name=name
            ) | ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(
                name=str(name)
            ) | ast.MatchMapping(rest=str(name)) | ast.alias(asname=str(name)):
                yield name, getattr(node, "lineno", 0)


def tracked_files() -> list[Path]:
    """The project's text files: those git knows, or all where there is no git."""
    listing = ""
    if shutil.which("git"):
        command = ["git", "ls-files"]
        listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout
    if listing:
        paths = [ROOT / name for name in listing.splitlines()]
    else:
        paths = [p for part in ("deltanb", "tests", "notebooks") for p in (ROOT / part).rglob("*")]
        paths += list(ROOT.glob("*.*"))
    return [path for path in paths if path.is_file() and path.suffix in TEXT_SUFFIXES]


def test_no_example_has_left_a_table_in_the_checkout() -> None:
    assert not sorted(folder.parent.name for folder in ROOT.glob("*/_delta_log"))


def test_an_extra_that_is_named_is_one() -> None:
    """Who is told to install one has to find it."""
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    _, _, table = project.partition("[project.optional-dependencies]\n")
    extras = set(re.findall(r"^([a-z-]+) = \[", table.partition("\n[")[0], re.M))
    folders = [ROOT / name for name in ("deltanb", "docs", "notebooks", "binder", "tests")]
    paths = [path for path in (*ROOT.glob("*"), *(path for folder in folders for path in folder.rglob("*")))
             if path.suffix in TEXT_SUFFIXES]
    named = {(path.relative_to(ROOT).as_posix(), extra) for path in paths
             for names in re.findall(r"deltanb\[([a-z,-]+)\]", path.read_text("utf-8"))
             for extra in names.split(",")}
    assert len(named) > 20 and {each for each in named if each[1] not in extras} == set()
