"""``%sql`` and ``%%sql``: SQL in a notebook's cells, over tables named by variables or paths.

What lives here: :class:`SqlMagic`, its options, and what ``%load_ext deltanb`` does.
What it does not know: how a statement runs (``query/sql``), how its result looks (``views``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from keyword import iskeyword
from typing import Any

from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand

from deltanb.errors import InvalidArgument
from deltanb.query.statements.kinds import KINDS
from deltanb.text.formatting import did_you_mean

USAGE = "%%sql [--spark] [-o NAME] [-q] on the first line, below it SQL"
_ASSIGNMENT = re.compile(r"\s*([^\W\d]\w*)\s*<<\s*")
_OPTION = re.compile(r"\s*(--?[A-Za-z][\w-]*)(?:=(\S*))?(?=\s|$)")
_NAME = re.compile(r"\s*(\S+)")
NAMES = {"-o": "output", "--output": "output", "-q": "quiet", "--quiet": "quiet", "--spark": "spark",
         "--duckdb": "duckdb"}


@dataclass(frozen=True)
class CellRequest:
    """What a cell asks for."""

    sql: str
    spark: bool = False
    output: str | None = None
    quiet: bool = False


@magics_class
class SqlMagic(Magics):
    """The two magics of one name."""

    @no_var_expand
    @line_cell_magic
    def sql(self, line: str, cell: str | None = None) -> Any:
        """Ask and change Delta tables in SQL: `%sql SELECT …` on a line, `%%sql` for a cell.

        All statements of `dn.sql` can be written, several with semicolons between them; the result is that of
        the last one.

        A table is the name of a variable that holds one (`FROM flights`), or a path (`FROM 'lake/flights'`,
        ``FROM delta.`lake/flights` ``). A past version is `FROM flights VERSION AS OF 3` or
        `FROM flights TIMESTAMP AS OF '2026-03-01'`. Data frames and Arrow tables in variables can
        be joined, and `$name` or `:name` is the value of a variable. `CREATE TABLE name … LOCATION 'path'`
        makes the variable.

        DuckDB runs queries. Files that cannot hold what WHERE asks of a table are not opened; the result
        says how many, and why.

            --spark           ask Spark; a local session is begun if there is none
            -o, --output NAME keep the result in a variable, too; `NAME << SELECT …` does and shows nothing
            -q, --quiet       show nothing

        The result of a query has `.to_pandas()`, `.to_arrow()`, `.scans`, and can be asked by a later query.

        Statements:
        """
        from deltanb.query.sql import run_sql

        request = parse(line, cell)
        names = self.shell.user_ns
        result = run_sql(request.sql, names, request.spark, created=names)
        if request.output is not None:
            self.shell.user_ns[request.output] = result
        return None if request.quiet else result

    sql.__doc__ = f"{(sql.__doc__ or '').rstrip()} {', '.join(kind.name for kind in KINDS)}."


def parse(line: str, cell: str | None = None) -> CellRequest:
    """The options at the beginning of a line, and the query behind them or below it.

    >>> parse("--spark -o found", "SELECT 1")
    CellRequest(sql='SELECT 1', spark=True, output='found', quiet=False)
    >>> parse("found << SELECT 1")
    CellRequest(sql='SELECT 1', spark=False, output='found', quiet=True)

    Raises:
        InvalidArgument: an unknown option, or no query.
    """
    arguments: dict[str, Any] = {}
    assignment = _ASSIGNMENT.match(line)
    while assignment is None and (option := _OPTION.match(line)) is not None:
        line = line[option.end():]
        name, value = _known(option[1]), option[2]
        if name == "output" and value is None:
            word = _NAME.match(line)
            value, line = (word[1], line[word.end():]) if word else ("", line)
        elif name != "output" and value is not None:
            raise InvalidArgument(f"{option[1]} takes no value, found {value!r}")
        arguments[name] = _variable(value) if name == "output" else True
        assignment = _ASSIGNMENT.match(line)
    if assignment is not None:
        arguments.update(output=_variable(assignment[1]), quiet=True)
        line = line[assignment.end():]
    if arguments.pop("duckdb", False) and arguments.get("spark"):
        raise InvalidArgument("--spark or --duckdb, not both: one engine runs a query")
    sql = "\n".join(part for part in (line, cell or "") if part.strip()).strip()
    if not sql:
        raise InvalidArgument(f"there is no query: {USAGE}")
    return CellRequest(sql, **arguments)


def _known(option: str) -> str:
    if option not in NAMES:
        hint, _ = did_you_mean(option, NAMES, "options")
        raise InvalidArgument(f"%%sql has no option {option}; {hint}")
    return NAMES[option]


def _variable(name: str) -> str:
    if not name.isidentifier() or iskeyword(name):
        raise InvalidArgument(f"-o takes the name of a variable, found {name!r}")
    return name


def load(shell: Any) -> None:
    """Give a shell the magics: what ``%load_ext deltanb`` does."""
    shell.register_magics(SqlMagic)


def unload(shell: Any) -> None:
    """Take them away again: what ``%unload_ext deltanb`` does."""
    for kind in ("line", "cell"):
        magics = shell.magics_manager.magics[kind]
        if isinstance(getattr(magics.get("sql"), "__self__", None), SqlMagic):
            del magics["sql"]
