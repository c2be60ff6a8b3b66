"""Four peers under one set of verbs, for the matrix of table features: make a table, append, read it.

What lives here: how Delta Spark, delta-rs, DuckDB and Polars are told to do so, and what each raises where it
refuses.
What it does not know: which features there are (``matrix_features``), what comes of them (``matrix``).
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import deltalake
import polars
import pyarrow as pa
from deltalake.exceptions import DeltaError as DeltaRsError
from polars.exceptions import PolarsError

from tests.peers import delta_spark, duckdb_delta
from tests.peers.delta_spark import DeltaSpark, PeerError
from tests.peers.duckdb_delta import DuckDB
from tests.peers.matrix_features import Use

Refusals = tuple[type[BaseException], ...]


class Spark:
    """Delta Spark."""

    title, version = "Delta Spark", delta_spark.VERSION
    refusals: Refusals = (PeerError,)

    def __init__(self, session: DeltaSpark) -> None:
        self.session = session

    def rows(self, path: Path) -> pa.Table:
        return self.session.arrow(f"SELECT * FROM {delta_spark.table(path)}")

    def append(self, use: Use, path: Path, rows: pa.Table) -> None:
        literals = use.literals or ("NULL",) * rows.num_rows
        values = ", ".join(
            f"({row['id']}, '{row['name']}'{', ' + literal if use.values is not None else ''})"
            for row, literal in zip(rows.to_pylist(), literals, strict=False))
        self.session.sql(f"INSERT INTO {delta_spark.table(path)} ({', '.join(use.names)}) VALUES {values}")

    def make(self, use: Use, path: Path) -> None:
        name = delta_spark.table(path)
        properties = ", ".join(f"'{key}' = '{value}'" for key, value in use.properties.items())
        if use.metadata:
            self.session.ask("create", path=str(path), schema=json.dumps(use.schema))
        else:
            self.session.sql(f"CREATE TABLE {name} ({use.columns}) USING delta {use.clause}"
                             + (f" TBLPROPERTIES ({properties})" if properties else ""))
        self.append(use, path, use.rows())
        for text in use.statements:
            self.session.sql(text.format(t=name))
        if use.checkpoint:
            self.session.ask("checkpoint", path=str(path))


class DeltaRs:
    """delta-rs, as the package deltalake has it."""

    title, version = "deltalake", deltalake.__version__
    refusals: Refusals = (DeltaRsError, OSError, ValueError, TypeError, NotImplementedError)

    def rows(self, path: Path) -> pa.Table:
        query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(path))
        return pa.table(query.execute("SELECT * FROM t"))

    def append(self, use: Use, path: Path, rows: pa.Table) -> None:
        lacking = use.column and use.values is None
        deltalake.write_deltalake(path, rows, mode="append", schema_mode="merge" if lacking else None)

    def make(self, use: Use, path: Path) -> None:
        schema = deltalake.Schema.from_json(json.dumps(use.schema))
        by = use.settings.get("partition_by")
        deltalake.DeltaTable.create(path, schema, configuration=use.properties, partition_by=by)
        self.append(use, path, use.rows())
        if use.rust is not None:
            use.rust(deltalake.DeltaTable(path))
        if use.checkpoint:
            deltalake.DeltaTable(path).create_checkpoint()


class Polars:
    """Polars, which has deltalake commit what it writes, and reads files itself."""

    title, version = "Polars", polars.__version__
    refusals: Refusals = (*DeltaRs.refusals, PolarsError)

    def rows(self, path: Path) -> pa.Table:
        return polars.scan_delta(str(path)).collect().to_arrow()

    def append(self, use: Use, path: Path, rows: pa.Table) -> None:
        polars.DataFrame(rows).write_delta(str(path), mode="append")

    def make(self, use: Use, path: Path) -> None:
        options: dict[str, Any] = {"configuration": use.properties}
        if "partition_by" in use.settings:
            options["partition_by"] = use.settings["partition_by"]
        polars.DataFrame(use.rows()).write_delta(str(path), delta_write_options=options)


NUMBERS = itertools.count()
"""Of what DuckDB has attached: a name that a statement failed under stays."""


class Duck:
    """DuckDB with its extension."""

    title, version = "DuckDB", duckdb_delta.VERSION
    refusals: Refusals = (PeerError,)

    def __init__(self, session: DuckDB) -> None:
        self.session = session

    def rows(self, path: Path) -> pa.Table:
        scan = f"SELECT * FROM delta_scan('{path}')"
        if "VARIANT" not in self.session.sql(f"DESCRIBE {scan}")["column_type"].to_pylist():
            return self.session.sql(scan)
        rows = self.session.sql(f"SELECT * REPLACE (v::JSON AS v) FROM ({scan})")  # Arrow lacks them
        variants = pa.array(map(json.loads, rows["v"].to_pylist()))
        return rows.set_column(rows.schema.names.index("v"), "v", variants)

    def append(self, use: Use, path: Path, rows: pa.Table) -> None:
        values = ", ".join(f"({row['id']}, '{row['name']}'{', NULL' if len(use.names) > 2 else ''})"
                           for row in rows.to_pylist())
        self._attached(path, f"INSERT INTO {{}} ({', '.join(use.names)}) VALUES {values}")

    def make(self, use: Use, path: Path) -> None:
        path.mkdir()
        self._attached(path, f"CREATE TABLE {{}}.main.made ({use.columns.split(', v ')[0]})")

    def _attached(self, path: Path, text: str) -> None:
        """Run a statement about a table that it calls ``{}``."""
        name = f"attached{next(NUMBERS)}"
        self.session.sql(f"ATTACH '{path}' AS {name} (TYPE delta)")
        self.session.sql(text.format(name))


Peer = Spark | DeltaRs | Duck | Polars
TITLES = {kind.title: kind for kind in (Spark, DeltaRs, Duck, Polars)}
"""The peers in the order of the matrix's columns."""
