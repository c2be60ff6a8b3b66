"""Every statement on every kind of table does what its method does: the same rows, commits and refusals."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltanb import errors
from deltanb.commands.result import CommandResult
from deltanb.commands.upkeep.vacuum import VacuumResult
from deltanb.log.history import History
from deltanb.log.skipping.explain import ScanExplanation
from deltanb.query.create_text import create_text
from deltanb.query.result import QueryResult, StatementResult
from deltanb.query.sql import run_sql
from deltanb.query.statements.kinds import KINDS, Kind, commands_of
from deltanb.schema.types import from_arrow
from deltanb.table.table import DeltaTable
from tests.examples import every
from tests.table_kinds import HANDLES, Home, Maker

FLIGHTS = {"month": [1, 1, 2], "delay": [5, None, 9], "carrier": ["AA", "UA", "AA"]}
LATE = {"month": [1, 4], "delay": [100, 50], "carrier": ["AA", "ZZ"]}
DIRECT: dict[str, Callable[[Any, Any], Any]] = {
    "INSERT": lambda t, late: t.append(
        {"month": [3, 3], "delay": [12, None], "carrier": ["AA", "UA"]}),
    "INSERT OVERWRITE": lambda t, late: t.overwrite(
        {"month": [1], "delay": [7], "carrier": ["DL"]}, where="month = 1"),
    "UPDATE": lambda t, late: t.update({"delay": "0", "carrier": "lower(carrier)"}, where="delay IS NULL"),
    "DELETE": lambda t, late: t.delete("month = 1"),
    "TRUNCATE": lambda t, late: t.truncate(),
    "MERGE": lambda t, late: t.merge(
        late, "f.month = l.month AND f.carrier = l.carrier", target_alias="f", source_alias="l")
    .when_matched_update(set={"delay": "l.delay"}).when_not_matched_insert_all().execute(),
    "SHALLOW CLONE": lambda t, late: t.clone("copy"),
    "ALTER TABLE": lambda t, late: t.add_columns("gate string COMMENT 'at departure' AFTER carrier"),
    "COMMENT ON TABLE": lambda t, late: t.set_description("all of this year"),
    "COMMENT ON COLUMN": lambda t, late: t.change_column("delay", comment="in minutes"),
    "OPTIMIZE": lambda t, late: t.optimize("month = 1", zorder_by=["delay"]),
    "REORG TABLE": lambda t, late: t.purge(),
    "VACUUM": lambda t, late: t.vacuum(200, dry_run=True),
    "RESTORE": lambda t, late: t.restore(0),
    "ANALYZE TABLE": lambda t, late: t.analyze(["delay"]),
    "GENERATE": lambda t, late: t.generate("symlink_format_manifest"),
    "DESCRIBE": lambda t, late: described(t),
    "DESCRIBE DETAIL": lambda t, late: t.detail(),
    "DESCRIBE HISTORY": lambda t, late: t.history(5),
    "SHOW TBLPROPERTIES": lambda t, late: [
        {"key": key, "value": value} for key, value in sorted(properties(t).items())],
    "SHOW COLUMNS": lambda t, late: [{"col_name": name} for name in t.to_arrow(limit=0).column_names],
    "SHOW CREATE TABLE": lambda t, late: [
        {"createtab_stmt": create_text(t.snapshot, "flights").partition("(")[2]}],
    "EXPLAIN": lambda t, late: t.explain("month = 1"),
}
"""What each statement's example does, written as a call."""


def described(table: Any) -> list[dict[str, Any]]:
    """The columns of a table as DESCRIBE shows them."""
    schema = table.schema if isinstance(table, DeltaTable) else from_arrow(table.to_arrow(limit=0).schema)
    names = {"long": "bigint"}
    rows = [(field.name, names.get(str(field.type), str(field.type)), None) for field in schema.fields]
    if isinstance(table, DeltaTable):
        rows += [("# Partition Information", "", None), ("# col_name", "data_type", "comment"), rows[0]]
    return [dict(zip(("col_name", "data_type", "comment"), row, strict=True)) for row in rows]


def properties(table: Any) -> dict[str, str]:
    """The properties of a table as SHOW TBLPROPERTIES shows them."""
    if not isinstance(table, DeltaTable):
        return dict(table.properties)
    protocol = table.protocol
    listed = protocol.features if protocol.min_writer_version == 7 else ()
    own = {key: value for key, value in table.properties.items() if key not in OWN}
    return {**own, "delta.minReaderVersion": str(protocol.min_reader_version),
            "delta.minWriterVersion": str(protocol.min_writer_version),
            **{f"delta.feature.{name}": "supported" for name in listed}}


def of_flights(kind: Kind) -> bool:
    """Whether the example is about the table ``flights``."""
    command, *more = commands_of(kind.example)
    return not more and command.target is not None and command.target.parts == ("flights",)


def test_every_statement_is_compared() -> None:
    assert {kind.name for kind in KINDS if of_flights(kind)} == DIRECT.keys()
    assert all(commands_of(kind.example)[0].statement == kind.name for kind in KINDS)


OWN = ("id", "location", "createdAt", "lastModified", "name", "sizeInBytes", "io.unitycatalog.tableId")
"""What two tables that are alike differ in."""


NO_METHOD = re.compile("has no method|is an Iceberg table")


def plain_result(result: Any) -> Any:
    """What a result says, for comparison."""
    match result:
        case CommandResult():
            return result.operation, {name: value for name, value in result.metrics.items()
                                      if not name.endswith(("Ms", "Bytes"))}
        case QueryResult():
            return [{name: value.partition("(")[2] if name == "createtab_stmt" else value
                     for name, value in row.items()} for row in result.rows.to_pylist()
                    if row.get("key") not in OWN]
        case DeltaTable():
            return result.version, result.to_arrow().num_rows
        case dict():
            return {name: plain_result(value) for name, value in result.items() if name not in OWN}
        case History():
            return [(one.version, one.operation) for one in result]
        case ScanExplanation():
            return result.where, result.opened, result.num_files, result.version
        case VacuumResult():
            return result.dry_run
        case StatementResult():  # the method returns nothing
            return None
    return result


def seen(home: Home, work: Callable[[], Any], path: Path) -> tuple[Any, ...]:
    """What came of it: the result or the refusal, the rows, and the commits."""
    came: Any
    try:
        result = work()
    except AttributeError:
        came = "there is no such method"
    except errors.InvalidQuery as error:
        came = "there is no such method" if NO_METHOD.search(str(error)) else str(error)
    except errors.DeltaError as error:
        came = type(error).__name__, str(error).replace(str(path), "")
    else:
        came = plain_result(result)
    rows = sorted(map(str, home.table.to_arrow().to_pylist()))
    home.end()
    if isinstance(home.itself, DeltaTable):
        commits = [(one.operation, str(one.operation_parameters))
                   for one in home.itself.history()[:-1]]  # that which made it has ids
    else:
        commits = []
    return came, rows, commits, sorted(map(str, home.itself.to_arrow().to_pylist()))


EACH = every(5, [(kind, make) for kind in KINDS if of_flights(kind) for make in HANDLES])
"""Each fifth of them: of each statement one or two kinds, of each kind a fifth of the statements."""


@pytest.mark.parametrize(("kind", "make"), EACH, ids=lambda one: getattr(one, "name", "") or one.__name__)
def test_a_statement_is_a_call_of_its_method(
    kind: Kind, make: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = []
    for name in ("sql", "call"):
        path = tmp_path / name
        path.mkdir()
        monkeypatch.chdir(path)
        late = pa.table(LATE)
        with make(path, FLIGHTS, partition_by="month") as home:
            by_sql = partial(run_sql, kind.example, {"flights": home.table, "late": late})
            by_call = partial(DIRECT[kind.name], home.table, late)
            outcomes.append(seen(home, by_sql if name == "sql" else by_call, path))
    assert outcomes[0] == outcomes[1]
