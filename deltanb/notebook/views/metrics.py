"""The metrics of a commit in words: files added and removed, and what happened to how many rows.

What lives here: the names that writers give their metrics, and what they mean to a reader.
What it does not know: where a commit is read, how a line is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deltanb.log.lines import whole_number
from deltanb.text import formatting as units

# Names without case and underscores; the first one present counts. Delta Spark writes numAddedFiles, delta-rs
# num_added_files or numFilesAdded.
ADDED = ("numtargetfilesadded", "numaddedfiles", "numfilesadded", "numfiles", "numrestoredfiles",
         "numconvertedfiles", "numcopiedfiles")  # fmt: skip
REMOVED = ("numtargetfilesremoved", "numremovedfiles", "numfilesremoved")
ROWS = (
    ("inserted", ("numtargetrowsinserted",)),
    ("updated", ("numtargetrowsupdated", "numupdatedrows")),
    ("deleted", ("numtargetrowsdeleted", "numdeletedrows")),
)
WRITTEN = ("numoutputrows", "numaddedrows")
GONE = ("numdeletedfiles",)  # of a vacuum
TO_GO = ("numfilestodelete",)


def in_words(metrics: Any) -> str:
    """What a commit did according to its metrics; empty if they say nothing.

    >>> in_words({"numAddedFiles": "5", "numRemovedFiles": "7", "numOutputRows": "18"})
    '+5 −7 files, 18 rows written'
    >>> in_words({"num_added_files": 1, "num_deleted_rows": 1, "num_copied_rows": 9})
    '+1 file, 1 row deleted'
    >>> in_words({"numDeletedFiles": "3"}), in_words({"executionTimeMs": 4}), in_words(None)
    ('3 files deleted', '', '')
    """
    if not isinstance(metrics, Mapping):
        return ""
    known = {str(name).lower().replace("_", ""): whole_number(value) for name, value in metrics.items()}
    rows = [(verb, _first(known, names)) for verb, names in ROWS]
    if not any(count for _, count in rows):
        # A MERGE or an UPDATE rewrites rows it did not change, so this does not count changes.
        rows = [("written", _first(known, WRITTEN))]
    parts = [_files(_first(known, ADDED), _first(known, REMOVED))]
    parts += [f"{units.count(count, 'row')} {verb}" for verb, count in rows if count]
    for names, words in ((GONE, "deleted"), (TO_GO, "to delete")):
        files = _first(known, names)
        parts.append(f"{units.count(files, 'file')} {words}" if files else "")
    return ", ".join(filter(None, parts))


def _first(known: Mapping[str, int | None], names: tuple[str, ...]) -> int:
    return next((count for name in names if (count := known.get(name))), 0)


def _files(added: int, removed: int) -> str:
    if not added and not removed:
        return ""
    signs = [f"{sign}{units.number(n)}" for sign, n in (("+", added), ("−", removed)) if n]
    return f"{' '.join(signs)} {'file' if added + removed == 1 else 'files'}"
