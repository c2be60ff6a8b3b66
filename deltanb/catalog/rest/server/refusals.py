"""The answer to a request that failed: a status and a body as in the Iceberg REST specification.

What lives here: which error is which status. On a commit, clients take 500 for "outcome unknown", so a
certain failure is 4xx where a retry is useless, and 503 where it is not.
What it does not know: what was asked.
"""

from __future__ import annotations

import json
from typing import Any

from deltanb import errors
from deltanb.catalog.iceberg.metadata.fields import Json, named, plain, shaped
from deltanb.catalog.rest.server.messages import NoSuchCatalog, Reply

__all__ = ["EXTENSION_STATUSES", "MAY_BE_KEPT", "REFUSAL", "STATUSES", "refusal", "refused", "with_kind"]

MAY_BE_KEPT = frozenset({400, 404, 406, 409, 422})
"""Refusals that the same request would meet again: they are kept for its idempotency key."""

STATUSES = {
    400: "The request is malformed", 401: "No token, or an unknown one", 403: "Not allowed",
    404: "Nothing of that name", 406: "Of a kind that is not supported", 408: "The body is late",
    409: "Conflicts with the current state", 413: "The body is too large", 415: "The body is not JSON",
    419: "The token has expired", 422: "Set and removed at once",
    500: "The outcome of a commit is unknown", 503: "Nothing happened; try again"}
"""What the statuses of refusals mean."""

EXTENSION_STATUSES = {
    **{status: text for status, text in STATUSES.items() if status not in (406, 422)},
    400: "The request is malformed, or cannot be done", 429: "Too many commits are unpublished"}
"""The same of what is not Iceberg's API."""

REFUSAL = named("Refusal", shaped({"type": "object", "required": ["error"], "properties": {"error": {
    "type": "object", "required": ["message", "type", "code"]}}})(lambda value, path: plain(value, path)))
"""The body of a refusal."""

RETRY_SECONDS = "1"

KIND_HEADER = "Deltanb-Error"
SHOWN = ("path", "namespace", "version", "txn_id", "field", "key")
"""Attributes of an error that its client gets."""
MAX_SHOWN = 300  # characters of each: headers are short

# The first class that fits counts.
_STATUSES: tuple[tuple[type[Exception], int, str], ...] = (
    (errors.Expired, 419, "AuthenticationTimeoutException"),
    (errors.Unauthorized, 401, "NotAuthorizedException"),
    (errors.Forbidden, 403, "ForbiddenException"),
    (errors.TableNotFound, 404, "NoSuchTableException"),
    (errors.VersionNotFound, 404, "NotFoundException"),
    (errors.NamespaceNotFound, 404, "NoSuchNamespaceException"),
    (errors.TableAlreadyExists, 409, "AlreadyExistsException"),
    (errors.NamespaceAlreadyExists, 409, "AlreadyExistsException"),
    (errors.NamespaceNotEmpty, 409, "NamespaceNotEmptyException"),
    (errors.CommitFailed, 409, "CommitFailedException"),
    (errors.UnsupportedProtocol, 406, "UnsupportedOperationException"),
    (NoSuchCatalog, 404, "NoSuchCatalogException"),
    (errors.InvalidArgument, 400, "BadRequestException"),
    (errors.MetadataFileNotFound, 404, "NotFoundException"),
    (errors.InvalidTable, 400, "ValidationException"),
    (errors.CommitOutcomeUnknown, 500, "CommitStateUnknownException"),
    (errors.CommitTimedOut, 503, "ServiceUnavailableException"),
    (errors.MaxCommitRetriesExceeded, 503, "ServiceUnavailableException"),
    (errors.StorageError, 503, "ServiceUnavailableException"),
    (errors.DataFileNotFound, 503, "ServiceUnavailableException"),
)


def refusal(error: Exception) -> Reply:
    """The answer to a request that an error ended.

    >>> refusal(errors.TableNotFound("there is no table ns.t", path="ns.t")).value
    {'error': {'message': 'Table does not exist: ns.t', 'type': 'NoSuchTableException', 'code': 404}}
    >>> refusal(KeyError("a bug")).value
    {'error': {'message': 'the server failed; see its log', 'type': 'InternalServerError', 'code': 500}}
    """
    for kind, status, name in _STATUSES:
        if isinstance(error, kind):
            return with_kind(refused(status, name, _message(error), **_more(error)), error)
    return refused(500, "InternalServerError", "the server failed; see its log")


def with_kind(reply: Reply, error: Exception) -> Reply:
    """A refusal with a header that names the error, for a client that is this library."""
    fields: Json = {"kind": _kind(error)}
    for name in SHOWN:
        value: Any = getattr(error, name, None)
        if isinstance(value, int | str) and len(str(value)) <= MAX_SHOWN:
            fields[name] = value
    return Reply(reply.status, reply.value, {**reply.headers, KIND_HEADER: json.dumps(fields)})


def _kind(error: Exception) -> str:
    """Of the nearest class that everybody has."""
    return next(str(kind.kind) for kind in type(error).__mro__  # type: ignore[attr-defined]
                if vars(errors).get(kind.__name__) is kind)


def refused(status: int, name: str, message: str, **more: object) -> Reply:
    """The answer of a status, in the specification's shape."""
    value: Json = {"error": {"message": message, "type": name, "code": status, **more}}
    headers = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": RETRY_SECONDS}}.get(status, {})
    return Reply(status, value, headers)


def _message(error: Exception) -> str:
    """The sentence; for what is there or not, the one that clients of Iceberg look for."""
    if isinstance(error, errors.TableNotFound):
        names = ", ".join(map(str, getattr(error, "names", [error.path])))
        why = getattr(error, "why", "")
        return f"Table does not exist: {names}{f' ({why})' if why else ''}"
    if isinstance(error, errors.TableAlreadyExists):
        return f"Table already exists: {error.path}"
    if isinstance(error, errors.NamespaceNotFound):
        return f"Namespace does not exist: {error.namespace}"
    if isinstance(error, errors.NamespaceAlreadyExists):
        return f"Namespace already exists: {error.namespace}"
    if isinstance(error, errors.NamespaceNotEmpty):
        return f"Namespace {error.namespace} is not empty: {error}"
    if isinstance(error, errors.MetadataFileNotFound):
        return f"Failed to open input stream for file: {error.file}"
    return str(error)


def _more(error: Exception) -> Json:
    if isinstance(error, errors.CommitFailed):
        return {"failed-requirements": error.failed_requirements}
    if isinstance(error, errors.BadRequest):
        return {"field": error.field}
    return {}
