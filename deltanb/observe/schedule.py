"""Running commits step by step against each other: one writer's steps between another's.

What lives here: a writer that advances by one step of I/O, and the enumeration of every order of several
writers' steps. No threads, disks or sleeps: the log is a dict.
What it does not know: the expected order and result.

>>> log = {0: b""}
>>> put_again = lambda: [Writer(iter_of_one_put(1, b"a")), Writer(iter_of_one_put(1, b"b"))]
>>> sorted({tuple(w.outcome for w in run) for run, _ in interleavings(put_again, log)})
[(False, True), (True, False)]
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

from deltanb.transaction.steps import PutIfAbsent, ReadWinner, Step

Log = dict[int, bytes]
StepHandler = Callable[[Step, Log], Any]
"""Does what a step asks of the log, and returns the reply that the commit expects."""
MAX_RUNS = 200_000  # orders grow factorially; past this the history is too long to enumerate


def answer_from(step: Step, log: Log) -> Any:
    """The reply to a step of I/O, from a log that maps versions to their bytes; None to any other step."""
    match step:
        case PutIfAbsent():
            return log.setdefault(step.version, step.body) is step.body
        case ReadWinner():
            return log.get(step.version)
    return None


class Writer:
    """A commit that advances one step of I/O at a time.

    ``outcome`` is what the generator returned, or the error it ended with; None while it runs.
    """

    def __init__(self, steps: Generator[Step, Any, Any], answer: StepHandler = answer_from) -> None:
        self.steps = steps
        self.answer = answer
        self.trace: list[Step] = []
        self.outcome: Any = None
        self._reply: Any = None
        self._pending: Step | None = None

    @property
    def done(self) -> bool:
        """Whether the commit has ended."""
        return self.outcome is not None

    def advance(self, log: Log) -> None:
        """Answer the pending step, then run to the next step of I/O or to the end."""
        if self._pending is not None:
            self._reply = self.answer(self._pending, log)
        try:
            while True:
                step = self.steps.send(self._reply)
                self._reply = None
                self.trace.append(step)
                if step.asks:
                    self._pending = step
                    return
        except StopIteration as stop:
            self.outcome = stop.value
        except Exception as error:
            self.outcome = error


def interleavings(
    start: Callable[[], Sequence[Writer]], log: Log, max_runs: int = MAX_RUNS
) -> Iterator[tuple[Sequence[Writer], Log]]:
    """Every order in which the writers' steps of I/O can follow each other.

    Args:
        start: fresh writers for each run; called once per run.
        log: the versions at the start; each run gets a copy.
        max_runs: the largest number of orders.

    Yields:
        The finished writers and the log they left.

    Raises:
        OverflowError: more orders than ``max_runs``.
    """
    prefix: list[int] = []
    runs = 0
    while True:
        writers, ended, taken = start(), dict(log), []
        for depth in range(10_000):
            able = [i for i, w in enumerate(writers) if not w.done]
            if not able:
                break
            choice = prefix[depth] if depth < len(prefix) else 0
            taken.append((choice, len(able)))
            writers[able[choice]].advance(ended)
        yield writers, ended
        runs += 1
        if runs >= max_runs:
            raise OverflowError(f"more than {max_runs} orders; use fewer or shorter writers")
        while taken and taken[-1][0] + 1 == taken[-1][1]:
            taken.pop()
        if not taken:
            return
        prefix = [choice for choice, _ in taken]
        prefix[-1] += 1


def iter_of_one_put(version: int, body: bytes) -> Generator[Step, Any, bool]:
    """A writer of a single put, for examples: its outcome is the store's answer."""
    written = yield PutIfAbsent(version, body, 0, 1, "Serializable")
    return bool(written)
