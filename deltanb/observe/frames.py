"""The frames of a stepped commit, of one table or of several: what is known after each of its steps.

What lives here: :class:`StepFrame`, and how a step, or a rival that wins between two steps, turns one frame
into the next. A frame consists of words; it holds no step and no transaction, and does not grow with the
number of attempts.
What it does not know: how steps are driven (``stepper``), the grid of several tables (``catalog/progress``),
how a frame is drawn (``notebook/drawing/stepper.py``).

>>> from deltanb.transaction.steps import Committed, Prepared, PutIfAbsent
>>> frame = opened("orders", "DELETE", 17)
>>> frame = after(frame, Prepared(17, "Serializable", False, 2, "DELETE"))
>>> frame = after(frame, PutIfAbsent(18, b"", 0, 2, "Serializable"))
>>> after(frame, Committed(18, 1, (), "Serializable", False), True).line
'3 committed v18 after 1 attempt'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from deltanb.actions import TransactionGroup
from deltanb.catalog.progress import GroupCommit
from deltanb.errors import TransactionAbandoned
from deltanb.text import formatting as units
from deltanb.text.display import Displayable
from deltanb.transaction.drive import GivenUp
from deltanb.transaction.group import (
    AskOutcome,
    GroupCommitted,
    Grouped,
    GroupFailed,
    MemberStep,
    Publish,
    Ratify,
    Refused,
    Stage,
    Stood,
)
from deltanb.transaction.steps import (
    Backoff,
    Checked,
    Committed,
    Failed,
    LookCloser,
    Lost,
    Prepared,
    PublishCommits,
    PutIfAbsent,
    RatifyCommit,
    ReadWinner,
    Rebased,
    Recognised,
    StageCommit,
    Step,
)

ALGORITHM = (
    ("read", "read the snapshot"),
    ("prepare", "prepare the actions"),
    ("put", "put N.json if absent"),
    ("taken", "  taken: read commit N"),
    ("lost", "  lost: someone else has N"),
    ("check", "  check for conflicts"),
    ("again", "  N = N + 1, again"),
    ("won", "won: committed"),
)
"""The commit in eight lines: a short name for the text form, and the line."""
MANAGED_ALGORITHM = (
    ("read", "read the snapshot"),
    ("prepare", "prepare the actions"),
    ("stage", "stage N, not visible yet"),
    ("ratify", "have the catalog take N"),
    *ALGORITHM[3:7],
    ("won", "won: N is current"),
    ("publish", "publish N in the folder"),
)
"""That of a table whose commits a catalog ratifies."""
GROUP_ALGORITHM = (
    ("read", "read at one instant"),
    ("prepare", "prepare each table"),
    ("stage", "stage each new version"),
    ("ratify", "ratify all, or none"),
    ("refused", "  refused: who has it?"),
    ("check", "  check the one that lost"),
    ("won", "won: all become current"),
    ("publish", "publish each one"),
)
"""That of several tables."""
_IN_GROUP = {"taken": "refused", "lost": "refused", "again": "check"}
"""Where several tables stand when one of them is at a line that only its own commit has."""

_PUTS = ("put", "stage", "ratify", "publish")
"""Where a put of one table stands, as a whole or in its parts."""

PAST = 2  # versions before the one read: enough to see that the log did not begin there
FIRST_TRIES, LAST_TRIES = 1, 3  # attempts shown of many: how it began, and how it goes
MAX_EVENTS = 40  # lines of "what happened so far"; a commit that won after five attempts has thirty
MAX_WRITER = 24  # columns of a user's name

Words = tuple[str, str, str]
"""Of a step: its line, the headline (empty: the line), and the line of the algorithm, by its short name."""


@dataclass(frozen=True)
class Box:
    """A version in the log: ``kind`` is ``past``, ``read``, ``other`` or ``yours``, ``note`` its writer."""

    version: int
    kind: str
    note: str = ""


@dataclass(frozen=True)
class Try:
    """One attempt: ``outcome`` is ``putting``, ``lost``, ``committed`` or ``unknown``."""

    number: int
    version: int
    outcome: str = "putting"
    winner: str = ""
    verdict: str = ""
    passed: tuple[int, int] | None = None
    """The first and the last winner that no rule objected to."""
    failed_at: int | None = None
    """The winner that a rule objected to: the one that it lost to, or a later one."""


@dataclass(frozen=True, repr=False)
class StepFrame(Displayable):
    """What is known of a commit after one of its steps.

    ``line`` is what :meth:`~deltanb.observe.stepper.Stepper.step` prints. ``state`` is ``running``,
    ``committed``, ``failed`` or ``abandoned``, for several tables also ``unknown``.

    >>> import deltanb as dn
    >>> from deltanb.testing import MemoryStore
    >>> stepper = dn.create(MemoryStore(), {"id": [1]}).start_transaction().stepper()
    >>> _ = stepper.advance()
    >>> stepper.frame.number, stepper.frame.state, stepper.frame.line
    (1, 'running', '1 prepare: 0 actions, SnapshotIsolation')
    """

    number: int = 0
    line: str = ""
    headline: str = ""
    at: int = 0
    """The line of :attr:`algorithm` at which it stands."""
    state: str = "running"
    events: tuple[str, ...] = ()
    num_events: int = 0
    is_rival: bool = False
    """Another writer did this, between two steps."""
    total: int | None = None
    """Steps there are, where this frame is looked at again; None at the newest of a running commit."""
    ending: str = ""
    """How the commit ended, where this frame is looked at again."""
    table: str = ""
    operation: str = ""
    read_version: int = -1
    boxes: tuple[Box, ...] = ()
    tries: tuple[Try, ...] = ()
    num_tries: int = 0
    conflict: Any = None
    grid: GroupCommit | None = None
    """The tables of a commit of several, by phases; of one table there are boxes and attempts instead."""
    is_managed: bool = False
    """Whether a catalog ratifies the commits of the one table."""

    @property
    def algorithm(self) -> tuple[tuple[str, str], ...]:
        """The commit in eight lines, or in ten where a catalog ratifies it.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> stepper = dn.create(MemoryStore(), {"id": [1]}).start_transaction().stepper()
        >>> len(stepper.frame.algorithm)
        8
        """
        if self.grid is not None:
            return GROUP_ALGORITHM
        return MANAGED_ALGORITHM if self.is_managed else ALGORITHM

    @property
    def place(self) -> str:
        """The short name of the algorithm's current line.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> stepper = dn.create(MemoryStore(), {"id": [1]}).start_transaction().stepper()
        >>> stepper.frame.place, stepper.advance(), stepper.frame.place
        ('read', '1 prepare: 0 actions, SnapshotIsolation', 'prepare')
        """
        return self.algorithm[self.at][0]


def opened(table: str, operation: str, read_version: int, is_managed: bool = False) -> StepFrame:
    """The frame before the first step of a commit to one table."""
    first = max(0, read_version - PAST)
    boxes = [Box(v, "past") for v in range(first, read_version)]
    if read_version >= 0:
        boxes.append(Box(read_version, "read", "read"))
    read = f"you read v{read_version}" if read_version >= 0 else "there is no table yet"
    frame = StepFrame(table=table, operation=operation, read_version=read_version, boxes=tuple(boxes),
                      is_managed=is_managed)
    return _with_line(frame, read)


def opened_group(grid: GroupCommit, read_seq: int) -> StepFrame:
    """The frame before the first step of a commit to several tables."""
    return _with_line(StepFrame(grid=grid),
                      f"you read {units.count(len(grid.rows), 'table')} after transaction {read_seq}")


def after(
    frame: StepFrame, step: Step, reply: Any = None, grid: GroupCommit | None = None
) -> StepFrame:
    """The frame after a step; ``reply`` answered the step before it."""
    frame = replace(frame, number=frame.number + 1, is_rival=False, grid=grid)
    if grid is not None:
        if isinstance(step, GroupFailed):
            frame = replace(frame, state="unknown" if step.may_have_landed else "failed")
        words = _group_words(frame, step, reply)
    else:
        words = _own_words(frame, step, reply)
        frame = _drawn(frame, step, reply)
    return _with_line(frame, *words)


def published(frame: StepFrame, version: int, is_there: bool, is_reported: bool) -> StepFrame:
    """The last frame of a commit that a catalog has ratified: whether it is in the folder, too."""
    frame = replace(frame, number=frame.number + 1, is_rival=False, state="committed")
    words = f"v{version} is not in the folder; a later commit publishes it"
    if is_there:
        report = "and the catalog knows" if is_reported else "which the next commit reports"
        words = f"v{version} is in the folder, {report}"
    return _with_line(frame, f"done: {words}", f"version {version} is yours", "publish")


def done(frame: StepFrame, grid: GroupCommit) -> StepFrame:
    """The frame after the last step of a commit of several tables that landed."""
    frame = replace(frame, number=frame.number + 1, is_rival=False, grid=grid, state="committed")
    behind = [row.name for row in grid.rows if row.cells[-1].sign == "✕"]
    words = f"unpublished: {', '.join(behind)}; a later commit publishes it" if behind else \
        "every version is in its folder"
    return _with_line(frame, f"done: {words}", f"committed as transaction {grid.seq}", "publish")


def abandoned(
    frame: StepFrame, why: str, outcome: str, grid: GroupCommit | None = None
) -> StepFrame:
    """The last frame of a commit that was abandoned between two steps."""
    headline, state = f"abandoned, {why}, {outcome}", "abandoned"
    if grid is not None:
        state = "abandoned" if grid.state in ("running", "failed", "abandoned") else grid.state
        outcome = {"committed": f"transaction {grid.seq} is committed and stays",
                   "unknown": "ask the catalog for its outcome"}.get(state, outcome)
        headline = f"abandoned, {outcome}"
    elif frame.tries and frame.tries[-1].outcome == "putting":
        frame = _last_try(frame, outcome="unknown", verdict="given up")
    frame = replace(frame, number=frame.number + 1, is_rival=False, grid=grid, state=state)
    return _with_line(frame, f"abandoned: {why}, {outcome}", headline, frame.place)


def rival(
    frame: StepFrame, writer: str, did: str, moved: str, commits: Sequence[tuple[int, str]] = ()
) -> StepFrame:
    """The frame after another writer committed: ``moved`` names the result, ``commits`` are the versions of
    the log with their writers."""
    frame = replace(frame, is_rival=True)
    for version, whose in commits:
        frame = _boxed(frame, Box(version, "other", whose))
    writer = units.fit_writer(units.clean(writer), MAX_WRITER)
    return _with_line(frame, f"{writer}: {did}, {moved}", f"{writer} has {moved} now", frame.place)


def state_in_words(step: Step | None) -> str:
    """The question that a running commit asks next, as a short phrase; empty before its first step.

    >>> state_in_words(PutIfAbsent(18, b"", 1, 2, "Serializable"))
    'is v18 free?'
    """
    if step is None:
        return ""
    return after(opened("", "", -1), step).headline


# -- words ---------------------------------------------------------------------------------------


def _own_words(frame: StepFrame, step: Step, reply: Any) -> Words:
    """The words for a step of a commit to one table."""
    match step:
        case Prepared():
            actions = units.count(step.num_actions, "action")
            return f"prepare: {actions}, {step.isolation}", f"{actions} prepared", "prepare"
        case PutIfAbsent():
            return f"put: v{step.version} if it is absent", f"is v{step.version} free?", "put"
        case StageCommit():
            return f"stage: v{step.version}, not visible yet", f"v{step.version} is being staged", "stage"
        case RatifyCommit():
            again = " once more" if frame.place in ("ratify", "publish") else ""
            reports = "" if step.reports is None else f"; v{step.reports} is reported as published"
            return (f"ratify{again}: does the catalog take v{step.version}?{reports}",
                    f"does the catalog take v{step.version}?", "ratify")
        case PublishCommits(is_asked=True):
            return (f"publish: the catalog takes no more until v{step.version} is in the folder",
                    f"up to v{step.version} is being published", "publish")
        case PublishCommits():
            return (f"publish: v{step.version} into the folder", f"v{step.version} is being published",
                    "publish")
        case ReadWinner() if frame.place == "ratify" and reply is not False:
            return (f"unknown: no answer from the catalog, has it taken v{step.version}?",
                    f"no answer, is v{step.version} taken?", "taken")
        case ReadWinner() if frame.place in _PUTS and reply is False:
            return (f"taken: v{step.version} exists, read who has it", f"v{step.version} exists, who has it?",
                    "taken")
        case ReadWinner() if frame.place == "put":
            return (f"unknown: no answer from the store, read whether v{step.version} is there",
                    f"no answer, is v{step.version} there?", "taken")
        case Rebased():
            last = step.next_version - 1
            return (f"again: you build on v{last} now, try v{step.next_version}",
                    f"on to v{step.next_version}", "again")
        case Backoff():
            return (f"wait: before attempt {step.attempt + 1}", f"waiting before attempt {step.attempt + 1}",
                    "again")
        case Failed():
            outcome = f"look whether v{step.version} is there" if step.may_have_landed else \
                "nothing was written"
            return _failure(frame, step.error, f" at v{step.version}", outcome)
        case Committed():
            return (f"committed v{step.version} after {units.count(step.attempts, 'attempt')}",
                    f"version {step.version} is yours", "won")
    return _words_of_winner(frame, step)


def _group_words(frame: StepFrame, step: Step, reply: Any) -> Words:
    """The words for a step of a commit to several tables."""
    grid = frame.grid
    assert grid is not None
    match step:
        case MemberStep():
            return _member_words(frame, step.name, step.step, reply)
        case Grouped(None):
            return f"group: none, {', '.join(step.without)} without the table feature", "", frame.place
        case Grouped(TransactionGroup(participants=participants)):
            tables = units.count(len(participants), "table")
            return (f"group: each commit names all of {tables} and their versions",
                    f"{tables} name each other", "stage")
        case Stage():
            what = f"v{step.version}" if grid.row(step.name).has_versions else "metadata"
            return f"stage {step.name}: {what}, not visible yet", f"{step.name} is being staged", "stage"
        case Ratify():
            tables = units.count(len(step.proposals) + len(step.stands), "table")
            again = " once more" if grid.ratifications > 1 else ""
            return (f"ratify{again}: {tables}, all or none", f"does the catalog take all of {tables}?",
                    "ratify")
        case AskOutcome():
            return ("ask: no answer from the catalog, was it ratified?", "no answer, was it ratified?",
                    "ratify")
        case GroupCommitted():
            tables = units.count(len(grid.rows), "table")
            return (f"committed as transaction {step.seq}: all of {tables}, at once",
                    f"transaction {step.seq} is yours", "won")
        case Publish():
            where = f"v{step.version} into its folder" if grid.row(step.name).has_versions else \
                "nothing to do, its readers follow the catalog"
            return f"publish {step.name}: {where}", f"{step.name} is being published", "publish"
        case GroupFailed():
            outcome = "ask the catalog for its outcome" if step.may_have_landed else \
                "nothing of any table was written"
            return _failure(frame, step.error, f" at {step.name}" if step.name else "", outcome)
    return type(step).__name__, "", frame.place


def _member_words(frame: StepFrame, name: str, step: Step, reply: Any) -> Words:
    """The words for a step of one of several tables."""
    assert frame.grid is not None
    match step:
        case Prepared():
            is_read = frame.grid.row(name).operation == "READ"
            what = "only read" if is_read else units.count(step.num_actions, "action")
            return f"prepare {name}: {what}, read v{step.read_version}", f"{name} is prepared", "prepare"
        case ReadWinner() if isinstance(reply, Refused):
            return (f"refused: {name} has v{step.version} already, who wrote it?",
                    f"refused, {name} has moved", "refused")
        case Rebased():
            last = step.next_version - 1
            is_read = frame.grid.row(name).operation == "READ"
            whole = frame.grid.transaction_group is not None and not is_read
            restaged = "all that name its version are restaged" if whole else "only this table is restaged"
            return (f"again {name}: it is based on v{last} now, {restaged}",
                    f"on to v{step.next_version} of {name}", "again")
        case Backoff():
            return f"wait {name}: before attempt {step.attempt + 1}", "", "again"
        case Failed() if isinstance(step.error, TransactionAbandoned | GivenUp):
            return f"abandon {name}: what it staged is deleted", f"{name} is given up", frame.place
        case Failed():
            return f"fail {name}: {_kind(step.error)}", f"{name} failed, {_kind(step.error)}", frame.place
        case Committed():
            return (f"tell {name}: v{step.version} is its newest version",
                    f"v{step.version} of {name} is yours", "won")
        case Stood():
            return (f"tell {name}: nobody changed it, it is still v{step.version}",
                    f"{name} is still v{step.version}", "won")
    return _words_of_winner(frame, step, name)


def _words_of_winner(frame: StepFrame, step: Step, name: str = "") -> Words:
    """The words for a step that reads a winner; ``name`` is empty for a single table."""
    to, of = (f" {name}", f" of {name}") if name else ("", "")
    match step:
        case ReadWinner():
            return f"next{to}: is v{step.version} taken too?", f"is v{step.version}{of} taken too?", "again"
        case Recognised():
            return (f"found{to}: v{step.version} is your own, its answer was lost",
                    f"v{step.version}{of} is your own{'' if name else ' commit'}", "taken")
        case Lost():
            who, whose = _who(step), _writer(step.winner) or step.winner.operation
            if name:
                who = whose = units.fit(
                    units.clean(f"{step.winner.commit_info.user_name or ''} {step.winner.operation}".strip()),
                    MAX_WRITER)
            exists = f"v{step.version}{of} exists ({whose})"
            return f"lost{to}: v{step.version} exists ({who})", exists, "lost"
        case LookCloser():
            return (f"look closer{to}: do the rows of v{step.version} meet yours?",
                    f"do the rows of v{step.version}{of} meet yours?", "check")
        case Checked():
            objection = next((check for check in step.checks if check.state == "failed"), None)
            if objection is not None:
                return (f"check{to}: conflict with v{step.version}, {objection.title}",
                        f"v{step.version}{of} is in conflict with you", "check")
            differ = ", the rows differ" if step.winner.seen else ""
            return (f"check{to}: no conflict with v{step.version}{differ}",
                    f"no conflict with v{step.version}{of}{differ}", "check")
    return f"{type(step).__name__}{to}", "", frame.place


def _failure(frame: StepFrame, error: BaseException, where: str, outcome: str) -> Words:
    return (f"failed{where}: {_kind(error)}, {outcome}", f"failed{where} ({_kind(error)})", frame.place)


def _kind(error: BaseException) -> str:
    return type(error).__name__.removesuffix("Exception")


def _who(step: Lost) -> str:
    return units.clean(f"{_writer(step.winner)} {step.winner.operation}".strip())


def _writer(winner: Any) -> str:
    name = winner.commit_info.user_name
    return units.fit_writer(units.clean(name), MAX_WRITER) if name else ""


# -- the picture of one table: its log, and the attempts -------------------------------------------


def _drawn(frame: StepFrame, step: Step, reply: Any) -> StepFrame:
    match step:
        case PutIfAbsent() | StageCommit():
            return _trying(frame, step)
        case ReadWinner() if frame.place in _PUTS and reply is False:
            frame = _last_try(frame, verdict="taken")
            is_known = any(box.version == step.version for box in frame.boxes)
            return frame if is_known else _boxed(frame, Box(step.version, "other", "?"))
        case ReadWinner() if frame.place in _PUTS:
            whom = "catalog" if frame.is_managed else "store"
            return _last_try(frame, outcome="unknown", verdict=f"no answer from the {whom}")
        case Recognised():
            return _boxed(frame, Box(step.version, "yours", "yours"))
        case Lost():
            whose = _writer(step.winner) or step.winner.operation
            frame = _boxed(frame, Box(step.version, "other", whose))
            return _last_try(frame, outcome="lost", winner=_who(step), verdict="checking …")
        case Checked():
            return _checked(frame, step)
        case Failed():
            if frame.tries and frame.tries[-1].outcome == "putting":
                frame = _last_try(frame, outcome="unknown", verdict=f"✕ {_kind(step.error)}")
            elif frame.tries and not frame.tries[-1].verdict.startswith("✕"):
                frame = _last_try(frame, verdict=f"✕ {_kind(step.error)}")
            return replace(frame, state="failed", conflict=getattr(step.error, "conflict", None))
        case Committed():
            state = "running" if frame.is_managed else "committed"  # and published after it
            frame = replace(_boxed(frame, Box(step.version, "yours", "yours")), state=state)
            return _last_try(frame, version=step.version, outcome="committed", verdict="committed")
    return frame


def _trying(frame: StepFrame, step: PutIfAbsent | StageCommit) -> StepFrame:
    number = step.attempt + 1
    if frame.tries and frame.tries[-1].number == number:
        return _last_try(frame, outcome="putting", verdict="once more")
    tries = [*frame.tries, Try(number, step.version)]
    if len(tries) > FIRST_TRIES + LAST_TRIES:
        del tries[FIRST_TRIES]
    return replace(frame, tries=tuple(tries), num_tries=number)


def _checked(frame: StepFrame, step: Checked) -> StepFrame:
    version, winner = step.version, step.winner
    frame = _boxed(frame, Box(version, "other", _writer(winner) or winner.operation))
    if any(check.state == "failed" for check in step.checks):
        return _last_try(frame, verdict=f"✕ conflict with v{version}", failed_at=version)
    passed = frame.tries[-1].passed if frame.tries else None
    passed = (passed[0] if passed else version, version)
    which = f" with v{passed[0]}–v{version}" if passed[0] != version else ""
    return _last_try(frame, verdict=f"✓ no conflict{which}, go on", passed=passed)


def _last_try(frame: StepFrame, **changes: Any) -> StepFrame:
    if not frame.tries:
        return frame
    return replace(frame, tries=(*frame.tries[:-1], replace(frame.tries[-1], **changes)))


def _boxed(frame: StepFrame, box: Box) -> StepFrame:
    """The frame with one more version in its log; versions that no shown attempt met or tries next are
    dropped."""
    box = replace(box, note=units.fit_writer(units.clean(box.note), MAX_WRITER))
    tried = {version for attempt in frame.tries for version in (attempt.version, attempt.failed_at)}
    passed = [attempt.passed[1] for attempt in frame.tries if attempt.passed]
    tried.add(1 + max([frame.read_version, *(attempt.version for attempt in frame.tries), *passed]))
    boxes = sorted([*(b for b in frame.boxes if b.version != box.version), box], key=lambda b: b.version)
    newest = {b.version for b in boxes[-PAST:]}
    return replace(frame, boxes=tuple(
        b for b in boxes
        if b.kind in ("past", "read") or b.version in tried or b.version in newest))


def _with_line(frame: StepFrame, words: str, headline: str = "", place: str = "read") -> StepFrame:
    """The frame with this line as its newest, also appended to its events."""
    line = words if frame.is_rival else f"{frame.number} {words}"
    line = units.fit(units.clean(line), units.MAX_COLUMNS)
    events = (*frame.events, line)[-MAX_EVENTS:]
    names = [name for name, _ in frame.algorithm]
    at = names.index(place if place in names else _IN_GROUP[place])
    return replace(frame, line=line, headline=units.clean(headline or words), at=at, events=events,
                   num_events=frame.num_events + 1)
