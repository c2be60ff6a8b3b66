"""Imports go one way, and the first one is quick."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from deltanb.text import upper
from docs import house
from docs.house import arrows, floor_of, modules_of

ROOT = Path(__file__).resolve().parent.parent
ENGINES_AND_NOTEBOOKS = {"pyspark", "pandas", "altair", "ipywidgets", "IPython"}
HEAVY = ENGINES_AND_NOTEBOOKS | {
    "pyarrow", "numpy", "sqlglot", "msgspec", "pyroaring", "sqlalchemy", "psycopg"
}
MAX_MODULES = 60  # beyond those of a bare interpreter: typing, re and their kin are about 30
MAX_START_UP_RATIO = 4.0  # against a bare interpreter: a tenth of a second where that takes 25 ms


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


def test_an_append_loads_nothing_that_finds_rows() -> None:
    loaded = loaded_after(
        "import deltanb; from deltanb.testing import MemoryStore; "
        "deltanb.create(MemoryStore(), {'id': [1]}).append({'id': [2]})")
    assert "deltanb.commands.rows.write" in loaded
    assert not {"pyroaring", "deltanb.engines.contract", "deltanb.engines.arrow.data_file"} & loaded


def test_locks_are_had_without_arrow() -> None:
    names = modules_of("deltanb.locks.core")
    assert len(names) > 15, names
    assert not HEAVY & loaded_after("import deltanb, " + ", ".join(names))


UP = {
    ("actions.metadata", "schema.types"): "Metadata.schema parses the schema's JSON",
    ("options", "schema.properties"): "the option default_table_properties is checked when it is set",
    ("table.table", "observe.availability"): "DeltaTable.versions()",
    ("table.table", "observe.time_travel"): "DeltaTable.time_travel()",
    ("table.table", "observe.timeline"): "DeltaTable.timeline()",
}
"""Every import that runs up, of whatever kind, and why it stays."""

MAX_WORDS = 4_000  # of the guide: more is not read
MAX_UP = 5
MAX_CIRCLE = 3  # files that import each other, when they are loaded or inside functions
MAX_CIRCLE_OF_TYPES = 12  # where imports for annotations count, too


def circles(pairs: Iterable[tuple[str, str]]) -> list[set[str]]:
    """Modules that reach each other (Tarjan's strongly connected components), where there are several."""
    below: dict[str, set[str]] = {}
    for module, target in pairs:
        if module and target:
            below.setdefault(module, set()).add(target)
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    components: list[set[str]] = []

    def visit(module: str) -> None:
        number[module] = lowest[module] = len(number)
        path.append(module)
        for target in below.get(module, ()):
            if target not in number:
                visit(target)
                lowest[module] = min(lowest[module], lowest[target])
            elif target in path:
                lowest[module] = min(lowest[module], number[target])
        if lowest[module] == number[module]:
            at = path.index(module)
            components.append(set(path[at:]))
            del path[at:]

    for module in below:
        if module not in number:
            visit(module)
    return [circle for circle in components if len(circle) > 1]


def test_imports_run_down_but_for_the_listed_ones() -> None:
    upward = {pair for pair in arrows() if floor_of(pair[1]) > floor_of(pair[0])}
    assert upward == set(UP)
    assert len(UP) <= MAX_UP


def test_each_way_up_has_its_type_and_leads_up() -> None:
    stub = ast.parse(Path(upper.__file__).with_suffix(".pyi").read_text("utf-8"))
    imports = {alias.name: node.module for node in ast.walk(stub) if isinstance(node, ast.ImportFrom)
               for alias in node.names}
    assert upper.modules() == imports and len(imports) > 10
    for name, module in imports.items():
        assert getattr(upper, name).__module__ == module
        assert floor_of(str(module).removeprefix("deltanb.")) > floor_of("log")
    with pytest.raises(AttributeError, match="no_such_name"):
        upper.no_such_name  # noqa: B018


def test_iceberg_metadata_is_plain_json_on_the_ground_floor() -> None:
    pairs = {pair for pair in arrows() if pair[0].startswith("catalog.iceberg.metadata.")}
    assert len(pairs) > 10, pairs
    beyond = {target for _, target in pairs if not target.startswith("catalog.iceberg.metadata.")}
    assert beyond and {floor_of(target) for target in beyond} == {0}
    loaded = loaded_after("import " + ", ".join(modules_of("deltanb.catalog.iceberg.metadata")))
    assert not (HEAVY | {"sqlalchemy", "pyiceberg"}) & loaded


def test_no_large_circles() -> None:
    all_arrows = arrows()
    at_work = circles(pair for pair, is_type in all_arrows.items() if not is_type)
    assert [sorted(circle) for circle in at_work if len(circle) > MAX_CIRCLE] == []
    assert [sorted(circle) for circle in circles(all_arrows) if len(circle) > MAX_CIRCLE_OF_TYPES] == []


def test_a_circle_is_found() -> None:
    assert circles([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("", "a")]) == [{"a", "b", "c"}]


def test_importing_the_package_loads_nothing_heavy() -> None:
    loaded = loaded_after("import deltanb")
    assert not (HEAVY | {"starlette", "uvicorn", "httpx", "pyiceberg"}) & loaded
    assert not [name for name in loaded if name.startswith("deltanb.catalog")]
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


def test_the_figure_in_the_guide_is_that_of_the_imports() -> None:
    """``python docs/house.py --figure`` draws it anew."""
    guide = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    assert house.figure() in guide
    assert len(guide.split()) <= MAX_WORDS
