"""What a timeline shows, and where: the same for the chart, the SVG and the text.

What lives here: the strip, the lanes, the window, and all of their words.
What it does not know: Vega-Lite, SVG, logs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import ClassVar

from deltanb.notebook.drawing import layout, text
from deltanb.observe.tracks import KINDS, WHOLE_TABLE, Mark, Track
from deltanb.text import formatting as units

SESSION = "attempts seen in this session"
JOURNAL = f"{SESSION} or kept in the journal"
MAX_TEXT_ROWS = 10  # transactions named in the text form
MAX_OPERATION = 22  # characters of an operation beside a line
MAX_SIGNS = 100  # ○ and ✕ each above a strip: more would lie on each other
LOG_FROM = 12  # times the usual bar that the tallest one is: beside it the usual ones would be a few pixels
ENDS = {"failed": "failed, nothing was written", "abandoned": "given up, nothing was written",
        "unknown": "it is unknown whether it was committed"}
SMALL = 30  # transactions that are seen at one glance, without a strip of all of them above
MAX_LABELLED = 12  # transactions up to which each one's doing stands beside its line
MAX_LOST = 3  # versions of lost races named one by one on a line of text
MAX_CROSSES = 600  # ✕ in the lanes: where everyone loses all the time, each line has its last ones
MAX_WRITER = 18  # characters of a writer's name at its lane, or on a line of text
MAX_MARGIN = 0.4  # of the window's width: what the words of remarks get at its end
CLEARANCE = 0.1
LABEL_SHARE = 1 / 84  # of the window's width a capital letter of a label takes: 7.6 of 640 pixels


@dataclass(frozen=True)
class Scene:
    """Everything drawn of some transactions of a table."""

    table: str
    tracks: Sequence[Track]
    marks: Mapping[int | str | None, Mark] = field(default_factory=dict)
    title: str = ""
    writers: Sequence[str] = ()
    """Whose lanes come first, from top to bottom; then whoever committed first."""
    errors: Sequence[str] = ()
    """What went wrong beside the transactions, a sentence each."""
    unit: ClassVar[str] = "version"
    """What the axis counts."""
    tips: ClassVar[tuple[str, ...]] = (
        "version", "read version", "operation", "writer", "predicate", "files", "bytes", "retries", "lost to")
    """What a tooltip says of a transaction."""

    # -- words -----------------------------------------------------------------------------------

    @cached_property
    def commits(self) -> list[Track]:
        """The commits, oldest first."""
        return [track for track in self.tracks if track.is_committed]

    @cached_property
    def failed(self) -> list[Track]:
        """The transactions that committed nothing."""
        return [track for track in self.tracks if not track.is_committed]

    @cached_property
    def races(self) -> list[int]:
        """The versions that a transaction lost to another one before it committed a later version."""
        return [version for track in self.commits for version in track.lost or ()]

    @cached_property
    def order(self) -> list[str]:
        """The owners of lanes, from top to bottom: those asked for, then by first commit."""
        firsts = {track.writer: track.version for track in reversed(self.tracks)}
        firsts |= {track.writer: track.version for track in reversed(self.commits)}
        return [*self.writers, *sorted(firsts.keys() - set(self.writers), key=lambda name: (
            firsts[name], name))]

    @property
    def is_small(self) -> bool:
        """Whether it is small enough to be shown without a strip."""
        return len(self.tracks) <= SMALL

    @property
    def versions(self) -> str:
        """The versions shown, in words."""
        known = [track.version for track in self.commits]
        if not known:
            return "no commits"
        return f"v{known[0]}" if len(known) == 1 else f"v{known[0]} to v{known[-1]}"

    @property
    def headline(self) -> str:
        """How many commits there are, and by whom."""
        writers = {track.writer for track in self.commits}
        by = f"by {next(iter(writers))}" if len(writers) == 1 else f"by {len(writers)} writers"
        return f"{units.count(len(self.commits), 'commit')} {by}, {self.versions}"

    @property
    def losses(self) -> str:
        """Lost races and failures, as far as this process knows; empty if there were none."""
        parts = []
        if self.races:
            parts.append(units.count(len(self.races), "race") + " lost on the way")
        if self.num_failed:
            parts.append(units.count(self.num_failed, "transaction") + " failed")
        seen = JOURNAL if any(track.is_elsewhere for track in self.failed) else SESSION
        return f"{', '.join(parts)} ({seen})" if parts else ""

    @property
    def num_failed(self) -> int:
        """How many transactions committed nothing."""
        return len(self.failed)

    @cached_property
    def runs(self) -> dict[int, list[Track]]:
        """The transactions of work that was repeated, by the number of the work, in the order of its runs."""
        by_work: dict[int, list[Track]] = {}
        for track in self.tracks:
            if track.run is not None:
                by_work.setdefault(track.run.work, []).append(track)
        return {work: sorted(its, key=lambda track: (_run_of(track), track.version))
                for work, its in by_work.items() if max(map(_run_of, its)) > 1}

    def attempt(self, track: Track) -> str:
        """The attempt at its work that a transaction belongs to; empty if the work was not repeated."""
        its = () if track.run is None else self.runs.get(track.run.work, ())
        return f"attempt {_run_of(track)} of {_run_of(its[-1])}" if its else ""

    @property
    def again(self) -> list[tuple[Track, Track]]:
        """Pairs of a transaction that ended an attempt and the next attempt at its work in the same lane."""
        shown, pairs = set(map(id, self.shown)), []
        for its in self.runs.values():
            for lane in dict.fromkeys(track.writer for track in its):
                here = [track for track in its if track.writer == lane and id(track) in shown]
                pairs += [(one, other) for one, other in pairwise(here) if _run_of(one) != _run_of(other)]
        return pairs

    @property
    def sentence(self) -> str:
        """The picture in one sentence."""
        return "; ".join(filter(None, (
            f"{self.table}: {self.headline}", self.losses, self.title, *self.mistakes)))

    @property
    def mistakes(self) -> list[str]:
        """Errors outside the transactions, each with the sign of a failure."""
        return [f"✕ {units.clean(error)}" for error in self.errors]

    @property
    def rows(self) -> list[str]:
        """The newest transactions, one per line, the newest first; then how many came earlier."""
        shown = self.tracks[: -MAX_TEXT_ROWS - 1 : -1]
        head = 1 + bool(self.losses) + bool(self.title) + len(self.errors)
        room = text.MAX_LINES - head
        if len(self.tracks) > len(shown) or len(shown) > room:
            shown = shown[: room - 1]
        lines = text.columns([self.cells(track) for track in shown])
        earlier = len(self.tracks) - len(shown)
        return [*lines, f"… {units.number(earlier)} earlier"] if earlier else lines

    def cells(self, track: Track) -> list[str]:
        """One transaction as the cells of a line: sign and versions, operation, writer, files, …"""
        read = "" if track.read_version is None else f" ← v{track.read_version}"
        sign = "*" if track.is_committed else "✕"
        note = self.note(track)
        mark = self.mark(track)
        if mark is not None:
            note = "; ".join(filter(None, (f"{mark.sign} {mark.words}", note)))
        what = ", ".join(filter(None, (track.operation, self.attempt(track))))
        return [f"{sign} v{track.version}{read}", what, units.fit_writer(track.writer, MAX_WRITER),
                files(track), units.size(track.written) if track.is_counted else "", note]

    @property
    def axis(self) -> str:
        """What the lanes show, below them."""
        waits = any(mark.since is not None for mark in self.marks.values())
        return ("each line runs from the version read to the version committed"
                + ("; a pale band is a wait for a lock" if waits else ""))

    def place(self, at: int) -> str:
        """A place on the axis, by its name."""
        return f"v{at}"

    def tick(self, at: int) -> str:
        """The same in the few letters that an axis has room for."""
        return f"v{at}"

    def tip(self, track: Track) -> dict[str, str]:
        """The tooltip of a transaction."""
        read = "not recorded" if track.read_version is None else f"v{track.read_version}"
        return {
            "version": f"v{track.version}", "read version": read, "operation": track.operation,
            "writer": track.writer, "predicate": track.predicate or "none", "files": files(track),
            "bytes": f"+{units.size(track.written)} −{units.size(track.gone)}",
            "retries": retries(track), "lost to": "; ".join(self.lost_to(track)) or "nobody",
        }

    def describe(self, track: Track) -> list[str]:
        """Everything about a transaction, in a few lines."""
        who = f"{track.operation} {self.whose(track)}"
        read = "" if track.read_version is None else f", read {self.place(track.read_version)}"
        if track.is_committed:
            lines = [f"{self.place(track.version)}: {who}{read}"]
        else:
            lines = [f"{who}{read}: {ENDS.get(track.outcome, track.outcome)}",
                     f"{self.failure(track)} at {self.place(track.version)}"]
        if track.predicate:
            lines.append(f"{'reads' if track.predicate == WHOLE_TABLE else 'where'} {track.predicate}")
        if track.is_counted and track.is_committed:
            lines.append(f"{files(track)} files, +{units.size(track.written)} −{units.size(track.gone)}")
        mark = self.mark(track)
        if mark is not None and mark.since is not None:
            lines.append(mark.words)
        if attempt := self.attempt(track):
            lines.append(f"{attempt} of the same work{self._end_of(track)}")
        on = "; went on" if track.is_committed else ""
        lines += [f"lost {one}{on}" for one in self.lost_to(track)]
        return [*lines, *(f"hook {units.clean(failure.hook)} failed: {failure.error}"
                          for failure in track.hook_failures)]

    def _end_of(self, track: Track) -> str:
        """Where the work of a failed attempt was committed in the end."""
        assert track.run is not None
        last = self.runs[track.run.work][-1]
        landed = last.is_committed and not track.is_committed
        return f", committed as {self.place(last.version)}" if landed else ""

    def whose(self, track: Track) -> str:
        """Who made a transaction."""
        return f"by {track.writer}"

    def lost_to(self, track: Track) -> list[str]:
        """The last races that a transaction lost, each with its winner."""
        return [f"{self.place(at)}{self._won_by(track, at)}" for at in track.crosses[-MAX_LOST:]]

    def failure(self, track: Track) -> str:
        """Why a transaction failed, and which commit it conflicted with."""
        winner = self.winner(track, track.version)
        end = reason(track) or track.outcome
        return f"{end} {self.whose(winner)}" if winner is not None and track.reason else end

    def failure_beside(self, track: Track) -> str:
        """The same beside its sign, in a lane that has a name."""
        return self.failure(track)

    def winner(self, track: Track, at: int) -> Track | None:
        """The commit that a transaction lost a race to."""
        return self._by_version.get(at)

    @cached_property
    def _by_version(self) -> dict[int, Track]:
        return {track.version: track for track in self.commits}

    def _won_by(self, track: Track, at: int) -> str:
        winner = self.winner(track, at)
        return "" if winner is None else f" to {winner.operation} {self.whose(winner)}"

    def note(self, track: Track) -> str:
        """The races that a transaction lost, and why it failed; empty if it did neither."""
        races = track.lost or ()
        lost = ", ".join(f"v{version}" for version in races)
        if len(races) > MAX_LOST:
            lost = f"{units.count(len(races), 'race')}, v{races[0]} to v{races[-1]}"
        if track.is_committed:
            return f"after losing {lost}" if lost else ""
        before = f", after losing {lost}" if races and races != (track.version,) else ""
        return f"{self.failure(track)}{before}"

    # -- places ----------------------------------------------------------------------------------

    @cached_property
    def first(self) -> int:
        """The first version of the strip."""
        return min(track.version for track in self.tracks)

    @cached_property
    def last(self) -> int:
        """The last version of the strip."""
        return max(track.version for track in self.tracks)

    @cached_property
    def bin(self) -> int:
        """How many versions each bar of the strip stands for."""
        width = layout.bin_width(self.first, self.last)
        if width == 1:
            return width
        each = 2 * len(self.kinds)  # bars a bin may have: of each kind one up, one down
        return layout.bin_width(self.first, self.last, min(layout.MAX_BINS, layout.MAX_BARS // max(1, each)))

    @cached_property
    def bars(self) -> list[layout.Bar]:
        """The strip's bars: files added upwards, files removed downwards."""
        counts = (layout.Count(t.version, t.kind, t.added, t.removed) for t in self.commits)
        return layout.bars(counts, self.first, self.bin, KINDS)

    @cached_property
    def is_log(self) -> bool:
        """Whether the strip has a logarithmic scale."""
        ends = sorted(max(bar.high, -bar.low) for bar in self.bars if bar.low != bar.high)
        return bool(ends) and ends[-1] > LOG_FROM * ends[len(ends) // 2]

    @cached_property
    def lost(self) -> list[tuple[int, int, int]]:
        """The strip's ○: (first version, last version, races lost on the way there)."""
        return self._binned(self.races)

    @cached_property
    def ends(self) -> list[tuple[int, int, int]]:
        """The strip's ✕: (first version, last version, failed transactions that aimed at one of them)."""
        failed = [track.version for track in self.failed]
        failed += [at for at, mark in self.marks.items() if mark.sign == "✕" and isinstance(at, int)]
        return self._binned(failed)

    def _binned(self, places: Iterable[int]) -> list[tuple[int, int, int]]:
        wide = max(self.bin, layout.bin_width(self.first, self.last, MAX_SIGNS))
        return layout.bins((at for at in places if self.first <= at <= self.last), self.first, wide)

    @cached_property
    def shown(self) -> list[Track]:
        """The transactions in the lanes: the newest ones."""
        return list(self.tracks[-layout.MAX_IN_LANES :])

    @cached_property
    def domain(self) -> tuple[float, float]:
        """From the first version that a line starts at to the last one, with half a version on either side
        and room for the remarks at the end."""
        low = min(self.first, *(track.start for track in self.shown)) - 0.5
        high = self.last + 0.5
        for track in self.shown:
            mark = self.mark(track)
            if mark is not None:
                share = min(MAX_MARGIN, (len(self.remark(mark)) + 2) * LABEL_SHARE)
                whole = (track.version - share * low) / (1 - share)  # at its end where all is in view
                high = max(high, min(whole, track.version + share * (layout.WINDOW + 1)))
        return low, high

    @cached_property
    def window(self) -> tuple[float, float]:
        """The versions in view at first."""
        low, high = self.domain
        return (low, high) if high - low <= layout.WINDOW + 1 else (high - layout.WINDOW, high)

    @property
    def is_cut(self) -> bool:
        """Whether not all versions are in view at first."""
        return self.window != self.domain

    @property
    def older(self) -> str:
        """Which versions have no lanes, and how to see them; empty if all have."""
        if len(self.shown) == len(self.tracks):
            return ""
        return (f"lanes hold the newest {len(self.shown)} transactions, from v{self.shown[0].version}; "
                "timeline(start, end) shows others")

    @property
    def together(self) -> str:
        """How many versions a bar of the strip is of; empty if it is one."""
        return f"each of its bars is of {self.bin} {self.unit}s" if self.bin > 1 else ""

    @property
    def has_labels(self) -> bool:
        """Whether the operation of each transaction is written beside its line."""
        return len(self.shown) <= MAX_LABELLED

    @property
    def clearance(self) -> float:
        """The distance of a line between lanes from the words below it, as a share of a row's height."""
        return CLEARANCE if self.has_labels else 0.0

    @property
    def has_words(self) -> bool:
        """Whether remarks are written beside their signs, not only in the text form."""
        return len(self.marks) <= MAX_LABELLED

    @cached_property
    def lanes(self) -> layout.Lanes:
        """The rows of the transactions in the lanes."""
        return self.pack(self.shown)

    def pack(self, tracks: Sequence[Track]) -> layout.Lanes:
        """A row for each transaction: those of one writer that overlap, from the version read (or the wait
        before it) to the version committed, have rows of their own. It is worked out once for a scene: each
        width and each form of its picture has the same rows."""
        chosen = tuple(map(id, tracks))
        if chosen not in self._packed:
            self._packed[chosen] = self._rows_of(tracks)
        return self._packed[chosen]

    @cached_property
    def _packed(self) -> dict[tuple[int, ...], layout.Lanes]:
        return {}

    def _rows_of(self, tracks: Sequence[Track]) -> layout.Lanes:
        spans = [layout.Span(track.writer, self.begin(track), track.version) for track in tracks]
        index = {id(track): at for at, track in enumerate(tracks)}
        after = {index[id(other)]: index[id(one)] for one, other in self.again
                 if id(one) in index and id(other) in index}
        return layout.lanes(spans, owners=self.order, after=after)

    def begin(self, track: Track) -> int:
        """The version at which a transaction began: with its wait for a lock, or where it read."""
        mark = self.mark(track)
        return track.start if mark is None or mark.since is None else min(mark.since, track.start)

    @property
    def ties(self) -> list[list[Track]]:
        """Groups of tracks that are one transaction: a line ties their signs."""
        return []

    @cached_property
    def _most_crosses(self) -> int:
        return max(1, MAX_CROSSES // max(1, sum(bool(track.crosses) for track in self.shown)))

    def crosses(self, track: Track) -> tuple[int, ...]:
        """The versions of a line that bear a ✕."""
        return track.crosses[-self._most_crosses :]

    def remark(self, mark: Mark) -> str:
        """The remark beside a commit: its sign, and its words if there is room."""
        return f"{mark.sign} {mark.words}" if self.has_words else mark.sign

    def mark(self, track: Track) -> Mark | None:
        """The remark on a transaction, committed or failed."""
        return self.marks.get(track.version if track.is_committed else track.txn_id)

    def lead(self, track: Track) -> str:
        """What its words begin with; empty for a table's versions, which are on the axis."""
        return ""

    def doing(self, track: Track) -> str:
        """What a transaction does, in a word or two."""
        return units.fit(track.operation, MAX_OPERATION)

    def counts(self, track: Track) -> str:
        """The files that it added and removed; empty where there are none."""
        counts = (("+", track.added), ("−", track.removed))
        return " ".join(f"{sign}{units.number(n)}" for sign, n in counts if n)

    def condition(self, track: Track) -> str:
        """Its condition; empty if it has none."""
        return "" if track.predicate == WHOLE_TABLE else track.predicate

    @cached_property
    def kinds(self) -> list[str]:
        """The kinds that occur, in the order of the legend."""
        kinds = {track.kind for track in self.commits}
        return [kind for kind in KINDS if kind in kinds]

    @property
    def legend(self) -> dict[str, str]:
        """The signs that occur, and their meanings."""
        meanings = {kind: kind for kind in self.kinds}
        meanings |= {"lost": "race lost, went on"} if self.races else {}
        meanings |= {"failed": "failed"} if self.failed else {}
        return meanings | ({"again": "the same work again"} if self.again else {})


def files(track: Track) -> str:
    """Files added and removed.

    >>> files(Track(1, 0, "DELETE", "analyst", "delete", added=1, removed=2))
    '+1 −2'
    """
    if not track.is_counted:
        return "not kept"
    return f"+{units.number(track.added)} −{units.number(track.removed)}"


def _run_of(track: Track) -> int:
    return 0 if track.run is None else track.run.number


def retries(track: Track) -> str:
    """How many races it lost, as far as this process saw.

    >>> retries(Track(1, 0, "DELETE", "analyst", "delete"))
    'not seen'
    """
    return "not seen" if track.lost is None else str(len(track.lost))


def reason(track: Track) -> str:
    """The error's name as people read it.

    >>> reason(Track(1, 0, "DELETE", "analyst", "delete", reason="CONCURRENT_APPEND"))
    'ConcurrentAppend'
    """
    return "".join(word.capitalize() for word in (track.reason or "").split("_"))
