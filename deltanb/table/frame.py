"""A table as a frame: what people who know pandas, polars or DuckDB try first.

What lives here: :class:`Frame`, which every kind of table inherits: the number of rows, the columns, one or
some of them by name, a sample and a description, and the refusals that name the way out.
What it does not know: how rows are read; a kind of table says so by the methods at the end of the class.

Looks (:meth:`Frame.sample`, :meth:`Frame.describe`, ``head``) are frames of pandas, as they are shown. Rows
(``table["id"]``, ``table[["id", "name"]]``, ``to_arrow``) are Arrow's, in which no value is lost: integers
stay integers beside NULL, decimals and times keep their types.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import index
from random import Random
from typing import TYPE_CHECKING, Any, NoReturn, overload

from deltanb.errors import InvalidArgument, NotIterable
from deltanb.options import options
from deltanb.table.contract import reads, reads_log

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from deltanb.sql.conditions import Where

HEAD_ROWS = SAMPLE_ROWS = 5


class Frame:
    """What a table has of a frame.

    >>> import deltanb as dn
    >>> table = dn.create("flock", {"id": [1, 2, 3], "name": ["Huey", "Dewey", "Louie"]})
    >>> len(table), table.shape, table.columns, "name" in table
    (3, (3, 2), ['id', 'name'], True)
    >>> table["name"].to_pylist()
    ['Huey', 'Dewey', 'Louie']
    >>> table[["name"]].to_pylist()[0]
    {'name': 'Huey'}
    """

    if TYPE_CHECKING:

        @property
        def name(self) -> str: ...

        def count(self) -> int: ...

        def to_arrow(self, columns: Any = None, where: Any = None, limit: Any = None) -> pa.Table: ...

        def to_batches(self, columns: Any = None, where: Any = None) -> pa.RecordBatchReader: ...

    @reads
    def __len__(self) -> int:
        """The number of rows: ``count()``."""
        return self.count()

    def __bool__(self) -> bool:
        """True, of a table without rows, too: ``if table:`` asks whether there is one."""
        return True

    @property
    @reads_log
    def columns(self) -> list[str]:
        """The names of the top-level columns; their types are ``dtypes``, and of a Delta table ``schema``.

        >>> import deltanb as dn
        >>> dn.create("two_columns", {"id": [1], "name": ["Huey"]}).columns
        ['id', 'name']
        """
        return self._column_names()

    @property
    @reads
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and of columns.

        >>> import deltanb as dn
        >>> dn.create("three_rows", {"id": [1, 2, 3], "name": ["Huey", "Dewey", "Louie"]}).shape
        (3, 2)
        """
        return self.count(), len(self._column_names())

    @property
    @reads_log
    def dtypes(self) -> dict[str, pa.DataType]:
        """The Arrow type of each column, as ``to_arrow()`` gives it.

        >>> import deltanb as dn
        >>> dn.create("geese", "id bigint, born date").dtypes
        {'id': DataType(int64), 'born': DataType(date32[day])}
        """
        return {field.name: field.type for field in self._arrow_schema()}

    @reads_log
    def __contains__(self, name: object) -> bool:
        """Whether there is a column of this name, in any case."""
        return isinstance(name, str) and name.lower() in map(str.lower, self._column_names())

    if TYPE_CHECKING:

        @overload
        def __getitem__(self, key: str) -> pa.ChunkedArray: ...

        @overload
        def __getitem__(self, key: Sequence[str]) -> pa.Table: ...

        def __getitem__(self, key: Any) -> Any: ...

    else:

        @reads
        def __getitem__(self, key):
            """``table["id"]`` is a column, as a ``pyarrow.ChunkedArray``; ``table[["id", "name"]]`` are the
            rows of these columns, as a ``pyarrow.Table``. No other column is read.

            Both go on to other libraries: ``table["id"].to_pandas()``, ``polars.from_arrow(table[["id"]])``.

            Raises:
                InvalidArgument: no such column; or a number, a slice, a condition: rows have no order, and
                    conditions are ``where=``.
            """
            if isinstance(key, str):
                return self.to_arrow([key]).column(0)
            if isinstance(key, list | tuple) and all(isinstance(name, str) for name in key):
                return self.to_arrow(list(key))
            raise _no_column(key)

    def __iter__(self) -> NoReturn:
        """Refused: rows come in batches.

        Raises:
            NotIterable: always.
        """
        raise self._not_iterable()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        """Refused: NumPy would take the rows one by one, by numbers that they do not have.

        Raises:
            NotIterable: always.
        """
        raise self._not_iterable()

    def _not_iterable(self) -> NotIterable:
        stream = "the table itself" if hasattr(type(self), "__arrow_c_stream__") else "to_arrow()"
        return NotIterable(
            f"the table {self.name} is not iterated over row by row; iterate over to_batches(), which are "
            "batches of Arrow's, or over to_arrow().to_pylist(), which are dicts. pandas gets to_pandas(), "
            f"NumPy to_pandas().to_numpy(); polars, DuckDB and pyarrow take {stream}")

    @reads
    def to_pandas(
        self, columns: Sequence[str] | None = None, where: Where | None = None,
        limit: int | None = None, *, types_mapper: Callable[[Any], Any] | None = None,
        dtype_backend: str | None = None,
    ) -> pd.DataFrame:
        """The rows as a pandas DataFrame.

        Args:
            columns, where, limit: as in :meth:`to_arrow`.
            types_mapper: a function from an Arrow type to a pandas type, or to None for the default.
            dtype_backend: ``"pyarrow"`` or ``"numpy_nullable"``, as in pandas' readers: integers stay
                integers even if values are missing.

        Raises:
            InvalidArgument: another backend, or both a backend and ``types_mapper``.
            MissingDependency: pandas is not installed.

        >>> import deltanb as dn
        >>> dn.create("framed", {"id": [1, None]}).to_pandas(dtype_backend="numpy_nullable")["id"].dtype
        Int64Dtype()
        """
        from deltanb.engines.arrow.frames import to_pandas, types_for

        mapper = types_for(types_mapper, dtype_backend)
        return to_pandas(self.to_arrow(columns, where, limit), mapper)

    @reads
    def head(self, n: int = HEAD_ROWS, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """The first rows as a pandas DataFrame; no more is read than needed.

        Args:
            n: the number of rows.
            columns: as in :meth:`to_arrow`.

        >>> import deltanb as dn
        >>> dn.create("seen", {"name": ["Donald", "Daisy"]}).head(1)
             name
        0  Donald
        """
        return self.to_pandas(columns, limit=n)

    @reads
    def sample(
        self, n: int = SAMPLE_ROWS, *, seed: int | None = None, columns: Sequence[str] | None = None,
        where: Where | None = None,
    ) -> pd.DataFrame:
        """Rows at random, as a pandas DataFrame: each row at most once, and each as likely as any other.

        Only row groups that have one of the rows are read: ``n`` at most. With ``where`` all rows that may
        satisfy it are read, and no more than ``n`` of them and a batch are in memory.

        Args:
            n: the number of rows; all rows where the table has fewer.
            seed: the same seed gives the same rows of the same version, in the same order; by default other
                ones at every call.
            columns, where: as in ``to_arrow``.

        Raises:
            InvalidArgument: a negative number of rows, a seed that is no integer, or no such column.
            MissingDependency: pandas is not installed.

        >>> import deltanb as dn
        >>> table = dn.create("pond", {"coins": range(1000)})
        >>> table.sample(3, seed=1).equals(table.sample(3, seed=1)), len(table.sample(3))
        (True, 3)
        """
        from deltanb.engines.arrow.frames import to_pandas

        return to_pandas(self._sample(_whole("n", n, least=0), _random(seed), columns, where))

    @reads
    def describe(
        self, columns: Sequence[str] | None = None, where: Where | None = None
    ) -> pd.DataFrame:
        """The columns' values in short, as a pandas DataFrame with a row for each number: count, null_count,
        mean, std, min, quartiles, max; None where a column has no such number.

        All rows are read once, as a stream. Details and errors:
        :func:`deltanb.commands.read.describe.describe`.

        Args:
            columns, where: as in ``to_arrow``.

        >>> import deltanb as dn
        >>> table = dn.create("swans", {"coins": [1, 2, 3], "name": ["b", "a", None]})
        >>> table.describe().loc[["count", "mean", "min"]]
              coins  name
        count     3     2
        mean    2.0  None
        min       1     a
        """
        from deltanb.commands.read.describe import describe

        return describe(self.to_batches(columns, where))

    def _ipython_key_completions_(self) -> list[str]:
        """What IPython offers after ``table["``."""
        return self._column_names()

    # -- what a kind of table says of itself ----------------------------------------------------------------

    def _column_names(self) -> list[str]:
        raise NotImplementedError

    def _arrow_schema(self) -> pa.Schema:
        raise NotImplementedError

    def _sample(
        self, n: int, random: Random, columns: Sequence[str] | None, where: Where | None
    ) -> pa.Table:
        """Rows at random; of a stream, where the kind of table has no better way."""
        from deltanb.commands.read.sample import sample_of

        with self.to_batches(columns, where) as batches:
            return sample_of(batches, batches.schema, n, random)


def _whole(name: str, number: Any, least: int | None = None) -> int:
    is_whole = hasattr(number, "__index__") and not isinstance(number, bool)
    if not is_whole or (least is not None and index(number) < least):
        what = "an integer" if least is None else f"an integer of at least {least}"
        raise InvalidArgument(f"sample: {name}={number!r:.80} must be {what}")
    return index(number)


def _random(seed: Any) -> Random:
    """From the seed; without one from the ids of the options, which a lesson holds still."""
    return Random(options.new_id() if seed is None else _whole("seed", seed))


_WAYS = {
    int: 'rows have no numbers; head(n) gives some, and to_arrow(where="…") those of a condition',
    slice: "rows have no order; head(n) gives the first that are read, to_arrow(limit=n) them as Arrow",
}


def _no_column(key: Any) -> InvalidArgument:
    way = next((way for kind, way in _WAYS.items() if isinstance(key, kind) and not isinstance(key, bool)),
               'rows that satisfy a condition are to_arrow(where="…"), which also takes expressions of '
               "pyarrow and polars")
    return InvalidArgument(
        f"table[...] takes the name of a column, or a list of names, found {type(key).__name__}: {way}")
