"""The steps of a commit: what the algorithm yields, and what it expects back.

What lives here: one frozen value for each step. Five of them ask for a reply; the others only report.
What it does not know: the order of the steps (``commit.py``), who answers them.

==============  =======================================================================
step            reply
==============  =======================================================================
Join            the :class:`~deltanb.actions.TransactionGroup` that the commit names, or ``None``; only a
                commit of several tables is asked
PutIfAbsent     ``True`` written, ``False`` the version exists, a ``DeltaError``: nothing was
                written, any other exception or ``None``: unknown; a commit of several tables may
                reply :class:`Rejoin`
LookCloser      a :class:`~deltanb.transaction.row_levels.CloserLook`; an exception: nothing was seen
ReadWinner      a :class:`Winner`, its actions, or the file's bytes; ``None`` if there is none;
                an exception: it cannot be read
Backoff         none; a driver waits ``seconds``, a test does not
others          none
==============  =======================================================================

Where a catalog ratifies commits a put has parts (``StageCommit``, ``RatifyCommit``, ``PublishCommits``).
A committer gives them to a driver that goes on part by part; the algorithm does not know them.

An exception that is thrown in instead of a reply says that the step was not begun, and ends the commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from deltanb.actions import (
    Action,
    AddFile,
    CommitInfo,
    DomainMetadata,
    FileAction,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
)
from deltanb.actions.data_files import vectors_of
from deltanb.log.lines import actions_of
from deltanb.transaction.operations import BACKFILL, UNBACKFILL
from deltanb.transaction.row_levels import NOTHING_SEEN, CloserLook

if TYPE_CHECKING:
    from deltanb.actions import DeletionVector
    from deltanb.transaction.conflicts import Check, Conflict
    from deltanb.transaction.current import CurrentTransaction


@dataclass(frozen=True)
class Winner:
    """A commit that landed before ours, as the conflict rules read it."""

    version: int
    actions: tuple[Action, ...]
    seen: CloserLook = field(default=NOTHING_SEEN, repr=False, compare=False)
    """What a closer look at its files showed."""

    @classmethod
    def of(cls, version: int, reply: Any) -> Winner | None:
        """The winner in a driver's reply, whichever form the reply has."""
        if reply is None or isinstance(reply, Winner):
            return reply
        if isinstance(reply, str | bytes):
            reply = actions_of(reply if isinstance(reply, bytes) else reply.encode())
        return cls(version, tuple(reply))

    @cached_property
    def _by_kind(self) -> dict[type[Action], list[Any]]:
        """The actions by kind: one writer among many checks dozens of winners for each commit."""
        by_kind: dict[type[Action], list[Any]] = {}
        for action in self.actions:
            by_kind.setdefault(type(action), []).append(action)
        return by_kind

    def _all(self, kind: type[Any]) -> Sequence[Any]:
        return self._by_kind.get(kind, ())

    def _first(self, kind: type[Any]) -> Any:
        actions = self._by_kind.get(kind)
        return actions[0] if actions else None

    def seen_as(self, reply: Any) -> Winner:
        """It with what a driver saw; an exception, or no answer, is nothing."""
        if isinstance(reply, Exception):
            return replace(self, seen=CloserLook(doubts=(f"{type(reply).__name__}: {reply}",)))
        return self if reply is None else replace(self, seen=reply)

    @property
    def unseen(self) -> Winner:
        """It without the closer look."""
        return replace(self, seen=NOTHING_SEEN)

    @property
    def commit_info(self) -> CommitInfo:
        """Its commitInfo; an empty one where it wrote none."""
        info: CommitInfo | None = self._first(CommitInfo)
        return info if info is not None else CommitInfo()

    @property
    def protocol(self) -> Protocol | None:
        """Its protocol action."""
        action: Protocol | None = self._first(Protocol)
        return action

    @property
    def metadata(self) -> Metadata | None:
        """Its metaData action."""
        action: Metadata | None = self._first(Metadata)
        return action

    @property
    def adds(self) -> tuple[AddFile, ...]:
        """Files it added."""
        return tuple(self._all(AddFile))

    @property
    def removes(self) -> tuple[RemoveFile, ...]:
        """Files it removed."""
        return tuple(self._all(RemoveFile))

    @cached_property
    def vectors(self) -> dict[str, DeletionVector]:
        """The vectors with which it put files back that it removed, by path."""
        return vectors_of(self.actions)

    @cached_property
    def added(self) -> dict[str, AddFile]:
        """Files it added, by path."""
        return {file.path: file for file in self.adds}

    @cached_property
    def changes_layout_only(self) -> bool:
        """Whether it rewrote files, and no row with them."""
        files = (*self.adds, *self.removes)
        return bool(files) and not any(file.data_change for file in files)

    @property
    def domains(self) -> dict[str, DomainMetadata]:
        """Metadata domains it wrote, by name."""
        return {a.domain: a for a in self._all(DomainMetadata)}

    @property
    def app_ids(self) -> frozenset[str]:
        """Application ids it wrote a version of."""
        return frozenset(a.app_id for a in self._all(SetTransaction))

    @property
    def operation(self) -> str:
        """Its operation, ``TRANSACTION`` where it does not say."""
        return str(self.commit_info.operation or "TRANSACTION")

    @property
    def is_blind_append(self) -> bool:
        """Whether its commitInfo claims a blind append; a commit that claims nothing is none."""
        return self.commit_info.is_blind_append is True

    @property
    def tags(self) -> dict[str, Any]:
        """Its commit tags."""
        tags = self.commit_info.tags
        return dict(tags) if isinstance(tags, dict) else {}

    @property
    def is_identity_update(self) -> bool:
        """Whether its metadata moves identity high-water marks and nothing else."""
        return str(self.tags.get("delta.identity.schemaUpdate", "")).lower() == "true"

    @property
    def is_backfill(self) -> bool:
        """A row-tracking backfill: re-commits files to give them row ids."""
        return self.commit_info.operation == BACKFILL

    @property
    def is_unbackfill(self) -> bool:
        """A row-tracking unbackfill: re-commits files to take their row ids away."""
        return self.commit_info.operation == UNBACKFILL


@dataclass(frozen=True)
class Step:
    """Base of all steps."""

    asks: ClassVar[bool] = False
    """Whether a driver does something and replies."""
    may_land: ClassVar[bool] = False
    """Whether the commit may have landed once a driver has begun to answer it."""
    is_success: ClassVar[bool] = False
    """Whether it reports that the commit has landed."""


@dataclass(frozen=True)
class Prepared(Step):
    """The transaction is checked in itself; nothing has been written yet."""

    read_version: int
    isolation: str
    is_blind_append: bool
    num_actions: int
    operation: str


@dataclass(frozen=True)
class Join(Step):
    """The transaction group that the commit of ``version`` names, before its body is made."""

    asks: ClassVar[bool] = True
    version: int


@dataclass(frozen=True)
class Rejoin:
    """Nothing was written, and nobody has the version; but another table of the group has moved on, so the
    body has to be made again."""


@dataclass(frozen=True)
class PutIfAbsent(Step):
    """Write ``body`` (the lines of ``actions``) as ``version``, unless that version exists."""

    asks: ClassVar[bool] = True
    may_land: ClassVar[bool] = True
    version: int
    body: bytes
    attempt: int
    num_actions: int
    isolation: str
    actions: tuple[Action, ...] = field(default=(), repr=False, compare=False)


@dataclass(frozen=True)
class StageCommit(Step):
    """A part of a put, where a catalog ratifies commits: write the file that is to become ``version``. No
    reader sees it."""

    version: int
    attempt: int


@dataclass(frozen=True)
class RatifyCommit(Step):
    """A part of such a put: ask the catalog to take the staged file as ``version``; with it, that all
    versions up to ``reports`` are in the folder (None: it has been told, or nothing is)."""

    version: int
    attempt: int
    reports: int | None = None


@dataclass(frozen=True)
class PublishCommits(Step):
    """A part of such a put, or what follows it: copy ratified commits into the folder, up to ``version``.

    ``is_asked`` is where the catalog takes no more before that.
    """

    version: int
    is_asked: bool = False


@dataclass(frozen=True)
class ReadWinner(Step):
    """Read the commit of ``version``, if there is one."""

    asks: ClassVar[bool] = True
    version: int


@dataclass(frozen=True)
class LookCloser(Step):
    """A rule objects to files of ``winner``: look whether their rows meet those of the transaction
    ``current``, as far as its row level allows."""

    asks: ClassVar[bool] = True
    version: int
    attempt: int
    winner: Winner
    current: CurrentTransaction = field(repr=False)
    begun: list[AddFile] = field(default_factory=list, repr=False, compare=False)
    """The files that a driver has begun to write; each is here before it is."""


@dataclass(frozen=True)
class Recognised(Step):
    """The commit found at ``version`` is our own: an earlier put landed though its response was lost."""

    version: int
    attempt: int


@dataclass(frozen=True)
class Lost(Step):
    """Someone else has ``version``."""

    version: int
    attempt: int
    winner: Winner


@dataclass(frozen=True)
class Checked(Step):
    """``version`` was checked by the rules, in order; ``conflict`` is None if we can go on.

    ``elapsed_ms`` is since the first check of this attempt; None where a check ended the commit.
    """

    version: int
    attempt: int
    winner: Winner
    checks: Sequence[Check]
    conflict: Conflict | None
    elapsed_ms: int | None = None


@dataclass(frozen=True)
class Rebased(Step):
    """No conflict with ``[first, next_version)``: the transaction now stands on the last of them."""

    first: int
    next_version: int
    attempt: int
    elapsed_ms: int


@dataclass(frozen=True)
class Backoff(Step):
    """Wait before the next attempt."""

    asks: ClassVar[bool] = True
    attempt: int
    seconds: float


@dataclass(frozen=True)
class Failed(Step):
    """The commit ends with ``error``; nothing was written, unless a put ``may_have_landed``."""

    version: int
    attempt: int
    error: BaseException
    may_have_landed: bool = False


@dataclass(frozen=True)
class Committed(Step):
    """The commit landed as ``version`` after ``attempts`` attempts.

    ``actions`` are its lines. ``transaction`` is what was committed, rebased on every winner.
    """

    is_success: ClassVar[bool] = True
    version: int
    attempts: int
    actions: tuple[Action, ...]
    isolation: str
    is_blind_append: bool
    transaction: CurrentTransaction | None = field(default=None, repr=False, compare=False)

    @property
    def has_file_actions(self) -> bool:
        """Whether any file was added, removed or described."""
        return any(isinstance(a, FileAction) for a in self.actions)
