"""What becomes of each table feature between this library and its peers, and how the page says so.

What lives here: :func:`read_by` and :func:`written_by`, a cell each; :class:`Recording`, the file with all
cells; :func:`as_markdown`. What it does not know: how a feature is used (``matrix_features``), how a peer is
spoken to (``matrix_peers``).

A cell is JSON. ``does`` is one of :data:`SIGNS`; ``error`` is what a refusal says, ``names it`` whether that
has the feature's name. Of a table of somebody else's ``ours`` is what this library then does to it, and
``again`` whether the other one reads what we have made of it.
"""

from __future__ import annotations

import datetime as dt
import itertools
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import deltanb as dn
from deltanb.errors import DeltaError
from deltanb.schema.protocol import FEATURES, is_active, supports
from deltanb.table.table import DeltaTable
from tests.engines.arrow.test_variants import decoded, names
from tests.peers.delta_spark import PeerError
from tests.peers.matrix_features import Use, make, use_of
from tests.peers.matrix_peers import TITLES, Peer

RECORDED = Path(__file__).with_name("matrix.json")
DIRECTIONS = ("read", "written")
UNIQUE = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|(?<=ours-)[0-9a-f]{8}|(?<=property )'.*'$")
"""In messages what no two tables share, and which of several properties is named first."""
MAX_TEXT = 200
LACKS = "the table that it makes lacks the feature"
ALIASES = {"timestampNtz": "timestampWithoutTimezone"}
ASIDE = re.compile(
    r" (This error occurred with|LINE 1:|SQLSTATE: |To disable this check|Stack Trace:|0: <).*")
"""What messages end with that says nothing about the table."""
LISTED = re.compile(r"\[([^\[\]]+, [^\[\]]+)\]")
SIGNS = {
    "yes": "✓", "appends": "appends", "refused": "refused", "other rows": "**other rows**",
    "wrong rows": "**wrong rows**", "cannot": "–", "not ours": "·",
}
"""What a peer does, as the page has it."""
Cell = dict[str, Any]


# -- cells -------------------------------------------------------------------------------------------------

@dataclass(frozen=True)
class Ours:
    """A table of ours that uses a feature, and its rows; or why there is none."""

    feature: str
    folder: Path
    path: Path | None = None
    rows: dict[int, Any] = field(default_factory=dict)
    refusal: Cell = field(default_factory=dict)

    @classmethod
    def made(cls, feature: str, folder: Path) -> Ours:
        """Make it."""
        try:
            table = make(feature, folder)()
        except DeltaError as error:
            return cls(feature, folder, refusal=_message(error, feature, folder))
        assert _is_in_use(feature, table, use_of(feature, True)), "the table does not use the feature"
        return cls(feature, folder, Path(table.path), plain(table.to_arrow()))


def read_by(peer: Peer, ours: Ours) -> Cell:
    """What a peer reads of a table of ours."""
    if ours.path is None:
        return {"does": "not ours", **ours.refusal}
    return _reading(peer, ours.path, ours.rows, ours.feature, ours.folder)


def written_by(peer: Peer, feature: str, folder: Path) -> Cell:
    """What a peer makes of a feature, and what this library then reads and changes.

    A peer that makes no table with the feature is asked to append to one of ours.
    """
    theirs, cell = folder / "theirs", {"does": "yes"}
    opened: Callable[[], DeltaTable] = lambda: dn.open(theirs)  # noqa: E731
    use = use_of(feature, False)
    expected = dict(use.remaining)
    try:
        peer.make(use, theirs)
        if _lacks(feature, opened, use):
            cell = {"does": "cannot", "error": LACKS}
    except BaseException as error:
        cell = {"does": "cannot", **_refusal(peer, error, feature, folder)}
    if cell["does"] == "cannot":
        use = use_of(feature, True)
        expected = {**use.remaining, 4: "d"}
        try:
            opened = make(feature, folder)
        except DeltaError:
            return cell
        try:
            peer.append(use, Path(opened().path), use.rows((4,), ("d",)))
        except BaseException as error:
            return {**cell, "appending": _refusal(peer, error, feature, folder)}
        cell = {"does": "appends", "made": cell.get("error")}
    return {**cell, **_changed(peer, opened, use, expected, feature, folder)}


def _lacks(feature: str, opened: Callable[[], DeltaTable], use: Use) -> bool:
    try:
        return not _is_in_use(feature, opened(), use)
    except DeltaError:
        return False  # it cannot be opened: there is something in it that we refuse


def _is_in_use(feature: str, table: DeltaTable, use: Use) -> bool:
    protocol, metadata = table.protocol, table.snapshot.metadata
    active = is_active(protocol, metadata, feature) or FEATURES[feature].write != "yes"
    return supports(protocol, feature) and active and use.in_use(table)


def _changed(peer: Peer, opened: Callable[[], DeltaTable], use: Use, expected: dict[int, str], feature: str,
             folder: Path) -> Cell:
    """We read a table of a peer's, change it, and the peer reads it again."""
    try:
        table = opened()
        written = plain(table.to_arrow())
        if not _is_right(written, use, expected):
            return {"does": "wrong rows", "rows": str(written)}
    except DeltaError as error:
        return {"ours": "refused to read", "our": _message(error, feature, folder)}
    before = _findings(table)
    try:
        table.append(use.rows((9,), ("z",)))
        expected = {**expected, 9: "z"}
        if not use.append_only:
            table.update({"name": "'y'"}, where="id = 1")
            expected[1] = "y"
    except DeltaError as error:
        return {"ours": "refused to change", "our": _message(error, feature, folder)}
    assert _is_right(plain(opened().to_arrow()), use, expected)
    assert _findings(table) == before, "our changes are seen by verification"
    again = _reading(peer, Path(table.path), plain(opened().to_arrow()), feature, folder)
    return {"ours": "yes", "again": again["does"]}


def _findings(table: DeltaTable) -> list[str]:
    return [finding.kind for finding in table.verify(files="all").findings]


def _is_right(rows: dict[int, Any], use: Use, expected: dict[int, str]) -> bool:
    return {number: row[0] for number, row in rows.items()} == expected and all(
        use.is_right(number, *row[1:]) for number, row in rows.items())


def _reading(peer: Peer, path: Path, ours: dict[int, Any], feature: str, folder: Path) -> Cell:
    try:
        rows = plain(peer.rows(path))
    except BaseException as error:
        return {"does": "refused", **_refusal(peer, error, feature, folder)}
    return {"does": "yes"} if rows == ours else {"does": "other rows", "rows": _first(rows, ours)}


def _first(rows: dict[int, Any], ours: dict[int, Any]) -> str:
    """Where two tables differ first."""
    number = min(number for number in {*rows, *ours} if rows.get(number) != ours.get(number))
    return f"id {number}: {rows.get(number)}, not {ours.get(number)}"


def plain(table: pa.Table) -> dict[int, tuple[Any, ...]]:
    """Rows by their ``id``, whatever types of Arrow's a reader has for them."""
    rows = {row["id"]: tuple(_value(value) for name, value in sorted(row.items()) if name != "id")
            for row in table.to_pylist()}
    assert len(rows) == table.num_rows
    return rows


def _value(value: Any) -> Any:
    match value:
        case {"metadata": bytes() as own, "value": bytes() as variant}:
            return decoded(variant, names(own))
        case dt.datetime():  # Pandas' has more digits
            return value.isoformat(timespec="microseconds")
    return value


def _refusal(peer: Peer, error: BaseException, feature: str, folder: Path) -> Cell:
    """What a peer says; whatever it should not raise is raised again."""
    if not isinstance(error, peer.refusals) and type(error).__name__ != "PanicException":
        raise error
    return _message(error, feature, folder)


def _message(error: BaseException, feature: str, folder: Path) -> Cell:
    kind = type(error).__name__
    text = str(error)
    if isinstance(error, PeerError):
        kind, text = error.condition or error.kind, error.message
    text = re.sub(r"(file:/*)?" + re.escape(str(folder)), "<folder>", " ".join(text.split()))
    text = ASIDE.sub("", UNIQUE.sub("…", text)).removeprefix(f"[{kind}] ")
    text = LISTED.sub(lambda match: f"[{', '.join(sorted(match[1].split(', ')))}]", text)
    is_named = any(letters(name) in letters(text) for name in (feature, ALIASES.get(feature, feature)))
    text = text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"
    return {"error": f"{kind}: {text}", "names it": is_named}


def letters(text: str) -> str:
    """A text by which two spellings of a name are the same: ``columnMapping``, ``column mapping``."""
    return re.sub(r"[^a-z0-9]", "", text.lower())


# -- the recording -----------------------------------------------------------------------------------------

class Recording:
    """Cell by direction, feature and peer; and the version of each peer."""

    def __init__(self) -> None:
        content = json.loads(RECORDED.read_text("utf-8")) if RECORDED.exists() else {}
        self.versions: dict[str, str] = content.get("versions", {})
        self._cells: dict[str, Cell] = content.get("cells", {})

    def __getitem__(self, key: tuple[str, str, str]) -> Cell:
        return self._cells[" / ".join(key)]

    def __setitem__(self, key: tuple[str, str, str], cell: Cell) -> None:
        self._cells[" / ".join(key)] = cell
        self.versions[key[2]] = TITLES[key[2]].version

    def keys(self) -> set[tuple[str, ...]]:
        """Direction, feature and peer of all cells."""
        return {tuple(key.split(" / ")) for key in self._cells}

    def write(self, keys: Iterable[tuple[str, str, str]]) -> None:
        """Write some cells in their order, a line each, and drop all others."""
        lines = [f"  {json.dumps(' / '.join(key))}: {json.dumps(self[key], ensure_ascii=False)}"
                 for key in keys if " / ".join(key) in self._cells]
        versions = json.dumps({title: self.versions[title] for title in TITLES if title in self.versions})
        RECORDED.write_text(f'{{\n "versions": {versions},\n "cells": {{\n' + ",\n".join(lines) + "\n }\n}\n",
                            "utf-8")


# -- the page ----------------------------------------------------------------------------------------------

TITLES_OF_TABLES = {
    "read": "## Written by deltanb, read by",
    "written": "## Written by others, read and changed by deltanb",
}
NAMES_IN_TEXTS = re.compile(r"\[[^\[\]]*\]|'[^']*'|\"[^\"]*\"|<folder>\S*|(?<=: )[\w.-]+(?=\.?$)")


def as_markdown(recording: Recording) -> str:
    """Both tables, and what refusals say."""
    versions = ", ".join(f"{title} {recording.versions[title]}" for title in TITLES)
    lines = [f"Tried with {versions}.", ""]
    for direction in DIRECTIONS:
        lines += [TITLES_OF_TABLES[direction], "", f"| feature | {' | '.join(TITLES)} |",
                  "|---" * (len(TITLES) + 1) + "|"]
        lines += [f"| `{feature}` | "
                  + " | ".join(sign(recording[direction, feature, title]) for title in TITLES) + " |"
                  for feature in FEATURES]
        lines.append("")
    return "\n".join([*lines, "## What refusals say", "", *_texts(recording)])


def sign(cell: Cell) -> str:
    """A cell in short.

    >>> sign({"does": "refused", "error": "…", "names it": True})
    'refused, by name'
    >>> sign({"does": "appends", "ours": "yes", "again": "refused"})
    'appends, not read by it'
    """
    parts = [SIGNS[cell["does"]]]
    if cell["does"] == "refused" and cell["names it"]:
        parts.append("by name")
    if cell.get("ours", "yes") != "yes":
        parts.append(f"we {cell['ours'].replace('refused', 'refuse')}")
    if cell.get("again", "yes") != "yes":
        parts.append("not read by it")
    return ", ".join(parts)


def _texts(recording: Recording) -> list[str]:
    """Of each peer the texts that it refuses with, without the names in them, and the features."""
    lines = []
    for title in TITLES:
        about: dict[str, list[str]] = {}
        for direction, feature in itertools.product(DIRECTIONS, FEATURES):
            cell = recording[direction, feature, title]
            refusals = [cell.get("error"), cell.get("made"), cell.get("appending", {}).get("error")]
            for text in refusals if cell["does"] != "not ours" else ():
                if text and feature not in about.setdefault(NAMES_IN_TEXTS.sub("…", text), []):
                    about[NAMES_IN_TEXTS.sub("…", text)].append(feature)
        lines += [f"**{title}**", ""]
        lines += [f"* `{text}`: {', '.join(features)}" for text, features in about.items()]
        lines.append("")
    return lines[:-1]
