"""Imports go one way, and the first one is quick."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ENGINES_AND_NOTEBOOKS = {"pyspark", "pandas", "altair", "ipywidgets", "IPython"}
HEAVY = ENGINES_AND_NOTEBOOKS | {"pyarrow", "numpy", "sqlglot", "msgspec", "pyroaring"}
MAX_MODULES = 60  # beyond those of a bare interpreter: typing, re and their kin are about 30
MAX_START_UP_RATIO = 4.0  # against a bare interpreter: a tenth of a second where that takes 25 ms


def modules_of(*packages: str) -> list[str]:
    """Names of all modules under the given packages, from their files."""
    names = []
    for package in packages:
        for file in sorted(ROOT.joinpath(*package.split(".")).rglob("*.py")):
            parts = file.relative_to(ROOT).with_suffix("").parts
            names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return names


def loaded_after(statement: str) -> set[str]:
    """Names in ``sys.modules`` of a fresh interpreter that ran one statement."""
    code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return set(json.loads(result.stdout.splitlines()[-1]))


def test_the_core_loads_no_engine_and_no_notebook_library() -> None:
    names = [*modules_of("deltanb.log", "deltanb.transaction"), "deltanb.actions"]
    assert len(names) > 10, names
    loaded = loaded_after("import deltanb, " + ", ".join(names))
    assert set(names) <= loaded
    assert not ENGINES_AND_NOTEBOOKS & loaded


LAYERS = (
    ("_version", "safe_text", "errors", "options", "display", "formatting", "progress", "damage", "action",
     "actions", "schema.types"),
    ("store",),
    ("schema", "sql"),
    ("log",),
    ("transaction",),
    ("data", "spark"),
    ("commands",),
    ("table", "entry"),
    ("observe",),
    ("notebook",),
    ("cli", "testing", ""),
)


def layer_of(module: str) -> int:
    """The row of a module in the table of layers; the longest prefix counts."""
    inner = module.removeprefix("deltanb").removeprefix(".")
    rows = {name: row for row, names in enumerate(LAYERS) for name in names}
    matching = [name for name in rows if f"{inner}.".startswith(f"{name}.") or inner == name]
    return rows[max(matching, key=len)]


def imports_at_load(path: Path) -> Iterator[str]:
    """Modules of the package that a module imports when it is loaded, not inside functions."""
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("deltanb"))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("deltanb"):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                is_module = ROOT.joinpath(*inner.split(".")).with_suffix(".py").exists()
                yield inner if is_module else str(node.module)


@pytest.mark.parametrize("module", modules_of("deltanb"))
def test_a_module_imports_only_from_its_layer_and_those_above(module: str) -> None:
    base = ROOT.joinpath(*module.split("."))
    path = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
    below = {name for name in imports_at_load(path) if layer_of(name) > layer_of(module)}
    assert below == set()


def test_importing_the_package_loads_nothing_heavy() -> None:
    loaded = loaded_after("import deltanb")
    assert not HEAVY & loaded
    assert len(loaded - loaded_after("pass")) <= MAX_MODULES


@pytest.mark.skipif(not hasattr(os, "wait4"), reason="needs the processor time of one child")
def test_importing_the_package_costs_little_beside_starting_python() -> None:
    # Processor time, and the least of several alternating runs: other load does not add to it.
    bare, package = [], []
    for _ in range(5):
        bare.append(processor_time("pass"))
        package.append(processor_time("import deltanb"))
    assert min(package) / min(bare) < MAX_START_UP_RATIO


def processor_time(statement: str) -> float:
    """Seconds of processor time a fresh interpreter takes to run one statement."""
    process = subprocess.Popen([sys.executable, "-c", statement], cwd=ROOT)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_utime + usage.ru_stime


def test_every_public_name_resolves() -> None:
    import deltanb

    for name in deltanb.__all__:
        assert getattr(deltanb, name) is not None
    assert set(deltanb.__all__) <= set(dir(deltanb))
    with pytest.raises(AttributeError, match="no_such_name"):
        deltanb.no_such_name  # noqa: B018
