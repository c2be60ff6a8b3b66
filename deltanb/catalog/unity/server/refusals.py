"""Errors as Unity Catalog's Delta API says them: a status and one of its names.

What lives here: which error is which; and the errors that this API alone tells apart.
What it does not know: what was asked.
"""

from __future__ import annotations

from collections.abc import Callable

from deltanb import errors
from deltanb.catalog.rest.server.messages import NoSuchCatalog, Reply, Request
from deltanb.catalog.rest.server.refusals import refused, with_kind

__all__ = ["NotDelta", "RequirementConflict", "TooManyUnpublished", "VersionConflict", "in_its_words"]


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


def in_its_words(call: Callable[[Request], Reply]) -> Callable[[Request], Reply]:
    """An endpoint whose errors are told in this API's names."""

    def told(request: Request) -> Reply:
        try:
            return call(request)
        except errors.DeltaError as error:
            for kind, status, name in _STATUSES:
                if isinstance(error, kind):
                    return with_kind(refused(status, name, str(error)), error)
            raise

    told.__name__, told.__doc__ = call.__name__, call.__doc__
    return told
