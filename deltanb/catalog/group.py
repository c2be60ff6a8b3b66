"""The driver of a commit of several tables: it takes the steps and does what they ask for.

What lives here: :class:`GroupDrive`, which stages, ratifies and publishes for
:func:`~deltanb.transaction.group.group_steps`, and :class:`Participant`, its interface to each table.
What it does not know: the algorithm, and whether a table is a Delta or an Iceberg table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from deltanb.catalog import progress
from deltanb.catalog.limits import Limits
from deltanb.catalog.store.ratification import Asserted
from deltanb.errors import CommitOutcomeUnknown, DeltaError
from deltanb.options import writer_name
from deltanb.schema.features import GROUPS
from deltanb.text.safe_text import get_logger
from deltanb.transaction import drive, hooks
from deltanb.transaction.group import (
    AskOutcome,
    GroupCommitted,
    Grouped,
    GroupFailed,
    GroupSteps,
    MemberStep,
    Publish,
    Ratified,
    Ratify,
    Refused,
    Stage,
)
from deltanb.transaction.steps import Step

if TYPE_CHECKING:
    from deltanb.catalog.delta.managed import Ratifier
    from deltanb.catalog.store.names import TableName

__all__ = ["GroupDrive", "Participant"]

logger = get_logger("deltanb.catalog")


class Participant(Protocol):
    """A table in a commit of several: :class:`~deltanb.catalog.delta.managed.ManagedCommitter` is one."""

    name: TableName
    table_id: str

    def read(self, version: int) -> Any:
        """The winner at a version, for the table's own steps."""

    def stage(self, version: int, body: bytes) -> Any:
        """Write what is to be ratified; returns the proposal for the catalog."""

    def discard(self, proposal: Any) -> None:
        """Delete what was staged and certainly not ratified."""

    def written(self, proposal: Any) -> list[str]:
        """Files recorded as garbage that the ratification of the proposal takes back."""

    def asserted(self, version: int) -> Asserted:
        """The assertion for a table that was only read: that it has not moved."""

    def refusal(self, latest: object, version: int) -> DeltaError | None:
        """Why no attempt at a version can succeed; None if it just lost a race."""

    def publish(self, version: int) -> None:
        """Make a ratified version visible to readers that do not ask the catalog."""


class GroupDrive(drive.Drive):
    """A commit of several tables driven by hand: each :meth:`advance` does what its step asks for.

    Staged files that were certainly not ratified are deleted: those of a table that lost and stages again,
    and all of them if the commit fails. Those with an unknown outcome stay.
    """

    committed: GroupCommitted | None

    def __init__(
        self, steps: GroupSteps, members: Mapping[str, Participant], catalog: Ratifier, summary: str,
        grid: progress.GroupCommit | None = None, limits: Limits | None = None,
    ) -> None:
        super().__init__(steps, catalog)
        self.members, self.summary, self.limits = members, summary, Limits.of(limits)
        self.progress = progress.begun("", dict.fromkeys(members, "")) if grid is None else grid
        """How far each table is, after the step it stands at."""
        self._staged: dict[str, Any] = {}

    def _move(self, tell: Callable[[Any], Step], reply: Any) -> None:
        before, seen = self.step, reply if tell == self.steps.send else None
        super()._move(tell, reply)
        if isinstance(self.step, GroupFailed) and not self.step.may_have_landed:
            for name in list(self._staged):
                self._discard(name)
        if isinstance(self.step, Grouped) and self.step.group is None:
            logger.info("No commit of the transaction names its other tables: %s lacks the table feature %s",
                        ", ".join(self.step.without), GROUPS)
        self.progress = progress.after(self.progress, self.step, before, seen)

    def _answer(self, step: Step, catalog: Ratifier) -> Any:
        match step:
            case MemberStep():
                return drive.answer(step.step, self.members[step.name])  # type: ignore[arg-type]
            case Stage():
                self._discard(step.name)
                staged = self._staged[step.name] = self.members[step.name].stage(step.version, step.body)
                return staged
            case Ratify():
                return self._ratified(step, catalog)
            case AskOutcome():
                return catalog.outcome(step.txn_id) or False
            case Publish():
                return hooks.publish(self.members[step.name], step.version)  # type: ignore[arg-type]
        raise AssertionError(step)

    def _discard(self, name: str) -> None:
        if name in self._staged:
            self.members[name].discard(self._staged.pop(name))

    def _ratified(self, step: Ratify, catalog: Ratifier) -> Ratified | Refused | Exception:
        expected = {name: version for name, version, _ in step.proposals}
        expected |= {name: version + 1 for name, version in step.stands}
        stands = [self.members[name].asserted(version) for name, version in step.stands]
        written = [path for name, _, staged in step.proposals for path in self.members[name].written(staged)]
        try:
            with self.limits.began():  # steps take their time; a database that is locked may not
                verdict = catalog.ratify(
                    step.txn_id, writer_name(), [staged for _, _, staged in step.proposals], stands,
                    written=written, summary=self.summary)
        except CommitOutcomeUnknown as error:
            logger.warning("Ratifying transaction %s: %s; asking what became of it", step.txn_id, error)
            return OSError(str(error))
        if isinstance(verdict, Ratified):
            return verdict
        latest = {name: verdict.latest[member.table_id] for name, member in self.members.items()
                  if member.table_id in verdict.latest}
        for name, version in latest.items():
            if (refusal := self.members[name].refusal(version, expected[name])) is not None:
                return refusal
        return Refused(latest)  # type: ignore[arg-type]
