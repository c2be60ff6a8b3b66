"""The frames of a stepped commit of several tables: the grid after each step, and what happened in words.

What lives here: :class:`GroupFrame`, and the line that each step, and each rival between two of them, gives.
What it does not know: how steps are driven (``group_stepper``), the grid itself (``catalog/progress``), how a
frame is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from deltanb.catalog.progress import GroupCommit
from deltanb.errors import TransactionAbandoned
from deltanb.observe.frames import MAX_EVENTS, MAX_WRITER
from deltanb.text import formatting as units
from deltanb.text.display import Displayable
from deltanb.transaction.drive import GivenUp
from deltanb.transaction.group import (
    AskOutcome,
    GroupCommitted,
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
    Lost,
    Prepared,
    ReadWinner,
    Rebased,
    Recognised,
    Step,
)

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
"""The commit in eight lines: a short name for the text form, and the line."""
READ, PREPARE, STAGE, RATIFY, REFUSED, CHECK, WON, PUBLISH = range(len(GROUP_ALGORITHM))


@dataclass(frozen=True, repr=False)
class GroupFrame(Displayable):
    """What is known of a commit of several tables after one of its steps.

    ``line`` is what :meth:`~deltanb.observe.group_stepper.GroupStepper.step` prints of it. ``state`` is
    ``running`` until the last step is done, then that of the grid.
    """

    number: int
    line: str
    headline: str
    at: int
    grid: GroupCommit
    state: str = "running"
    events: tuple[str, ...] = ()
    num_events: int = 0
    is_rival: bool = False
    """Another writer did this, between two steps."""
    total: int | None = None
    ending: str = ""


def opened(grid: GroupCommit, read_seq: int) -> GroupFrame:
    """The frame before the first step."""
    words = f"you read {units.count(len(grid.rows), 'table')} after transaction {read_seq}"
    return _with_line(GroupFrame(0, "", "", READ, grid), words)


def after(frame: GroupFrame, grid: GroupCommit, step: Step, reply: Any = None) -> GroupFrame:
    """The frame after a step; ``reply`` is the reply to the step before it."""
    frame = replace(frame, number=frame.number + 1, is_rival=False, grid=grid)
    match step:
        case MemberStep():
            return _member(frame, step.name, step.step, reply)
        case Stage():
            what = f"v{step.version}" if grid.row(step.name).has_versions else "metadata"
            return _with_line(frame, f"stage {step.name}: {what}, not visible yet",
                              f"{step.name} is being staged", at=STAGE)
        case Ratify():
            tables = units.count(len(step.proposals) + len(step.stands), "table")
            again = " once more" if grid.ratifications > 1 else ""
            return _with_line(frame, f"ratify{again}: {tables}, all or none",
                              f"does the catalog take all of {tables}?", at=RATIFY)
        case AskOutcome():
            return _with_line(frame, "ask: no answer from the catalog, was it ratified?",
                              "no answer, was it ratified?", at=RATIFY)
        case GroupCommitted():
            tables = units.count(len(grid.rows), "table")
            return _with_line(frame, f"committed as transaction {step.seq}: all of {tables}, at once",
                              f"transaction {step.seq} is yours", at=WON)
        case Publish():
            where = f"v{step.version} into its folder" if grid.row(step.name).has_versions else \
                "nothing to do, its readers follow the catalog"
            return _with_line(frame, f"publish {step.name}: {where}", f"{step.name} is being published",
                              at=PUBLISH)
        case GroupFailed():
            return _failed(frame, step)
    return _with_line(frame, type(step).__name__, at=frame.at)


def done(frame: GroupFrame, grid: GroupCommit) -> GroupFrame:
    """The frame after the last step of a commit that landed."""
    frame = replace(frame, number=frame.number + 1, is_rival=False, grid=grid, state="committed")
    behind = [row.name for row in grid.rows if row.cells[-1].sign == "✕"]
    words = f"unpublished: {', '.join(behind)}; a later commit publishes it" if behind else \
        "every version is in its folder"
    return _with_line(frame, f"done: {words}", f"committed as transaction {grid.seq}", at=PUBLISH)


def abandoned(frame: GroupFrame, grid: GroupCommit, why: str) -> GroupFrame:
    """The last frame of a commit that was given up between two steps."""
    state = "abandoned" if grid.state in ("running", "failed", "abandoned") else grid.state
    frame = replace(frame, number=frame.number + 1, is_rival=False, grid=grid, state=state)
    outcome = {"committed": f"transaction {grid.seq} is committed and stays",
               "unknown": "ask the catalog for its outcome"}.get(state, "nothing of any table was written")
    return _with_line(frame, f"abandoned: {why}, {outcome}", f"abandoned, {outcome}", at=frame.at)


def rival(frame: GroupFrame, writer: str, did: str, moved: str) -> GroupFrame:
    """The frame after another writer committed: what it did, and which versions came of it."""
    writer = units.fit(units.clean(writer), MAX_WRITER)
    return _with_line(replace(frame, is_rival=True), f"{writer}: {did}, {moved}",
                      f"{writer} has {moved} now", at=frame.at)


def _member(frame: GroupFrame, name: str, step: Step, reply: Any) -> GroupFrame:
    match step:
        case Prepared():
            is_read = frame.grid.row(name).operation == "READ"
            what = "only read" if is_read else units.count(step.num_actions, "action")
            return _with_line(frame, f"prepare {name}: {what}, read v{step.read_version}",
                              f"{name} is prepared", at=PREPARE)
        case ReadWinner() if isinstance(reply, Refused):
            return _with_line(frame, f"refused: {name} has v{step.version} already, who wrote it?",
                              f"refused, {name} has moved", at=REFUSED)
        case ReadWinner():
            return _with_line(frame, f"next {name}: is v{step.version} taken too?",
                              f"is v{step.version} of {name} taken too?", at=CHECK)
        case Recognised():
            return _with_line(frame, f"found {name}: v{step.version} is your own, its answer was lost",
                              f"v{step.version} of {name} is your own", at=REFUSED)
        case Lost():
            who = units.clean(f"{step.winner.commit_info.user_name or ''} {step.winner.operation}".strip())
            return _with_line(frame, f"lost {name}: v{step.version} exists ({units.fit(who, MAX_WRITER)})",
                              f"v{step.version} of {name} exists ({units.fit(who, MAX_WRITER)})", at=REFUSED)
        case Checked():
            objection = next((check for check in step.checks if check.state == "failed"), None)
            if objection is not None:
                return _with_line(frame, f"check {name}: conflict with v{step.version}, {objection.title}",
                                  f"v{step.version} of {name} is in conflict with you", at=CHECK)
            return _with_line(frame, f"check {name}: no conflict with v{step.version}",
                              f"no conflict with v{step.version} of {name}", at=CHECK)
        case Rebased():
            last = step.next_version - 1
            return _with_line(frame, f"again {name}: it is based on v{last} now, it alone is staged again",
                              f"on to v{step.next_version} of {name}", at=CHECK)
        case Backoff():
            return _with_line(frame, f"wait {name}: before attempt {step.attempt + 1}", at=CHECK)
        case Failed() if isinstance(step.error, TransactionAbandoned | GivenUp):
            return _with_line(frame, f"abandon {name}: what it staged is deleted", f"{name} is given up",
                              at=frame.at)
        case Failed():
            kind = type(step.error).__name__.removesuffix("Exception")
            return _with_line(frame, f"fail {name}: {kind}", f"{name} failed, {kind}", at=frame.at)
        case Committed():
            return _with_line(frame, f"tell {name}: v{step.version} is its newest version",
                              f"v{step.version} of {name} is yours", at=WON)
        case Stood():
            return _with_line(frame, f"tell {name}: nobody changed it, it is still v{step.version}",
                              f"{name} is still v{step.version}", at=WON)
    return _with_line(frame, f"{type(step).__name__} {name}", at=frame.at)


def _failed(frame: GroupFrame, step: GroupFailed) -> GroupFrame:
    kind = type(step.error).__name__.removesuffix("Exception")
    where = f" at {step.name}" if step.name else ""
    outcome = "ask the catalog for its outcome" if step.may_have_landed else \
        "nothing of any table was written"
    frame = replace(frame, state="unknown" if step.may_have_landed else "failed")
    return _with_line(frame, f"failed{where}: {kind}, {outcome}", f"failed{where} ({kind})", at=frame.at)


def _with_line(frame: GroupFrame, words: str, headline: str = "", at: int = READ) -> GroupFrame:
    """The frame with this line as its newest, also appended to its events."""
    line = words if frame.is_rival else f"{frame.number} {words}"
    line = units.fit(units.clean(line), units.MAX_COLUMNS)
    events = (*frame.events, line)[-MAX_EVENTS:]
    return replace(frame, line=line, headline=units.clean(headline or words), at=at, events=events,
                   num_events=frame.num_events + 1)
