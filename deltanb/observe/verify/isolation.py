"""Who passed whom: recorded commits checked against the conflict rules, and cycles that no order explains.

What lives here: :class:`Isolation`. The rules are those that commits are judged by, and the windows are those
of the log: a commit of version v that read version r met the commits r+1 to v-1, so that a check is linear in
the commits that raced.
What it does not know: how a recorded commit becomes a transaction again (``observe/recorded``), the rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltanb.errors import DeltaError
from deltanb.log.lines import whole_number
from deltanb.observe.recorded import Recorder
from deltanb.observe.verdicts import finer_of
from deltanb.observe.verify import kinds
from deltanb.observe.verify.dependencies import Dependencies, Edge, undoes
from deltanb.observe.verify.report import POSSIBLE, PROVED, BlindSpot, Cycle, Finding
from deltanb.observe.verify.state import Commit, Live
from deltanb.text import formatting as units
from deltanb.transaction.conflict_rules import RULES, check
from deltanb.transaction.current import SERIALIZABLE, CurrentTransaction
from deltanb.transaction.operations import MATCHED, REPLACE_TABLE
from deltanb.transaction.steps import Winner

if TYPE_CHECKING:
    from deltanb.log.reader import LogReader

MAX_CHECKS = 200_000
"""How often a commit is checked against another, in all; beyond it, only the nearest are checked."""
MIN_WINDOW = 20
MAX_SKEWS = 100  # cycles beside which no more that are only possible are looked for: each costs a snapshot
MAX_SHOWN = 5  # versions in an evidence
_REWRITES = frozenset({"OPTIMIZE", "REORG"})
_MEANING = {
    "lost update": "both changed the same rows, and the later one did not see the earlier one's change",
    "doubled rows": "both rewrote the same file, so its rows are there twice",
    "write skew": "each changed what the other one had read",
    "circular dependency": "each must come before the next one, and the last one before the first",
    "kept under overwrite": "an overwrite left the files of a commit that it did not see",
}


@dataclass(frozen=True)
class Window:
    """What the walk knows of a commit that may have raced: who it is, what it read, what it did to files."""

    version: int
    read_version: int | None
    operation: str
    mode: str
    has_predicate: bool
    removed: frozenset[str]
    added: frozenset[str]
    changes_data: bool

    @property
    def replaces(self) -> bool:
        """Whether it may define the table anew, whatever it was before."""
        return self.operation in REPLACE_TABLE or self.mode == "Overwrite"

    @classmethod
    def of(cls, commit: Commit) -> Window:
        """Of a commit."""
        parameters = commit.info.operation_parameters
        known = parameters if isinstance(parameters, dict) else {}
        files = (*commit.adds, *commit.removes)
        return cls(
            commit.version, whole_number(commit.info.read_version), commit.operation,
            str(known.get("mode", "")),
            any(known.get(name) for name in ("predicate", *MATCHED))
            or known.get("partitionOverwriteMode") == "dynamic"
            or str(known.get("isDynamicPartitionOverwrite", "")).lower() == "true",
            frozenset(commit.removed_keys), frozenset(commit.added_keys),
            any(file.data_change is not False for file in files))


def _both_removed(first: int, second: int, paths: Sequence[str], kind: str) -> str:
    return (f"versions {first} and {second} both removed {units.count(len(paths), 'file')} ({paths[0]}): "
            f"{_MEANING[kind]}")


class Isolation:
    """The commits that may have raced, gathered on the walk and judged at its end."""

    def __init__(self) -> None:
        self.windows: dict[int, Window] = {}
        self.removed_by: dict[str, int] = {}
        self.findings: list[Finding] = []
        self.cycles: list[Cycle] = []
        self.unknown: list[int] = []
        self.assumed: list[int] = []
        self.cut_off: list[int] = []
        self.overwrites: list[tuple[Window, tuple[tuple[str, int], ...]]] = []

    def note(self, commit: Commit, live: Iterable[Live]) -> None:
        """Take a commit in; ``live`` are the files that the table has behind it."""
        window = Window.of(commit)
        read = window.read_version
        if not commit.adds and not commit.removes and read is None:
            return
        self.windows[commit.version] = window
        if commit.version and read is None and window.changes_data:
            self.unknown.append(commit.version)
        doubled: dict[int, list[str]] = {}
        for file, key in zip(commit.removes, commit.removed_keys, strict=True):
            before = self.removed_by.get(key)
            if before is not None:
                doubled.setdefault(before, []).append(file.path)
            self.removed_by[key] = commit.version
        for key in window.added:  # brought back, it may be removed again
            self.removed_by.pop(key, None)
        for before, paths in doubled.items():
            self._removed_twice(before, commit.version, paths)
        if window.mode == "Overwrite" and not window.has_predicate and commit.removes:
            survivors = tuple((file.path, file.version) for file in live if file.version < commit.version)
            if survivors:
                self.overwrites.append((window, survivors))

    def _removed_twice(self, first: int, second: int, paths: list[str]) -> None:
        both = self.windows.get(first), self.windows[second]
        rewrites = all(one is not None and one.operation in _REWRITES for one in both)
        kind = "doubled rows" if rewrites else "lost update"
        self.cycles.append(Cycle(
            kind, PROVED, (first, second), ((second, first, "rw"), (first, second, "ww")), second,
            "delete / delete", SERIALIZABLE, _both_removed(first, second, paths, kind)))

    def judge(self, log: LogReader, num_files: int) -> None:
        """Hold the rules against each commit that others came before."""
        raced = [window for window in self.windows.values()
                 if window.read_version is not None and window.version - window.read_version > 1]
        if not raced and not self.overwrites:
            return
        recorder = Recorder(log, num_files)
        dependencies = Dependencies(recorder, self.windows)
        limit = max(MIN_WINDOW, MAX_CHECKS // max(1, len(raced)))
        for read, window in sorted(((self._begin(window, limit), window) for window in raced),
                                   key=lambda one: (one[0], one[1].version)):
            try:
                self._judge(recorder, dependencies, window, read)
            except (DeltaError, OSError):
                self.unknown.append(window.version)
        for window, survivors in self.overwrites:
            self._overwritten(dependencies, window, survivors)

    def _begin(self, window: Window, limit: int) -> int:
        """The version after which a commit is checked against others: its read version, or later."""
        assert window.read_version is not None
        if window.version - window.read_version <= limit:
            return window.read_version
        self.cut_off.append(window.version)
        return window.version - limit

    def _judge(self, recorder: Recorder, dependencies: Dependencies, window: Window, read: int) -> None:
        recorded = dependencies.recorded[window.version] = recorder.transaction(window.version, read)
        current = recorded.current
        if recorded.is_assumed:
            self.assumed.append(window.version)
        finer = finer_of(recorder, current)
        rules = RULES if finer is None else finer.of(RULES)
        first: tuple[int, str] | None = None
        for version in range(read + 1, window.version):
            winner, rule = recorder.commit(version), ""
            if first is None:  # of what comes behind it, only proofs count
                verdict = check(current, winner, rules)
                if verdict.error is None:
                    current = verdict.transaction
                    continue
                if finer is not None and finer.doubts:  # what it read is not known as closely
                    self.assumed.append(window.version)
                    continue
                rule = next((one.name for one in verdict.checks if one.state == "failed"), "")
            cycle = self._cycle(dependencies, recorded.current, window, winner, rule or "append")
            if cycle is not None:
                self._passed(window, version, cycle.rule, current.isolation, PROVED)
                self.cycles.append(cycle)
                return
            first = first or (version, rule)
        if first is not None:
            version, rule = first
            self._passed(window, version, rule, current.isolation, POSSIBLE)
            self._skew(recorder, window, version, rule, current.isolation)

    def _passed(self, window: Window, version: int, rule: str, isolation: str, certainty: str) -> None:
        shared = window.removed & self._removes(version)
        self.findings.append(kinds.SHOULD_HAVE_FAILED(
            f"version {window.version} ({window.operation}) read version {window.read_version} and passed "
            f"version {version}, by which the rule {rule!r} ends it at {isolation}",
            (version, window.version), sorted(key.partition(chr(0))[0] for key in shared), certainty))

    def _cycle(
        self, dependencies: Dependencies, current: CurrentTransaction, window: Window, winner: Winner,
        rule: str,
    ) -> Cycle | None:
        """What proves that no order explains a commit and an earlier one that it did not see."""
        version = winner.version
        shared = window.removed & self._removes(version)
        undone: list[str] = []
        if winner.metadata is not None and current.metadata_changed and not window.replaces:
            undone = undoes(current.metadata, winner.metadata, current.read_metadata)
        if shared or undone:
            edges: tuple[Edge, ...] = ((window.version, version, "rw"), (version, window.version, "ww"))
            kind, what = "lost update", ", ".join(undone)
            if shared and window.operation in _REWRITES and self.windows[version].operation in _REWRITES:
                kind = "doubled rows"
        else:
            edges = dependencies.cycle(window.version, version) if version in self.windows else ()
            is_skew = len(edges) == 2 and {edge for _, _, edge in edges} == {"rw"}
            kind, what = "write skew" if is_skew else "circular dependency", ""
        if not edges:
            return None
        versions = tuple(sorted({edge[0] for edge in edges}))
        evidence = f"versions {', '.join(map(str, versions))}{f' ({what})' if what else ''}: {_MEANING[kind]}"
        if shared:
            paths = sorted(key.partition(chr(0))[0] for key in shared)
            evidence = _both_removed(version, window.version, paths, kind)
        return Cycle(kind, PROVED, versions, edges, window.version, rule, current.isolation, evidence)

    def _overwritten(
        self, dependencies: Dependencies, window: Window, survivors: Sequence[tuple[str, int]]
    ) -> None:
        versions = sorted({version for _, version in survivors})
        paths = [path for path, _ in survivors]
        edges: tuple[Edge, ...] = ()
        for version in versions:
            with suppress(DeltaError, OSError):  # damaged commits have findings of their own
                edges = edges or (dependencies.cycle(window.version, version, "rw")
                                  if version in self.windows else ())
        order = "and no order of both explains it" if edges else "which is right only if they count as later"
        self.findings.append(kinds.KEPT_UNDER_OVERWRITE(
            f"version {window.version} overwrites the table, and {units.count(len(paths), 'file')} of "
            f"{', '.join(f'version {v}' for v in versions[:MAX_SHOWN])} stayed: it did not see them, {order}",
            (*versions[:MAX_SHOWN], window.version), paths, PROVED if edges else POSSIBLE))
        first = versions[-1]
        self.cycles.append(Cycle(
            "kept under overwrite", PROVED if edges else POSSIBLE, (first, window.version),
            edges or ((window.version, first, "rw"), (first, window.version, "ww")), window.version, "append",
            SERIALIZABLE, f"version {window.version} overwrote the table without seeing version {first}: "
            f"{_MEANING['kept under overwrite']}"))

    def _removes(self, version: int) -> frozenset[str]:
        window = self.windows.get(version)
        return frozenset() if window is None else window.removed

    def _skew(
        self, recorder: Recorder, window: Window, version: int, rule: str, isolation: str
    ) -> None:
        """Whether the earlier one may have read, too, what the later one changed."""
        other = self.windows.get(version)
        if other is None or other.read_version is None or len(self.cycles) >= MAX_SKEWS:
            return
        earlier = recorder.transaction(other.version, other.read_version)
        verdict = check(earlier.current.replace(isolation=SERIALIZABLE), recorder.commit(window.version))
        if verdict.error is not None:
            self.cycles.append(Cycle(
                "write skew", POSSIBLE, (version, window.version),
                ((window.version, version, "rw"), (version, window.version, "rw")), window.version, rule,
                isolation, f"versions {version} and {window.version}: {_MEANING['write skew']}"))

    def blind_spots(self) -> Iterator[BlindSpot]:
        """What no log tells of these commits."""
        for kind, versions, missing in (
                ("read-version", self.unknown, "commitInfo.readVersion"),
                ("reads", self.assumed, "commitInfo.operationParameters.predicate"),
                ("windows", self.cut_off, "")):
            if versions:
                yield kinds.blind_spot(kind, sorted(set(versions)), missing)
        if self.windows:
            yield kinds.blind_spot("other-reads")
