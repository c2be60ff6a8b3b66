"""A crowd of writers on one table, simulated: commits a second, puts a commit, and how long they wait.

    python -m tests.benchmarks.crowd [--writers N ...] [--write]

The commits are the real ones: ``commit_steps`` with its conflict rules decides what each writer does next.
What is simulated is time and the store: a request takes a latency drawn around the one that was measured,
and a put takes effect in the middle of it. So a thousand writers take no longer than their commits do to
compute, and every run gives the same numbers.

``--write`` puts the tables and the drawing into ``docs/how-far.md``. pytest never collects this file.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import json
import random
from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deltanb.actions import AddFile
from deltanb.options import MAX_COMMIT_ATTEMPTS
from deltanb.store.drafts import POLL
from deltanb.testing import MemoryStore, TableBuilder
from deltanb.transaction.commit import commit_steps
from deltanb.transaction.current import CurrentTransaction
from deltanb.transaction.operations import Operation
from deltanb.transaction.steps import Backoff, PutIfAbsent, ReadWinner, Winner

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-far.md"
BEGIN, END = "<!-- crowd: python -m tests.benchmarks.crowd --write -->", "<!-- /crowd -->"
WRITERS = 1, 4, 16, 64, 250, 1000
SPREAD = 0.3
"""By how much a latency differs from the usual one, either way."""
Life = Generator[float | None, None, None]


@dataclass(frozen=True)
class Place:
    """Where the log is: seconds that a put and a read take, and whether writers take turns there."""

    name: str
    put: float
    read: float
    has_turns: bool = False


BUCKET = Place("a bucket, 30 ms a request", 0.030, 0.030)
DISK = Place("a local disk, 0.1 ms", 0.0001, 0.0001, has_turns=True)


@dataclass
class Outcome:
    """What became of a crowd: seconds that passed, and of each commit its writer, attempts and seconds."""

    writers: int
    seconds: float = 0.0
    commits: list[tuple[int, int, float]] = field(default_factory=list)
    requests: int = 0

    @property
    def rate(self) -> float:
        """Commits a second."""
        return len(self.commits) / self.seconds

    @property
    def attempts(self) -> float:
        """Puts a commit, on average."""
        return sum(tried for _, tried, _ in self.commits) / len(self.commits)

    def within(self, part: float) -> float:
        """The seconds within which this part of the commits was made."""
        waits = sorted(seconds for *_, seconds in self.commits)
        return waits[min(len(waits) - 1, int(part * len(waits)))]

    @property
    def fairness(self) -> float:
        """Jain's index over the commits of each writer: 1 where all have as many, 1/n where one has all."""
        counts = Counter(writer for writer, *_ in self.commits)
        return len(self.commits) ** 2 / (self.writers * sum(count ** 2 for count in counts.values()))


class Crowd:
    """Writers that append, each again as soon as its commit before was made.

    Args:
        place: where they meet.
        commits: how many there are, of all writers together.
        backoff: seconds before a retry, as the option of this name takes it.
    """

    def __init__(
        self, writers: int, place: Place, *, commits: int, backoff: Callable[[int], float] | None = None,
        seed: int = 0,
    ) -> None:
        self.place, self.most, self.backoff = place, commits, backoff
        self.log: dict[int, Winner] = {}
        self.outcome = Outcome(writers)
        self.now = 0.0
        self._draw = random.Random(seed)
        self._number = 0
        self._events: list[tuple[float, int, Life]] = []
        self._queue: list[Life] = []
        self._is_taken = False
        txn = TableBuilder(MemoryStore()).create("id long").log.start_transaction()
        txn.commit_steps([_file("first")], Operation("WRITE")).close()
        assert txn.prepared is not None
        self._template = txn.prepared
        self._latest = self._template.read_version

    def run(self) -> Outcome:
        """What became of them when there are so many commits."""
        for writer in range(self.outcome.writers):
            self._wake(self._draw.random() * self.place.put, self._life(writer))
        while len(self.outcome.commits) < self.most:
            self.now, _, life = heapq.heappop(self._events)
            pause = next(life)
            if pause is None:
                self._queue.append(life)
            else:
                self._wake(self.now + pause, life)
        self.outcome.seconds = self.now
        return self.outcome

    def _wake_waiting(self) -> None:
        """Those who wait look again: a version is taken, or the turn is free."""
        waiting, self._queue = self._queue, []
        for life in waiting:
            self._wake(self.now + POLL * self._draw.random(), life)

    def _wake(self, when: float, life: Life) -> None:
        self._number += 1  # of two that wake at once the one that began to wait first
        heapq.heappush(self._events, (when, self._number, life))

    def _life(self, writer: int) -> Life:
        """The seconds that a writer waits for, one after the other; None waits for its turn, or for a
        version to be taken."""
        for number in itertools.count():
            began = self.now
            yield self._asked(self.place.read)  # a listing
            current = self._prepared(f"{writer}-{number}")
            yield self._asked(self.place.put)  # the data file
            attempts = yield from self._commit(current)
            if self.place.has_turns:
                self._is_taken = False
                self._wake_waiting()
            self.outcome.commits.append((writer, attempts, self.now - began))

    def _commit(self, current: CurrentTransaction) -> Generator[float | None, None, int]:
        """How many attempts a commit takes."""
        steps = commit_steps(current, max_attempts=MAX_COMMIT_ATTEMPTS, clock=lambda: 0, backoff=self.backoff)
        reply: Any = None
        while True:
            try:
                step = steps.send(reply)
            except StopIteration as ended:
                return int(ended.value.attempts)
            reply = None
            if isinstance(step, Backoff):
                yield step.seconds
            elif isinstance(step, PutIfAbsent):
                if self.place.has_turns:
                    while self._is_taken and step.version not in self.log:
                        yield None
                    if step.version in self.log:
                        reply = False
                        continue
                    self._is_taken = True
                half = self._asked(self.place.put) / 2
                yield half
                reply = step.version not in self.log
                if reply:
                    self.log[step.version], self._latest = Winner(step.version, step.actions), step.version
                    self._wake_waiting()
                yield half
            elif isinstance(step, ReadWinner):
                yield self._asked(self.place.read)
                reply = self.log.get(step.version)

    def _asked(self, usual: float) -> float:
        """How long a request takes."""
        self.outcome.requests += 1
        return usual * self._draw.uniform(1 - SPREAD, 1 + SPREAD)

    def _prepared(self, name: str) -> CurrentTransaction:
        """An append of a file, prepared on the latest version."""
        info = self._template.commit_info.replace(txn_id=name)
        return self._template.replace(txn_id=name, read_version=self._latest, commit_info=info,
                                      actions=[info, _file(name)])


def _file(name: str) -> AddFile:
    return AddFile(path=f"part-{name}.parquet", size=1, modification_time=1)


def random_backoff(place: Place, seed: int = 1) -> Callable[[int], float]:
    """What is usually advised: a random share of twice as long each time, up to a bound."""
    draw = random.Random(seed)
    return lambda attempt: draw.random() * place.put * min(64, 2 ** min(attempt, 6))


WAYS: dict[str, tuple[Place, Callable[[Place], Callable[[int], float]] | None]] = {
    "a bucket": (BUCKET, None),
    "a bucket, random backoff": (BUCKET, random_backoff),
    "a local disk": (DISK, None),
}
HEAD = ("| writers | commits a second | puts a commit | requests a commit | half of the commits within "
        "| 99 % within | fairness |\n|---|---|---|---|---|---|---|")


def crowd(way: str, writers: int) -> Outcome:
    """One of the cases, with so many commits that all writers have some."""
    place, backoff = WAYS[way]
    return Crowd(writers, place, commits=max(200, 4 * writers), backoff=backoff and backoff(place)).run()


def row(outcome: Outcome) -> str:
    """A line of the table."""
    cells = (f"{outcome.writers:,}", f"{outcome.rate:,.0f}", f"{outcome.attempts:.1f}",
             f"{outcome.requests / len(outcome.commits):,.0f}", seconds(outcome.within(0.5)),
             seconds(outcome.within(0.99)), f"{outcome.fairness:.2f}")
    return f"| {' | '.join(cells)} |"


def seconds(value: float) -> str:
    """A time, as one says it."""
    if value >= 1:
        return f"{value:.1f} s"
    return f"{value * 1000:.0f} ms" if value >= 0.01 else f"{value * 1000:.1f} ms"


def drawing(title: str, axis: str, values: list[list[float]]) -> str:
    """Lines over the number of writers, as Mermaid draws them."""
    lines = [f"    line {json.dumps([round(value, 1) for value in line])}" for line in values]
    return "\n".join(("```mermaid", "xychart-beta", f'    title "{title}"',
                      f"    x-axis \"writers\" {json.dumps(list(map(str, WRITERS)))}",
                      f'    y-axis "{axis}"', *lines, "```"))


def page(outcomes: dict[str, list[Outcome]]) -> str:
    """The tables, and the drawing of two of them."""
    parts = []
    for way, some in outcomes.items():
        parts += [f"**{way[0].upper()}{way[1:]}**", "\n".join((HEAD, *map(row, some)))]
    drawn = [[one.rate for one in outcomes[way]] for way in WAYS if WAYS[way][0] is BUCKET]
    parts.append(drawing("A bucket: tried again at once (above), after a random backoff (below)",
                         "commits a second", drawn))
    return "\n\n".join(parts)


def main() -> None:
    """Print the tables, or put them into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--writers", type=int, nargs="*", default=WRITERS)
    parser.add_argument("--write", action="store_true")
    chosen = parser.parse_args()
    text = page({way: [crowd(way, writers) for writers in chosen.writers] for way in WAYS})
    if not chosen.write:
        print(text)
        return
    before, begin, rest = PAGE.read_text("utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    PAGE.write_text(f"{before}{begin}\n{text}\n{end}{after}", "utf-8")


if __name__ == "__main__":
    main()
