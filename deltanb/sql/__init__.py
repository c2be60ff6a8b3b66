"""SQL as people of Delta write it: ``deltanb.sql(text, spark=None, **parameters)`` runs statements.

All that changes, describes or asks tables can be written, not SELECT alone; each statement is one call of
the method that does the same, and returns what the method returns. ``docs/sql.md`` lists the statements.

A table is the name of a variable of the caller (its locals, then its globals), a path
(``delta.`lake/flights``` or ``'lake/flights'``), or a table of a catalog that a variable holds
(``catalog.shop.orders``); data frames and Arrow tables in variables can be read. ``table VERSION AS OF 3``,
``TIMESTAMP AS OF '2026-03-01'`` and ``table@v3`` are past versions, and ``table_changes('flights', 2)`` in
FROM is a change data feed. Names of variables are case-sensitive, those of columns are not.

``:name`` or ``$name`` is a parameter: a keyword of the call, else a variable of the caller. Its value is
bound as such and never read as SQL.

Queries, those inside INSERT and MERGE included, run on DuckDB in DuckDB's SQL, or in Spark's on the session
that ``spark`` is (True: the running one). Conditions, values and VALUES are Spark's SQL in any case.
Statements that semicolons separate run in their order, the result is that of the last; an error's note says
which one failed and what was done before.

>>> import deltanb as dn
>>> flights = dn.create("flights", {"month": [1, 1, 2], "delay": [5, None, 9]})
>>> dn.sql("UPDATE flights SET delay = :least WHERE delay IS NULL", least=0).metrics["numUpdatedRows"]
1
>>> dn.sql("SELECT month, max(delay) AS worst FROM flights GROUP BY month ORDER BY 1").to_pandas()
   month  worst
0      1      5
1      2      9

Raises :class:`~deltanb.errors.InvalidQuery` with line and column where a text is not such a statement, the
method's own errors where it fails, :class:`~deltanb.errors.TableNotFound` for a name that means nothing, and
:class:`~deltanb.errors.MissingDependency` for a query without its engine.

This package itself has conditions and expressions in Spark's SQL, understood once and run on Arrow.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    def __call__(self, text: str, /, spark: Any = None, **parameters: Any) -> Any:
        """Run SQL over the caller's tables, as the package's own text says."""
        from deltanb.text import upper

        return upper.run_sql(text, None, spark, parameters)


sys.modules[__name__].__class__ = _CallablePackage
