"""``deltanb sql``: statements on the command line, over tables named by paths or in a catalog.

What lives here: its arguments, and how results are printed: for people, as JSON, as CSV.
What it does not know: statements, engines.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

from deltanb.errors import DeltaError, InvalidArgument
from deltanb.store.uris import UNITY
from deltanb.text.formatting import count
from deltanb.text.safe_text import redacted, safe

MAX_ROWS = 1_000
"""Rows printed for people; ``--csv`` and ``--json`` print all."""


def add_to(commands: Any) -> None:
    """Add the command to the command line."""
    from deltanb.query.statements.kinds import KINDS

    sql = commands.add_parser(
        "sql", help="run SQL statements over tables",
        description="Run SQL statements, separated by semicolons, and print the result of the last one. "
        "Tables are named by paths (delta.`lake/flights`, 'lake/flights') or, with --catalog, by namespace "
        "and name. Statements: " + ", ".join(kind.name for kind in KINDS) + ". The exit code is 0, or 2 for "
        "an error, which says which statement failed and what was done before.")
    sql.add_argument("text", metavar="SQL", nargs="?", help="the statements; with -f they come from a file")
    sql.add_argument("-f", "--file", metavar="FILE", help="read them from a file; - reads the input")
    sql.add_argument("-p", "--param", action="append", default=[], metavar="NAME=VALUE",
                     help="the value of :NAME, as JSON (5, true, null), else as the text it is")
    sql.add_argument("--catalog", metavar="URL",
                     help="sqlite:///FILE or postgresql://…, with --warehouse; or a server: http://…, uc://…")
    sql.add_argument("--warehouse", metavar="DIR", help="the folder below which the catalog's tables lie")
    sql.add_argument("--spark", action="store_true", help="run queries on Spark instead of DuckDB")
    form = sql.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON: of a query all rows, as objects")
    form.add_argument("--csv", action="store_true", help="print all rows of a query as CSV")
    sql.set_defaults(run=_sql)


def _sql(arguments: argparse.Namespace) -> int:
    from deltanb.query.sql import run_sql

    text, values = _text(arguments), _parameters(arguments.param)
    try:
        with _catalog(arguments, text) as catalog:
            result = run_sql(text, {}, arguments.spark, values, catalog)
            _print(result, arguments)
    except DeltaError as error:
        for line in (" ".join(str(error).split()), *getattr(error, "__notes__", ())):
            print(f"deltanb: {safe(line)}", file=sys.stderr)
        return 2
    return 0


def _text(arguments: argparse.Namespace) -> str:
    if (arguments.text is None) == (arguments.file is None):
        raise InvalidArgument("give the statements, or -f and a file that has them")
    if arguments.text is not None:
        return str(arguments.text)
    return sys.stdin.read() if arguments.file == "-" else Path(arguments.file).read_text("utf-8-sig")


def _parameters(pairs: Sequence[str]) -> dict[str, Any]:
    values = {}
    for pair in pairs:
        name, sign, text = pair.partition("=")
        if not sign or not name.isidentifier():
            raise InvalidArgument(f"--param {pair}: write it as NAME=VALUE")
        try:
            values[name] = json.loads(text)
        except ValueError:
            values[name] = text
    return values


def _catalog(arguments: argparse.Namespace, text: str) -> Any:
    """The catalog that is named, or none."""
    from deltanb.catalog.catalog import Catalog
    from deltanb.catalog.rest.client.catalog import connect
    from deltanb.query.statements.kinds import commands_of

    url, warehouse = arguments.catalog, arguments.warehouse
    if url is None:
        if warehouse is not None:
            raise InvalidArgument("--warehouse needs --catalog, which is missing")
        return nullcontext()
    if url.startswith(("http://", "https://", UNITY)):
        return connect(url)
    if warehouse is None:
        raise InvalidArgument(f"--catalog {url}: pass --warehouse, the folder that holds its tables")
    kind, _, file = url.partition("?")[0].partition(":///")
    if kind == "sqlite" and not Path(file).exists() and not any(
            command.statement == "CREATE SCHEMA" for command in commands_of(text)):
        raise InvalidArgument(f"there is no catalog at {file}; CREATE SCHEMA makes one")
    return Catalog(url, warehouse)


# -- results -------------------------------------------------------------------------------------------------

def _print(result: Any, arguments: argparse.Namespace) -> None:
    from deltanb.query.result import QueryResult

    is_rows = isinstance(result, QueryResult)
    if arguments.csv:
        if not is_rows:
            raise InvalidArgument("--csv prints the rows of a query, and the last statement is not a query")
        _print_csv(result.rows)
    elif arguments.json:
        print(redacted(json.dumps(_plain(result), default=str)))
    elif is_rows:
        print(safe(listing(result)))
    elif result is not None:
        print(safe(_lines(result)))


def listing(result: Any) -> str:
    """The rows of a query as a table, and which files were opened.

    >>> import deltanb as dn
    >>> print(listing(dn.sql("SELECT 1 AS id, 'Gus' AS name UNION ALL SELECT 20, NULL ORDER BY 1")))
    id  name
    1   Gus
    20  null
    2 rows
    """
    from deltanb.notebook.views.diff import shown
    from deltanb.query.result import only_text

    text = only_text(result.rows)
    if text is not None:  # to be run elsewhere
        return text
    head = result.rows.slice(0, MAX_ROWS)
    columns = [[name, *(shown(value).text for value in head.column(at).to_pylist())]
               for at, name in enumerate(result.columns)]
    widths = [max(map(len, column)) for column in columns]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
             for row in zip(*columns, strict=True)]
    if len(result) > MAX_ROWS:
        lines.append(f"… the first {count(MAX_ROWS, 'row')}; --csv and --json print all")
    opened = f", opened {result.opened} of {count(result.num_files, 'file')}" if result.scans else ""
    return "\n".join([*lines, f"{count(len(result), 'row')}{opened}"])


def _print_csv(rows: Any) -> None:
    import pyarrow as pa
    from pyarrow import csv

    sink = pa.BufferOutputStream()
    try:
        csv.write_csv(rows, sink)
    except pa.ArrowException as error:
        raise InvalidArgument(f"the rows cannot be written as CSV: {error}; --json can") from None
    print(sink.getvalue().to_pybytes().decode("utf-8"), end="")


def _lines(result: Any) -> str:
    if isinstance(result, Mapping) and not hasattr(result, "_repr_mimebundle_"):
        return "\n".join(f"{name}  {value}" for name, value in result.items())
    return str(result)


def _plain(result: Any) -> Any:
    """A result as JSON has it."""
    from deltanb.commands.result import CommandResult
    from deltanb.query.result import QueryResult, StatementResult

    if isinstance(result, QueryResult):
        return result.rows.to_pylist()
    if isinstance(result, StatementResult):
        return asdict(result)
    if isinstance(result, CommandResult):
        return {"operation": result.operation, "version": result.version, "metrics": dict(result.metrics)}
    if hasattr(result, "to_pandas"):
        return json.loads(result.to_pandas().to_json(orient="records", date_format="iso"))
    if result is None or isinstance(result, Mapping):
        return result
    return str(result)
