"""What ``dn.sql`` does otherwise than Delta Spark, on purpose: a table, with the reason of each.

What lives here: :data:`DIFFERENCES`. A row names the cases by a pattern of their names, and what of the
outcome differs; ``test_sql_delta_spark`` holds that nothing else does, and that what is listed does.
What it does not know: how a case is run (``sql_results``).
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

from tests.peers.sql_results import Outcome
from tests.peers.sql_statements import Case


class Difference(NamedTuple):
    """Some cases, what of their outcomes differs (as of :func:`differing`), and why."""

    cases: str
    """A regular expression that is looked for in their names."""
    differs: Sequence[str]
    reason: str

    def is_about(self, case: Case) -> bool:
        return re.search(self.cases, case.name) is not None


DIFFERENCES: list[Difference] = [
    Difference(
        r"struct\(v, name\)", ["refused"],
        "Queries run on DuckDB, in its SQL, unless spark= says otherwise: functions that only Spark has are "
        "refused."),
    Difference(
        r"sum\(v\) AS s", ["columns", "rows"],
        "DuckDB sums integers without overflow: the sum is a decimal of 38 digits, not a BIGINT."),
    Difference(
        r"USING \(VALUES .*\) AS s\(id, name, v\)", ["refused"],
        "Delta Spark refuses names for the columns of a merge's source; here they are allowed."),
    Difference(
        r"merge, defaults: ", ["refused"],
        "Delta Spark fails with an internal error where a merge assigns DEFAULT; here it is the column's."),
    Difference(
        r"NOT MATCHED BY SOURCE AND t\.id > 4|AND t\.p = 'a' THEN UPDATE SET p = 'z'", ["metrics"],
        "A merge opens and rewrites fewer files here: those whose rows no clause's condition can meet stay."),
    Difference(
        r"update, .*vectors", ["metrics"],
        "UPDATE in Delta Spark counts a file that only got a deletion vector as removed (numRemovedFiles); "
        "DELETE in Delta Spark, and both here, do not."),
    Difference(
        r"DELETE FROM \{t\} WHERE$", ["refused"],
        "Delta Spark reads a WHERE at the end as another name for the table, and deletes all rows."),
    # -- tables ----------------------------------------------------------------------------------------
    Difference(
        r"'delta\.minReaderVersion' = '3'", ["protocol"],
        "A protocol that is asked for is written; Delta Spark lowers it where no feature needs it."),
    Difference(
        r"n INT DEFAULT 5\) USING delta$", ["refused"],
        "A column with a default brings the feature that it needs; Delta Spark has it switched on first."),
    Difference(
        r"'delta\.nope' = 'x'", ["refused"],
        "A property that is not known here may be another writer's: it is set, with a warning."),
    Difference(
        r"CREATE TABLE \{t\} USING delta$|CREATE TABLE \{u\} SHALLOW CLONE \{t\} TBLPROPERTIES", ["refused"],
        "A table has columns, and a clone the properties of its source, when it is made."),
    Difference(
        r"CREATE OR REPLACE TABLE \{t\} \(other|CREATE OR REPLACE TABLE \{s\} SHALLOW", ["refused"],
        "CREATE OR REPLACE replaces whatever is there; Delta Spark refuses another schema by path, and a "
        "clone over a table with rows."),
    Difference(
        r"COMMENT ON COLUMN", ["refused"],
        "COMMENT ON COLUMN is accepted, besides ALTER COLUMN … COMMENT."),
    Difference(
        r"v COMMENT 'a' FIRST", ["refused"],
        "Several changes of one column may follow its name in ALTER COLUMN; Delta Spark takes one."),
    Difference(
        r"name STRING\) USING delta; ALTER TABLE \{t\} ALTER COLUMN id SYNC", ["version", "commits"],
        "SYNC IDENTITY commits nothing where the high-water mark is right; Delta Spark commits it again."),
    Difference(
        r"'delta\.columnMapping\.mode' = 'none'", ["refused"],
        "Column mapping is not switched off, since the files may have other names of columns."),
    Difference(
        r"'delta\.feature\.v2Checkpoint'", ["parameters"],
        "The names of features are recorded as the protocol spells them, and not in lower case."),
    Difference(
        r"alter, vectors: .* deletionVectors$", ["version", "properties", "commits"],
        "Delta Spark makes one commit more before it drops deletion vectors, which is empty where there are "
        "none, and so its number of the last version is one higher."),
    Difference(
        r"drop, plain: DROP TABLE|drop, nothing: DROP TABLE IF", ["refused"],
        "DROP TABLE of a path says that it succeeds in Delta Spark and leaves all as it was; here it is "
        "refused, since only a catalog's tables can be dropped."),
    # -- upkeep ----------------------------------------------------------------------------------------
    Difference(
        r"LITE$", ["metrics"],
        "VACUUM LITE goes by the log and lists no folders: each engine counts those that it looked into."),
    Difference(
        r"RETAIN -1 HOURS", ["refused"],
        "A negative retention is refused; Delta Spark takes the table's own instead."),
    Difference(
        r"restore, old history", ["refused"],
        "A version is restored as long as its files are there, however old it is."),
    Difference(
        r"convert, parquet: CONVERT TO DELTA \{s\}", ["refused"],
        "There is nothing to convert in a Delta table, which is an error here and none in Delta Spark."),
    # -- what is asked ---------------------------------------------------------------------------------
    Difference(
        r"DESCRIBE \{t\} s\.x", ["refused"],
        "DESCRIBE shows a field of a struct as it shows a column."),
    Difference(
        r"EXTENDED \{t\}$", ["answer"],
        "Below the columns DESCRIBE EXTENDED has what DESCRIBE DETAIL has, and nothing from Spark's "
        "catalog."),
    Difference(
        r"SHOW TBLPROPERTIES \{t\} \('nope'\)", ["refused"],
        "A property that is not set is refused; Delta Spark writes into the value that there is none."),
    Difference(
        r"SHOW CREATE TABLE", ["refused"],
        "SHOW CREATE TABLE answers of a path, too, which Delta Spark refuses."),
    Difference(
        r"parts: SHOW PARTITIONS", ["refused"],
        "SHOW PARTITIONS is not run: SELECT DISTINCT of the columns has the values."),
]


def as_markdown(rows: Sequence[Difference]) -> str:
    """The reasons as a list, for ``docs/sql.md``."""
    return "\n".join(textwrap.fill(f"- {row.reason}", 118, subsequent_indent="  ", break_on_hyphens=False)
                     for row in rows)


def intended(case: Case) -> set[str]:
    """What of a case's outcome is listed to differ."""
    return {one for row in DIFFERENCES if row.is_about(case) for one in row.differs}


def differing(ours: Outcome, theirs: Outcome) -> dict[str, tuple[Any, Any]]:
    """What differs, each with both values: where one refuses, nothing but that.

    Names of errors are not compared. Fields of commits go by their own names, so ``parameters`` is the
    operation parameters of any.
    """
    if "refused" in ours or "refused" in theirs:
        is_same = ours.keys() == theirs.keys() and ours["changed"] == theirs["changed"]
        return {} if is_same else {"refused": (ours.get("refused"), theirs.get("refused"))}
    if "answer" in ours and "answer" in theirs:
        ours = {"answer": like(ours["answer"], theirs["answer"])}
        theirs = {"answer": like(theirs["answer"], theirs["answer"])}
    pairs = {key: (ours.get(key), theirs.get(key)) for key in {**ours, **theirs}}
    mine, others = pairs.get("commits", ([], []))
    if mine and others and len(mine) == len(others):
        del pairs["commits"]
        for key in {key for commit in (*mine, *others) for key in commit}:
            pairs[key] = [one.get(key) for one in mine], [one.get(key) for one in others]
    return {key: (one, other) for key, (one, other) in pairs.items() if one != other}


def like(rows: list[dict[str, Any]], model: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Descriptions by the columns of a model, since one may say more; an empty text says nothing."""
    names = list(model[0]) if model else []
    return [{name: row.get(name) or None for name in names} for row in rows]
