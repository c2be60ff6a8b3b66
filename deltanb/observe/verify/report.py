"""What a verification gives: findings, blind spots and cycles, for people and for programs.

What lives here: the values, and the JSON and the data frame made of them.
What it does not know: what is looked at (``verify``), which kinds there are (``kinds``).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from deltanb.errors import DeltaError, IllegalStateError, MissingDependency
from deltanb.observe.timeline import CommitTimeline
from deltanb.text.display import Displayable

if TYPE_CHECKING:
    import pandas

    from deltanb.log.reader import LogReader

PROVED, POSSIBLE = "proved", "possible"
FORMAT = 1
"""The version of the JSON's schema; fields are added without a new one."""
MAX_DRAWN = 30
"""Versions of a cycle that is drawn on its timeline; a longer one stands in the table alone."""


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with a table, or may be.

    ``kind`` is a stable code of :data:`~deltanb.observe.verify.kinds.KINDS`; ``certainty`` is ``proved``
    where no sound history has such a log, else ``possible``. ``versions`` and ``paths`` (as in the log) are
    where; ``evidence`` is one sentence, ``remedy`` what to do.
    """

    kind: str
    certainty: str
    versions: tuple[int, ...]
    paths: tuple[str, ...]
    evidence: str
    remedy: str


@dataclass(frozen=True)
class BlindSpot:
    """What the log cannot tell: which versions, which field or file is missing, and what follows from it."""

    kind: str
    versions: tuple[int, ...]
    missing: str
    evidence: str


@dataclass(frozen=True)
class Cycle:
    """Commits that no serial order explains: each must come before the next, and the last before the first.

    ``kind`` names the anomaly. ``edges`` are (from, to, dependency): ``ww`` both removed one file, ``wr`` the
    second removed what the first added, ``rw`` the first did not see what the second did to its reads.
    ``rule`` is the conflict rule by which ``loser``, a version, should have failed, and ``isolation`` the
    level at which it was judged.
    """

    kind: str
    certainty: str
    versions: tuple[int, ...]
    edges: tuple[tuple[int, int, str], ...]
    loser: int
    rule: str
    isolation: str
    evidence: str


@dataclass(frozen=True, repr=False)
class Verification(Displayable):
    """What a table's log proves, what is possible, and what it cannot tell; see :func:`verify`.

    ``versions`` are the first and the last version looked at, ``num_commits`` how many commits that were.
    ``files`` says which data files were opened: ``none``, ``sample`` or ``all``. ``omitted`` counts findings
    of each kind beyond the first ones, which alone are listed.

    >>> import deltanb as dn
    >>> from deltanb.testing import MemoryStore
    >>> report = dn.create(MemoryStore(), {"id": [1]}).verify()
    >>> report.is_sound, report.versions, report.num_commits
    (True, (0, 0), 1)
    """

    table: str
    versions: tuple[int, int]
    num_commits: int
    files: str
    findings: tuple[Finding, ...] = ()
    blind_spots: tuple[BlindSpot, ...] = ()
    cycles: tuple[Cycle, ...] = ()
    omitted: tuple[tuple[str, int], ...] = ()
    log: LogReader | None = field(default=None, compare=False)
    drawn: CommitTimeline | None = field(default=None, compare=False)
    """The commits of the first cycle and those between them, for the picture; None if there is no cycle."""

    @property
    def is_sound(self) -> bool:
        """Whether nothing was found, proved or possible.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore, TableBuilder, remove
        >>> builder = TableBuilder(MemoryStore()).create().commit(remove("never added"))
        >>> dn.verify(builder.store).is_sound
        False
        """
        return not self.findings and not self.cycles

    @property
    def proved(self) -> tuple[Finding, ...]:
        """The findings that no sound history has.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> dn.create(MemoryStore(), {"id": [1]}).verify().proved
        ()
        """
        return tuple(finding for finding in self.findings if finding.certainty == PROVED)

    @property
    def status(self) -> int:
        """The exit status of ``deltanb verify``: 0 sound, 1 proved, 3 only possible.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> dn.create(MemoryStore(), {"id": [1]}).verify().status
        0
        """
        certainties = {finding.certainty for finding in self.findings} | {c.certainty for c in self.cycles}
        return 1 if PROVED in certainties else 3 if certainties else 0

    def timeline(self) -> CommitTimeline:
        """The commits as a timeline, with remarks where the commits of a cycle and those with findings are.

        Raises:
            DeltaError: the log is too damaged to be drawn.
            IllegalStateError: the report was made by hand and has no log.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1]})
        >>> [track.version for track in table.verify().timeline().commits]
        [0]
        """
        if self.log is None:
            raise IllegalStateError("this report was made by hand and has no log; take table.verify()")
        title = f"{len(self.proved)} proved, {len(self.findings) - len(self.proved)} possible"
        shown = CommitTimeline.of(self.log, *self.versions)
        return shown.marked(self._remarks(), "sound" if self.is_sound else title)

    def with_drawing(self) -> Verification:
        """The report with the first cycle drawn, unless the log is too damaged, or the cycle too long.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> dn.create(MemoryStore(), {"id": [1]}).verify().with_drawing().drawn is None  # there is no cycle
        True
        """
        if self.log is None or not self.cycles:
            return self
        versions = self.cycles[0].versions
        first, last = min(versions), max(versions)
        if last - first >= MAX_DRAWN:
            return self
        try:
            timeline = CommitTimeline.of(self.log, first, last)
        except (DeltaError, OSError):
            return self
        return replace(self, drawn=timeline.marked(self._remarks()))

    def _remarks(self) -> dict[int, str]:
        """What a timeline says of versions: their cycles, and findings that are no part of one."""
        from deltanb.observe.verify.kinds import KINDS

        words: dict[int, dict[str, None]] = {}  # an ordered set for each version
        for cycle in self.cycles:
            for version in cycle.versions:
                others = ", ".join(f"v{other}" for other in cycle.versions if other != version)
                words.setdefault(version, {})[f"{cycle.kind} with {others}"] = None
        cycles = [frozenset(cycle.versions) for cycle in self.cycles]
        for finding in self.findings:
            at = finding.versions
            if not at or KINDS[finding.kind].topic == "storage":
                continue  # no commit did it
            if len(at) < 2 or not any(cycle.issuperset(at) for cycle in cycles):
                words.setdefault(at[-1], {})[finding.kind] = None
        return {version: ", ".join(kinds) for version, kinds in words.items()}

    def to_json(self) -> str:
        """All of it as a JSON object; ``format`` is the version of its schema, which is the fields of the
        classes here by their names.

        >>> import deltanb as dn
        >>> report = dn.create("ducks", {"name": ["Donald"]}).verify()
        >>> import json; json.loads(report.to_json())["status"]
        0
        """
        known = asdict(replace(self, log=None, drawn=None))
        del known["log"], known["drawn"]
        return json.dumps({"format": FORMAT, "status": self.status, **known})

    def to_pandas(self) -> pandas.DataFrame:
        """The findings as a DataFrame, with their fields as columns.

        Raises:
            MissingDependency: pandas is not installed.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> len(dn.create(MemoryStore(), {"id": [1]}).verify().to_pandas())
        0
        """
        try:
            import pandas
        except ImportError:
            raise MissingDependency(
                "report.to_pandas() needs pandas: pip install pandas; report.findings has the same",
                extra="notebook") from None
        rows: list[dict[str, Any]] = [asdict(finding) for finding in self.findings]
        return pandas.DataFrame(rows, columns=list(Finding.__dataclass_fields__))
