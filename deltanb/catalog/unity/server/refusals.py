"""The answer to a request that failed, with the statuses and names of Unity Catalog's Delta API.

What lives here: which error is which, and the errors that only this API distinguishes.
What it does not know: what was asked.
"""

from __future__ import annotations

from deltanb import errors
from deltanb.catalog.rest.server.messages import NoSuchCatalog, Reply
from deltanb.catalog.rest.server.refusals import refusal, refused, with_kind

__all__ = ["NotDelta", "RequirementConflict", "TooManyUnpublished", "VersionConflict", "unity_refusal"]


class VersionConflict(errors.CommitFailed):
    """Another commit has the version, or the one before it is not there."""


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
