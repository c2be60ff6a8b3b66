"""Many tables, one commit: the algorithm, once.

Rule 1: everything that decides what happens next in a commit of several tables is in :func:`group_steps`.
Rule 2: like ``commit.py`` this file does no I/O. The generator yields a step and takes its reply.

Theory of operation. Each table that is written is a member: the steps of its own commit
(:func:`~deltanb.transaction.commit.commit_steps`), driven until it waits at its put. All bodies are staged
where no reader looks, then one ratification decides for all. Members that lost get the reply "exists": they
read their winners, are checked and rebased, and stage again; the others go on waiting with their files. A
table that was only read is a member, too (:func:`stand_steps`): it ends in an assertion of its version, so
that no transaction commits on what another has changed meanwhile (write skew). A conflict of one ends all.

Where two or more Delta tables are written, and all of them have the table feature
``multiTableTransaction-dev``, they form a transaction group (delta-io/delta#7438): the commit of each names
all of them and their versions. So all versions have to be known before the first body is made, and after a
lost race all bodies of the group are made and staged again, not just that of the table that lost. Iceberg
tables and tables that were only read are in no group, and take part as ever. By the proposal every
participant has the feature, and a group lists every participant; so where a written Delta table lacks the
feature, no commit names a group, and the tables are committed together as ever. :class:`Grouped` reports
either.

Three outcomes, as for one table: committed, conflicted, unknown-then-resolved. After a ratification without
an answer the outcome is asked, and while it is open no member gets the reply that nothing was written.

==============  =======================================================================
step            reply
==============  =======================================================================
MemberStep      as the member's own step asks
Stage           where the body lies (any value but None); an exception: it is not there
Ratify          :class:`Ratified`, :class:`Refused`, or a ``DeltaError``: nothing was committed; any
                other exception or ``None``: unknown
AskOutcome      :class:`Ratified`; ``False``: it was not ratified and will not be; an exception or
                ``None``: that is not known either
Publish         ignored: a version that is ratified is committed, and anybody may publish it
others          none
==============  =======================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn

from deltanb.actions import Participant, TransactionGroup
from deltanb.errors import (
    CommitOutcomeUnknown,
    DeltaError,
    InvalidArgument,
    StorageError,
    TransactionAbandoned,
    add_note,
)
from deltanb.transaction.commit import MAX_UNKNOWN_PUTS, Run, rebase_steps, too_many
from deltanb.transaction.current import CurrentTransaction
from deltanb.transaction.steps import (
    Committed,
    Join,
    Lost,
    Prepared,
    PutIfAbsent,
    ReadWinner,
    Rejoin,
    Step,
    Winner,
)

__all__ = ["AskOutcome", "GroupCommitted", "GroupFailed", "Grouped", "Member", "MemberStep", "Publish",
           "Ratified", "Ratify", "Refused", "Stage", "Stand", "Stood", "group_steps", "stand_steps"]


# -- steps and replies -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Stand(Step):
    """The last step of a table that was only read: ``version`` is still its newest."""

    version: int


@dataclass(frozen=True)
class Stood(Step):
    """A table that was only read still stood at ``version`` when the others were committed."""

    version: int


@dataclass(frozen=True)
class MemberStep(Step):
    """A step of one table's own commit, which asks or reports."""

    name: str
    step: Step

    @property
    def asks(self) -> bool:  # type: ignore[override]
        """As the table's step."""
        return self.step.asks


@dataclass(frozen=True)
class Grouped(Step):
    """The commits that are staged next name ``group``; or none, where tables are ``without`` the feature."""

    group: TransactionGroup | None
    without: tuple[str, ...] = ()


@dataclass(frozen=True)
class Stage(Step):
    """Write the body of a version where no reader looks."""

    name: str
    version: int
    body: bytes
    asks: ClassVar[bool] = True


@dataclass(frozen=True)
class Ratify(Step):
    """Make all proposals the newest versions of their tables, if each follows the newest one and all
    assertions hold; or none of them.

    ``proposals`` are (table, version, what :class:`Stage` was answered), ``stands`` (table, version).
    """

    txn_id: str
    proposals: tuple[tuple[str, int, Any], ...]
    stands: tuple[tuple[str, int], ...]
    asks: ClassVar[bool] = True
    may_land: ClassVar[bool] = True


@dataclass(frozen=True)
class AskOutcome(Step):
    """Whether the transaction was ratified; asked where its ratification was not answered."""

    txn_id: str
    asks: ClassVar[bool] = True
    may_land: ClassVar[bool] = True


@dataclass(frozen=True)
class GroupCommitted(Step):
    """All tables are committed, as the catalog's transaction ``seq``; ``versions`` by table."""

    is_success: ClassVar[bool] = True
    txn_id: str
    seq: int
    versions: Mapping[str, int]


@dataclass(frozen=True)
class Publish(Step):
    """Put a ratified version into its table's log."""

    name: str
    version: int
    asks: ClassVar[bool] = True


@dataclass(frozen=True)
class GroupFailed(Step):
    """The transaction ends with ``error``, which came from the table ``name`` (None: from all of them).

    Nothing was committed, unless it ``may_have_landed``.
    """

    name: str | None
    error: BaseException
    may_have_landed: bool = False


@dataclass(frozen=True)
class Ratified:
    """All proposals are committed; ``seq`` is the transaction's place in the catalog's order."""

    seq: int


@dataclass(frozen=True)
class Refused:
    """Nothing is committed: the tables in ``latest`` have newer versions than was proposed or asserted."""

    latest: Mapping[str, int]


@dataclass(frozen=True)
class Member:
    """A table of the transaction; ``table_id`` gives the order in which tables are locked.

    ``joins`` is true of a Delta table that is written: a transaction group lists all of these.
    """

    name: str
    table_id: str
    steps: Generator[Step, Any, Step]
    joins: bool = False


GroupSteps = Generator[Step, Any, GroupCommitted]


# -- a table that was only read --------------------------------------------------------------------


def stand_steps(
    current: CurrentTransaction, *, max_attempts: int, clock: Callable[[], int],
) -> Generator[Step, Any, Step]:
    """The steps of a table that was read and is not written: winners are checked against the reads, then
    its newest version is asserted.

    ``current`` holds the reads and no actions. It has to be prepared as one that changes data: what was read
    here decided what is written elsewhere.

    Raises:
        DeltaConcurrentModificationException: a winner contradicts the reads.
        MaxCommitRetriesExceeded: the table went on to be changed.
    """
    run = Run(current, True, clock())
    yield Prepared(current.read_version, current.isolation, current.is_blind_append, 0,
                   current.operation.name)
    while not (yield Stand(run.version - 1)):
        winner = Winner.of(run.version, (yield ReadWinner(run.version)))
        if winner is None:
            raise StorageError(f"table {current.table}: version {run.version} is there and cannot be read; "
                               "nothing was committed", version=run.version)
        yield Lost(run.version, run.attempt, winner)
        if run.attempt >= max_attempts:
            raise too_many(current, run.version, run.attempt, clock() - run.started)
        run.attempt += 1
        yield from rebase_steps(run, winner, clock)
    stood = Stood(run.version - 1)
    yield stood
    return stood


# -- all of them -----------------------------------------------------------------------------------


@dataclass
class _Group:
    """How far the members are: the step each waits at, and what was staged of it."""

    members: Mapping[str, Member]
    txn_id: str
    catalog: str
    at: str | None = None
    """The member that is being driven."""
    joined: tuple[str, ...] | None = None
    """The members whose commits name each other; None before that is known."""
    waits: dict[str, Join | PutIfAbsent | Stand] = field(default_factory=dict)
    staged: dict[str, Any] = field(default_factory=dict)
    ended: dict[str, Step] = field(default_factory=dict)
    """What members returned that have ended."""
    may_have_landed: bool = False
    """Whether a ratification was begun whose outcome is unknown."""

    def action(self) -> TransactionGroup | None:
        """What the commits of all that joined say of them, by the versions that they wait with."""
        if not self.joined:
            return None
        return TransactionGroup(self.txn_id, tuple(
            Participant(self.members[name].table_id, self.waits[name].version) for name in self.joined),
            self.catalog)

    def versions(self) -> dict[str, int]:
        """The versions that are written, by table."""
        steps: dict[str, Step] = {**self.ended, **self.waits}
        return {name: steps[name].version for name in self.members  # type: ignore[attr-defined]
                if isinstance(steps.get(name), PutIfAbsent | Committed)}


def group_steps(members: Sequence[Member], txn_id: str, catalog: str = "") -> GroupSteps:
    """Yield the steps of one commit of several tables and take their replies; return the last one but the
    publications.

    Args:
        members: the tables, written or only read; one of each.
        txn_id: the id that all of their commits carry.
        catalog: the name of the catalog that ratifies them, for their transaction group.

    Raises:
        DeltaError: a table's commit failed, as :func:`~deltanb.transaction.commit.commit_steps` says; nothing
            of any table was committed, and the others were ended by ``TransactionAbandoned``.
        CommitOutcomeUnknown: the catalog can neither ratify nor say what it did.
        InvalidArgument: no member, or one table twice.
    """
    by_name = {member.name: member for member in sorted(members, key=lambda m: m.table_id)}
    if not by_name or len({member.table_id for member in members}) < len(members):
        raise InvalidArgument("a transaction has at least one table, and each once; found "
                              + (", ".join(member.name for member in members) or "none"))
    group = _Group(by_name, txn_id, catalog)
    verdict: Ratified | Refused
    interrupt: BaseException | None = None
    try:
        for name in by_name:
            yield from _drive(group, name, None)
        while True:
            if group.ended:  # a member met its own commit: an earlier ratification landed after all
                group.may_have_landed = True
                verdict = (yield from _outcome(group, txn_id)) or _unknown(txn_id)
            else:
                yield from _join(group)
                verdict, interrupt = yield from _ratify(group, txn_id)
            if isinstance(verdict, Ratified):
                break
            for name in [name for name in by_name if name in verdict.latest]:
                yield from _drive(group, name, False)
    except GeneratorExit:
        raise
    except BaseException as error:
        if group.may_have_landed and not isinstance(error, CommitOutcomeUnknown):
            add_note(error, f"it is unknown whether transaction {txn_id} was committed. Ask for its outcome "
                            "before running it again; its files were kept")
        culprit = group.at
        yield from _abandon(group, culprit, error)
        yield GroupFailed(culprit, error, group.may_have_landed)
        raise
    return (yield from _committed(group, txn_id, verdict.seq, interrupt))


def _drive(group: _Group, name: str, reply: Any) -> Generator[Step, Any, None]:
    """One member on from what it waits at, up to the next such place; its new body is staged."""
    group.at = name
    group.waits.pop(name, None)
    steps = group.members[name].steps
    tell: Callable[[Any], Step] = steps.send
    while True:
        try:
            step = tell(reply)
        except StopIteration as stop:
            group.ended[name], group.at = stop.value, None
            return
        if isinstance(step, Join | PutIfAbsent | Stand):
            group.waits[name] = step
            break
        try:
            reply, tell = (yield MemberStep(name, step)), steps.send
        except GeneratorExit:
            raise
        except BaseException as error:  # the member says what that means for it
            reply, tell = error, steps.throw
    if isinstance(step, PutIfAbsent):
        proposal = yield Stage(name, step.version, step.body)
        if proposal is None or isinstance(proposal, BaseException):
            if isinstance(proposal, DeltaError) or not isinstance(proposal, Exception | None):
                raise proposal
            raise StorageError(
                f"table {name}: version {step.version} could not be staged ({proposal}); nothing was "
                "committed", version=step.version, errno=getattr(proposal, "errno", None)) from proposal
        group.staged[name] = proposal
    group.at = None


def _join(group: _Group) -> Generator[Step, Any, None]:
    """Answer the members that ask for their transaction group; where its versions are new, all of it."""
    asking = [name for name, wait in group.waits.items() if isinstance(wait, Join)]
    if not asking:
        return
    if group.joined is None:
        written = tuple(name for name, member in group.members.items() if member.joins)
        without = tuple(name for name in written if name not in asking)
        group.joined = written if len(written) > 1 and not without else ()
        if without:
            yield Grouped(None, without)
    for name in group.joined:
        if name not in asking:
            yield from _drive(group, name, Rejoin())
    action = group.action()
    if action is not None:
        yield Grouped(action)
    for name in group.joined or asking:
        yield from _drive(group, name, action)


def _ratify(
    group: _Group, txn_id: str
) -> Generator[Step, Any, tuple[Ratified | Refused, BaseException | None]]:
    """What the catalog decided, and the interrupt that came before it could say so."""
    proposals = tuple((name, wait.version, group.staged[name]) for name, wait in group.waits.items()
                      if isinstance(wait, PutIfAbsent))
    stands = tuple((name, wait.version) for name, wait in group.waits.items() if isinstance(wait, Stand))
    for _ in range(MAX_UNKNOWN_PUTS):
        group.may_have_landed = True  # until its reply is understood
        try:
            reply = yield Ratify(txn_id, proposals, stands)
        except BaseException:  # it was not begun
            group.may_have_landed = False
            raise
        group.may_have_landed = not isinstance(reply, Ratified | Refused | DeltaError)
        if isinstance(reply, Ratified | Refused):
            return reply, None
        if isinstance(reply, DeltaError):
            raise reply
        outcome = yield from _outcome(group, txn_id, reply)
        interrupt = reply if isinstance(reply, BaseException) and not isinstance(reply, Exception) else None
        if outcome is not None:
            return outcome, interrupt
        if interrupt is not None:
            raise interrupt
    raise StorageError(
        f"transaction {txn_id}: the catalog did not ratify it in {MAX_UNKNOWN_PUTS} tries ({reply}), and "
        "says so; nothing was committed. Repair the catalog and run the transaction again",
        errno=getattr(reply, "errno", None)) from (reply if isinstance(reply, BaseException) else None)


def _outcome(
    group: _Group, txn_id: str, reply: object = None
) -> Generator[Step, Any, Ratified | None]:
    """What became of a ratification that nobody answered; None where it was refused.

    Raises:
        CommitOutcomeUnknown: that cannot be learnt.
    """
    answer: Any = None
    for _ in range(MAX_UNKNOWN_PUTS):
        answer = yield AskOutcome(txn_id)
        if answer is False or isinstance(answer, Ratified):
            group.may_have_landed = answer is not False
            return answer or None
        if isinstance(answer, BaseException) and not isinstance(answer, Exception):
            raise answer
    return _unknown(txn_id, next((e for e in (answer, reply) if isinstance(e, BaseException)), None))


def _unknown(txn_id: str, cause: BaseException | None = None) -> NoReturn:
    raise CommitOutcomeUnknown(
        f"the catalog does not say whether transaction {txn_id} was ratified"
        f"{f' ({cause})' if cause is not None else ''}. Ask for its outcome before running it again; its "
        "files were kept", version=None, txn_id=txn_id) from cause


def _abandon(
    group: _Group, culprit: str | None, error: BaseException
) -> Generator[Step, Any, None]:
    """End all members that wait: nothing was written, or nobody knows.

    Invariant: a member learns that its put was not begun only if no ratification can still land. An exception
    thrown in at the put means that; an OSError as reply to it, and to the question after it, leaves it open.
    """
    why = TransactionAbandoned(
        f"nothing was committed, since {f'table {culprit}' if culprit else 'the transaction'} failed: "
        f"{getattr(error, 'message', error)}", culprit=culprit)
    for name in list(group.waits):
        steps, wait = group.members[name].steps, group.waits.pop(name)
        leaves_open = group.may_have_landed and isinstance(wait, PutIfAbsent)
        tell, reply = (steps.send, OSError(str(error))) if leaves_open else (steps.throw, why)
        try:
            while True:
                step = tell(reply)
                if leaves_open and isinstance(step, PutIfAbsent | ReadWinner):
                    tell, reply = steps.send, OSError(str(error))
                else:
                    tell, reply = steps.send, (yield MemberStep(name, step))
        except StopIteration:
            pass
        except BaseException as ended:
            if ended is not why and not isinstance(ended, CommitOutcomeUnknown):
                add_note(error, f"table {name}: {ended}")


def _committed(
    group: _Group, txn_id: str, seq: int, interrupt: BaseException | None
) -> GroupSteps:
    """Tell all members that their versions are theirs, then have them published.

    An interrupt waits until all of them know.
    """
    done = GroupCommitted(txn_id, seq, group.versions())
    for name in list(group.waits):
        try:
            yield from _drive(group, name, True)
        except GeneratorExit:
            raise
        except BaseException as error:
            interrupt = interrupt or error
    try:
        yield done
        if interrupt is None:
            for name, version in done.versions.items():
                yield Publish(name, version)
    except GeneratorExit:
        raise
    except BaseException as error:
        interrupt = interrupt or error
    if interrupt is not None:
        add_note(interrupt, f"the transaction was committed despite the interruption (txnId {txn_id})")
        raise interrupt
    return done
