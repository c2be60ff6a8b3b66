"""What a query gave: its rows, and which files it opened for them.

What lives here: :class:`QueryResult`, and :func:`rows_of_texts`, one of a statement that asks no engine;
:class:`QueryPlan`, of a query that is explained only; :class:`StatementResult`, of a statement whose method
returns nothing.
What it does not know: how queries run, how results are drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from deltanb.text.display import Displayable
from deltanb.text.spellings import answer_wrong_arguments

Read = Literal["whole", "part", "none"]
OF_CATALOG, OF_TABLE = "the catalog", "the log"
"""In place of an engine: who knows what a statement asks for."""

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from deltanb.log.skipping.explain import ScanExplanation


@answer_wrong_arguments()
@dataclass(frozen=True, repr=False, eq=False)
class QueryResult(Displayable):
    """The rows of a query, and a word on every Delta table that it read.

    A later query may name the variable that holds it; so may everything that takes a stream of Arrow's.

    >>> import deltanb as dn
    >>> from deltanb.testing import MemoryStore
    >>> ducks = dn.create(MemoryStore(), {"id": [1, 2]})
    >>> result = dn.sql("SELECT count(*) AS num_ducks FROM ducks")
    >>> result.rows.to_pylist()
    [{'num_ducks': 2}]
    """

    sql: str
    """The query as it was written."""
    rows: pa.Table
    scans: tuple[ScanExplanation, ...] = ()
    """Which files were opened of each table, in the order in which the query names them."""
    reads: tuple[Read, ...] = ()
    """For each of them, whether the engine read all files that were to be opened, had enough before the last
    (as of a LIMIT), or asked for no row at all."""
    engine: str = "DuckDB"

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.rows.__arrow_c_stream__(requested_schema)

    @property
    def columns(self) -> list[str]:
        """The names of the columns.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> ducks = dn.create(MemoryStore(), {"id": [1, 2]})
        >>> list(dn.sql("SELECT id, id + 1 AS next FROM ducks").columns)
        ['id', 'next']
        """
        return list(self.rows.column_names)

    @property
    def num_files(self) -> int:
        """Files of all tables together, at the versions that were read.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> ducks = dn.create(MemoryStore(), {"pond": ["a", "b"], "id": [1, 2]}, partition_by="pond")
        >>> result = dn.sql("SELECT id FROM ducks WHERE pond = 'a'")
        >>> result.num_files, result.opened
        (2, 1)
        """
        return sum(scan.num_files for scan in self.scans)

    @property
    def opened(self) -> int:
        """Files of them that were opened; at most so many where one was read in part.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> ducks = dn.create(MemoryStore(), {"id": [1, 2]})
        >>> dn.sql("SELECT id FROM ducks WHERE id > 9").opened
        0
        """
        return sum(scan.opened for scan, read in zip(self.scans, self.reads, strict=True) if read != "none")

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> ducks = dn.create(MemoryStore(), {"id": [1, 2]})
        >>> dn.sql("SELECT max(id) AS most FROM ducks").to_arrow().to_pylist()
        [{'most': 2}]
        """
        return self.rows

    def to_pandas(self, **settings: Any) -> pd.DataFrame:
        """The rows as a pandas DataFrame; settings as of ``pyarrow.Table.to_pandas``.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> ducks = dn.create(MemoryStore(), {"id": [1, 2]})
        >>> dn.sql("SELECT id FROM ducks ORDER BY id").to_pandas()["id"].tolist()
        [1, 2]
        """
        from deltanb.engines.arrow.frames import library  # loads Arrow's dataset, which no result needs

        library("pandas", "to_pandas")
        return self.rows.to_pandas(**settings)


def rows_of_texts(sql: str, columns: Mapping[str, Sequence[str | None]], source: str) -> QueryResult:
    """The rows of a statement that says what is there, by their columns.

    Args:
        source: :data:`OF_CATALOG` or :data:`OF_TABLE`.

    >>> rows_of_texts("SHOW COLUMNS IN t", {"col_name": ["id", "name"]}, OF_TABLE).to_arrow().num_rows
    2
    """
    import pyarrow as pa

    rows = pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
    return QueryResult(sql, rows, engine=source)


def only_text(rows: pa.Table) -> str | None:
    """The text of several lines that is all there is in the rows, as of SHOW CREATE TABLE; None of others.

    >>> import pyarrow as pa
    >>> [only_text(pa.table({"a": texts})) for texts in (["CREATE\\nTABLE"], ["a"], ["a\\nb", "c"])]
    ['CREATE\\nTABLE', None, None]
    """
    value = rows[0][0].as_py() if rows.num_rows == rows.num_columns == 1 else None
    return value if isinstance(value, str) and "\n" in value else None


@dataclass(frozen=True, repr=False, eq=False)
class QueryPlan(Displayable):
    """Which files a query over several tables would open, and why it would skip the others.

    >>> import deltanb as dn
    >>> from deltanb.testing import MemoryStore
    >>> ducks = dn.create(MemoryStore(), {"id": [1, 2]})
    >>> plan = dn.sql("EXPLAIN SELECT id FROM ducks WHERE id > 9")
    >>> plan.num_files, plan.opened
    (1, 0)
    """

    sql: str
    """The query as it was written."""
    scans: tuple[ScanExplanation, ...] = ()
    """Which files would be opened of each table, in the order in which the query names them."""

    @property
    def num_files(self) -> int:
        """Files of all tables together, at the versions that would be read.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> ducks = dn.create(MemoryStore(), {"id": [1, 2]})
        >>> dn.sql("EXPLAIN SELECT id FROM ducks").num_files
        1
        """
        return sum(scan.num_files for scan in self.scans)

    @property
    def opened(self) -> int:
        """Files of them that would be opened.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> ducks = dn.create(MemoryStore(), {"id": [1, 2]})
        >>> dn.sql("EXPLAIN SELECT id FROM ducks WHERE id > 9").opened
        0
        """
        return sum(scan.opened for scan in self.scans)


@dataclass(frozen=True, repr=False)
class StatementResult(Displayable):
    """What a statement did whose method returns nothing: DROP, RENAME TO, CREATE SCHEMA, GENERATE.

    >>> print(StatementResult("DROP TABLE", "shop.orders", "dropped"))
    DROP TABLE  ✓ shop.orders dropped
    >>> StatementResult("DROP TABLE", "shop.orders", "there is no such table", is_done=False)
    <StatementResult DROP TABLE, nothing done, shop.orders: there is no such table>
    """

    statement: str
    name: str
    """The table or namespace that it is about."""
    outcome: str
    """What became of it, or why nothing was to be done."""
    is_done: bool = True
    """Whether anything was changed."""
