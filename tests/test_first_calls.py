"""What the first call of each kind loads in a fresh process: each library is waited for by people."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import deltanb
from deltanb.engines.arrow import row_groups

ROOT = Path(__file__).resolve().parent.parent
ARROW = {"pyarrow", "numpy", "typing_extensions"}
LOG = ARROW | {"msgspec"}
FILES = LOG | {"pyroaring", "pyarrow.parquet", "pyarrow.fs"}
PANDAS = {"pandas", "pyarrow.pandas_compat", "pytz", "dateutil", "six"}
"""Arrow loads it for ``pa.array`` of a list and for all that needs ``pyarrow._dataset``, as Acero."""
SQL = FILES | {"sqlglot", "mypy_extensions"}
ACERO = PANDAS | {"pyarrow.acero", "pyarrow.dataset", "pyarrow.substrait", "pyarrow.fs"}

MAY_LOAD = {
    "deltanb.open(path)": LOG,
    "repr(deltanb.open(path))": LOG | {"pyroaring"},
    "repr(deltanb.open(path).history())": LOG | {"pyroaring"},
    "deltanb.create(other, pa.table({'id': ids})).log.checkpoint()": FILES,
    "deltanb.open(path).to_arrow()": FILES,
    "deltanb.open(path).append(pa.table({'id': ids}))": LOG | {"pyarrow.parquet", "pyarrow.fs"},
    "deltanb.create(other, pa.table({'id': ids}))": LOG | {"pyarrow.parquet", "pyarrow.fs"},
    "deltanb.create(other, pa.table({'id': ids, 'name': ids.cast(pa.string())}), partition_by='name')":
        LOG | {"pyarrow.parquet", "pyarrow.fs"},
    "deltanb.open(path).append({'id': [4]})": LOG | {"pyarrow.parquet", "pyarrow.fs"},
    "deltanb.open(path).delete('id = 2')": SQL,
    "deltanb.open(path).delete('id = 9')": SQL,
    "deltanb.open(path).to_arrow(where='id = 9')": SQL,
    "deltanb.open(path).delete('(id IN (1, 2) OR id = 9) AND NOT id = 3')": SQL,
    "deltanb.open(path).to_arrow(where='id IN (1, 2)')": SQL,
    "deltanb.open(path).delete('abs(id) = 2')": SQL | ACERO,
    "deltanb.open(path).update({'id': '5'}, where='id = 2')": SQL,
    "deltanb.open(path).update({'x': '1.5'}, where='id = 2')": SQL,
    "deltanb.open(path).update({'id': 'id + 1'}, where='id = 2')": SQL | ACERO,
    "deltanb.open(parted).to_arrow(where='day = 2 AND id IN (1, 2)')": SQL,
    "deltanb.open(parted).delete('day = 2 AND id = 2')": SQL,
    "deltanb.open(large).to_arrow(where='id < 5')": SQL,
    "deltanb.open(large).delete('id < 5')": SQL,
    "deltanb.open(path).merge(pa.table({'id': ids}), 'target.id = source.id')"
    ".when_matched_delete().execute()": SQL,
    "deltanb.open(path).merge(pa.table({'id': ids, 'x': xs}), 't.id <=> s.id', target_alias='t',"
    "source_alias='s').when_matched_update_all().when_not_matched_insert_all().execute()": SQL,
    "deltanb.open(path).merge(pa.table({'id': ids, 'y': xs}), 'target.id = source.id')"
    ".when_matched_update(set={'x': 'y'}).execute()": SQL,
    "deltanb.open(path).merge(pa.table({'id': ids}), 'target.id = source.id + 1')"
    ".when_matched_delete().execute()": SQL | ACERO,
}
"""The first call of a process, and the libraries beyond Python's own that it may load."""

PROGRAM = """
import json, sys
given = set(sys.modules)
import pyarrow as pa
import deltanb
path, other, parted, large = sys.argv[1:]
ids = pa.repeat(pa.nulls(1, pa.int64())[0], 1)
xs = ids.cast(pa.float64())
{call}
found = set(sys.modules) - given
ours = {{name for name in found if name.startswith("pyarrow.") and name.count(".") == 1}}
tops = {{name.partition(".")[0] for name in found}} - sys.stdlib_module_names - {{"deltanb"}}
print(json.dumps(sorted(tops | ours)))
"""
QUIET = {"pyarrow.compute", "pyarrow.ipc", "pyarrow.lib", "pyarrow.types", "pyarrow.util", "pyarrow.cffi"}
"""Parts of pyarrow that any other loads, or that are no files of their own."""


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small table, in a folder of its own."""
    path = tmp_path_factory.mktemp("first") / "table"
    deltanb.create(path, {"id": [1, 2, 3], "x": [1.5, 2.5, None]})
    deltanb.create(f"{path}-parted", {"id": [1, 2, 3], "day": [1, 2, 2]}, partition_by="day")
    deltanb.create(f"{path}-large", {"id": range(row_groups.MIN_ROWS)})  # its row groups are judged
    return path


@pytest.mark.parametrize("call", MAY_LOAD)
def test_a_first_call_loads_only_what_it_needs(call: str, table: Path, tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(call=call), str(table), str(tmp_path / "other"),
         f"{table}-parted", f"{table}-large"],
        capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = {name for name in json.loads(result.stdout.splitlines()[-1]) if name not in QUIET
              and not name.startswith(("_", "cython_runtime", "pyarrow._", "pyarrow.vendored"))}
    assert loaded - MAY_LOAD[call] == set()


def test_opening_a_table_loads_none_of_arrows_functions(table: Path) -> None:
    """They would take a third of the time of a first open."""
    program = ("import sys, deltanb; table = deltanb.open(sys.argv[1]); table.version, table.schema; "
               "print('deltanb.log.file_set' in sys.modules, 'pyarrow.compute' in sys.modules)")
    result = subprocess.run([sys.executable, "-c", program, str(table)],
                            capture_output=True, text=True, check=True, cwd=ROOT)
    assert result.stdout.split() == ["True", "False"]


def test_a_table_that_is_shown_loads_the_values_of_post_mortems_alone(table: Path) -> None:
    """The rules and the texts of all writers would be read for people who see a table for the first time."""
    program = ("import sys, deltanb; repr(deltanb.open(sys.argv[1])); print(*sorted("
               "name for name in sys.modules if name.startswith('deltanb.observe.post_mortem')))")
    result = subprocess.run([sys.executable, "-c", program, str(table)],
                            capture_output=True, text=True, check=True, cwd=ROOT)
    assert result.stdout.split() == ["deltanb.observe.post_mortem", "deltanb.observe.post_mortem.report"]


def test_a_client_of_a_catalog_loads_no_reader_of_sql() -> None:
    """It knows all endpoints of a server, the values of their answers, too; only statements are parsed."""
    pytest.importorskip("sqlalchemy", reason="catalogs are an extra: pip install 'deltanb[catalog]'")
    program = "import sys, deltanb.catalog.rest.client.store; print('sqlglot' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", program],
                            capture_output=True, text=True, check=True, cwd=ROOT)
    assert result.stdout.split() == ["False"]
