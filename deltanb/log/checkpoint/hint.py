"""The ``_last_checkpoint`` file: a hint where the newest checkpoint is.

Lives here: its fields, its checksum (PROTOCOL.md, "Last Checkpoint File Schema", "JSON checksum"),
and reading that never fails: a hint that is absent, torn, or wrong is no hint, and readers list
the log instead.

Does not know: whether the checkpoint it names exists.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from deltanb.store.local import unsynced
from deltanb.text.damage import what_is_wrong
from deltanb.text.safe_text import get_logger

if TYPE_CHECKING:
    from deltanb.store.base import LogStore

logger = get_logger(__name__)

LAST_CHECKPOINT = "_delta_log/_last_checkpoint"

_UNRESERVED = "-._~"


@dataclass(frozen=True)
class LastCheckpoint:
    """What the hint says: sizes are the number of actions, bytes, and the number of added files."""

    version: int
    size: int
    parts: int | None = None
    size_in_bytes: int | None = None
    num_of_add_files: int | None = None

    def to_json(self) -> str:
        """The file's content, with its checksum.

        >>> LastCheckpoint(2, 5, size_in_bytes=70, num_of_add_files=3).to_json()[:60]
        '{"version":2,"size":5,"sizeInBytes":70,"numOfAddFiles":3,"ch'
        """
        fields = {
            "version": self.version,
            "size": self.size,
            "parts": self.parts,
            "sizeInBytes": self.size_in_bytes,
            "numOfAddFiles": self.num_of_add_files,
        }
        value: dict[str, Any] = {k: v for k, v in fields.items() if v is not None}
        value["checksum"] = checksum(value)
        return json.dumps(value, separators=(",", ":"))


def read_last_checkpoint(store: LogStore) -> LastCheckpoint | None:
    """The hint, or None if it is absent, not JSON, without a version, or fails its checksum."""
    try:
        text = store.read(LAST_CHECKPOINT).decode()
    except (OSError, UnicodeDecodeError):
        return None
    return parse_last_checkpoint(text)


def parse_last_checkpoint(text: str) -> LastCheckpoint | None:
    """As :func:`read_last_checkpoint`, of the file's text."""
    try:
        return _parse(json.loads(text, parse_float=_Number, object_pairs_hook=_no_duplicates))
    except Exception as error:  # a hint is worth no more than what it saves
        logger.warning("%s is ignored: %s", LAST_CHECKPOINT, what_is_wrong(error))
        return None


def _parse(value: Any) -> LastCheckpoint:
    version = value.get("version") if isinstance(value, dict) else None
    if not _is_count(version):
        raise ValueError("it names no version")
    if "checksum" in value and value["checksum"] != checksum(value):
        raise ValueError("its checksum does not fit its content")
    counts = {k: v if _is_count(v) else None for k, v in value.items()}
    return LastCheckpoint(
        version=value["version"],
        size=counts.get("size") or 0,
        parts=counts.get("parts"),
        size_in_bytes=counts.get("sizeInBytes"),
        num_of_add_files=counts.get("numOfAddFiles"),
    )


def write_last_checkpoint(store: LogStore, hint: LastCheckpoint) -> None:
    """Overwrite the hint, unless a newer checkpoint is named there already."""
    present = read_last_checkpoint(store)
    if present is None or present.version <= hint.version:
        unsynced(store).put(LAST_CHECKPOINT, hint.to_json().encode())


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


# -- checksum ----------------------------------------------------------------------------------


def checksum(value: dict[str, Any]) -> str:
    """The MD5 digest of the canonical form.

    >>> checksum({"k0": "'v 0'", "k1": {"k2": 2, "k3": ["v3", [1, 2], {"k4": "v4",
    ...     "k5": ["v5", "v6", "v7"]}]}})
    '6a92d155a59bf2eecbd4b4ec7fd1f875'
    """
    return hashlib.md5(canonical(value).encode(), usedforsecurity=False).hexdigest()


def canonical(value: dict[str, Any]) -> str:
    """The canonical form: sorted ``path=value`` pairs, without the top-level checksum.

    >>> canonical({"b": {"y": None, "x": "https://delta.io"}, "a": 10, "checksum": "any"})
    '"a"=10,"b"+"x"="https%3A%2F%2Fdelta.io","b"+"y"=null'
    """
    fields = {key: item for key, item in value.items() if key != "checksum"}
    pairs = sorted(_pairs(fields, ""), key=lambda pair: pair[0].encode())
    return ",".join(f"{path}={text}" for path, text in pairs)


def _pairs(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        items = [(_quoted(key), item) for key, item in value.items()]
    elif isinstance(value, list):
        items = [(str(position), item) for position, item in enumerate(value)]
    else:
        yield path, _scalar(value)
        return
    for name, item in items:
        yield from _pairs(item, f"{path}+{name}" if path else name)


def _scalar(value: Any) -> str:
    if isinstance(value, _Number):
        return str(value)
    return _quoted(value) if isinstance(value, str) else json.dumps(value)


def _quoted(text: str) -> str:
    return f'"{quote(text, safe=_UNRESERVED)}"'


class _Number(str):
    """A number that keeps the digits it was written with."""

    __slots__ = ()


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a key occurs twice")
    return fields
