"""What the timeline of a catalog shows, and where: a lane for each table, ties between tables.

What lives here: the words of a catalog's timeline, and which signs are tied.
What it does not know: Vega-Lite, SVG, how a lane is packed (``timeline_scene``, ``layout``).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from deltanb.notebook.drawing import text
from deltanb.notebook.drawing.timeline_scene import (
    MAX_TEXT_ROWS,
    MAX_WRITER,
    Scene,
    files,
    reason,
    retries,
)
from deltanb.observe.catalog_timeline import CatalogTrack
from deltanb.observe.tracks import Track
from deltanb.text import formatting as units

MAX_NAMED = 3  # tables named on a line of text


class CatalogScene(Scene):
    """Everything drawn of some transactions of a catalog."""

    unit = "transaction"
    tips = ("transaction", "read after", "table", "version", "operation", "by", "files", "retries", "lost to")

    # -- words -----------------------------------------------------------------------------------

    @cached_property
    def groups(self) -> list[list[CatalogTrack]]:
        """The tables of each transaction, in the order of their ends."""
        by_transaction: dict[tuple[int, str | None], list[CatalogTrack]] = {}
        for track in self.tracks:
            assert isinstance(track, CatalogTrack)
            by_transaction.setdefault((track.version, track.txn_id), []).append(track)
        return [sorted(group, key=lambda track: track.writer) for group in by_transaction.values()]

    @property
    def versions(self) -> str:
        """The transactions shown, in words."""
        known = [track.version for track in self.commits]
        if not known:
            return "no transactions"
        return str(known[0]) if known[0] == known[-1] else f"{known[0]} to {known[-1]}"

    @property
    def num_transactions(self) -> int:
        """How many transactions were committed."""
        return len({track.version for track in self.commits})

    @property
    def num_tables(self) -> int:
        """How many tables have a lane."""
        return len({track.writer for track in self.tracks})

    @property
    def headline(self) -> str:
        """How many transactions, of how many tables."""
        return (f"{units.count(self.num_transactions, 'transaction')} on "
                f"{units.count(self.num_tables, 'table')}, {self.versions}")

    @property
    def num_failed(self) -> int:
        """How many transactions committed nothing."""
        return len({track.txn_id for track in self.failed})

    @property
    def axis(self) -> str:
        """What the lanes show, below them."""
        return "each line runs from the snapshot read to the commit; ties join its tables"

    def place(self, at: int) -> str:
        """A transaction by its number."""
        return f"transaction {at}"

    def tick(self, at: int) -> str:
        """The transaction's number alone."""
        return str(at)

    def winner(self, track: Track, at: int) -> Track | None:
        """What the winning transaction did to the same table."""
        return self._by_place.get((at, track.writer))

    @cached_property
    def _by_place(self) -> dict[tuple[int, str], Track]:
        return {(track.version, track.writer): track for track in self.commits}

    def whose(self, track: Track) -> str:
        """Which table the transaction moved, and who made it."""
        assert isinstance(track, CatalogTrack)
        return " ".join(filter(None, ("on", track.writer, track.pointer, f"by {track.who}")))

    def tip(self, track: Track) -> dict[str, str]:
        """The tooltip of a table in a transaction."""
        assert isinstance(track, CatalogTrack)
        read = "not recorded" if track.read_version is None else str(track.read_version)
        return {
            "transaction": str(track.version), "read after": read, "table": track.writer,
            "version": track.pointer, "operation": track.operation, "by": track.who, "files": files(track),
            "retries": retries(track), "lost to": "; ".join(self.lost_to(track)) or "nobody",
        }

    @property
    def rows(self) -> list[str]:
        """The newest transactions, one per line, the newest first; then how many came earlier."""
        room = text.MAX_LINES - 1 - bool(self.losses) - bool(self.title) - len(self.errors)
        shown: Sequence[list[CatalogTrack]] = self.groups[: -MAX_TEXT_ROWS - 1 : -1]
        if len(self.groups) > len(shown) or len(shown) > room:
            shown = shown[: room - 1]
        lines = text.columns([self._cells(group) for group in shown])
        earlier = len(self.groups) - len(shown)
        return [*lines, f"… {units.number(earlier)} earlier"] if earlier else lines

    def _cells(self, group: list[CatalogTrack]) -> list[str]:
        first = group[0]
        read = "" if first.read_version is None else f" ← {first.read_version}"
        cell = ", ".join(self._named(track) for track in group[:MAX_NAMED])
        if len(group) > MAX_NAMED:
            cell += f" and {units.count(len(group) - MAX_NAMED, 'more table')}"
        lost = sum(len(track.lost or ()) for track in group)
        if lost and first.is_committed:
            cell += f"  after losing {units.count(lost, 'race')}"
        if attempt := self.attempt(first):
            cell += f"  {attempt}"
        mark = self.mark(first)
        if mark is not None:
            cell = f"{mark.sign} {mark.words}  {cell}"
        return [f"{'*' if first.is_committed else '✕'} {first.version}{read}",
                units.fit_writer(first.who, MAX_WRITER), cell]

    def _named(self, track: CatalogTrack) -> str:
        if track.is_committed:
            return " ".join(filter(None, (track.writer, track.pointer, track.operation)))
        why = f" ({reason(track)})" if track.reason else ""
        return f"{track.writer} {track.operation}{why}"

    # -- places ----------------------------------------------------------------------------------

    @property
    def ties(self) -> list[list[Track]]:
        """For each transaction of several tables, those of its tables that are in the lanes."""
        shown = set(map(id, self.shown))
        tied = ([track for track in group if id(track) in shown] for group in self.groups)
        return [list(group) for group in tied if len(group) > 1]

    def lead(self, track: Track) -> str:
        """The table's version."""
        assert isinstance(track, CatalogTrack)
        return track.pointer

    def failure_beside(self, track: Track) -> str:
        """Why a transaction failed; the table is the lane's name."""
        winner = self.winner(track, track.version)
        if winner is None or not track.reason:
            return self.failure(track)
        assert isinstance(winner, CatalogTrack)
        return ", ".join(filter(None, (f"{reason(track)} by {winner.who}", winner.pointer)))
