"""What a timeline shows, and where: the same for the chart, the SVG and the text.

What lives here: the strip, the lanes, the window, and every word of them.
What it does not know: Vega-Lite, SVG, logs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from deltanb.notebook import layout, text, units
from deltanb.notebook.timeline_rows import KINDS, Track

SESSION = "attempts seen in this session"
MAX_TEXT_ROWS = 10  # transactions named in the text form
MAX_LABELLED = 12  # transactions up to which each one's doing stands beside its line
MAX_WRITER = 18  # characters of a writer's name at its lane, or on a line of text
LABEL_SHARE = 1 / 105  # of the window's width a character of a label takes: 6 of 640 pixels


@dataclass(frozen=True)
class Mark:
    """A remark on one commit: a sign, ``✕`` or ``✓``, and a few words."""

    words: str
    sign: str = "✕"


@dataclass(frozen=True)
class Scene:
    """Everything drawn of some transactions of a table."""

    table: str
    tracks: Sequence[Track]
    marks: Mapping[int, Mark] = field(default_factory=dict)
    title: str = ""

    # -- words -----------------------------------------------------------------------------------

    @cached_property
    def commits(self) -> list[Track]:
        """The commits, oldest first."""
        return [track for track in self.tracks if track.is_committed]

    @cached_property
    def failed(self) -> list[Track]:
        """The transactions that came to nothing."""
        return [track for track in self.tracks if not track.is_committed]

    @cached_property
    def races(self) -> list[int]:
        """The versions that someone wanted and did not get."""
        return [version for track in self.tracks for version in track.lost or ()]

    @property
    def versions(self) -> str:
        """The versions shown, in words."""
        known = [track.version for track in self.commits]
        if not known:
            return "no commits"
        return f"v{known[0]}" if len(known) == 1 else f"v{known[0]} to v{known[-1]}"

    @property
    def headline(self) -> str:
        """How many commits, of whom."""
        writers = {track.writer for track in self.commits}
        by = f"by {next(iter(writers))}" if len(writers) == 1 else f"by {len(writers)} writers"
        return f"{units.count(len(self.commits), 'commit')} {by}, {self.versions}"

    @property
    def losses(self) -> str:
        """What went wrong on the way, as far as this process knows; empty if nothing did."""
        parts = []
        if self.races:
            parts.append(units.count(len(self.races), "race") + " lost")
        if self.failed:
            parts.append(units.count(len(self.failed), "transaction") + " failed")
        return f"{', '.join(parts)} ({SESSION})" if parts else ""

    @property
    def sentence(self) -> str:
        """The picture in one sentence."""
        return "; ".join(filter(None, (f"{self.table}: {self.headline}", self.losses, self.title)))

    @property
    def rows(self) -> list[str]:
        """The newest transactions, one a line, the newest first; then how many came earlier."""
        shown = self.tracks[: -MAX_TEXT_ROWS - 1 : -1]
        head = 1 + bool(self.losses) + bool(self.title)
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
        mark = self.marks.get(track.version) if track.is_committed else None
        if mark is not None:
            note = "; ".join(filter(None, (f"{mark.sign} {mark.words}", note)))
        return [f"{sign} v{track.version}{read}", track.operation, units.fit(track.writer, MAX_WRITER),
                files(track), units.size(track.written), note]

    def note(self, track: Track) -> str:
        """What became of it, where that is more than a commit."""
        lost = ", ".join(f"v{version}" for version in track.lost or ())
        if track.is_committed:
            return f"after losing {lost}" if lost else ""
        end = reason(track) or track.outcome
        return f"{end}, lost {lost}" if lost else end

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
        """Versions a bar of the strip stands for."""
        return layout.bin_width(self.first, self.last)

    @cached_property
    def bars(self) -> list[layout.Bar]:
        """The strip's bars: files added upwards, files removed downwards."""
        counts = (layout.Count(t.version, t.kind, t.added, t.removed) for t in self.commits)
        return layout.bars(counts, self.first, self.bin, KINDS)

    @cached_property
    def lost(self) -> list[tuple[int, int, int]]:
        """The strip's ✕: (first version, last version, races lost there)."""
        places = [at for track in self.tracks for at in track.crosses if self.first <= at <= self.last]
        places += [version for version, mark in self.marks.items() if mark.sign == "✕"]
        return layout.bins(places, self.first, self.bin)

    @cached_property
    def shown(self) -> list[Track]:
        """The transactions in the lanes: the newest ones."""
        return list(self.tracks[-layout.MAX_IN_LANES :])

    @cached_property
    def window(self) -> tuple[float, float]:
        """The versions in view at first, with half a version around."""
        return max(self.first, self.last - layout.WINDOW + 1) - 0.5, self.last + 0.5

    @cached_property
    def begin(self) -> int:
        """The first version any line in view starts from."""
        return min(track.start for track in self.shown)

    @property
    def has_labels(self) -> bool:
        """Whether each transaction's doing stands beside its line."""
        return len(self.shown) <= MAX_LABELLED

    @cached_property
    def lanes(self) -> layout.Lanes:
        """Where the transactions stand in the lanes."""
        return layout.lanes([
            layout.Span(track.writer, start, track.version)
            for track, start in zip(self.shown, self.starts(self.shown), strict=True)])

    def starts(self, tracks: Sequence[Track]) -> list[float]:
        """Where each line begins, or the words above it, if they reach further."""
        unit = (self.last - self.begin + 1) * LABEL_SHARE if self.has_labels else 0
        return [min(track.start, track.version - len(self.label(track)) * unit) for track in tracks]

    def label(self, track: Track) -> str:
        """What stands beside its line, where there is room."""
        return f"{track.operation} {files(track)}" if track.added or track.removed else track.operation

    @cached_property
    def kinds(self) -> list[str]:
        """The kinds there are, in the order of the legend."""
        there = {track.kind for track in self.commits}
        return [kind for kind in KINDS if kind in there]


def files(track: Track) -> str:
    """Files added and removed.

    >>> files(Track(1, 0, "DELETE", "analyst", "delete", added=1, removed=2))
    '+1 −2'
    """
    return f"+{units.number(track.added)} −{units.number(track.removed)}"


def reason(track: Track) -> str:
    """The error's name as people read it.

    >>> reason(Track(1, 0, "DELETE", "analyst", "delete", reason="CONCURRENT_APPEND"))
    'ConcurrentAppend'
    """
    return "".join(word.capitalize() for word in (track.reason or "").split("_"))
