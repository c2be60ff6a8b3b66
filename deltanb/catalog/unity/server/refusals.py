"""The answer to a request that failed, with the statuses and names of Unity Catalog's Delta API.

What lives here: which error is which, the errors that only this API distinguishes, and the form of refusals
in the older API.
What it does not know: what was asked.
"""

from __future__ import annotations

from dataclasses import replace

from deltanb import errors
from deltanb.catalog.rest.server.messages import NoSuchCatalog, Reply
from deltanb.catalog.rest.server.refusals import refusal, refused, with_kind

__all__ = ["NotDelta", "RequirementConflict", "TooManyUnpublished", "VersionConflict", "in_older_form",
           "older_refusal", "unity_refusal"]


class VersionConflict(errors.CommitFailed):
    """Another commit has the version."""


class RequirementConflict(errors.CommitFailed):
    """The table is not what the request requires it to be."""


class TooManyUnpublished(errors.DeltaError):
    """No further commit is taken before some are published."""


class NotDelta(errors.InvalidArgument):
    """The table is one that this API does not serve."""


# The first class that fits counts.
_STATUSES: tuple[tuple[type[Exception], int, str], ...] = (
    (errors.Unauthorized, 401, "NotAuthorizedException"),
    (errors.Forbidden, 403, "PermissionDeniedException"),
    (errors.TableNotFound, 404, "NoSuchTableException"),
    (errors.NamespaceNotFound, 404, "NoSuchSchemaException"),
    (NoSuchCatalog, 404, "NoSuchCatalogException"),
    (errors.TableAlreadyExists, 409, "AlreadyExistsException"),
    (RequirementConflict, 409, "UpdateRequirementConflictException"),
    (errors.CommitFailed, 409, "CommitVersionConflictException"),
    (TooManyUnpublished, 429, "ResourceExhaustedException"),
    (NotDelta, 400, "UnsupportedTableFormatException"),
    (errors.BadRequest, 400, "BadRequestException"),
    (errors.InvalidArgument, 400, "InvalidParameterValueException"),
    (errors.InvalidTable, 400, "InvalidParameterValueException"),
    (errors.UnsupportedProtocol, 400, "InvalidParameterValueException"),
    (errors.DataFileNotFound, 400, "InvalidParameterValueException"),
    (errors.CommitOutcomeUnknown, 500, "CommitStateUnknownException"),
    (errors.CommitTimedOut, 503, "InternalServerErrorException"),
    (errors.MaxCommitRetriesExceeded, 503, "InternalServerErrorException"),
    (errors.StorageError, 503, "InternalServerErrorException"),
)


def unity_refusal(error: Exception) -> Reply:
    """The answer to a request that an error ended, with this API's name for the error."""
    for kind, status, name in _STATUSES:
        if isinstance(error, kind):
            return with_kind(refused(status, name, str(error)), error)
    return refusal(error)


_CODES = {
    400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
    408: "DEADLINE_EXCEEDED", 409: "ALREADY_EXISTS", 413: "INVALID_ARGUMENT", 415: "INVALID_ARGUMENT",
    419: "UNAUTHENTICATED", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE"}
"""The older API's names of refusals, by status."""

_OLDER = (
    (errors.NamespaceAlreadyExists, "AlreadyExistsException", "SCHEMA_ALREADY_EXISTS"),
    (errors.NamespaceNotEmpty, "InvalidParameterValueException", "FAILED_PRECONDITION"))
"""Refusals of the older API alone, all with the status 400."""

_NOT_FOUND = {"NoSuchCatalogException": "CATALOG_NOT_FOUND", "NoSuchSchemaException": "SCHEMA_NOT_FOUND",
              "NoSuchTableException": "TABLE_NOT_FOUND"}
"""The older API's names of what is missing, by the Delta API's."""


def older_refusal(error: Exception) -> Reply:
    """The answer to a request to the older API that an error ended.

    >>> older_refusal(errors.NamespaceNotFound("there is no schema attic")).value["error_code"]
    'SCHEMA_NOT_FOUND'
    """
    for kind, name, code in _OLDER:
        if isinstance(error, kind):
            return in_older_form(with_kind(refused(400, name, str(error)), error), code)
    reply = unity_refusal(error)
    return in_older_form(reply, _NOT_FOUND.get(reply.value["error"]["type"]))


def in_older_form(reply: Reply, code: str | None = None) -> Reply:
    """A refusal in the older API's form: a code, a message, and details that repeat the code."""
    code = code or _CODES[reply.status]
    return replace(reply, value={
        "error_code": code, "message": reply.value["error"]["message"],
        "details": [{"@type": "google.rpc.ErrorInfo", "reason": code}]})
