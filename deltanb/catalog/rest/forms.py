"""The JSON of requests and answers: written by one side, checked by the other.

What lives here: the forms of values. A form is a check (``iceberg/metadata/fields``) that reads a value of a
class, refuses a field that is missing, unknown or of another type by its name, and also writes one
(``to_json``).
What it does not know: HTTP, and what is done with the values.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from deltanb.catalog.iceberg.metadata.fields import (
    Check,
    Json,
    array,
    base64_text,
    choice,
    deferred,
    flag,
    mapping,
    maybe,
    named,
    record,
    refuse,
    shaped,
    text,
    to_json,
    uuid_text,
    whole,
)
from deltanb.catalog.iceberg.metadata.requirements import requirement_field
from deltanb.catalog.iceberg.metadata.updates import update_field
from deltanb.catalog.overview import Overview
from deltanb.catalog.store.history import Entry
from deltanb.catalog.store.names import Page, TableName, check_part, check_size, joined, key_of, parts_of
from deltanb.catalog.store.ratification import Asserted, DeltaCommit
from deltanb.catalog.store.rows import DeltaState, TableRow
from deltanb.catalog.store.store import Commit, Tail
from deltanb.errors import InvalidArgument
from deltanb.text.safe_text import shown

__all__ = [
    "CONTENT", "ENTRY", "IDS", "LOCATIONS", "NAME", "NAMES", "NAMESPACE", "OVERVIEW", "PAGE", "PAGE_SIZE",
    "PAGE_TOKEN", "PARTS", "PURGE", "ROW", "ROWS", "SEPARATOR", "TAIL", "VERSION", "IcebergChange",
    "Ratification", "few", "form", "is_staged_name", "name_field", "name_value", "namespace_field",
    "namespace_of", "nothing", "only", "ratification_of", "short", "table_field", "table_id_field"]

SEPARATOR = "\x1f"  # between the parts of a namespace in a path
VERSION = whole(64, least=0)
MAX_ASKED = 1000  # names or ids of one question
_TABLE_ID = re.compile(r"[A-Za-z0-9_.\-]{1,36}")
_STAGED = re.compile(r"(\d{20})\.[A-Za-z0-9_-]{1,200}\.json")


def form(
    make: Callable[..., Any], required: Mapping[str, Check], optional: Mapping[str, Check] | None = None,
    **attributes: str,
) -> Check:
    """The form of a value of a class: its attributes as fields, hyphens in place of underscores.

    Args:
        attributes: those that a field is not called by, by the field.

    >>> asserted = form(Asserted, {"table-id": text, "table": NAME, "pointer": VERSION}, table="name")
    >>> to_json(asserted, Asserted("t1", TableName.of("shop.ducks"), 7))
    {'table-id': 't1', 'table': {'namespace': ['shop'], 'name': 'ducks'}, 'pointer': 7}
    """
    fields = record(required, optional)
    names = {each: attributes.get(each.replace("-", "_"), each.replace("-", "_"))
             for each in (*required, *(optional or ()))}

    @shaped(fields, write=lambda value: to_json(fields, {
        each: getattr(value, name) for each, name in names.items()}))
    def check(value: Any, path: str) -> Any:
        values = fields(value, path)
        return make(**{name: values.get(each) for each, name in names.items()})

    return check


def series(item: Check, **schema: Any) -> Check:
    """The form of a tuple."""
    items = array(item, **schema)
    return shaped(items)(lambda value, path: tuple(items(value, path)))


def only(name: str, item: Check) -> Check:
    """The form of a value that is an object's only field."""
    fields = record({name: item})
    return shaped(fields, write=lambda value: to_json(fields, {name: value}))(
        lambda value, path: fields(value, path)[name])


@shaped({"type": "object"}, write=lambda value: {})
def nothing(value: Any, path: str) -> None:
    """An answer without content."""


def few(items: Check) -> Check:
    """The check of an array that one request may have."""

    @shaped(items)
    def check(value: Any, path: str) -> Any:
        checked = items(value, path)
        if len(checked) > MAX_ASKED:
            refuse(path, f"are {len(checked)}, and a question may have {MAX_ASKED}")
        return checked

    return check


@shaped(text)
def short(value: Any, path: str) -> str:
    """An id or a name of limited length."""
    if not 0 < len(text(value, path)) <= 200 or not value.isprintable():
        refuse(path, "must have 1 to 200 characters that can be printed")
    return str(value)


@shaped(text)
def table_id_field(value: Any, path: str) -> str:
    """The id of a table that is being made: none by which a folder is staged for a name (``staged_id``)."""
    if not _TABLE_ID.fullmatch(text(value, path)):
        refuse(path, f"is not the id of a table, 1 to 36 letters, digits, dots and dashes: {shown(value)}")
    return str(value)


IDS = shaped(array(text), write=lambda ids: sorted(set(ids)))(few(array(text)))
"""Ids of tables, in any order and each once."""


# -- names and tables --------------------------------------------------------------------------------

_NAME = record({"namespace": array(text), "name": text})


def name_value(name: Any) -> Json:
    """A table's name as a body has it."""
    name = TableName.of(name)
    return {"namespace": list(name.namespace), "name": name.name}


@shaped(_NAME, write=name_value)
def NAME(value: Any, path: str) -> TableName:
    """A table's name; whatever :meth:`TableName.of` takes is written.

    >>> NAME({"namespace": ["shop"], "name": "a.b"}, "table")
    Traceback (most recent call last):
    deltanb.errors.BadRequest: table is not the name of a table: the part 'a.b' of a name has a dot, which \
joins parts; leave it out
    """
    parts = _NAME(value, path)
    try:
        return TableName.of((parts_of(parts["namespace"]), parts["name"]))
    except InvalidArgument as error:
        refuse(path, f"is not the name of a table: {error}")


NAMES = shaped(array(NAME), write=lambda names: [
    name_value(each) for each in dict.fromkeys(map(TableName.of, names))])(few(array(NAME)))
"""Names of tables, each once."""

def namespace_of(parts: list[str]) -> tuple[str, ...]:
    """A namespace of its parts.

    Raises:
        InvalidArgument: a name that none may have.
    """
    namespace = parts_of(parts)
    joined(namespace)
    return namespace


@shaped(array(text, minItems=1), write=lambda namespace: list(parts_of(namespace)))
def namespace_field(value: Any, path: str) -> tuple[str, ...]:
    """The check of a namespace in a body.

    Raises:
        BadRequest: no array of names that a namespace may have.
    """
    parts = array(text)(value, path)
    try:
        return namespace_of(parts)
    except InvalidArgument as error:
        refuse(path, f"is not a namespace: {error}")


@shaped(text)
def name_field(value: Any, path: str) -> str:
    """The check of a table's own name in a body.

    Raises:
        BadRequest: no name that a table may have.
    """
    name = text(value, path)
    try:
        check_part(name, name)
    except InvalidArgument as error:
        refuse(path, f"is not the name of a table: {error}")
    return name


@shaped(record({"namespace": namespace_field, "name": text}), write=name_value)
def table_field(value: Any, path: str) -> TableName:
    """The check of a table's identifier in a body.

    Raises:
        BadRequest: no object of a namespace and a name that a table may have.
    """
    if not isinstance(value, dict) or set(value) != {"namespace", "name"}:
        refuse(path, "must be an object of namespace and name")
    namespace = namespace_field(value["namespace"], f"{path}.namespace")
    return TableName.of((namespace, name_field(value["name"], f"{path}.name")))


named("Identifier", table_field)

PARTS = series(text, minItems=1)
"""A namespace that is there, whatever its name."""

NAMESPACE = shaped(array(text), write=lambda namespace: list(parts_of(namespace)))(partial(namespace_field))
"""A namespace, as this library's own API describes it."""

ROW = form(
    TableRow, {"table": NAME, "format": choice("delta", "iceberg")},
    {"table-id": text, "metadata-location": text, "delta": form(
        DeltaState, {"location": text, "latest": VERSION, "published": VERSION},
        {"last_ict": whole(64), "etag": text, "protocol": text, "metadata": text})},
    table="name")
"""A table's row."""

ROWS = only("tables", shaped(array(ROW), write=lambda rows: [to_json(ROW, row) for row in rows.values()])(
    lambda value, path: {row.name: row for row in array(ROW)(value, path)}))
"""Rows by name."""

PAGE = form(Page, {"tables": series(ROW), "next-page-token": maybe(text)},
            tables="items", next_page_token="next_token")
"""A page of rows."""


def _page_token(token: str | None) -> str | None:
    key_of(token)
    return token


PAGE_TOKEN = shaped(text, write=_page_token)(partial(text))
"""The token of a page, and its size; what is none is refused before it is sent."""
PAGE_SIZE = shaped(VERSION, write=check_size)(whole(32, least=1))


PURGE = shaped(flag, write=lambda purged_from: purged_from is not None)(partial(flag))
"""Whether files are purged, which is written where the time is known from which on they may be."""
LOCATIONS = shaped(array(text), write=lambda location: [location])(few(array(text)))
"""Folders; one is written."""


# -- commits that are not published, history, and the catalog at a glance ----------------------------

TAIL = form(Tail, {"latest": VERSION, "published": VERSION, "commits": series(form(
    Commit, {"version": VERSION, "txn_id": text},
    {"file_name": text, "file_size": VERSION, "mtime": whole(64), "ict": whole(64)}))})
"""A Delta table's latest version and its commits that are not published."""

ENTRY = form(Entry, {
    "seq": VERSION, "txn-id": text, "time": whole(64), "principal": maybe(text), "summary": maybe(text),
    "changes": mapping(series(maybe(text)))})
"""A transaction of the catalog."""

OVERVIEW = form(Overview, {
    "namespaces": series(text), "num_namespaces": VERSION, "tables": series(ROW), "num_tables": VERSION,
    "last": series(ENTRY), "num_transactions": VERSION, "names": mapping(text)})
"""What a catalog has."""

CONTENT = shaped(text, write=lambda content: base64.b64encode(content).decode())(
    lambda value, path: base64.b64decode(base64_text(value, path)))
"""Bytes."""


# -- ratification ------------------------------------------------------------------------------------


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


_COMMIT = form(
    DeltaCommit, {"table": NAME, "table-id": text, "version": VERSION},
    {"file-name": text, "file-size": VERSION, "mtime": VERSION, "ict": VERSION, "inline": CONTENT,
     "etag": text, "protocol": text, "metadata": text, "published": VERSION}, table="name")


@shaped(_COMMIT)
def _commit_of(value: Any, path: str) -> DeltaCommit:
    commit: DeltaCommit = _COMMIT(value, path)
    if (commit.file_name is None) == (commit.inline is None):
        refuse(f"{path}.file-name", "is missing, or inline is missing: a version is a staged file or its "
                                    "content")
    if commit.file_name is not None and not is_staged_name(commit.file_name, commit.version):
        refuse(f"{path}.file-name",
               f"is not the name of a staged file of version {commit.version}: {commit.file_name!r:.80}")
    return commit


def is_staged_name(name: str, version: int) -> bool:
    """Whether a staged file of a version may be called so: ``<20 digits>.<id>.json``.

    >>> is_staged_name("00000000000000000007.4a1f.json", 7), is_staged_name("../7.json", 7)
    (True, False)
    """
    match = _STAGED.fullmatch(name)
    return match is not None and int(match[1]) == version


_KINDS = {"delta": _commit_of, "iceberg": form(
    IcebergChange, {"table": NAME, "requirements": deferred(list, array(requirement_field)),
                    "updates": deferred(list, array(update_field))}, {"table-id": text}, table="name")}


def _proposal_value(proposal: DeltaCommit | IcebergChange) -> Json:
    kind = "delta" if isinstance(proposal, DeltaCommit) else "iceberg"
    return {kind: to_json(_KINDS[kind], proposal)}


@shaped(*(record({kind: check}) for kind, check in _KINDS.items()), write=_proposal_value)
def _proposal_of(value: Any, path: str) -> tuple[str, DeltaCommit | IcebergChange]:
    kinds = record({}, _KINDS)(value, path)
    if len(kinds) != 1:
        refuse(path, "is either delta or iceberg")
    ((kind, proposal),) = kinds.items()
    return f"{path}.{kind}", proposal


@shaped({"type": ["integer", "string"]})
def _pointer(value: Any, path: str) -> Any:
    return text(value, path) if isinstance(value, str) else VERSION(value, path)


MAX_SUMMARY = 100_000  # characters: the names of some hundred tables and what was done to them


@shaped(text)
def _summary(value: Any, path: str) -> str:
    if len(text(value, path)) > MAX_SUMMARY:
        refuse(path, f"has more than {MAX_SUMMARY} characters")
    return str(value)


_RATIFICATION = record(
    {"txn-id": short, "attempt": uuid_text, "proposals": array(_proposal_of)},
    {"assertions": array(form(
        Asserted, {"table": NAME, "table-id": text, "pointer": _pointer}, table="name")),
     "principal": short, "summary": _summary})


@shaped(_RATIFICATION)
def ratification_of(value: Any, path: str) -> Ratification:
    """The check of a request to ratify."""
    fields = _RATIFICATION(value, path)
    proposals, assertions = fields["proposals"], fields.get("assertions", [])
    if not proposals and not assertions:
        refuse(f"{path}.proposals", "is empty, and nothing is asserted")
    return Ratification(
        fields["txn-id"], fields["attempt"], [each for _, each in proposals if isinstance(each, DeltaCommit)],
        [(at.lstrip("."), each) for at, each in proposals if isinstance(each, IcebergChange)], assertions,
        fields.get("principal"), fields.get("summary"))
