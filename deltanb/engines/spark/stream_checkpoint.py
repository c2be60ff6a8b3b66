"""The checkpoint folder of a Spark stream: its query, and the stream's progress.

What lives here: :class:`Checkpoint`, which reads Spark's files: ``metadata`` with the query's id, ``offsets``
with a file for each batch that was begun, ``commits`` with one for each that is done.
What it does not know: tables. It writes nothing; the folder is Spark's.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from deltanb.engines.spark.paths import spark_path
from deltanb.engines.spark.refusals import reason
from deltanb.engines.spark.session_request import is_remote
from deltanb.errors import InvalidArgument, InvalidTable, StorageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NONE = -1
"""In place of a batch id: no batch yet."""
DIGITS = 16  # of a digest: notes of one batch are compared, and there are never more than a few


class Checkpoint:
    """The folder at a location: a local path, or a URI that Spark understands.

    A local one is read by this process, any other by Spark. On Connect, Spark reads all, since the folder is
    on the server's machine. For a local one, ``session`` may be None.
    """

    def __init__(self, location: str | os.PathLike[str]) -> None:
        if not isinstance(location, str | os.PathLike) or not os.fspath(location):
            raise InvalidArgument(
                f"checkpoint={location!r} is not a folder; give one that only this stream uses")
        text = os.fspath(location)
        self.folder: str | None = None
        """Where it is on this machine; None where it is elsewhere."""
        if text.startswith("file:"):
            self.folder = unquote(text.removeprefix("file:").removeprefix("//"))
        elif "://" not in text:
            self.folder = os.path.abspath(os.path.expanduser(text))
        self.location = text if self.folder is None else spark_path(self.folder)
        """As Spark is given it."""

    def query_id(self, session: SparkSession | None) -> str | None:
        """The id of the folder's query; None if no query has begun here.

        Raises:
            InvalidTable: the metadata file is damaged.
        """
        text = self._metadata(session)
        if text is None:
            return None
        try:
            query = json.loads(text)["id"]
        except (ValueError, TypeError, KeyError):
            query = None
        if not isinstance(query, str):
            raise InvalidTable(
                f"{self.location}/metadata does not say which query the checkpoint belongs to; it is not "
                "Spark's, or damaged. Start the stream with a new checkpoint", path=self.location)
        return query

    def last_begun(self, session: SparkSession | None) -> int:
        """The newest batch that Spark has planned, or :data:`NONE`."""
        return self._newest(session, "offsets")

    def last_done(self, session: SparkSession | None) -> int:
        """The newest batch that Spark has recorded as done, or :data:`NONE`."""
        return self._newest(session, "commits")

    def offsets(self, number: int) -> str | None:
        """A digest of Spark's offsets file of a batch; None if this process cannot read it.

        The file is written once, before the batch runs, contains the time, and still exists when the batch
        runs again. A batch planned by another query, even from a copy of the checkpoint, has another digest.
        """
        note = self._note(number)
        return None if note is None else hashlib.sha256(note).hexdigest()[:DIGITS]

    def reads(self, number: int, table_id: str, session: SparkSession | None = None) -> bool:
        """Whether a batch has rows streamed from the table with this id, which its offsets name, as Delta's
        own do. Without a session, only a local folder can be read."""
        return table_id.encode() in (self._note(number, session) or b"")

    def _note(self, number: int, session: SparkSession | None = None) -> bytes | None:
        if self.folder is None:
            return None if session is None else (self._text(f"offsets/{number}", session) or "").encode()
        try:
            with open(os.path.join(self.folder, "offsets", str(number)), "rb") as file:
                return file.read()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise StorageError.of(error, "read", f"{self.folder}/offsets/{number}") from error

    # -- files -----------------------------------------------------------------------------------

    def _metadata(self, session: SparkSession | None) -> str | None:
        if self.folder is None or (session is not None and is_remote(session)):
            return self._text("metadata", session)
        try:
            with open(os.path.join(self.folder, "metadata"), encoding="utf-8") as file:
                return file.read()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise StorageError.of(error, "read", f"{self.folder}/metadata") from error

    def _text(self, name: str, session: SparkSession | None) -> str | None:
        """The text of a file, read by Spark; None if there is none."""
        reader = _reader(session)
        rows = self._asked(lambda: reader.text(f"{self.location}/{name}", wholetext=True).collect())
        return rows[0][0] if rows else None

    def _newest(self, session: SparkSession | None, kind: str) -> int:
        if self.folder is None or (session is not None and is_remote(session)):
            reader = _reader(session)
            rows = self._asked(lambda: reader.format("binaryFile").load(
                f"{self.location}/{kind}").select("path").collect())
            return _highest(os.path.basename(row[0]) for row in rows)
        try:
            return _highest(os.listdir(os.path.join(self.folder, kind)))
        except (FileNotFoundError, NotADirectoryError):
            return NONE
        except OSError as error:
            raise StorageError.of(error, "listed", f"{self.folder}/{kind}") from error

    def _asked(self, ask: Any) -> list[Any]:
        """The files that Spark finds; none if there is no such path."""
        from pyspark.errors import AnalysisException

        try:
            answers: list[Any] = ask()
        except AnalysisException as error:
            if error.getCondition() == "PATH_NOT_FOUND":
                return []
            raise InvalidArgument(
                f"Spark cannot read the checkpoint at {self.location}: {reason(error)}") from None
        return answers


def _reader(session: SparkSession | None) -> Any:
    assert session is not None, "only a local folder is read without Spark"
    return session.read


def _highest(names: Iterable[str]) -> int:
    return max((int(name) for name in names if name.isdecimal()), default=NONE)
