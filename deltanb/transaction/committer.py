"""The file system's committer: put-if-absent into the log.

What lives here: the answers of a log store to the commit's steps. What it does not know: the algorithm.
A catalog that ratifies commits is another committer of the same transaction.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from deltanb.errors import VersionNotFound
from deltanb.log.segment import commit_name
from deltanb.transaction.steps import Winner

if TYPE_CHECKING:
    from deltanb.log.delta_log import DeltaLog

logger = logging.getLogger("deltanb.transaction")


class LogCommitter:
    """Commits as files ``_delta_log/<version>.json``."""

    def __init__(self, log: DeltaLog) -> None:
        self.log = log

    def put(self, version: int, body: bytes) -> bool | OSError:
        """Write a version if it is absent; the store's error where it leaves that open."""
        try:
            return self.log.store.put_if_absent(commit_name(version), body)
        except OSError as error:
            logger.warning("Writing version %d: %s; reading it back", version, error)
            return error

    def read(self, version: int) -> Winner | None:
        """The commit at a version, or None if there is none."""
        try:
            return Winner(version, tuple(self.log.read_commit(version)))
        except VersionNotFound:
            return None
