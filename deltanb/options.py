"""Settings: display limits, retry policy, durability, clock, ids.

What lives here: every value that a test, a lesson or a person may want to hold still. The clock and
the ids are settings too, so that the same input gives the same log and the same notebook.
What it does not know: who reads the settings.

Settings are of a context (PEP 567): two threads of a server, or a notebook and the writers of a race in it,
do not see each other's. The threads that this library starts work in the context that started them.

>>> with set_options(max_rows=5):
...     options.max_rows
5
>>> options.max_rows
20
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from datetime import timedelta
from random import Random
from types import MappingProxyType
from typing import Any, Literal, cast, get_args

from deltanb.errors import InvalidArgument
from deltanb.text.completion import offered
from deltanb.text.safe_text import safe
from deltanb.text.spellings import answer_wrong_arguments
from deltanb.text.writer import name_process

MAX_COMMIT_ATTEMPTS = 10_000_000  # as Delta Spark: conflicts end a commit, not patience
TARGET_FILE_SIZE = 128 * 1024 * 1024  # bytes; a scan task's worth, as Spark's split size
REPORT_VARIABLE = "DELTANB_REPORT"  # the folder of reports, where the option does not say
JOURNAL_VARIABLE = "DELTANB_JOURNAL"  # the place of the journal, where the option does not say
LOG_CACHE_VARIABLE = "DELTANB_LOG_CACHE"  # the folder of the cache of logs, where the option does not say
LOG_CACHE_SIZE_VARIABLE = "DELTANB_LOG_CACHE_SIZE"  # its bytes, where the option does not say
LOG_CACHE_SIZE = 1 << 30  # bytes, where nobody says: some 200,000 commits, or checkpoints of 2 million files
CATALOG_VARIABLE = "DELTANB_CATALOG"  # where names are looked up, where the option does not say
USER_VARIABLE = "DELTANB_USER"  # who writes, where the option does not say
BESIDE = "beside"
"""The place of a journal that is beside its table."""
LISTENERS = {"commit_listeners": "the statistics of a commit",
             "hook_failure_listeners": "the failure of a post-commit hook"}
"""Options that are lists of functions -> what each function is called with."""
RowLevel = Literal["off", "statistics", "values", "vectors", "all"]
ROW_LEVEL_NAMES: tuple[RowLevel, ...] = get_args(RowLevel)
_SECOND = timedelta(seconds=1)
LEARNER = "you"  # who writes in a lesson: its output names no person and no machine
TEACHING_EPOCH_MS = 1_767_258_000_000  # 2026-01-01T09:00:00Z, where lessons begin


def _now() -> int:
    return time.time_ns() // 1_000_000


def random_id() -> str:
    """A UUID (version 4) that no seed and no fork gives once more.

    >>> random_id() == random_id()
    False
    """
    return str(uuid.uuid4())


_OURS = (_now, random_id, time.perf_counter_ns)


@dataclass
class Options:
    """The settings; read them through :data:`options`, change them with :func:`set_options`."""

    clock: Callable[[], int] = _now
    """The time in epoch milliseconds."""
    new_id: Callable[[], str] = random_id
    """A fresh UUID as text: transaction ids, file names. Where it may have been drawn before, as from a seed
    on a table that another run has written to, a random one takes its place. The id of a table is random in
    any case, but for its beginning: one made again by the same lesson is not taken for the one before."""
    timer: Callable[[], int] = time.perf_counter_ns
    """A stopwatch in nanoseconds, for durations; what it begins with does not matter."""
    durability: Literal["sync", "none"] = "sync"
    """``sync`` calls fsync on every commit file and its directory."""
    max_commit_attempts: int = MAX_COMMIT_ATTEMPTS
    """Retries after a lost race; 0 is one attempt and no retry."""
    row_level: RowLevel | None = None
    """How closely a commit looks at those that landed before it, where partitions do not tell them apart: by
    the statistics of added files, by their rows, by the rows that deletion vectors take, or by all of these
    (:data:`deltanb.transaction.row_levels.LOOKS`). ``None`` asks the table's property
    ``deltanb.rowLevelConcurrency``, which is ``off`` unless it is set."""
    backoff: Callable[[int], float] | None = None
    """Seconds to wait before retry n (from 1) of a commit; ``None`` tries again at once."""
    commit_lock: bool | None = None
    """Take the table's in-process lock for a commit; ``None`` asks the store."""
    checkpoints: Literal["background", "inline"] = "background"
    """``background`` writes the checkpoints that are due behind a commit in a thread, after the commit has
    returned, and cleans the log up there; :func:`deltanb.flush` waits for it, as a catalog does for those of
    its tables when it is closed. ``inline`` writes them before the commit returns, as lessons do."""
    target_file_size: int = TARGET_FILE_SIZE
    """Bytes a data file should reach before the next one is begun."""
    memory_pool: Literal["auto", "default", "system", "jemalloc", "mimalloc"] = "auto"
    """The pool of Arrow's in which the rows are that are read and written; ``default`` is
    ``pyarrow.default_memory_pool()``. ``auto`` is, with glibc, ``jemalloc`` where Arrow has it and ``system``
    where not, unless ``ARROW_DEFAULT_MEMORY_POOL`` names a pool for the process; else ``default``. The
    default pool of the process is never changed."""
    metrics: bool = True
    """Write operation metrics into the commit."""
    commit_info: bool = True
    """Write a commitInfo into commits: who, when, how. Commits of tables with in-commit timestamps have one
    in any case. Without it other writers cannot know a blind append, and a commit knows itself by its
    actions instead of its ``txnId``."""
    commit_listeners: Sequence[Callable[[Any], object]] = ()
    """Told of each commit, failed ones included, with its
    :class:`~deltanb.transaction.commit_stats.CommitStats`."""
    hook_failure_listeners: Sequence[Callable[[Any], object]] = ()
    """Told of each post-commit hook that fails, those of this library included, with its
    :class:`~deltanb.transaction.hook_failures.HookFailure`."""
    report: str | os.PathLike[str] | Literal[False] | None = None
    """The folder in which each failed commit leaves a page: the conflict, and the commits around it. ``None``
    asks the environment variable ``DELTANB_REPORT``; False leaves none."""
    journal: str | os.PathLike[str] | Literal["beside", False] | None = None
    """Where transactions that fail because of others are written down, so that
    :meth:`~deltanb.log.history.History.conflicts` sees those of other processes and of yesterday: ``beside``
    each table, or in a folder of this machine. ``None`` asks the environment variable ``DELTANB_JOURNAL``;
    False keeps them in this process alone. Each is a small file without secrets; of a table at most a
    thousand are kept, for 30 days."""
    log_cache: str | os.PathLike[str] | Literal[False] | None = None
    """A folder of this machine in which files of logs in buckets are kept, so that they are fetched once:
    commits, checkpoints, checksums. What is opened again, by whatever process of this user, then costs the
    hint and a listing. ``None`` asks the environment variable ``DELTANB_LOG_CACHE``; False has no such cache.
    A file is taken from it only where the listing shows the same tag and size, and its content is checked."""
    log_cache_size: int | None = None
    """The bytes that this folder takes at most; those that were used longest ago go. ``None`` asks the
    environment variable ``DELTANB_LOG_CACHE_SIZE``, and without that is 1 GiB."""
    catalog: Any = None
    """The catalog in which :func:`deltanb.open` looks for ``catalog.schema.table``: one that is connected, or
    the address of one, as :func:`deltanb.connect` takes it. ``None`` asks the environment variable
    ``DELTANB_CATALOG``."""
    default_table_properties: Mapping[str, Any] = field(default_factory=dict)
    """Properties of new tables that do not set them, e.g. ``{"delta.enableDeletionVectors": True}``."""
    partition_column_check: bool = True
    """Refuse partition columns whose names no folder may have; otherwise they are logged."""
    nanoseconds: Literal["refuse", "truncate"] = "refuse"
    """What is done with times of data that count nanoseconds, where a table keeps microseconds: ``refuse``
    those of which something would be lost, or ``truncate`` them to the microsecond before."""
    schema_type_check: bool = True
    """Refuse new schemas with types that Delta does not have."""
    user_name: str | Literal[False] | None = None
    """Written as ``userName`` into commits, and who wrote in every view. ``None`` asks the environment
    variable ``DELTANB_USER``, and without that is the person, the machine and the notebook's or script's
    name, as ``ann@laptop:nightly``; False, an empty text or an empty variable names nobody."""
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
                   "checkpoints": ("background", "inline"), "colors": ("auto", "plain"),
                   "commit_lock": (None, True, False), "nanoseconds": ("refuse", "truncate"),
                   "memory_pool": ("auto", "default", "system", "jemalloc", "mimalloc"),
                   "row_level": (None, *ROW_LEVEL_NAMES)}
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise InvalidArgument(
                    f"option {name}={getattr(self, name)!r} is not one of {allowed}"
                )
        for name, least in {"max_commit_attempts": 0, "target_file_size": 1, "max_rows": 1}.items():
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise InvalidArgument(f"option {name}={value!r} must be an integer >= {least}")
        if self.log_cache_size is not None:
            _check_size("option log_cache_size", self.log_cache_size)
        if not isinstance(self.user_metadata, str | None):
            raise InvalidArgument(f"option user_metadata={self.user_metadata!r} must be a string or None")
        if self.user_name is not False and not isinstance(self.user_name, str | None):
            raise InvalidArgument(
                f"option user_name={self.user_name!r} must be a string, False, which names nobody, or None, "
                f"which asks the environment variable {USER_VARIABLE} and else names person, machine and job")
        for name in ("clock", "new_id", "timer"):
            if not callable(getattr(self, name)):
                raise InvalidArgument(f"option {name} must be callable")
        self.clock = checked("option clock", self.clock, "an integer", int)
        self.timer = checked("option timer", self.timer, "a number", int, float)
        self.new_id = checked("option new_id", self.new_id, "a text", str)
        if self.backoff is not None and not callable(self.backoff):
            raise InvalidArgument(f"option backoff={self.backoff!r} must be callable or None")
        for name in ("metrics", "commit_info", "partition_column_check", "schema_type_check"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidArgument(f"option {name}={getattr(self, name)!r} must be True or False")
        if self.catalog is not None and not hasattr(self.catalog, "table") and (
                not isinstance(self.catalog, str) or "://" not in self.catalog):
            raise InvalidArgument(
                f"option catalog={safe(repr(self.catalog)):.80} must be a catalog, its address, or None, "
                f"which asks the environment variable {CATALOG_VARIABLE}")
        _check_folder("report", self.report, REPORT_VARIABLE)
        _check_folder("journal", self.journal, JOURNAL_VARIABLE)
        _check_folder("log_cache", self.log_cache, LOG_CACHE_VARIABLE)
        for name, event in LISTENERS.items():
            setattr(self, name, _listeners(name, event, getattr(self, name)))
        self.default_table_properties = _properties(self.default_table_properties)


class _Checked:
    """A function of somebody's whose answers are checked; all else of it is as it is."""

    def __init__(self, name: str, function: Callable[[], Any], what: str, kinds: tuple[type, ...]) -> None:
        self._name, self._function, self._what, self._kinds = name, function, what, kinds

    def __call__(self) -> Any:
        answer = self._function()
        if isinstance(answer, self._kinds) and not isinstance(answer, bool):
            return answer
        raise InvalidArgument(
            f"{self._name} must return {self._what}, and has returned {safe(repr(answer)):.80}")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._function, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            super().__setattr__(name, value)
        else:  # a clock that is moved, say
            setattr(self._function, name, value)


def checked(name: str, function: Callable[[], Any], what: str, *kinds: type) -> Callable[[], Any]:
    """A function without arguments that gives what it has to, or an error that names it.

    >>> checked("option timer", lambda: None, "a number", int, float)()
    Traceback (most recent call last):
        ...
    deltanb.errors.InvalidArgument: option timer must return a number, and has returned None
    """
    is_ours = function in _OURS or isinstance(function, _Checked | StepClock | SeededIds)
    return function if is_ours else _Checked(name, function, what, kinds)


def _check_folder(name: str, value: Any, variable: str) -> None:
    is_path = isinstance(value, str | os.PathLike) and isinstance(os.fspath(value), str)
    text = os.fspath(value) if is_path else ""
    if value is None or value is False or (text and "://" not in text and "\0" not in text):
        return
    raise InvalidArgument(
        f"option {name}={safe(repr(value)):.80} must be a folder of this machine, False, or None, which asks "
        f"the environment variable {variable}")


def _check_size(name: str, size: Any) -> int:
    if isinstance(size, int) and not isinstance(size, bool) and size >= 1:
        return size
    raise InvalidArgument(f"{name}={safe(repr(size)):.80} must be a number of bytes, 1 or more")


def _listeners(name: str, event: str, listeners: Any) -> tuple[Callable[[Any], object], ...]:
    if not isinstance(listeners, list | tuple) or not all(map(callable, listeners)):
        raise InvalidArgument(
            f"option {name}={listeners!r:.80} must be a list of functions of one argument, {event}")
    return tuple(listeners)


def _properties(properties_: Any) -> dict[str, str]:
    if not isinstance(properties_, Mapping):
        raise InvalidArgument(
            f"option default_table_properties={properties_!r:.80} must be a dict of names and values")
    if not properties_:
        return {}
    from deltanb.schema import properties

    texts = {name: properties.as_text(name, value) for name, value in properties_.items()}
    spelled = {properties.spelled(name): text for name, text in texts.items()}
    properties.validate(spelled)
    properties.warn_of_unknown(spelled)
    return spelled


_process = Options()
_own: ContextVar[Mapping[str, Any]] = ContextVar("deltanb.options", default=MappingProxyType({}))
_lock = threading.Lock()


class _Current:
    """The settings of the running context: its own ones before those of the process."""

    __slots__ = ()

    def __setattr__(self, name: str, value: Any) -> None:
        set_options(**{name: value})


def _setting(name: str) -> property:
    """A property for each setting: commits read some thirty, and ``__getattr__`` costs thrice as much."""
    def read(self: _Current) -> Any:
        own = _own.get()
        return own[name] if own and name in own else values[name]

    values = vars(_process)
    return property(read)


for _field in fields(Options):
    setattr(_Current, _field.name, _setting(_field.name))

options: Options = cast(Options, _Current())
"""The settings of the running context, to be read; assigning is :func:`set_options`."""


def set_options(**changes: Any) -> Any:
    """Change settings; as a context manager the change is for the block, and for nobody else.

    A plain call in the main thread changes the settings of the process, which hold wherever nothing else
    was set. In another thread, or within a block, it changes those of the running context only.

    Raises:
        InvalidArgument: an unknown name, or a value the setting does not allow.

    >>> with set_options(display="text", durability="none"):
    ...     options.display
    'text'
    """
    known = {one.name for one in fields(Options)}
    for name in changes:
        if name not in known:
            from deltanb.text.formatting import did_you_mean

            raise InvalidArgument(f"no option {name!r}; {did_you_mean(name, sorted(known), 'options')[0]}")
    checked = Options(**{**{n: getattr(options, n) for n in known}, **changes})
    values = {name: getattr(checked, name) for name in changes}
    own = _own.get()
    if own or threading.current_thread() is not threading.main_thread():
        _own.set({**own, **values})
        return Changed(values, own)
    with _lock:
        before = {name: getattr(_process, name) for name in values}
        vars(_process).update(values)
    return Changed(values, own, before)


def own_settings() -> dict[str, Any]:
    """The settings of the running context that are not those of the process: of the blocks it is in.

    >>> with set_options(max_rows=3):
    ...     own_settings()
    {'max_rows': 3}
    """
    return dict(_own.get())


def report_folder() -> str | None:
    """The folder in which failed commits leave their reports; None where none are wanted.

    >>> with set_options(report="reports"):
    ...     report_folder()
    'reports'
    """
    return _place(options.report, REPORT_VARIABLE)


def writer_name() -> str | None:
    """Who writes, as commits and the histories of catalogs have it; None where nobody is to be named.

    >>> with set_options(user_name="etl"):
    ...     writer_name()
    'etl'
    >>> with set_options(user_name=False):
    ...     print(writer_name())
    None
    """
    name = options.user_name
    if name is None:
        name = os.environ.get(USER_VARIABLE)
    return name_process() if name is None else name or None


def catalog_place() -> Any:
    """The catalog, or the address of the one, in which tables are opened by name; None without any.

    >>> with set_options(catalog="uc://localhost:8080/main"):
    ...     catalog_place()
    'uc://localhost:8080/main'
    """
    return options.catalog if options.catalog is not None else os.environ.get(CATALOG_VARIABLE) or None


def journal_place() -> str | None:
    """Where failed transactions are written down: ``beside`` their tables, a folder, or None for nowhere.

    >>> with set_options(journal="beside"):
    ...     journal_place()
    'beside'
    """
    return _place(options.journal, JOURNAL_VARIABLE)


def log_cache_place() -> tuple[str, int] | None:
    """The folder in which files of logs in buckets are kept, and its bytes; None where none is wanted.

    Raises:
        InvalidArgument: the environment's number of bytes is none.

    >>> with set_options(log_cache="cache"):
    ...     log_cache_place()
    ('cache', 1073741824)
    """
    folder = _place(options.log_cache, LOG_CACHE_VARIABLE)
    if folder is None:
        return None
    size: Any = options.log_cache_size
    if size is None:
        text = os.environ.get(LOG_CACHE_SIZE_VARIABLE, "")
        size = _check_size(LOG_CACHE_SIZE_VARIABLE, int(text) if text.isdecimal() else text) \
            if text else LOG_CACHE_SIZE
    return folder, size


def _place(value: Any, variable: str) -> str | None:
    place = os.environ.get(variable) if value is None else value
    return os.path.expanduser(place) if place else None


class Changed(AbstractContextManager[Options]):
    """Settings that were changed; at the end of a block they are what they were.

    >>> set_options(max_rows=options.max_rows)
    settings changed: max_rows
    """

    def __init__(
        self, values: Mapping[str, Any], own: Mapping[str, Any],
        process: Mapping[str, Any] | None = None,
    ) -> None:
        self._values, self._own, self._process = values, own, process

    def __repr__(self) -> str:
        return f"settings changed: {', '.join(self._values) or 'none'}"

    def __enter__(self) -> Options:
        if self._process is not None:  # it is a block: the process keeps its settings
            with _lock:
                vars(_process).update(self._process)
            self._process = None
            _own.set({**_own.get(), **self._values})
        return options

    def undo(self) -> None:
        """Give the names that were changed the values that they had before.

        >>> changed = set_options(max_rows=5)
        >>> changed.undo()
        >>> options.max_rows
        20
        """
        with self:
            pass

    def __exit__(self, *_: object) -> None:
        """Of the names that were changed only: the block may have changed others for good."""
        remaining = {name: value for name, value in _own.get().items() if name not in self._values}
        _own.set({**remaining, **{n: v for n, v in self._own.items() if n in self._values}})


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

    def advance(self, milliseconds: int) -> None:
        """Let time pass.

        >>> clock = StepClock(1000, step=5)
        >>> clock.advance(500)
        >>> clock()
        1500
        """
        with self._lock:
            self.now += milliseconds


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


class Lesson(Changed):
    """The settings of a lesson, and its clock, which moves on request; see :func:`teaching`."""

    def wait(self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0) -> None:
        """Let time pass on the lesson's clock. Nobody really waits.

        Raises:
            InvalidArgument: a time that is not a number, or that lies in the past.

        >>> lesson = teaching(seed=1)
        >>> lesson.wait(days=8)
        >>> (options.clock() - TEACHING_EPOCH_MS) // (24 * 60 * 60 * 1000)
        8
        """
        try:
            passed = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidArgument(f"wait takes numbers, like wait(days=8): {error}") from None
        if passed < timedelta(0):
            raise InvalidArgument(
                f"the clock of a lesson only goes forward, found {passed / _SECOND:g} seconds")
        self._values["clock"].advance(passed // (_SECOND / 1000))


@answer_wrong_arguments()
def teaching(seed: int = 1, user_name: str | Literal[False] | None = None) -> Lesson:
    """Hold clock, stopwatch and ids still, so that a notebook gives the same output at every run.

    The clock starts at 2026-01-01 09:00:00 UTC and moves one second at every reading; ``wait`` of what is
    returned moves it further. Commits write their checkpoints before they return, and are by ``user_name``,
    else by the option of that name, else by ``you``. Spark sessions begun by
    :func:`deltanb.spark` are quiet anyway. Ids of tables are random all the same
    (:attr:`Options.new_id`).

    >>> with teaching(seed=1):
    ...     options.clock()
    1767258000000
    """
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise InvalidArgument(f"seed={seed!r} must be an integer")
    changes: dict[str, Any] = {
        "clock": StepClock(), "new_id": SeededIds(seed), "timer": lambda: 0, "checkpoints": "inline"}
    if user_name is not None or options.user_name is None:
        changes["user_name"] = LEARNER if user_name is None else user_name
    changed = set_options(**changes)
    return Lesson(changed._values, changed._own, changed._process)


__dir__ = offered(globals())
