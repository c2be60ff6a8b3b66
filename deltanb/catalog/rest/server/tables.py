"""The endpoints of tables, and that of commits to many of them.

What lives here: one function per endpoint, from the request to the reply.
What it does not know: how tables are stored and committed to (``catalog/iceberg``), and HTTP.
"""

from __future__ import annotations

import hashlib
import re
from functools import partial

from deltanb.catalog.iceberg.commit import Change, Committed
from deltanb.catalog.iceberg.metadata.fields import Json, refuse, text
from deltanb.catalog.rest.forms import name_value
from deltanb.catalog.rest.server.keyed import answer_for, unless_answered, writing
from deltanb.catalog.rest.server.messages import Reply, Request
from deltanb.catalog.rest.server.pages import listed
from deltanb.catalog.store.registry import Registry
from deltanb.catalog.store.rows import TableRow
from deltanb.errors import InvalidArgument
from deltanb.text.safe_text import get_logger, shown

__all__ = ["commit_table", "commit_tables", "committers", "create_table", "drop_table", "etag_of",
           "is_minimal", "list_tables",
           "load_table", "register_table", "rename_table", "report_metrics", "table_exists"]

_log = get_logger("deltanb.catalog.rest.server")


def list_tables(request: Request) -> Reply:
    """The Iceberg tables in a namespace."""
    tables = request.service.tables.store.tables

    def value(row: TableRow) -> Json:
        return name_value(row.name)

    return listed(
        request, "identifiers",
        lambda token, size: tables.page(request.namespace, token, size, "iceberg"), value)


def create_table(request: Request) -> Reply:
    """Make a table, or answer with the metadata it would have."""
    body = request.body
    made = request.service.tables.create(
        (request.namespace, body["name"]), body["schema"], body.get("partition-spec"),
        body.get("write-order"), body.get("location"), body.get("properties"),
        body.get("stage-create", False), request.principal.name, answer_for(request, _first))
    return Reply(table=unless_answered(made))


def _first(done: Committed) -> Reply:
    return Reply(table=done.tables[0])


def register_table(request: Request) -> Reply:
    """Make a table of a metadata file that is there and that no other table's folder has."""
    body = request.body
    made = request.service.tables.register(
        (request.namespace, body["name"]), body["metadata-location"], body.get("overwrite", False),
        request.principal.name, answer_for(request, _first), partial(request.allow, "write"))
    return Reply(table=unless_answered(made))


def load_table(request: Request) -> Reply:
    """A table's metadata, or that it has not changed since the client loaded it."""
    snapshots = request.query.get("snapshots") or "all"
    if snapshots not in ("all", "refs"):
        raise InvalidArgument(f"the parameter snapshots is all or refs, found {shown(snapshots)}")
    tables, known = request.service.tables, request.headers.get("if-none-match")
    if known is not None:
        location = str(tables.row(request.table).metadata_location)
        etag = etag_of(location, snapshots)
        if is_same(known, etag) and tables.files.exists(location):
            return Reply(304, headers={"ETag": etag})
    return Reply(table=tables.load(request.table))


def table_exists(request: Request) -> Reply:
    """Whether a table exists."""
    request.service.tables.row(request.table)
    return Reply(204)


def drop_table(request: Request) -> Reply:
    """Drop a table; with ``purgeRequested`` its files too."""
    purge = request.flag("purgeRequested")
    request.service.tables.drop(
        request.table, purge, request.principal.name, _through(request, Reply(204)))
    return Reply(204)


def rename_table(request: Request) -> Reply:
    """Give a table another name."""
    body = request.body
    source, destination = body["source"], body["destination"]
    request.service.tables.rename(source, destination, _through(request, Reply(204)))
    return Reply(204)


def _through(request: Request, reply: Reply) -> Registry:
    """The tables' rows, changed in one transaction with the answer to the request."""
    store = request.service.tables.store
    return store.tables.through(writing(request, lambda _: reply))


def report_metrics(request: Request) -> Reply:
    """Take a client's report on a scan or a commit: it is logged."""
    report = request.body
    kind = text(report.get("report-type"), "report-type")
    request.service.tables.row(request.table)
    _log.debug("%s of %s: %s", shown(kind), request.table, shown(report))
    return Reply(204)


def commit_table(request: Request) -> Reply:
    """Commit to one table."""
    body = request.body
    if body.get("identifier", request.table) != request.table:
        refuse("identifier", f"is {body['identifier']}, and the path names {request.table}")
    change = Change(request.table, body["requirements"], body["updates"])
    done = request.service.tables.commit(
        [change], request.principal.name, answer_for(request, _first), "commit")
    return _first(unless_answered(done))


def committers(request: Request) -> None:
    """The sender may read in the namespaces of all tables, and write in those of the tables that change."""
    changes = request.body["table-changes"]
    most = request.service.tables.committer.limits.tables
    if len(changes) > most:
        refuse("table-changes", f"has {len(changes)} tables, and a commit may have {most}")
    for each in changes:
        request.allow("write" if each["updates"] else "read", each["identifier"].namespace)


def commit_tables(request: Request) -> Reply:
    """Commit to many tables, all or none."""
    changes = [Change(each["identifier"], each["requirements"], each["updates"], f"table-changes[{at}]")
               for at, each in enumerate(request.body["table-changes"])]
    done = request.service.tables.commit(
        changes, request.principal.name, answer_for(request, _all), "transaction")
    return _all(unless_answered(done))


def _all(done: Committed) -> Reply:
    results = [{"identifier": name_value(table.name), "metadata-location": table.metadata_location}
               for table in done.tables]
    return Reply(value={"commit-id": done.txn_id, "results": results})


def etag_of(metadata_location: str, snapshots: str) -> str:
    """The tag of a table whose metadata is at a place, shown with ``all`` of its snapshots or ``refs``.

    A metadata file never changes, so its location identifies its content.

    >>> etag_of("s3://lake/t/1.json", "all") == etag_of("s3://lake/t/1.json", "refs")
    False
    """
    return f'"{hashlib.sha256(metadata_location.encode()).hexdigest()[:32]}-{snapshots}"'


def is_same(header: str, etag: str) -> bool:
    """Whether an ``If-None-Match`` header has a tag (RFC 9110, 13.1.2).

    >>> is_same('"a", W/"b"', '"b"'), is_same("*", '"b"'), is_same('"a"', '"b"')
    (True, True, False)
    """
    known = [tag.strip().removeprefix("W/") for tag in header.split(",")]
    return etag in known or header.strip() == "*"


def is_minimal(prefer: str | None) -> bool:
    """Whether a ``Prefer`` header wants no body (RFC 7240).

    >>> is_minimal("respond-async, return=minimal"), is_minimal("return=representation"), is_minimal(None)
    (True, False, False)
    """
    return any(re.fullmatch(r'return\s*=\s*"?minimal"?', part.partition(";")[0].strip(), re.IGNORECASE)
               for part in (prefer or "").split(","))
