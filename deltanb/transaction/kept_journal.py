"""The journal that outlives its process: transactions that lost, a small file each, in one place for all.

What lives here: where these files are (the option ``journal``), how an attempt becomes a file and a file an
attempt, and how many there may be.
What it does not know: who reads them (``observe``), how an attempt comes about (``journal``).

Each file is created whole, under a name that nobody else gives, and never changed, so that any number of
processes may write at once, and a reader or a pruner never meets one that is half written. A killed process
leaves whole files, or a hidden temporary one. The name of the folder beside a table begins with an
underscore, so that readers and VACUUM of every engine pass over it.

Only a transaction that failed because of others leaves a file; what commits takes no step more. No file has
an action, a data file's name, a store's option or an error's text.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from deltanb.concurrency import background
from deltanb.errors import DeltaError
from deltanb.options import BESIDE, journal_place, options, random_id
from deltanb.store.base import FileStatus, LogStore, delete_many, is_remote
from deltanb.text.safe_text import escaped, get_logger, redacted, safe
from deltanb.transaction.journal import Attempt, LostRace, journal_of

if TYPE_CHECKING:
    from deltanb.log.reader import LogReader

logger = get_logger("deltanb.transaction")

FOLDER = "_deltanb_journal"
"""Beside the table: hidden, as names with an underscore are for data."""
FORMAT = 1
"""The version of the files' form; one of a later version is not read, and that is said."""
MAX_FILES = 1_000  # of a table; beyond it the oldest go: a day of a very contended table, months of others
MAX_BYTES = 4_000_000  # of all of them
MAX_AGE_MS = 30 * 24 * 3_600_000  # a file that is older goes
MAX_FILE = 16_384  # bytes; one that is larger is none of ours
PRUNE_EVERY = 50
"""Files that a process writes for a table between two looks at how many there are."""
MAX_WAITING = 100  # files that wait in the background; of losers beyond it none is written
MAX_TEXTS, MAX_TEXT = 8, 300  # conditions that are kept of an attempt, characters of each
MAX_RACES = 50  # races lost on the way, the last ones

_NAME = re.compile(r"\d{13}-[0-9a-f-]{36}\.json")
_PLAIN_ID = re.compile(r"[A-Za-z0-9-]{8,64}")

LAST_TIME = 253_402_300_799_999  # the last millisecond that a datetime can have
MOST_WRITTEN = 2**53  # bytes: what MAX_FILES of them have together still fits 64 bits
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Bytes = Annotated[int, msgspec.Meta(ge=0, le=MOST_WRITTEN)]
_Time = Annotated[int, msgspec.Meta(ge=0, le=LAST_TIME)]


class _Race(msgspec.Struct, rename="camel"):
    version: _Count
    operation: str
    writer: str | None = None


class _File(msgspec.Struct, rename="camel"):
    format: int
    table: str
    txn_id: str
    operation: str
    isolation: str
    read_version: _Count
    version: _Count
    writer: str | None = None
    is_blind_append: bool = False
    kind: str | None = None
    rule: str | None = None
    time: _Time | None = None
    written: _Bytes | None = None
    reads: list[str] = []
    read_whole_table: bool = False
    lost: list[_Race] = []
    stream: dict[str, str] | None = None


_decode = msgspec.json.Decoder(_File).decode


@dataclass(frozen=True)
class Attempts:
    """The attempts on a table that are known here.

    ``attempts`` are those of this process and those of others, the latter by their time. ``place`` is where
    the others' are kept, None where none are. ``problems`` are (file, reason) of what could not be read;
    ``left_out`` counts files beyond :data:`MAX_FILES`, the oldest.
    """

    attempts: tuple[Attempt, ...]
    place: str | None = None
    problems: tuple[tuple[str, str], ...] = ()
    left_out: int = 0


# -- writing -----------------------------------------------------------------------------------


def keep(log: LogReader, table_id: str, attempt: Attempt) -> None:
    """Write down an attempt that lost, where the option ``journal`` asks for it; never raises.

    What cannot be written is a warning, once for each place. Where a network is waited for, it is written in
    the background, for which :func:`deltanb.flush` waits.
    """
    place: Any = None
    try:
        place = journal_place()
        if place is None or attempt.read_version < 0:
            return
        store, prefix = _at(log, place, table_id)
        name = f"{prefix}{max(0, attempt.time or 0):013}-{random_id()}.json"
        data, shown = _encoded(table_id, attempt), f"{log.path} {place}"
        if not is_remote(store):
            _write(store, prefix, name, data, shown)
        elif _process.take_turn():
            background.soon(("journal", name), f"The journal of {log.path}",
                            lambda: _write_in_turn(store, prefix, name, data, shown))
    except Exception as error:  # whoever lost a race learns of that, and not of this
        _process.warn(f"{log.path} {place}", error)


def _write(store: LogStore, prefix: str, name: str, data: bytes, shown: str) -> None:
    try:
        store.put_if_absent(name, data)
        if (_process.count(f"{store.root} {prefix}") - 1) % PRUNE_EVERY == 0:
            _prune(store, prefix)
    except Exception as error:
        _process.warn(shown, error)


def _write_in_turn(*what: Any) -> None:
    try:
        _write(*what)
    finally:
        _process.end_turn()


def _at(log: LogReader, place: str, table_id: str) -> tuple[LogStore, str]:
    """The store of a place, and the folder of a table in it."""
    if place == BESIDE:
        return log.store, f"{FOLDER}/"
    from deltanb.store.open import store_for

    if not _PLAIN_ID.fullmatch(table_id):  # whatever another writer took for an id
        table_id = hashlib.sha256(table_id.encode("utf-8", "replace")).hexdigest()[:32]
    return store_for(place), f"{table_id}/"


def _encoded(table_id: str, attempt: Attempt) -> bytes:
    def text(value: Any) -> str:
        return safe(str(value))[:MAX_TEXT]

    values = _File(
        FORMAT, table_id, attempt.txn_id, text(attempt.operation), attempt.isolation, attempt.read_version,
        attempt.version, None if attempt.writer is None else text(attempt.writer), attempt.is_blind_append,
        attempt.kind, attempt.rule, attempt.time, attempt.written,
        [text(one) for one in attempt.reads[:MAX_TEXTS]], attempt.read_whole_table,
        [_Race(one.version, text(one.operation), None if one.writer is None else text(one.writer))
         for one in attempt.lost[-MAX_RACES:]],
        {name: text(value) for name, value in (attempt.stream or {}).items()} or None)
    return msgspec.json.encode(values) + b"\n"


def _prune(store: LogStore, prefix: str) -> None:
    """Delete the oldest files beyond the bounds; a file is whole from its beginning, so none is in use."""
    statuses = sorted(_listed(store, prefix), key=lambda one: (one.modification_time, one.name), reverse=True)
    oldest, size, gone = options.clock() - MAX_AGE_MS, 0, []
    for at, status in enumerate(statuses):
        size += status.size
        if at >= MAX_FILES or size > MAX_BYTES or status.modification_time < oldest:
            gone.append(status.name)
    for _ in delete_many(store, gone):
        pass


def _listed(store: LogStore, prefix: str) -> Iterator[FileStatus]:
    """The files of a journal; of what else is there none is touched."""
    return (status for status in store.list_all(prefix) if _NAME.fullmatch(status.name.rpartition("/")[2]))


# -- reading -----------------------------------------------------------------------------------


def attempts_of(log: LogReader) -> Attempts:
    """The attempts of this process, and those that lost in others, as far as they are kept.

    >>> from deltanb.testing import MemoryStore, TableBuilder
    >>> attempts_of(TableBuilder(MemoryStore()).create("id long").log).attempts
    ()
    """
    own = tuple(journal_of(log))
    place = journal_place()
    if place is None:
        return Attempts(own)
    shown = f"{FOLDER} beside the table" if place == BESIDE else safe(place)
    try:
        table_id = str(log.update().metadata.id)
        store, prefix = _at(log, place, table_id)
        listed = sorted(_listed(store, prefix), key=lambda status: status.name)
    except (DeltaError, OSError) as error:
        return Attempts(own, shown, ((shown, str(error).split("\n", 1)[0]),))
    known = {attempt.txn_id for attempt in own}
    attempts, problems = [], []
    for name, data in _contents(store, listed[-MAX_FILES:]):
        try:
            read = _decoded(data, table_id)
        except (DeltaError, OSError, ValueError, RecursionError, msgspec.MsgspecError) as error:
            problems.append((safe(name), safe(error).split("\n", 1)[0]))
            continue
        if read is not None and read.txn_id not in known:
            known.add(read.txn_id)
            attempts.append(read)
    return Attempts((*own, *attempts), shown, tuple(problems), max(0, len(listed) - MAX_FILES))


def _contents(store: LogStore, listed: Sequence[FileStatus]) -> Iterator[tuple[str, bytes | Exception]]:
    """The content of each file, or why it cannot be read; none of those that went since they were listed."""
    names = [status.name for status in listed if status.size <= MAX_FILE]
    many = getattr(store, "read_many", None)
    if many is not None and is_remote(store):
        try:
            yield from [one for one in zip(names, many(names), strict=True) if one[1] is not None]
            names = []
        except (DeltaError, OSError):  # one of them: each by itself says which
            pass
    for name in names:
        try:
            yield name, store.read(name)
        except FileNotFoundError:
            continue
        except (DeltaError, OSError) as error:
            yield name, error
    for status in listed:
        if status.size > MAX_FILE:
            yield status.name, ValueError(f"it has {status.size:,} bytes, more than any that is written")


def _decoded(data: bytes | Exception, table_id: str) -> Attempt | None:
    """An attempt from its file; None if it is of a table that was here before.

    Raises:
        ValueError: a file of a later form, or one that is none.
    """
    if isinstance(data, Exception):
        raise data
    version = json.loads(data)
    if not isinstance(version, Mapping) or version.get("format") != FORMAT:
        raise ValueError(f"it has no format {FORMAT}: another version of deltanb wrote it, or none did")
    file = _decode(data)
    if file.table != table_id:
        return None
    return Attempt(
        txn_id=_plain(file.txn_id), writer=_plain(file.writer), operation=_plain(file.operation),
        isolation=_plain(file.isolation), is_blind_append=file.is_blind_append,
        read_version=file.read_version, outcome="failed", version=file.version, kind=_plain(file.kind),
        rule=_plain(file.rule), time=file.time, written=file.written,
        lost=tuple(LostRace(one.version, _plain(one.operation), _plain(one.writer)) for one in file.lost),
        reads=tuple(map(safe, file.reads)), read_whole_table=file.read_whole_table, is_whole=False,
        stream=file.stream and {_plain(name): _plain(value) for name, value in file.stream.items()},
        is_elsewhere=True)


def _plain(text: Any) -> Any:
    """A text as a person may see it: anybody may have written the file."""
    return redacted(escaped(text)) if isinstance(text, str) else text


# -- the process -----------------------------------------------------------------------------------


class _Process:
    """What this process has written for each place, how much waits, and of what it has warned."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Begin anew, as a forked process does: nobody there gives the lock back."""
        self._lock = threading.Lock()
        self._written: dict[str, int] = {}
        self._warned: set[str] = set()
        self._waiting = 0

    def count(self, place: str) -> int:
        """One more file was written there; how many these are."""
        with self._lock:
            number = self._written[place] = self._written.get(place, 0) + 1
            return number

    def take_turn(self) -> bool:
        """Whether one more file may wait for a bucket that does not answer."""
        with self._lock:
            is_free = self._waiting < MAX_WAITING
            self._waiting += is_free
            return is_free

    def end_turn(self) -> None:
        """One file less waits."""
        with self._lock:
            self._waiting -= 1

    def warn(self, place: str, error: Exception) -> None:
        """Warn of a place where nothing can be written, once."""
        with self._lock:
            if place in self._warned:
                return
            self._warned.add(place)
        logger.warning("The journal of failed commits cannot be kept at %s: %s: %s",
                       place, type(error).__name__, error)


_process = _Process()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_process.clear)
