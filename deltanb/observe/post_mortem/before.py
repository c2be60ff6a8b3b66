"""How often the two sides met in the history, and at which hours: when they are likeliest to meet again.

What lives here: :func:`met_before`, which counts the meetings of the job's writer and operation with the
winner's.
What it does not know: what a meeting is (``observe/meetings``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from deltanb.errors import DeltaError
from deltanb.log.history import History, HistoryEntry, between
from deltanb.observe.meetings import Contender, contender_of, meet
from deltanb.observe.post_mortem.evidence import Job
from deltanb.observe.post_mortem.judge import Judgement
from deltanb.observe.post_mortem.report import MetBefore
from deltanb.observe.tracks import operation_of, writer_of

if TYPE_CHECKING:
    from deltanb.log.reader import LogReader

MAX_COMMITS = 1_000
"""Commits before the winner that are looked at: weeks of most tables, and seconds of a log in a bucket."""
MAX_VERSIONS = 10  # of meetings that are listed, the latest
LOST = ("failed", "would fail")
BY_COMMITS = "no meeting is recorded: these are the hours at which both commit"

Side = Callable[[Contender], bool]


def met_before(log: LogReader, job: Job, judged: Judgement) -> MetBefore | None:
    """The meetings of the same two sides before the job failed; None if the job's side is not known.

    A side is a writer and an operation, as far as they are known of the job. Where none of their meetings is
    recorded, the hours are those at which both commit.
    """
    operation, writer = job.commit_info().operation, job.value("writer")
    culprit = judged.culprit
    if culprit is None or culprit not in judged.commits or (operation is None and writer is None):
        return None
    try:
        entries = _entries(log, judged, max(min(judged.names), culprit - MAX_COMMITS + 1), culprit)
        meetings = meet(History(entries, log))
    except (DeltaError, OSError) as error:
        job.remarks.append(f"how often the two met before is not known: {str(error).splitlines()[0]}")
        return None
    winner = next((contender_of(entry) for entry in entries if entry.version == culprit), None)
    if winner is None:
        return None
    our_operation = operation and operation_of(operation)  # by the names that contenders have
    our_writer = writer and writer_of(writer, None)

    def is_theirs(one: Contender) -> bool:
        return (one.writer, one.operation) == (winner.writer, winner.operation)

    def is_ours(one: Contender) -> bool:
        return our_writer in (None, one.writer) and our_operation in (None, one.operation)

    both = [one for one in meetings if one.winner.version != culprit and (
        (is_theirs(one.winner) and is_ours(one.loser)) or (is_ours(one.winner) and is_theirs(one.loser)))]
    hours = Counter(one.hour for one in both if one.hour is not None)
    earlier = [one for one in entries if one.version < culprit]
    note = ""
    if not both:
        hours, note = _hours_of_both(earlier, is_ours, is_theirs), BY_COMMITS
    ours = " ".join(str(part) for part in (operation, f"by {writer}" if writer else None) if part)
    versions = [(one.winner.version or 0, one.loser.version or 0) for one in both[-MAX_VERSIONS:]]
    return MetBefore(
        (f"{winner.operation} by {winner.writer}", ours), len(both), sum(one.outcome in LOST for one in both),
        dict(sorted(hours.items())), len(earlier), tuple(versions), note if hours or both else "")


def _entries(log: LogReader, judged: Judgement, first: int, last: int) -> list[HistoryEntry]:
    """The commits of a range, or those behind the last of them that cannot be read."""
    try:
        return between(log, first, last)
    except DeltaError:
        judged.read_ahead(first, last)
        for version in range(last, first - 1, -1):
            try:
                judged.recorder.commit(version)
            except DeltaError:
                return between(log, version + 1, last)
        raise


def _hours_of_both(entries: Sequence[HistoryEntry], is_ours: Side, is_theirs: Side) -> Counter[Any]:
    """How often both sides commit, by hour: of the two the rarer one counts."""
    sides = [(contender_of(entry), entry.time.hour) for entry in entries]
    ours, theirs = (Counter(hour for one, hour in sides if belongs(one)) for belongs in (is_ours, is_theirs))
    return Counter({hour: min(ours[hour], theirs[hour]) for hour in ours if theirs[hour]})
