"""What a catalog is asked and answers, as JSON: written by one side, checked by the other.

What lives here: for each value its JSON (``…_value``) and the check that reads it (a function of value and
path, as in ``iceberg/metadata/fields``): a field that is missing, unknown or of another type is refused by
its name.
What it does not know: HTTP, and what is done with the values.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from deltanb.catalog.iceberg.metadata.fields import (
    Check,
    Json,
    array,
    base64_text,
    choice,
    deferred,
    mapping,
    maybe,
    record,
    refuse,
    shaped,
    text,
    uuid_text,
    whole,
)
from deltanb.catalog.iceberg.metadata.requirements import requirement_field
from deltanb.catalog.iceberg.metadata.updates import update_field
from deltanb.catalog.overview import Overview
from deltanb.catalog.store.history import Entry
from deltanb.catalog.store.names import TableName, parts_of
from deltanb.catalog.store.ratification import Asserted, DeltaCommit
from deltanb.catalog.store.rows import DeltaState, TableRow
from deltanb.catalog.store.store import Commit, Tail
from deltanb.errors import InvalidArgument
from deltanb.text.safe_text import shown

__all__ = ["IcebergChange", "Ratification", "assertion_value", "commit_value", "entry_of", "entry_value",
           "mapping", "name_value", "overview_of", "overview_value", "proposal_value", "ratification_of",
           "row_of", "row_value", "short", "table_name", "tail_of", "tail_value"]

VERSION = whole(64, least=0)
MAX_ASKED = 1000  # names or ids of one question
_TABLE_ID = re.compile(r"[A-Za-z0-9_.\-]{1,36}")
_STAGED = re.compile(r"(\d{20})\.[A-Za-z0-9_-]{1,200}\.json")


@dataclass(frozen=True)
class IcebergChange:
    """What is asked of an Iceberg table; the server checks it and writes the table's new metadata file.

    ``table_id`` is None where whatever table has the name is meant.
    """

    table_id: str | None
    name: TableName
    requirements: list[Json] = field(repr=False)
    updates: list[Json] = field(repr=False)


@dataclass(frozen=True)
class Ratification:
    """A request to move many tables or none.

    ``attempt`` tells this request from others for the same transaction: one that was not answered is given
    up by its attempt, and cannot do anything from then on.
    """

    txn_id: str
    attempt: str
    commits: list[DeltaCommit]
    changes: list[tuple[str, IcebergChange]]
    """Each with its path in the request."""
    assertions: list[Asserted]
    principal: str | None
    summary: str | None


def few(items: Check) -> Check:
    """The check of an array that is not too long for one question."""

    @shaped(items)
    def check(value: Any, path: str) -> Any:
        checked = items(value, path)
        if len(checked) > MAX_ASKED:
            refuse(path, f"are {len(checked)}, and a question may have {MAX_ASKED}")
        return checked

    return check


@shaped(text)
def table_id_field(value: Any, path: str) -> str:
    """The id of a table that is being made: none by which a folder is staged for a name (``staged_id``)."""
    if not _TABLE_ID.fullmatch(text(value, path)):
        refuse(path, f"is no id of a table, 1 to 36 letters, digits, dots and dashes: {shown(value)}")
    return str(value)


# -- names and tables --------------------------------------------------------------------------------


def name_value(name: TableName) -> Json:
    """A table's name as JSON."""
    return {"namespace": list(name.namespace), "name": name.name}


_NAME = record({"namespace": array(text), "name": text})


@shaped(_NAME)
def table_name(value: Any, path: str) -> TableName:
    """The check of a table's name.

    >>> table_name({"namespace": ["shop"], "name": "a.b"}, "table")
    Traceback (most recent call last):
    deltanb.errors.BadRequest: table is no name of a table: the part 'a.b' of a name has a dot, which joins \
parts; leave it out
    """
    found = _NAME(value, path)
    try:
        return TableName.of((parts_of(found["namespace"]), found["name"]))
    except InvalidArgument as error:
        refuse(path, f"is no name of a table: {error}")


def row_value(row: TableRow) -> Json:
    """A table's row as JSON."""
    value: Json = {"table": name_value(row.name), "format": row.format}
    if row.table_id is not None:
        value["table-id"] = row.table_id
    if row.metadata_location is not None:
        value["metadata-location"] = row.metadata_location
    if row.delta is not None:
        value["delta"] = {name: each for name, each in vars(row.delta).items() if each is not None}
    return value


_DELTA = record(
    {"location": text, "latest": VERSION, "published": VERSION},
    {"last_ict": whole(64), "etag": text, "protocol": text, "metadata": text})
_ROW = record(
    {"table": table_name, "format": choice("delta", "iceberg")},
    {"table-id": text, "metadata-location": text, "delta": _DELTA})


@shaped(_ROW)
def row_of(value: Any, path: str) -> TableRow:
    """The check of a table's row."""
    found = _ROW(value, path)
    delta = DeltaState(**found["delta"]) if "delta" in found else None
    return TableRow(found["table"], found.get("table-id"), found["format"], found.get("metadata-location"),
                    delta=delta)


# -- commits that are not published ------------------------------------------------------------------


def tail_value(tail: Tail) -> Json:
    """A Delta table's latest version and its commits that are not published."""
    return {"latest": tail.latest, "published": tail.published, "commits": [
        {name: each for name, each in vars(commit).items() if each is not None} for commit in tail.commits]}


_COMMIT = record({"version": VERSION, "txn_id": text}, {
    "file_name": text, "file_size": VERSION, "mtime": whole(64), "ict": whole(64)})
_TAIL = record({"latest": VERSION, "published": VERSION, "commits": array(_COMMIT)})


@shaped(_TAIL)
def tail_of(value: Any, path: str) -> Tail:
    """The check of such a tail."""
    found = _TAIL(value, path)
    optional = {"file_name": None, "file_size": None, "mtime": None, "ict": None}
    return Tail(found["latest"], found["published"], tuple(
        Commit(**{**optional, **each}) for each in found["commits"]))


# -- ratification ------------------------------------------------------------------------------------


def proposal_value(proposal: DeltaCommit | IcebergChange) -> Json:
    """What a table is to become."""
    if isinstance(proposal, DeltaCommit):
        return {"delta": commit_value(proposal)}
    value: Json = {"table": name_value(proposal.name), "requirements": proposal.requirements,
                   "updates": proposal.updates}
    return {"iceberg": value if proposal.table_id is None else {**value, "table-id": proposal.table_id}}


def commit_value(commit: DeltaCommit) -> Json:
    """A Delta table's next version."""
    value: Json = {"table": name_value(commit.name), "table-id": commit.table_id, "version": commit.version}
    for name in _KEPT:
        found = getattr(commit, name.replace("-", "_"))
        if found is not None:
            value[name] = base64.b64encode(found).decode() if name == "inline" else found
    return value


_KEPT: Mapping[str, Check] = {
    "file-name": text, "file-size": VERSION, "mtime": VERSION, "ict": VERSION, "inline": base64_text,
    "etag": text, "protocol": text, "metadata": text}
_DELTA_COMMIT = record({"table": table_name, "table-id": text, "version": VERSION}, _KEPT)


@shaped(_DELTA_COMMIT)
def _commit_of(value: Any, path: str) -> DeltaCommit:
    found = _DELTA_COMMIT(value, path)
    name, version = found.get("file-name"), found["version"]
    if (name is None) == ("inline" not in found):
        refuse(f"{path}.file-name", "is missing, or inline is: a version is a staged file or its content")
    if name is not None and not is_staged_name(name, version):
        refuse(f"{path}.file-name", f"is no name of a staged file of version {version}: {name!r:.80}")
    kept = {key.replace("-", "_"): found[key] for key in _KEPT if key in found}
    if "inline" in kept:
        kept["inline"] = base64.b64decode(kept["inline"])
    return DeltaCommit(found["table-id"], found["table"], version, **kept)


def is_staged_name(name: str, version: int) -> bool:
    """Whether a staged file of a version may be called so: ``<20 digits>.<id>.json``.

    >>> is_staged_name("00000000000000000007.4a1f.json", 7), is_staged_name("../7.json", 7)
    (True, False)
    """
    found = _STAGED.fullmatch(name)
    return found is not None and int(found[1]) == version


_CHANGE = record({"table": table_name, "requirements": deferred(list, array(requirement_field)),
                  "updates": deferred(list, array(update_field))}, {"table-id": text})


@shaped(_CHANGE)
def _change_of(value: Any, path: str) -> IcebergChange:
    found = _CHANGE(value, path)
    return IcebergChange(found.get("table-id"), found["table"], found["requirements"], found["updates"])


_KINDS = {"delta": _commit_of, "iceberg": _change_of}


@shaped(*(record({kind: check}) for kind, check in _KINDS.items()))
def _proposal_of(value: Any, path: str) -> tuple[str, DeltaCommit | IcebergChange]:
    found = record({}, _KINDS)(value, path)
    if len(found) != 1:
        refuse(path, "is either delta or iceberg")
    ((kind, proposal),) = found.items()
    return f"{path}.{kind}", proposal


def assertion_value(asserted: Asserted) -> Json:
    """That a table stands where it was read."""
    return {"table": name_value(asserted.name), "table-id": asserted.table_id, "pointer": asserted.pointer}


@shaped({"type": ["integer", "string"]})
def _pointer(value: Any, path: str) -> int | str:
    return text(value, path) if isinstance(value, str) else VERSION(value, path)  # type: ignore[no-any-return]


_ASSERTION = record({"table": table_name, "table-id": text, "pointer": _pointer})


@shaped(_ASSERTION)
def _assertion_of(value: Any, path: str) -> Asserted:
    found = _ASSERTION(value, path)
    return Asserted(found["table-id"], found["table"], found["pointer"])


MAX_SUMMARY = 100_000  # characters: the names of some hundred tables and what was done to them


@shaped(text)
def short(value: Any, path: str) -> str:
    """The id or the name of something, not of any length."""
    if not 0 < len(text(value, path)) <= 200 or not value.isprintable():
        refuse(path, "must have 1 to 200 characters that can be printed")
    return str(value)


@shaped(text)
def _summary(value: Any, path: str) -> str:
    if len(text(value, path)) > MAX_SUMMARY:
        refuse(path, f"has more than {MAX_SUMMARY} characters")
    return str(value)


_RATIFICATION = record(
    {"txn-id": short, "attempt": uuid_text, "proposals": array(_proposal_of)},
    {"assertions": array(_assertion_of), "principal": short, "summary": _summary})


@shaped(_RATIFICATION)
def ratification_of(value: Any, path: str) -> Ratification:
    """The check of a request to ratify."""
    found = _RATIFICATION(value, path)
    proposals, assertions = found["proposals"], found.get("assertions", [])
    if not proposals and not assertions:
        refuse(f"{path}.proposals", "is empty, and nothing is asserted")
    return Ratification(
        found["txn-id"], found["attempt"], [each for _, each in proposals if isinstance(each, DeltaCommit)],
        [(at.lstrip("."), each) for at, each in proposals if isinstance(each, IcebergChange)], assertions,
        found.get("principal"), found.get("summary"))


# -- at a glance -------------------------------------------------------------------------------------


def overview_value(overview: Overview) -> Json:
    """What a catalog has."""
    return {**vars(overview), "namespaces": list(overview.namespaces),
            "tables": list(map(row_value, overview.tables)), "last": list(map(entry_value, overview.last))}


def overview_of(value: Any, path: str) -> Overview:
    """The check of such a glance."""
    found = _OVERVIEW(value, path)
    lists = {name: tuple(found[name]) for name in ("namespaces", "tables", "last")}
    return Overview(**{**found, **lists})


# -- history -----------------------------------------------------------------------------------------


def entry_value(entry: Entry) -> Json:
    """A transaction of the catalog as JSON."""
    return {"seq": entry.seq, "txn-id": entry.txn_id, "time": entry.time, "principal": entry.principal,
            "summary": entry.summary, "changes": {name: list(each) for name, each in entry.changes.items()}}


_ENTRY = record({"seq": VERSION, "txn-id": text, "time": whole(64), "changes": mapping(array(maybe(text)))},
                {"principal": text, "summary": text})


@shaped(_ENTRY)
def entry_of(value: Any, path: str) -> Entry:
    """The check of one."""
    found = _ENTRY(value, path)
    changes = {name: tuple(each) for name, each in found["changes"].items()}
    return Entry(found["seq"], found["txn-id"], found["time"], found.get("principal"), found.get("summary"),
                 MappingProxyType(changes))  # type: ignore[arg-type]


_OVERVIEW = record({
    "namespaces": array(text), "num_namespaces": VERSION, "tables": array(row_of), "num_tables": VERSION,
    "last": array(entry_of), "num_transactions": VERSION, "names": mapping(text)})
