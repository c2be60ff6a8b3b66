"""The frames of a stepped commit: what is known after each of its steps.

What lives here: :class:`StepFrame`, and what each step, and each rival that wins between two of them,
makes of the frame before. A frame says things in words; it holds no step and no transaction, and is no
larger after ten thousand attempts than after five.
What it does not know: how steps are driven (``stepper``), how a frame is drawn
(``notebook/drawing/stepper.py``).

>>> from deltanb.transaction.steps import Committed, Prepared, PutIfAbsent
>>> frame = opened("orders", "DELETE", 17)
>>> frame = after(frame, Prepared(17, "Serializable", False, 2, "DELETE"))
>>> frame = after(frame, PutIfAbsent(18, b"", 0, 2, "Serializable"))
>>> after(frame, Committed(18, 1, (), "Serializable", False), True).line
'3 committed v18 after 1 attempt'
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from deltanb.text import formatting as units
from deltanb.text.display import Displayable
from deltanb.transaction.steps import (
    Backoff,
    Checked,
    Committed,
    Failed,
    Lost,
    Prepared,
    PutIfAbsent,
    ReadWinner,
    Rebased,
    Recognised,
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
READ, PREPARE, PUT, TAKEN, LOST, CHECK, AGAIN, WON = range(len(ALGORITHM))

PAST = 2  # versions before the one read: enough to see that the log did not begin there
FIRST_TRIES, LAST_TRIES = 1, 3  # attempts shown of many: how it began, and how it goes
MAX_EVENTS = 40  # lines of "what happened so far"; a commit that won after five attempts has thirty
MAX_WRITER = 24  # columns of a user's name


@dataclass(frozen=True)
class Box:
    """A version in the log: ``kind`` is ``past``, ``read``, ``other`` or ``yours``; ``note`` says whose."""

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


@dataclass(frozen=True, repr=False)
class StepFrame(Displayable):
    """What is known of a commit after one of its steps.

    ``line`` is what :meth:`~deltanb.observe.stepper.CommitStepper.step` prints of it. ``state`` is
    ``running``, ``committed``, ``failed`` or ``abandoned``.
    """

    number: int
    line: str
    headline: str
    at: int
    table: str
    operation: str
    read_version: int
    state: str = "running"
    boxes: tuple[Box, ...] = ()
    tries: tuple[Try, ...] = ()
    num_tries: int = 0
    events: tuple[str, ...] = ()
    num_events: int = 0
    conflict: Any = None
    is_rival: bool = False
    """Another writer did this, between two steps."""
    total: int | None = None
    """Steps there are, where this frame is looked at again; None at the newest of a running commit."""
    ending: str = ""
    """How the commit ended, where this frame is looked at again."""


def opened(table: str, operation: str, read_version: int) -> StepFrame:
    """The frame before the first step."""
    first = max(0, read_version - PAST)
    boxes = [Box(v, "past") for v in range(first, read_version)]
    if read_version >= 0:
        boxes.append(Box(read_version, "read", "read"))
    read = f"you read v{read_version}" if read_version >= 0 else "there is no table yet"
    frame = StepFrame(0, "", read, READ, table, operation, read_version, boxes=tuple(boxes))
    return _with_line(frame, read)


def after(frame: StepFrame, step: Step, reply: Any = None) -> StepFrame:
    """The frame after a step; ``reply`` is the reply to the step before it."""
    frame = replace(frame, number=frame.number + 1, is_rival=False)
    match step:
        case Prepared():
            actions = units.count(step.num_actions, "action")
            return _with_line(frame, f"prepare: {actions}, {step.isolation}",
                         f"{actions} prepared", at=PREPARE)
        case PutIfAbsent():
            return _with_line(_trying(frame, step), f"put: v{step.version} if it is absent",
                         f"is v{step.version} free?", at=PUT)
        case ReadWinner():
            return _read(frame, step.version, reply)
        case Recognised():
            frame = _boxed(frame, Box(step.version, "yours", "yours"))
            return _with_line(frame, f"found: v{step.version} is your own, its answer was lost",
                         f"v{step.version} is your own commit", at=TAKEN)
        case Lost():
            writer, operation = _writer(step.winner), step.winner.operation
            who = units.clean(f"{writer} {operation}".strip())
            frame = _boxed(frame, Box(step.version, "other", writer or operation))
            frame = _last_try(frame, outcome="lost", winner=who, verdict="checking …")
            return _with_line(frame, f"lost: v{step.version} exists ({who})",
                         f"v{step.version} exists ({writer or operation})", at=LOST)
        case Checked():
            return _checked(frame, step)
        case Rebased():
            last = step.next_version - 1
            return _with_line(frame, f"again: you build on v{last} now, try v{step.next_version}",
                         f"on to v{step.next_version}", at=AGAIN)
        case Backoff():
            return _with_line(frame, f"wait: before attempt {step.attempt + 1}",
                         f"waiting before attempt {step.attempt + 1}", at=AGAIN)
        case Failed():
            return _failed(frame, step.error, step.version, step.may_have_landed)
        case Committed():
            return _committed(frame, step)
    return _with_line(frame, type(step).__name__, type(step).__name__)


def abandoned(frame: StepFrame, reason: str) -> StepFrame:
    """The last frame of a commit that was given up between two steps."""
    frame = replace(frame, number=frame.number + 1, is_rival=False, state="abandoned")
    if frame.tries and frame.tries[-1].outcome == "putting":
        frame = _last_try(frame, outcome="unknown", verdict="given up")
    return _with_line(frame, f"abandoned: {reason}", f"abandoned, {reason}", at=frame.at)


def rival(frame: StepFrame, writer: str, did: str, commits: list[tuple[int, str]]) -> StepFrame:
    """The frame after another writer committed: ``commits`` are pairs of a version and its writer."""
    frame = replace(frame, is_rival=True)
    for version, whose in commits:
        frame = _boxed(frame, Box(version, "other", whose))
    versions = [version for version, _ in commits]
    named = f"v{versions[0]}" if len(versions) == 1 else f"v{versions[0]}–v{versions[-1]}"
    writer = units.fit(units.clean(writer), MAX_WRITER)
    return _with_line(frame, f"{writer}: {did}, {named}", f"{writer} has {named} now", at=frame.at)


def state_in_words(step: Step | None) -> str:
    """What a running commit is about to find out, as a short phrase; empty before its first step.

    >>> state_in_words(PutIfAbsent(18, b"", 1, 2, "Serializable"))
    'is v18 free?'
    """
    if step is None:
        return ""
    return after(opened("", "", -1), step).headline


# -- parts of a step -----------------------------------------------------------------------------

def _failed(frame: StepFrame, error: BaseException, version: int, is_open: bool) -> StepFrame:
    name = type(error).__name__.removesuffix("Exception")
    outcome = f"look whether v{version} is there" if is_open else "nothing was written"
    if frame.tries and frame.tries[-1].outcome == "putting":
        frame = _last_try(frame, outcome="unknown", verdict=f"✕ {name}")
    elif frame.tries and not frame.tries[-1].verdict.startswith("✕"):
        frame = _last_try(frame, verdict=f"✕ {name}")
    frame = replace(frame, state="failed", conflict=getattr(error, "conflict", None))
    return _with_line(frame, f"failed at v{version}: {name}, {outcome}", f"failed at v{version} ({name})",
                 at=frame.at)



def _trying(frame: StepFrame, step: PutIfAbsent) -> StepFrame:
    number = step.attempt + 1
    if frame.tries and frame.tries[-1].number == number:
        return _last_try(frame, outcome="putting", verdict="once more")
    tries = [*frame.tries, Try(number, step.version)]
    if len(tries) > FIRST_TRIES + LAST_TRIES:
        del tries[FIRST_TRIES]
    return replace(frame, tries=tuple(tries), num_tries=number)


def _read(frame: StepFrame, version: int, reply: Any) -> StepFrame:
    if frame.at != PUT:
        return _with_line(frame, f"next: is v{version} taken too?", f"is v{version} taken too?", at=AGAIN)
    if reply is False:
        frame = _last_try(frame, verdict="taken")
        if not any(box.version == version for box in frame.boxes):
            frame = _boxed(frame, Box(version, "other", "?"))
        return _with_line(frame, f"taken: v{version} exists, read who has it",
                     f"v{version} exists, who has it?", at=TAKEN)
    frame = _last_try(frame, outcome="unknown", verdict="no answer from the store")
    return _with_line(frame, f"unknown: no answer from the store, read whether v{version} is there",
                 f"no answer, is v{version} there?", at=TAKEN)


def _checked(frame: StepFrame, step: Checked) -> StepFrame:
    version, writer = step.version, _writer(step.winner)
    frame = _boxed(frame, Box(version, "other", writer or step.winner.operation))
    objection = next((check for check in step.checks if check.state == "failed"), None)
    if objection is not None:
        frame = _last_try(frame, verdict=f"✕ conflict with v{version}")
        return _with_line(frame, f"check: conflict with v{version}, {objection.title}",
                     f"v{version} is in conflict with you", at=CHECK)
    passed = frame.tries[-1].passed if frame.tries else None
    passed = (passed[0] if passed else version, version)
    which = f" with v{passed[0]}–v{version}" if passed[0] != version else ""
    frame = _last_try(frame, verdict=f"✓ no conflict{which}, go on", passed=passed)
    return _with_line(frame, f"check: no conflict with v{version}", f"no conflict with v{version}", at=CHECK)


def _committed(frame: StepFrame, step: Committed) -> StepFrame:
    frame = replace(_boxed(frame, Box(step.version, "yours", "yours")), state="committed")
    frame = _last_try(frame, version=step.version, outcome="committed", verdict="committed")
    tries = units.count(step.attempts, "attempt")
    return _with_line(frame, f"committed v{step.version} after {tries}",
                 f"version {step.version} is yours", at=WON)


def _writer(winner: Any) -> str:
    name = winner.commit_info.user_name
    return units.fit(units.clean(name), MAX_WRITER) if name else ""


def _last_try(frame: StepFrame, **changes: Any) -> StepFrame:
    if not frame.tries:
        return frame
    return replace(frame, tries=(*frame.tries[:-1], replace(frame.tries[-1], **changes)))


def _boxed(frame: StepFrame, box: Box) -> StepFrame:
    """The frame with one more version in its log; versions that no shown attempt tried give way."""
    box = replace(box, note=units.fit(units.clean(box.note), MAX_WRITER))
    keep = {attempt.version for attempt in frame.tries}
    kept = [b for b in frame.boxes if b.version != box.version]
    boxes = sorted([*kept, box], key=lambda b: b.version)
    newest = {b.version for b in boxes[-PAST:]}
    return replace(frame, boxes=tuple(
        b for b in boxes
        if b.kind in ("past", "read") or b.version in keep or b.version in newest))


def _with_line(frame: StepFrame, words: str, headline: str = "", at: int = READ) -> StepFrame:
    """The frame with this line as its newest, also appended to its events."""
    line = words if frame.is_rival else f"{frame.number} {words}"
    line = units.fit(units.clean(line), units.MAX_COLUMNS)
    events = (*frame.events, line)[-MAX_EVENTS:]
    return replace(frame, line=line, headline=headline or words, at=at, events=events,
                   num_events=frame.num_events + 1)
