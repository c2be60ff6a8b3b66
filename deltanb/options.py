"""Settings of the process: display limits, retry policy, durability, clock, ids.

What lives here: every value that a test, a lesson or a person may want to hold still. The clock and
the ids are settings too, so that the same input gives the same log and the same notebook.
What it does not know: who reads the settings.

>>> with set_options(max_rows=5):
...     options.max_rows
5
>>> options.max_rows
20
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from random import Random
from typing import Any, Literal

from deltanb.errors import InvalidArgument

MAX_COMMIT_ATTEMPTS = 10_000_000  # as Delta Spark: conflicts end a commit, not patience
TARGET_FILE_SIZE = 128 * 1024 * 1024  # bytes; a scan task's worth, as Spark's split size
TEACHING_EPOCH_MS = 1_767_258_000_000  # 2026-01-01T09:00:00Z, where lessons begin


def _now() -> int:
    return time.time_ns() // 1_000_000


def _uuid() -> str:
    return str(uuid.uuid4())


@dataclass
class Options:
    """The settings; read them through :data:`options`, change them with :func:`set_options`."""

    clock: Callable[[], int] = _now
    """The time in epoch milliseconds."""
    new_id: Callable[[], str] = _uuid
    """A fresh UUID as text: table ids, transaction ids, file names."""
    durability: Literal["sync", "none"] = "sync"
    """``sync`` calls fsync on every commit file and its directory."""
    max_commit_attempts: int = MAX_COMMIT_ATTEMPTS
    """Retries after a lost race; 0 is one attempt and no retry."""
    backoff: Callable[[int], float] | None = None
    """Seconds to wait before retry n (from 1) of a commit; ``None`` tries again at once."""
    commit_lock: bool | None = None
    """Take the table's in-process lock for a commit; ``None`` asks the store."""
    target_file_size: int = TARGET_FILE_SIZE
    """Bytes a data file should reach before the next one is begun."""
    metrics: bool = True
    """Write operation metrics into the commit."""
    user_name: str | None = None
    """Written as ``userName`` into commits."""
    user_metadata: str | None = None
    """Written as ``userMetadata`` into commits that do not bring their own."""
    display: Literal["auto", "text"] = "auto"
    """``text`` leaves HTML and charts out of every output."""
    max_rows: int = 20
    """Rows shown of a list of files, commits or rows."""
    colors: Literal["auto", "plain"] = "auto"
    """``plain`` draws without colour."""

    def __post_init__(self) -> None:
        choices = {"durability": ("sync", "none"), "display": ("auto", "text"),
                   "colors": ("auto", "plain"), "commit_lock": (None, True, False)}
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise InvalidArgument(
                    f"option {name}={getattr(self, name)!r} is not one of {allowed}"
                )
        for name, least in {"max_commit_attempts": 0, "target_file_size": 1, "max_rows": 1}.items():
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise InvalidArgument(f"option {name}={value!r} must be an integer >= {least}")
        for name in ("user_name", "user_metadata"):
            value = getattr(self, name)
            if not isinstance(value, str | None):
                raise InvalidArgument(f"option {name}={value!r} must be a text or None")
        for name in ("clock", "new_id"):
            if not callable(getattr(self, name)):
                raise InvalidArgument(f"option {name} must be callable")


options = Options()
_lock = threading.Lock()


def set_options(**changes: Any) -> Any:
    """Change settings; as a context manager the change ends with the block.

    Raises:
        InvalidArgument: an unknown name, or a value the setting does not allow.

    >>> with set_options(display="text", durability="none"):
    ...     options.display
    'text'
    """
    known = {field.name for field in fields(Options)}
    for name in changes:
        if name not in known:
            raise InvalidArgument(f"no option {name!r}; there are {', '.join(sorted(known))}")
    with _lock:
        before = {name: getattr(options, name) for name in changes}
        Options(**{**{n: getattr(options, n) for n in known}, **changes})
        for name, value in changes.items():
            setattr(options, name, value)
    return Changed(before)


class Changed(AbstractContextManager[Options]):
    """Settings that were changed; at the end of a block they are what they were.

    >>> set_options(max_rows=options.max_rows)
    settings changed: max_rows
    """

    def __init__(self, before: dict[str, Any]) -> None:
        self._before = before

    def __repr__(self) -> str:
        return f"settings changed: {', '.join(self._before) or 'none'}"

    def __enter__(self) -> Options:
        return options

    def __exit__(self, *_: object) -> None:
        for name, value in self._before.items():
            setattr(options, name, value)


class StepClock:
    """A clock that stands still but for a fixed step at every reading.

    >>> clock = StepClock(1000, step=5)
    >>> clock(), clock()
    (1000, 1005)
    """

    def __init__(self, start: int = TEACHING_EPOCH_MS, step: int = 1000) -> None:
        self.now = start
        self.step = step
        self._lock = threading.Lock()

    @property
    def last(self) -> int:
        """The time of the last reading; files written meanwhile carry it too."""
        return self.now - self.step

    def __call__(self) -> int:
        with self._lock:
            now = self.now
            self.now += self.step
            return now


class SeededIds:
    """UUIDs (version 4 in form) drawn from a seed.

    >>> SeededIds(1)() == SeededIds(1)()
    True
    """

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._lock = threading.Lock()

    def __call__(self) -> str:
        with self._lock:
            return str(uuid.UUID(int=self._random.getrandbits(128), version=4))


def teaching(seed: int = 1, user_name: str | None = None) -> Any:
    """Hold clock and ids still, so that a notebook gives the same output at every run.

    The clock starts at 2026-01-01 09:00:00 UTC and moves one second at every reading. Spark sessions
    begun by :func:`deltanb.spark` are quiet anyway.

    >>> with teaching(seed=1):
    ...     options.clock()
    1767258000000
    """
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise InvalidArgument(f"seed={seed!r} must be an integer")
    changes: dict[str, Any] = {"clock": StepClock(), "new_id": SeededIds(seed)}
    if user_name is not None:
        changes["user_name"] = user_name
    return set_options(**changes)
