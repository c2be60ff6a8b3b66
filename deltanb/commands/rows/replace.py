"""Rows replaced by the rows that match them: by a condition between both, or by equal columns.

What lives here: :class:`Matching`, which takes the rows out of the table that an overwrite with
``replace_on`` or ``replace_using`` replaces.
What it does not know: the options of a write, the record of its commit (``write``).

The new rows are written first, and the columns by which they match are read back from their files. So rows
are computed once, whoever computes and writes them. Which rows of the table match is found as a MERGE finds
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from deltanb.commands.choose_engine import choose_engine, named
from deltanb.commands.merge.clauses import DELETE, MATCHED, Names, Resolved
from deltanb.commands.merge.in_process import ArrowMerge
from deltanb.commands.merge.on import On, analyze
from deltanb.commands.merge.sides import is_true, sided
from deltanb.commands.merge.source import Source
from deltanb.commands.rows.find_and_change import FileChanges, find, remove_rows
from deltanb.commands.rows.match import Match
from deltanb.engines.arrow.enforce import nullable
from deltanb.engines.arrow.touched import live_count, live_rows, written_rows
from deltanb.engines.contract import MergeEngine, TouchedFile
from deltanb.errors import UnsupportedPredicate
from deltanb.log.replay import files_table
from deltanb.options import options
from deltanb.schema.column_names import spelled
from deltanb.schema.types import StructType, to_arrow
from deltanb.sql import syntax
from deltanb.sql.predicates import Condition, all_of, parse_condition
from deltanb.transaction.reads import FileScan

if TYPE_CHECKING:
    from deltanb.actions import AddFile
    from deltanb.transaction.transaction import OptimisticTransaction

__all__ = ["Matching"]


class Matching:
    """One replacement in a transaction whose metadata is that of the commit already.

    Args:
        columns: the names of the new rows' columns.

    Raises:
        InvalidArgument: ``replace_using`` names a column that the table or the new rows lack.
        InvalidPredicate: SQL that cannot be understood, or whose columns are ambiguous.
    """

    def __init__(self, txn: OptimisticTransaction, match: Match, columns: Sequence[str]) -> None:
        self.txn, target = txn, txn.snapshot.schema
        source = StructType(txn.metadata.schema.field(name) for name in columns)
        for schema, side in ((target, "the table"), (source, "the data")):
            spelled(match.using or (), schema.names, f"replace_using: {side}")
        whole = Names(target, source, match.target_alias, match.source_alias, options.clock())
        sql = whole.qualified(match.sql, place="replace_on")
        needed = {column.parts[1].name.lower() for column in syntax.columns(sql)
                  if column.parts[0].name.lower() == match.source_alias.lower()}
        self.names = replace(whole, source=StructType(
            field for field in source.fields if field.name.lower() in needed))
        self.on: On = analyze(self.names.qualified(sql), self.names)

    def remove(self, added: Sequence[AddFile], engine: str) -> tuple[list[TouchedFile], FileChanges]:
        """Take the rows out of the table that match rows of the added files.

        Args:
            engine: ``auto``, or ``arrow`` where no session may be started.

        Raises:
            UnsupportedPredicate: a condition that does not run in the process, where it has to.
        """
        if not added:
            return [], FileChanges()
        schema = to_arrow(nullable(self.names.source))
        batches = list(written_rows(self.txn, added, self.names.source.names))
        rows = pa.Table.from_batches([batch.cast(schema) for batch in batches], schema)
        is_apart = not self.on.keys and not self.on.rest and parse_condition(
            self.on.sql, self.names.schema()).reason is None
        touched, chosen = (self._apart if is_apart else self._joined)(rows, engine)
        return touched, remove_rows(self.txn, _BY_POSITION, touched, named(chosen))

    def _joined(self, rows: pa.Table, engine: str) -> tuple[list[TouchedFile], str]:
        """The rows of the table that a condition over both sides joins with new ones."""
        txn, clauses = self.txn, [Resolved(MATCHED, DELETE, None, {}, {})]
        reason, files, work = self.on.reason, FileScan(files_table([])), None
        if reason is None:
            here = work = ArrowMerge(txn, self.names, self.on, clauses, txn.snapshot.schema)
            here.take_source(rows)
            where = self.on.reachable(txn.snapshot.partition_columns, here.key_values())
            if where is not None:
                files = here.narrowed(txn.filter_files(*where))
        elif engine != "arrow":
            files = txn.filter_files(*self.on.target_only)
        chosen = choose_engine(txn, engine, files, reason, [self.on.sql])
        if chosen == "spark":
            from deltanb.commands.merge.on_spark import SparkMerge

            joining: MergeEngine = SparkMerge(
                txn, self.names, self.on, clauses, txn.snapshot.schema, Source(rows))
        else:
            assert work is not None
            joining = work
        changed = ((one.file, one.of([0])) for one in joining.find(files).changed)
        return [TouchedFile(file, places, live_count(txn, file))
                for file, places in changed if places], chosen

    def _apart(self, rows: pa.Table, engine: str) -> tuple[list[TouchedFile], str]:
        """The rows of the table for which the condition's part on the table is true, if one of the new rows
        satisfies the rest."""
        able = np.ones(max(rows.num_rows, 1), bool)  # one stands for all where no column of them is read
        if self.on.source_only:
            sides = sided(self.names, source=rows)
            for part in self.on.source_only:
                able &= is_true(sides, part)
        files = self.txn.filter_files(*self.on.target_only) if able.any() else FileScan(files_table([]))
        condition = parse_condition(all_of(self.on.target_only), self.txn.snapshot.schema)
        chosen = choose_engine(self.txn, engine, files, None)
        if condition.sql is None:
            everything = ((file, live_rows(self.txn, file)) for file in files)
            return [TouchedFile(file, places, len(places)) for file, places in everything if places], chosen
        return find(self.txn, files, condition, named(chosen)), chosen


_BY_POSITION = Condition(None, reason=UnsupportedPredicate("rows are named by their positions"))
"""In place of a condition: Spark reads the rows beside those that go by their positions."""
