"""The lines of a commit: from bytes to what a reader needs of them.

What lives here: every decoder of commits. There are several because what is not needed is skipped while a
line is decoded: they give values for conflict checks, rows for replay, names of files, sizes of files, or the
commitInfo alone. Also the error of a damaged commit.
What it does not know: where commits are (``commits``), how actions reconcile (``replay``).
"""

from __future__ import annotations

import re
from typing import Annotated, Any

import msgspec

from deltanb import actions
from deltanb.actions import Action
from deltanb.errors import InvalidTable
from deltanb.log.commits import commit_name
from deltanb.text.damage import what_is_wrong

__all__ = ["Line", "actions_of", "commit_info_of", "count_files", "decode_actions", "decode_files",
           "decode_sizes", "explain", "parse_commit"]

MAX_QUOTED = 60  # characters of a damaged line shown in its error

DAMAGED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What the ``decode_…`` functions raise where lines are not valid; :func:`explain` says which."""


_FILES = (b'{"add":{', b'{"remove":{')
"""How the lines of files begin."""


# -- values ------------------------------------------------------------------------------------


def actions_of(data: bytes) -> list[Action]:
    """The actions of lines; only a line feed ends a line, since texts may contain other line separators.

    >>> [action.key for action in actions_of(b'{"txn":{"appId":"\\xe2\\x80\\xa8","version":1}}\\n')]
    ['txn']
    """
    return [actions.from_json(line) for line in data.split(b"\n") if line.strip()]


def parse_commit(data: bytes, name: str, root: str = "") -> list[Action]:
    """The actions of a commit as values, unknown ones and unknown fields included.

    Raises:
        InvalidTable: a line that is not an action, naming file and line.
    """
    try:
        actions = actions_of(data)
        if not actions:
            raise ValueError("no actions")
        return actions
    except Exception as error:
        raise explain(data, name, root, error) from None


def explain(data: bytes, name: str, root: str, error: Exception) -> InvalidTable:
    """The error for a damaged commit: which line, what is wrong with it, and what to do."""
    where = f"{name} of {root}" if root else name
    line_number, fault = None, what_is_wrong(error)
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            actions.from_json(line)
            decode_actions(line)
        except Exception as cause:
            shown = line[:MAX_QUOTED].decode("utf-8", "replace")
            line_number, fault = number, f"{what_is_wrong(cause)}; the line begins {shown!r}"
            break
    if not data.strip():
        fault = "the file is empty"
    at = f"{where}, line {line_number}" if line_number else where
    match = re.search(r"(\d{20})[^/]*$", name)
    earlier = int(match[1]) - 1 if match else -1
    way_out = "Restore the file from a backup or a copy of the table"
    if earlier >= 0:
        way_out += f", or read the table as it was before with snapshot_at({earlier})"
    return InvalidTable(
        f"{at} is not a valid commit: {fault}. {way_out}", path=root, file=name, line=line_number
    )


# -- rows --------------------------------------------------------------------------------------
# Records: attributes as in deltanb.actions, so that both kinds of row become Arrow
# by the same code. msgspec checks types while it decodes and skips what is not named.

_Int = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]


class _DeletionVector(msgspec.Struct, rename="camel", gc=False):
    storage_type: str
    path_or_inline_dv: str
    size_in_bytes: _Int32
    cardinality: _Int
    offset: _Int32 | None = None


class _Add(msgspec.Struct, rename="camel", gc=False):
    path: str
    partition_values: dict[str, str | None] | None = None
    size: _Int | None = None
    modification_time: _Int | None = None
    data_change: bool | None = True
    stats: str | None = None
    tags: dict[str, Any] | None = None
    deletion_vector: _DeletionVector | None = None
    base_row_id: _Int | None = None
    default_row_commit_version: _Int | None = None
    clustering_provider: str | None = None


class _Remove(msgspec.Struct, rename="camel", gc=False):
    path: str
    deletion_timestamp: _Int | None = None
    data_change: bool | None = True
    extended_file_metadata: bool | None = None
    partition_values: dict[str, str | None] | None = None
    size: _Int | None = None
    stats: str | None = None
    tags: dict[str, Any] | None = None
    deletion_vector: _DeletionVector | None = None
    base_row_id: _Int | None = None
    default_row_commit_version: _Int | None = None


_NOTHING = msgspec.Raw(b"")


class Line(msgspec.Struct, gc=False):
    """A line as replay reads it: files in full, everything else as JSON."""

    add: _Add | None = None
    remove: _Remove | None = None
    commitInfo: msgspec.Raw = _NOTHING
    txn: msgspec.Raw = _NOTHING
    domainMetadata: msgspec.Raw = _NOTHING
    metaData: msgspec.Raw = _NOTHING
    protocol: msgspec.Raw = _NOTHING


decode_actions = msgspec.json.Decoder(Line).decode_lines


# -- names and sizes of files ------------------------------------------------------------------


class NamedVector(msgspec.Struct, rename="camel", gc=False):
    """The place of a deletion vector."""

    storage_type: str
    path_or_inline_dv: str
    offset: int | None = None


class NamedFile(msgspec.Struct, rename="camel", gc=False):
    """The name of a file."""

    path: str
    deletion_vector: NamedVector | None = None


class _NamingLine(msgspec.Struct, gc=False):
    add: NamedFile | None = None
    remove: NamedFile | None = None


decode_files = msgspec.json.Decoder(_NamingLine).decode_lines


class _SizedFile(msgspec.Struct, gc=False):
    size: int | None = None
    dataChange: bool | None = True


class _SizingLine(msgspec.Struct, gc=False):
    add: _SizedFile | None = None
    remove: _SizedFile | None = None
    commitInfo: dict[str, Any] | None = None


decode_sizes = msgspec.json.Decoder(_SizingLine).decode_lines


# -- commitInfo --------------------------------------------------------------------------------


class _InfoLine(msgspec.Struct, gc=False):
    commitInfo: Any = None


_info_line = msgspec.json.Decoder(_InfoLine).decode
_info_lines = msgspec.json.Decoder(_InfoLine).decode_lines


def count_files(data: bytes) -> tuple[int, int]:
    """How many files a commit adds and removes, without parsing; (0, 0) for JSON with spaces between its
    tokens, which no known writer produces.

    >>> count_files(b'{"commitInfo":{}}\\n{"add":{"path":"a"}}\\n{"remove":{"path":"b"}}\\n')
    (1, 1)
    """
    added, removed = (data.count(b"\n" + begin) + data.startswith(begin) for begin in _FILES)
    return added, removed


def commit_info_of(data: bytes, version: int, root: str = "") -> dict[str, Any]:
    """The commitInfo of a commit, {} if it has none; only its line is parsed.

    Raises:
        InvalidTable: a line that is not an action, naming file and line.
    """
    start = data.find(b'{"commitInfo"')
    try:
        if start >= 0 and (start == 0 or data[start - 1] == 0x0A):
            end = data.find(b"\n", start)
            info = _info_line(data[start : end if end >= 0 else len(data)]).commitInfo
        else:
            infos = (line.commitInfo for line in _info_lines(data))
            info = next((one for one in infos if one is not None), None)
    except Exception as error:
        raise explain(data, commit_name(version), root, error) from None
    return info if isinstance(info, dict) else {}


def whole_number(value: Any) -> int | None:
    """A version or time in a commitInfo, which some writers record as text; negative values mean none.

    >>> whole_number("3"), whole_number(3), whole_number(-1), whole_number("x"), whole_number(True)
    (3, 3, None, None, None)
    """
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
