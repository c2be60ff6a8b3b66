"""Everything that can be wrong with a table's log: one table, read by whoever looks and by the documentation.

What lives here: :data:`KINDS`, each with its stable code, what it means, how certain it is and what to do.
What it does not know: how any of it is found.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from deltanb.observe.verify.report import POSSIBLE, PROVED, BlindSpot, Finding

MAX_PATHS = 10
"""Paths of files that a finding lists; its evidence says how many there are."""

RESTORE_COMMIT = "Restore the commit's file from a backup or a copy of the table"
RESTORE_BEFORE = "RESTORE the version before, if no reader has used this one, and run the job again"
LOOK = "Look at the commit with table.commit(version), and ask who wrote it"
REBUILD = "Delete the file: it is derived from the log, and the next commit or checkpoint() writes it again"
UPGRADE = "Set the feature with set_properties or upgrade_protocol, so that every client knows it"
STATISTICS = "Run table.analyze(), which rewrites the statistics from the files"


@dataclass(frozen=True)
class Kind:
    """One kind of finding; calling it makes one."""

    code: str
    topic: str
    meaning: str
    remedy: str
    certainty: str

    def __call__(
        self, evidence: str, versions: int | Iterable[int] = (), paths: str | Sequence[str] = (),
        certainty: str = "", remedy: str = "",
    ) -> Finding:
        """A finding of this kind; ``certainty`` and ``remedy`` where they are others in this case."""
        at = (versions,) if isinstance(versions, int) else tuple(versions)
        names = (paths,) if isinstance(paths, str) else tuple(paths[:MAX_PATHS])
        return Finding(self.code, certainty or self.certainty, at, names, evidence, remedy or self.remedy)


TOPICS = {
    "commits": "Commits", "files": "Files of a commit", "definition": "The table's definition",
    "values": "Ids, values and statistics", "derived": "Checksums, checkpoints and compactions",
    "storage": "Files in the store", "isolation": "Conflicts",
}
"""What kinds are about, with the headings of the documentation."""
KINDS: dict[str, Kind] = {}
"""Every kind by its code."""


def _kind(code: str, topic: str, meaning: str, remedy: str, certainty: str = PROVED) -> Kind:
    kind = KINDS[code] = Kind(code, topic, meaning, remedy, certainty)
    return kind


# -- commits --------------------------------------------------------------------------------------------

_T = "commits"
VERSION_MISSING = _kind("version-missing", _T, "the log has no commit of a version between two others",
                        RESTORE_COMMIT)
COMMIT_UNREADABLE = _kind("commit-unreadable", _T, "a commit's file is damaged", RESTORE_COMMIT)
COMMIT_WITHOUT_TABLE = _kind(
    "first-commit-incomplete", _T, "the first commit has no metadata or no protocol", RESTORE_COMMIT)
ACTION_UNKNOWN = _kind(
    "action-unknown", _T, "a commit has an action that no known protocol has",
    "Find out which client wrote it: readers may miss what it says", POSSIBLE)
ACTION_TWICE = _kind(
    "action-twice", _T, "a commit has two actions where one is allowed: readers may take either", LOOK)
STAGED_DIFFERS = _kind(
    "staged-commit-differs", _T,
    "a commit was published and staged under the same version, with other content",
    "Ask the catalog which of the two it ratified, and restore that one", POSSIBLE)
TIME_MISSING = _kind(
    "commit-time-missing", _T, "in-commit timestamps are on, and a commit has none", LOOK)
TIME_FALLS = _kind(
    "commit-time-falls", _T, "a commit's in-commit timestamp is not after the one before: time travel by "
    "time finds the wrong version", "Travel by version around this commit")
FILE_TIME_FALLS = _kind(
    "file-time-falls", _T, "a commit's file is older than the one before: it was copied or restored",
    "Travel by version around this commit, or enable in-commit timestamps", POSSIBLE)
READ_AHEAD = _kind(
    "read-version-ahead", _T, "a commit says that it read its own version or a later one", LOOK)
BLIND_CLAIM = _kind(
    "blind-append-claim", _T,
    "a commit claims to be a blind append and removes files: conflict rules were skipped", LOOK)
METRICS_DIFFER = _kind(
    "metrics-differ", _T, "a commit's operation metrics are not what its actions say", LOOK, POSSIBLE)
OPERATION_UNKNOWN = _kind(
    "operation-unknown", _T, "no known client writes the commit's operation",
    "Find out which client wrote it", POSSIBLE)

# -- files ----------------------------------------------------------------------------------------------

_T = "files"
ADDED_WHILE_LIVE = _kind(
    "added-while-live", _T, "a commit adds a file as changed data that is already part of the table",
    "Compare the rows before and after: they may have been counted twice by the writer")
ADDED_TWICE = _kind("added-twice", _T, "a commit adds the same file twice", LOOK)
REMOVED_TWICE = _kind(
    "removed-twice", _T,
    "two commits removed the same file: both rewrote its rows, so they may be there twice",
    "Compare the rows of both commits with diff(), and DELETE the duplicates")
REMOVED_UNKNOWN = _kind(
    "removed-unknown", _T, "a commit removes a file that is not part of the table", LOOK)
ADDED_AND_REMOVED = _kind(
    "added-and-removed", _T, "a commit adds and removes the same file: readers may see it or not", LOOK)
BROUGHT_BACK = _kind(
    "brought-back", _T, "a file that was removed is part of the table again, and no RESTORE did it",
    "Compare the rows with those of the version before: deleted rows may have come back", POSSIBLE)
TWO_VECTORS = _kind(
    "file-live-twice", _T, "one data file is part of the table twice, with different deletion vectors: its "
    "rows are doubled", "RESTORE the version before, and run the job again")
VECTOR_LOST = _kind(
    "deletions-lost", _T, "a new deletion vector deletes fewer rows than the one it replaces: rows came back",
    "Compare the versions with diff(), and delete the rows again")
VECTOR_BEYOND = _kind(
    "vector-too-large", _T, "a deletion vector deletes more rows than its file has",
    "Purge the file with OPTIMIZE after checking its rows against the version before")
VECTOR_INVALID = _kind(
    "vector-invalid", _T, "a deletion vector's descriptor cannot be understood", LOOK)
VECTOR_CARDINALITY = _kind(
    "vector-cardinality", _T, "a deletion vector deletes a different number of rows than its descriptor says",
    "Rewrite the file with OPTIMIZE; counts from the log are wrong until then")
VECTOR_MISSING = _kind(
    "vector-missing", _T, "a deletion vector's file is gone or damaged: the file cannot be read",
    "Restore the file from a copy, or RESTORE an earlier version")
PARTITION_COLUMNS = _kind(
    "partition-columns-differ", _T, "a file's partition values are of other columns than the table's", LOOK)
PARTITION_VALUE = _kind(
    "partition-value-invalid", _T, "a file's partition value does not fit its column's type", LOOK)
SIZE_INVALID = _kind("size-invalid", _T, "a file's size in the log is impossible", LOOK)
APPEND_ONLY = _kind(
    "append-only-broken", _T, "a commit removes rows of a table that only allows appends", RESTORE_BEFORE)
ROWS_REARRANGED = _kind(
    "rearranged-rows-differ", _T, "the number of rows differs after a commit that says it changes no data",
    "Compare the versions with diff()")
CHANGES_DIFFER = _kind(
    "change-files-differ", _T, "a commit's change files do not fit what it did to the table",
    "Do not use the feed of this commit: compare the versions with diff()", POSSIBLE)

# -- the table's definition -----------------------------------------------------------------------------

_T = "definition"
SCHEMA_INVALID = _kind("schema-invalid", _T, "the table's schema cannot be read",
                       "Restore the metadata of an earlier version")
SCHEMA_DUPLICATES = _kind(
    "column-twice", _T, "the names of two columns differ only in case", "Rename one of them")
PARTITION_UNKNOWN = _kind(
    "partition-column-unknown", _T, "the table is partitioned by a column that it does not have",
    "Restore the metadata of an earlier version")
MAPPING_TWICE = _kind(
    "mapping-twice", _T,
    "two columns are mapped to the same id or the same name in files: one reads the other's",
    "Restore the schema of an earlier version")
MAPPING_MAX = _kind(
    "mapping-id-too-large", _T, "a column's id is beyond delta.columnMapping.maxColumnId: a new column may "
    "get the same one", "Set delta.columnMapping.maxColumnId to the largest id")
MAPPING_MOVED = _kind(
    "mapping-moved", _T, "a column is mapped to a different id or name in files than before: old rows are "
                         "lost",
    "Restore the schema of an earlier version")
TABLE_ID = _kind(
    "table-id-changed", _T, "the table has a different id than before, and no command that replaces it did "
                            "it",
    "Find out whether two tables' logs were mixed", POSSIBLE)
METADATA_BACK = _kind(
    "metadata-went-back", _T, "the metadata is an earlier version's again: a change was lost on the way",
    "Compare the schemas with diff(), and repeat the change that was lost", POSSIBLE)
PROTOCOL_FELL = _kind(
    "protocol-fell", _T, "the protocol lost a feature or went to a lower version without DROP FEATURE",
    "Upgrade the protocol again")
PROTOCOL_INVALID = _kind(
    "protocol-invalid", _T,
    "the protocol lists features that its versions do not allow, or lists none", UPGRADE)
FEATURE_UNNAMED = _kind(
    "feature-unnamed", _T,
    "a feature is used that the protocol does not name: other clients ignore it", UPGRADE)
TXN_FELL = _kind(
    "application-version-fell", _T, "an application's version went back: a batch may be there twice",
    "Compare the batches of the application", POSSIBLE)
DOMAIN_UNKNOWN = _kind(
    "domain-unknown", _T, "a metadata domain is removed that the table does not have", LOOK, POSSIBLE)
PROPERTY_INVALID = _kind(
    "property-invalid", _T, "a table property has a value that it cannot have", "Set it again", POSSIBLE)

# -- ids and values -------------------------------------------------------------------------------------

_T = "values"
ROW_ID_MISSING = _kind("row-id-missing", _T, "row tracking is on, and a file has no row ids", LOOK)
ROW_IDS_OVERLAP = _kind(
    "row-ids-overlap", _T, "a new file's row ids were given before: two rows have the same one",
    "Rewrite the file: it gets fresh ids")
ROW_ID_BEYOND = _kind(
    "row-id-beyond-mark", _T,
    "a file's row ids are beyond the high-water mark: the next file gets them again",
    "Rewrite the file: it gets fresh ids, and the mark moves on")
ROW_MARK_FELL = _kind(
    "row-mark-fell", _T, "the high-water mark of row ids went back", "Rewrite the files written since")
COMMIT_VERSION = _kind(
    "row-commit-version", _T, "a file's default row commit version is not a version up to its commit's", LOOK)
IDENTITY_BEYOND = _kind(
    "identity-beyond-mark", _T,
    "an identity column has values beyond its high-water mark: they may be given again",
    "Run sync_identity(column)")
IDENTITY_MARK = _kind(
    "identity-mark-fell", _T,
    "the high-water mark of an identity column went back: values may be given twice",
    "Run sync_identity(column)")
NULLS = _kind("null-in-not-null", _T, "a column that is NOT NULL has NULLs", "Update or delete the rows")
CHECK_BROKEN = _kind("check-broken", _T, "rows break a CHECK constraint", "Update or delete the rows")
GENERATED_BROKEN = _kind(
    "generated-broken", _T, "a generated column is not what its expression gives", "Update the column's rows")
STATS_INVALID = _kind("statistics-invalid", _T, "a file's statistics cannot be read", STATISTICS)
STATS_RANGE = _kind(
    "statistics-range", _T, "a column's least value is above its greatest in a file's statistics: rows are "
    "skipped that match", STATISTICS)
STATS_COUNT = _kind(
    "statistics-count", _T, "a file's statistics count more NULLs than rows", STATISTICS)
STATS_ROWS = _kind(
    "statistics-rows", _T, "a file has a different number of rows than its statistics say", STATISTICS)
STATS_VALUES = _kind(
    "statistics-values", _T,
    "a file has values outside the bounds of its statistics: rows are skipped that match", STATISTICS)

# -- what is derived from the log -----------------------------------------------------------------------

_T = "derived"
CHECKSUM_DIFFERS = _kind(
    "checksum-differs", _T,
    "a version's .crc file is not what the log gives: the log or the file was changed",
    "Restore the log from a copy, or delete the .crc file if the log is right")
CHECKSUM_UNREADABLE = _kind("checksum-unreadable", _T, "a .crc file is damaged", REBUILD, POSSIBLE)
CHECKPOINT_DIFFERS = _kind(
    "checkpoint-differs", _T, "a checkpoint is not what the commits give: readers that use it see a "
                              "different table",
    "Rewrite it with checkpoint() if the commits are right, and restore the commits if they are not")
CHECKPOINT_UNREADABLE = _kind(
    "checkpoint-unreadable", _T, "a checkpoint or one of its sidecars is damaged or gone", REBUILD)
CHECKPOINT_INCOMPLETE = _kind(
    "checkpoint-incomplete", _T, "a checkpoint of several parts lacks some of them: its writer was killed",
    REBUILD, POSSIBLE)
COMPACTION_DIFFERS = _kind(
    "compaction-differs", _T, "a compacted log is not what its commits give", REBUILD)
COMPACTION_UNREADABLE = _kind("compaction-unreadable", _T, "a compacted log is damaged", REBUILD)
HINT_WRONG = _kind(
    "hint-wrong", _T,
    "_last_checkpoint names a checkpoint that does not exist: readers that trust it fail or are slow",
    REBUILD, POSSIBLE)

# -- data files -----------------------------------------------------------------------------------------

_T = "storage"
FILE_MISSING = _kind(
    "file-missing", _T,
    "a file of the table is gone", "Restore it from a copy, or RESTORE an earlier version")
FILE_SIZE = _kind(
    "file-size-differs", _T, "a file has a different size than the log says: it was cut off or replaced",
    "Restore it from a copy")
FILE_UNREADABLE = _kind("file-unreadable", _T, "a data file is damaged", "Restore it from a copy")
CHANGE_FILE_MISSING = _kind(
    "change-file-missing", _T, "a change file of a commit is gone: the feed cannot be read there",
    "Start the feed after this commit", POSSIBLE)
ORPHAN = _kind(
    "orphan", _T,
    "a file in the folder is named by no version in the log: a write that failed or is under way",
    "VACUUM deletes it once it is older than the retention", POSSIBLE)

# -- who passed whom ------------------------------------------------------------------------------------

_T = "isolation"
KEPT_UNDER_OVERWRITE = _kind(
    "kept-under-overwrite", _T, "an overwrite left files of a commit that it did not see: rows are there "
    "that it was to replace; proved where no order explains both", "Run the overwrite again", POSSIBLE)
SHOULD_HAVE_FAILED = _kind(
    "conflict-passed", _T, "a commit landed that a conflict rule ends at its isolation level; proved where "
    "no order explains both",
    "Compare both commits with diff(), and run the later one again on the version before",
    POSSIBLE)
BLIND_SPOTS = {
    "read-version": "the version it read is not recorded, so it is not known which commits it passed",
    "reads": "what it read is not recorded, so more may count as read than was",
    "windows": "too many commits landed after the one it read; only the nearest ones were checked",
    "commits-gone": "earlier commits were cleaned up: what they did is known from a checkpoint alone",
    "checkpoints": "these checkpoints were not compared: together they are larger than what is read at once",
    "data-files": "data files were not opened, or a sample of them: values and footers were not compared",
    "feed-values": "change files were not opened: whether their rows are those that changed is not known",
    "check-values": "constraints and generated columns were checked against statistics alone",
    "other-reads": "reads that rewrote nothing, reads of other tables and application ids read are in no log",
}
"""What a log cannot tell, by the stable code of the blind spot."""


def blind_spot(code: str, versions: Iterable[int] = (), missing: str = "") -> BlindSpot:
    """A blind spot of a kind, with what follows from it."""
    return BlindSpot(code, tuple(versions), missing, BLIND_SPOTS[code])


def as_markdown() -> str:
    """All kinds and all blind spots as the documentation prints them: a table for each topic.

    >>> print("\\n".join(as_markdown().splitlines()[:4]))
    ### Commits
    <BLANKLINE>
    | kind | certainty | meaning | what to do |
    |---|---|---|---|
    """
    lines: list[str] = []
    for topic, heading in TOPICS.items():
        lines += [f"### {heading}", "", "| kind | certainty | meaning | what to do |", "|---|---|---|---|"]
        lines += [f"| `{kind.code}` | {kind.certainty} | {kind.meaning} | {kind.remedy} |"
                  for kind in KINDS.values() if kind.topic == topic]
        lines.append("")
    lines += ["### Blind spots", "", "| kind | what follows |", "|---|---|"]
    lines += [f"| `{code}` | {meaning} |" for code, meaning in BLIND_SPOTS.items()]
    return "\n".join(lines) + "\n"
