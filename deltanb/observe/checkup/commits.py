"""What the newest commits of a log say that they did, as far as they can be read.

What lives here: :class:`Record`, one commit's account of itself; :class:`Records`, those of the newest
commits with what is wrong with them by name; the columns that their conditions are on.
What it does not know: what follows from any of it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from deltanb.actions import CommitInfo
from deltanb.actions.parse import BY_KEY
from deltanb.errors import DeltaError
from deltanb.log.commits import commit_name
from deltanb.log.lines import commit_info_of, decode_actions, explain, whole_number
from deltanb.observe.checkup import kinds
from deltanb.observe.checkup.live_files import leaves
from deltanb.observe.checkup.report import BlindSpot
from deltanb.observe.recorded import parameters_of, recorded_condition
from deltanb.text.progress import progress
from deltanb.text.safe_text import shown
from deltanb.transaction.operations import OPERATIONS

if TYPE_CHECKING:
    from deltanb.log.reader import LogReader
    from deltanb.schema.types import StructType
    from deltanb.sql.predicates import Predicate

Path = tuple[str, ...]

MAX_COMMITS = 1_000
"""Commits that are read, the newest ones: as many requests in a bucket, many at a time."""
MAX_PARSED = 1 << 20
"""Bytes of a commit all of whose lines are decoded; of a larger one only the commitInfo is."""
MAX_SHOWN = 5  # names and conditions in a blind spot
CONDITIONAL = frozenset({"DELETE", "UPDATE", "MERGE", "WRITE"})
"""Operations whose ``predicate`` says which rows they read."""
_KEY = re.compile(rb'^[ \t]*\{[ \t]*"([^"]{1,60})"', re.MULTILINE)
_WORDS = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"])*\"|((?:`[^`]+`|[^\W\d]\w*)(?:\.(?:`[^`]+`|[^\W\d]\w*))*)")
_COPIED = ("numcopiedrows", "numtargetrowscopied")
_CHANGED = ("numupdatedrows", "numdeletedrows", "numtargetrowsupdated", "numtargetrowsdeleted")
_ADDED_BYTES = ("numaddedbytes", "numtargetbytesadded")


@dataclass(frozen=True)
class Record:
    """What a commit says of itself: operation, parameters with their JSON as values, and metrics as numbers,
    their names in lower case without underscores, since writers differ in that alone."""

    version: int
    operation: str | None
    parameters: Mapping[str, Any]
    metrics: Mapping[str, int]
    added_bytes: int | None
    """Bytes of the files that it adds, by its metrics or its actions; None where neither was read."""
    time: int = 0
    """When it was committed, in ms since 1970: by its file, or by itself where that is later."""
    change_files: tuple[str, ...] = ()
    """The change data files that it names."""

    @property
    def rows_copied(self) -> int | None:
        """Rows that were written again; None where it does not say."""
        return self._sum(_COPIED)

    @property
    def rows_changed(self) -> int | None:
        """Rows updated or deleted; None where it does not say."""
        return self._sum(_CHANGED)

    def _sum(self, names: Iterable[str]) -> int | None:
        values = [self.metrics[name] for name in names if name in self.metrics]
        return sum(values) if values else None


@dataclass
class Records:
    """The records of the newest commits, newest first, and what could not be read of them."""

    records: list[Record] = field(default_factory=list)
    blind_spots: list[BlindSpot] = field(default_factory=list)
    first: int = 0
    """The first version that was looked at."""

    @cached_property
    def last_optimize(self) -> Record | None:
        """The newest OPTIMIZE that ordered rows by columns."""
        return next((one for one in self.records if one.operation == "OPTIMIZE" and ordered_by(one)), None)

    def conditions(self, schema: StructType) -> Conditions:
        """The conditions of these commits."""
        known = Conditions()
        for record in self.records:
            if record.operation in CONDITIONAL:
                known.take(record, schema)
        return known


@dataclass
class Conditions:
    """Which columns conditions were on, by the commits that had them."""

    commits: Counter[Path] = field(default_factory=Counter)
    """Column -> number of commits with a condition on it."""
    predicates: list[tuple[int, tuple[Predicate, ...]]] = field(default_factory=list)
    unknown: list[tuple[int, str]] = field(default_factory=list)
    """Conditions that were not understood, by their versions."""

    def take(self, record: Record, schema: StructType) -> None:
        """The condition of one commit."""
        parameters = {"predicate": record.parameters.get("mergePredicate"), **record.parameters}
        known = recorded_condition(parameters, schema)
        paths = {path for part in known.parts for path in part.column_paths}
        if known.parts:
            self.predicates.append((record.version, known.parts))
        for text in (*known.left_out, *known.unknown):
            self.unknown.append((record.version, text))
            paths |= _named_in(text, schema)
        self.commits.update(paths)

    @property
    def blind_spots(self) -> list[BlindSpot]:
        """Conditions whose columns were taken by name alone."""
        if not self.unknown:
            return []
        return [kinds.blind_spot("condition", {version for version, _ in self.unknown},
                                 _listed(text for _, text in self.unknown))]


def ordered_by(record: Record) -> list[Path]:
    """The columns by which an OPTIMIZE ordered rows; deltalake does not record them."""
    from deltanb.schema.paths import parse_path

    for name in ("zOrderBy", "clusterBy"):
        columns = record.parameters.get(name)
        if isinstance(columns, list) and columns and all(isinstance(one, str) and one for one in columns):
            try:
                return [parse_path(one) for one in columns]
            except DeltaError:
                return []
    return []


def read(log: LogReader, newest: int | None = None) -> Records:
    """The newest commits up to a version, at most :data:`MAX_COMMITS`.

    Raises:
        StorageError: the log cannot be listed.
    """
    last = log.commits.newest() if newest is None else newest
    result = Records(first=max(0, last - MAX_COMMITS + 1))
    listed = {version: status for version, status in log.commits.listed(result.first) if version <= last}
    result.first = min(listed, default=result.first)
    names = {version: listed[version].name for version in sorted(listed, reverse=True)}
    holes = set(range(result.first, last + 1)) - names.keys()
    spots = _Spots()
    with progress("check: commits", len(names)) as seen:
        for (version, name), data in zip(names.items(), log.commits.read_many(names), strict=True):
            if data is None:
                holes.add(version)
            else:
                record = _record(version, name, data, listed[version].modification_time, spots)
                result.records += [] if record is None else [record]
            seen()
    if result.first > 0:
        spots.note("history", range(0))
    spots.note("version-missing", holes, _listed(map(commit_name, sorted(holes))))
    result.blind_spots = spots.all()
    return result


class _Spots:
    """What is wrong with commits, by kind: versions, and the names of what was met."""

    def __init__(self) -> None:
        self.versions: dict[str, set[int]] = {}
        self.names: dict[str, dict[str, None]] = {}

    def note(self, kind: str, versions: Iterable[int], name: str = "") -> None:
        known = set(versions)
        if known or kind == "history":
            self.versions.setdefault(kind, set()).update(known)
            self.names.setdefault(kind, {}).update({name: None} if name else {})

    def all(self) -> list[BlindSpot]:
        return [kinds.blind_spot(kind, versions, _listed(self.names[kind]))
                for kind, versions in self.versions.items()]


def _record(version: int, name: str, data: bytes, modified: int, spots: _Spots) -> Record | None:
    try:
        lines = decode_actions(data) if len(data) <= MAX_PARSED else []
        info = CommitInfo.from_value(commit_info_of(data, version))
        change_files = _change_files(data)
    except Exception as error:
        spots.note("commit-unreadable", [version], f"{name}: {explain(data, name, '', error)}")
        return None
    for key in {key.decode("utf-8", "replace") for key in _KEY.findall(data)} - BY_KEY.keys():
        spots.note("action-unknown", [version], shown(key))
    operation = info.operation if isinstance(info.operation, str) else None
    if operation is None:
        spots.note("commit-info-missing", [version])
    elif operation not in OPERATIONS:
        spots.note("operation-unknown", [version], shown(operation[:40]))
    metrics = _metrics(info.operation_metrics)
    added = next((metrics[name] for name in _ADDED_BYTES if name in metrics), None)
    if added is None and lines:
        added = sum(line.add.size or 0 for line in lines if line.add is not None)
    stamp = info.in_commit_timestamp
    time = max(modified, stamp) if isinstance(stamp, int) else modified
    record = Record(version, operation, parameters_of(info), metrics, added, time, change_files)
    if operation in ("DELETE", "UPDATE", "MERGE") and record.rows_changed is None:
        spots.note("metrics-missing", [version])
    return record


def _metrics(recorded: Any) -> dict[str, int]:
    if not isinstance(recorded, Mapping):
        return {}
    numbers = {str(name).lower().replace("_", ""): whole_number(value) for name, value in recorded.items()}
    return {name: value for name, value in numbers.items() if value is not None}


def _change_files(data: bytes) -> tuple[str, ...]:
    if b'"cdc"' not in data:
        return ()
    from deltanb.actions import AddCDCFile
    from deltanb.log.lines import actions_of

    return tuple(action.path for action in actions_of(data) if isinstance(action, AddCDCFile))


def _named_in(text: str, schema: StructType) -> set[Path]:
    """The columns whose names are in a condition, behind an alias or not.

    >>> from deltanb.schema.ddl import parse_schema
    >>> sorted(_named_in("t.id = s.id AND t.note <> 'day'", parse_schema("id long, day date, note string")))
    [('id',), ('note',)]
    """
    known = {tuple(name.lower() for name in path): path for path in leaves(schema)}
    named: set[Path] = set()
    for word in filter(None, _WORDS.findall(text)):
        parts = tuple(part.strip("`").lower() for part in word.split("."))
        named |= {known[parts[at:]] for at in range(len(parts)) if parts[at:] in known}
    return named


def _listed(texts: Iterable[str]) -> str:
    several = list(dict.fromkeys(texts))
    more = f"; and {len(several) - MAX_SHOWN} more" if len(several) > MAX_SHOWN else ""
    return "; ".join(several[:MAX_SHOWN]) + more
