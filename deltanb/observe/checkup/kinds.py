"""Everything that a checkup can find: one table, read by the checks, the view, the command line and the docs.

What lives here: :data:`KINDS`, each with its stable code, what it means, when it is found, the commands that
mend it and its figures; :data:`FIGURES`, what each figure is; what cannot be looked at.
What it does not know: how any of it is found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from deltanb.observe.checkup.report import ANY, FORMAT, BlindSpot, Finding

MAX_NAMED = 20
"""Versions that a blind spot names; more are counted in its sentence."""

# -- thresholds: stated here, and in the documentation by the sentences below ----------------------

LEAST_FILES = 10
"""Files that OPTIMIZE has to save at least: fewer are not worth a commit."""
LEAST_SHARE = 10
"""Percent of all files that it has to save at least."""
REWRITE_TARGET = 32 * 1024 * 1024
"""Bytes of a file where ``delta.tuneFileSizesForRewrites`` is on and no size is named: a quarter of ours."""
TIMES_TARGET = 4
"""A file of so many times the target is too large: four tasks would share it."""
TIMES_MEDIAN = 10
"""A partition of so many times the median's bytes is too large."""
DUE_PERCENT = 5
"""Percent of a file's rows that are deleted: Delta's ``optimize.maxDeletedRowsRatio``."""
TIMES_INTERVAL = 2
"""A checkpoint is late by so many intervals: one may be under way."""
LEAST_LOG_FILES = 10
"""Expired files of the log: a day's clean-up is never quite up to date."""
COPIED_PER_ROW = 10
"""Rows copied for each row changed."""
LEAST_COPIED = 1_000
"""Rows copied at least: rewriting fewer costs nothing."""
DEPTH = 4
"""Files that hold a value, on average: fewer are no decay."""
TIMES_DEPTH = 2
"""How many times the depth behind the last OPTIMIZE."""


@dataclass(frozen=True)
class Kind:
    """One kind of finding; calling it makes one.

    ``commands`` are templates by the case in which they mend; ``figures`` names what a finding has.
    """

    code: str
    topic: str
    meaning: str
    threshold: str
    commands: Mapping[str, str]
    figures: tuple[str, ...]
    saves: tuple[str, ...]

    def __call__(
        self, evidence: str, figures: Mapping[str, Any], saves: Mapping[str, int], *,
        reads: int, writes: int, case: str = "", **values: Any,
    ) -> Finding:
        """A finding of this kind; ``values`` fill the template of the command of this case, as literals."""
        filled = self.commands[case].format(**{name: _literal(value) for name, value in values.items()})
        return Finding(self.code, dict(figures), evidence, filled, int(reads), int(writes), dict(saves))


def _literal(value: Any) -> str:
    return repr(list(value) if isinstance(value, tuple) else value)


TOPICS = {"files": "Files", "rows": "What reads and writes cost", "log": "The log", "storage": "The store"}
"""What kinds are about, with the headings of the documentation."""
FIGURES: dict[str, tuple[str, str]] = {
    "files": ("integer", "files of the version"),
    "files_to_rewrite": ("integer", "files that the command rewrites"),
    "files_after": ("integer", "files that it writes in their place"),
    "files_above": ("integer", "files that are too large"),
    "files_due": ("integer", "files with so many deleted rows that a purge is due"),
    "files_without": ("integer", "files without statistics of a column"),
    "files_unneeded": ("integer", "files that VACUUM deletes"),
    "target_bytes": ("integer", "the target size of a file"),
    "largest_bytes": ("integer", "of the largest file or partition"),
    "median_bytes": ("integer", "of the partition in the middle"),
    "bytes": ("integer", "of the files that this is about"),
    "partitions": ("integer", "partitions with files"),
    "largest_partition": ("string", "its values"),
    "columns": ("array", "columns, by their names in the schema"),
    "commits": ("integer", "commits of the history that were examined"),
    "rows_deleted": ("integer", "rows that deletion vectors hide"),
    "rows_changed": ("integer", "rows updated or deleted"),
    "rows_copied": ("integer", "rows written again without a change"),
    "rows_copied_per_row": ("number", "of these, per changed row"),
    "bytes_rewritten": ("integer", "bytes of rewritten files"),
    "depth_files": ("number", "files whose range holds a value, on average"),
    "depth_then_files": ("number", "the same to be expected from the last OPTIMIZE"),
    "optimized_version": ("integer", "the version of the last OPTIMIZE, -1 where none is known"),
    "commits_since": ("integer", "commits after the newest checkpoint"),
    "interval_commits": ("integer", "commits between two checkpoints of this table"),
    "log_files": ("integer", "files of the log that no retained version needs"),
    "retention_hours": ("number", "how long files are retained"),
    "oldest_days": ("integer", "age of the oldest of these files"),
}
"""Name -> (type in JSON, meaning); a name ends in its unit, and counts things where it begins with them."""
KINDS: dict[str, Kind] = {}
"""Every kind by its code."""


def _kind(
    code: str, topic: str, meaning: str, threshold: str, commands: str | Mapping[str, str], figures: str,
    saves: str,
) -> Kind:
    by_case = {"": commands} if isinstance(commands, str) else commands
    kind = KINDS[code] = Kind(
        code, topic, meaning, threshold, by_case, tuple(figures.split()), tuple(saves.split()))
    return kind


_OPTIMIZE = {
    "": "table.optimize()", "sized": "table.optimize(target_size={size})",
    "ordered": "table.optimize(zorder_by={columns})",
    "ordered, sized": "table.optimize(zorder_by={columns}, target_size={size})",
    "full": "table.optimize(full=True)", "full, sized": "table.optimize(full=True, target_size={size})",
}

# -- files ----------------------------------------------------------------------------------------------

SMALL_FILES = _kind(
    "small-files", "files",
    "the table has many files below the target size: each costs a request and a footer",
    f"OPTIMIZE would save {LEAST_FILES} files and {LEAST_SHARE} % of all; the target size is "
    f"delta.targetFileSize, else {REWRITE_TARGET // 1024**2} MiB with delta.tuneFileSizesForRewrites, else "
    "options.target_file_size",
    _OPTIMIZE, "files files_to_rewrite files_after bytes target_bytes", "files requests")
FILE_SKEW = _kind(
    "file-skew", "files",
    "some files are far larger than the target size: a scan waits for the one task that reads them",
    f"a file has {TIMES_TARGET} times the target size",
    {case: command for case, command in _OPTIMIZE.items() if "ordered" in case or "full" in case},
    "files_above files_to_rewrite largest_bytes target_bytes bytes", "bytes")
PARTITION_SKEW = _kind(
    "partition-skew", "files",
    "one partition is far larger than the others: conditions on the partition columns skip little of it, "
    "and jobs by partition wait for it; clustering has no such limits",
    f"the largest partition has {TIMES_MEDIAN} times the bytes of the median, and {TIMES_TARGET} times the "
    "target size",
    "table.overwrite(table, overwrite_schema=True, partition_by=[]); table.cluster_by({columns}); "
    "table.optimize(target_size={size})",
    "partitions largest_partition largest_bytes median_bytes target_bytes", "bytes")
VECTORS = _kind(
    "vectors-due", "files",
    "deletion vectors hide many rows: they are read and left out again at each scan",
    f"a file has {DUE_PERCENT} % of its rows deleted", "table.purge()",
    "files files_due files_to_rewrite rows_deleted bytes", "bytes requests")
CLUSTERING = _kind(
    "clustering-decay", "files",
    "files written since the last OPTIMIZE overlap in the columns that the table is clustered or Z-ordered "
    "by: a condition on them opens more files",
    f"on average a value is in the ranges of {DEPTH} files and more, and of {TIMES_DEPTH} times as many as "
    "after the last OPTIMIZE, even allowing for the table's growth",
    _OPTIMIZE, "columns files depth_files depth_then_files optimized_version bytes", "files bytes")

# -- what reads and writes cost -------------------------------------------------------------------------

STATISTICS = _kind(
    "statistics-missing", "rows",
    "conditions of the history's DELETE, UPDATE, MERGE and replaceWhere are on columns of which files have "
    "no statistics: these files cannot be skipped",
    f"{LEAST_SHARE} % of the files have no statistics of such a column",
    {"": "table.analyze({columns})",
     "unindexed": "table.set_properties({{'delta.dataSkippingStatsColumns': {names}}}); "
                  "table.analyze({columns})"},
    "columns files files_without commits bytes", "files bytes")
REWRITES = _kind(
    "rewrites", "rows",
    "DELETE, UPDATE and MERGE write many rows again for each one that they change",
    f"{COPIED_PER_ROW} rows copied for each row changed, and {LEAST_COPIED} in all, by the commits since "
    "the layout was changed for it",
    {"": "table.set_properties({{'delta.enableDeletionVectors': True}})",
     "clustered": "table.cluster_by({columns}); table.optimize()",
     "ordered": "table.optimize(zorder_by={columns})"},
    "commits rows_changed rows_copied rows_copied_per_row bytes_rewritten", "rows bytes")

# -- the log --------------------------------------------------------------------------------------------

CHECKPOINT = _kind(
    "checkpoint-age", "log",
    "the newest checkpoint is old: opening the table reads each commit since",
    f"{TIMES_INTERVAL} intervals of commits since; the interval is delta.checkpointInterval, else what the "
    "table's size makes of it (snapshot.checkpoint_interval)",
    "table.log.checkpoint()", "commits_since interval_commits", "requests")
LOG = _kind(
    "log-age", "log",
    "the log has files that no retained version needs: they make listings longer",
    f"{LEAST_LOG_FILES} files beyond delta.logRetentionDuration, unless delta.enableExpiredLogCleanup is off",
    "table.log.clean_up()", "log_files bytes retention_hours", "files bytes")

# -- the store ------------------------------------------------------------------------------------------

TOMBSTONES = _kind(
    "tombstones", "storage",
    "removed files still exist although they are older than the retention: no retained version needs them",
    "one file beyond delta.deletedFileRetentionDuration", "table.vacuum()",
    "files_unneeded bytes retention_hours", "files bytes")
ORPHANS = _kind(
    "orphans", "storage",
    "files in the folder that neither the table nor its removed files name: of writes that failed, or "
    "removed so long ago that the log has forgotten them",
    "one file beyond delta.deletedFileRetentionDuration; younger ones may be of a write under way",
    "table.vacuum()", "files_unneeded bytes oldest_days retention_hours", "files bytes")

FAIL_ON = (*KINDS, ANY)
"""What ``deltanb check --fail-on`` takes."""
BLIND_SPOTS = {
    "newest-version": "this version cannot be read; an earlier one was looked at",
    "no-version": "no version of the table can be read: its files were not looked at",
    "version-missing": "the log has no commit of these versions: they are not counted",
    "commit-unreadable": "these commits are damaged: they are not counted",
    "commit-info-missing": "the commits do not say what they did: they are not counted",
    "operation-unknown": "no known client writes these operations: they are not counted",
    "action-unknown": "no known protocol has these actions: they were passed over",
    "metrics-missing": "these changes do not say how many rows they copied",
    "history": "earlier commits were not looked at",
    "condition": "these conditions are not understood, or only with their sources: their columns were "
                 "matched by name",
    "columns": "conditions are on more columns than are examined: those of the fewest commits were left out",
    "optimized-version": "the version of the last OPTIMIZE can no longer be read: its depth is estimated",
    "listing": "the store was not listed, or only in part: the rest of it was not looked at",
    "property": "a table property has a value that is not valid: the default was used",
    "schema": "the schema cannot be read: no column was looked at",
    "partition-value": "a partition value does not fit its column's type: partitions were distinguished by "
                       "their text",
    "protocol": "this library does not support these features: the commands are refused until it does",
    "check": "a check failed: what it looks for was not examined",
}
"""What a checkup could not look at or understand, by the stable code of the blind spot."""


def blind_spot(code: str, versions: Iterable[int] = (), missing: str = "") -> BlindSpot:
    """A blind spot of a kind, with what follows from it."""
    known = sorted(versions)
    more = f" ({len(known)} versions, the first {MAX_NAMED} are named)" if len(known) > MAX_NAMED else ""
    return BlindSpot(code, tuple(known[:MAX_NAMED]), missing, BLIND_SPOTS[code] + more)


def as_json_schema() -> dict[str, Any]:
    """The schema of :meth:`~deltanb.observe.checkup.report.Checkup.to_json` (JSON Schema 2020-12).

    >>> as_json_schema()["properties"]["format"]
    {'const': 1}
    """
    count, nullable = {"type": "integer"}, {"type": ["integer", "null"]}
    text = {"type": "string"}
    spot = _object({"kind": {"enum": list(BLIND_SPOTS)}, "versions": {"type": "array", "items": count},
                    "missing": text, "evidence": text})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **_object({
            "format": {"const": FORMAT}, "table": text, "version": count, "num_files": nullable,
            "size_in_bytes": nullable, "num_commits": count,
            "findings": {"type": "array", "items": {"oneOf": [_schema_of(kind) for kind in KINDS.values()]}},
            "blind_spots": {"type": "array", "items": spot}})}


def _schema_of(kind: Kind) -> dict[str, Any]:
    count, text = {"type": "integer", "minimum": 0}, {"type": "string"}
    figures = {name: {"type": FIGURES[name][0], "description": FIGURES[name][1]} for name in kind.figures}
    return _object({
        "kind": {"const": kind.code, "description": kind.meaning}, "figures": _object(figures),
        "evidence": text, "command": text, "reads": count, "writes": count,
        "saves": {"type": "object", "propertyNames": {"enum": list(kind.saves)},
                  "additionalProperties": count}})


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties), "required": list(properties)}


def as_markdown() -> str:
    """All kinds, figures and blind spots as the documentation prints them.

    >>> print("\\n".join(as_markdown().splitlines()[:4]))
    ### Files
    <BLANKLINE>
    | kind | meaning | reported when | command | saves |
    |---|---|---|---|---|
    """
    lines: list[str] = []
    for topic, heading in TOPICS.items():
        lines += [f"### {heading}", "", "| kind | meaning | reported when | command | saves |",
                  "|---|---|---|---|---|"]
        lines += [f"| `{kind.code}` | {kind.meaning} | {kind.threshold} | {_commands(kind)} | "
                  f"{', '.join(kind.saves)} |" for kind in KINDS.values() if kind.topic == topic]
        lines.append("")
    lines += ["### Figures", "", "| figure | what it is | of |", "|---|---|---|"]
    lines += [f"| `{name}` | {meaning} | {', '.join(k.code for k in KINDS.values() if name in k.figures)} |"
              for name, (_, meaning) in FIGURES.items()]
    lines += ["", "### Blind spots", "", "| kind | what follows |", "|---|---|"]
    lines += [f"| `{code}` | {meaning} |" for code, meaning in BLIND_SPOTS.items()]
    return "\n".join(lines) + "\n"


def _commands(kind: Kind) -> str:
    """The templates with their gaps as words: ``table.analyze(COLUMNS)``."""
    gaps = {name: name.upper() for name in ("columns", "size", "names")}
    return " or ".join(f"`{command.format(**gaps)}`" for command in kind.commands.values())
