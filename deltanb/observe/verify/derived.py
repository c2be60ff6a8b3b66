"""What is derived from the log, checked against its commits: checksums, checkpoints, compactions, the hint.

What lives here: :class:`Derived`, which lists them once and compares each at its version.
What it does not know: what is wrong with a commit itself (``files``, ``metadata``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deltanb.actions import RemoveFile, SetTransaction
from deltanb.errors import DeltaError
from deltanb.log import checksum as checksums
from deltanb.log.checkpoint.names import complete_checkpoints, parse_name
from deltanb.log.checkpoint.read import open_checkpoint
from deltanb.log.commits import LOG_FOLDER, STAGED_FOLDER, FolderCommits
from deltanb.log.lines import parse_commit
from deltanb.log.replay import Delta, feed_actions, file_key, key_array
from deltanb.log.segment import checksum_name
from deltanb.log.verification import Comparison, compare_definition
from deltanb.observe.verify import kinds
from deltanb.observe.verify.report import BlindSpot, Finding
from deltanb.observe.verify.state import LogState
from deltanb.schema import properties
from deltanb.text import formatting as units
from deltanb.text.damage import what_is_wrong

if TYPE_CHECKING:
    from deltanb.log.checkpoint.read import CheckpointParts
    from deltanb.log.reader import LogReader

MAX_ROWS = 4_000_000
"""Files in all checkpoints that are compared, the newest ones first."""
MAX_CHECKPOINTS = 20
MAX_SHOWN = 3  # files in an evidence
_COMPACTED = re.compile(rf"{LOG_FOLDER}/(\d{{20}})\.(\d{{20}})\.compacted\.json$")
_STAGED = re.compile(re.escape(STAGED_FOLDER) + r"/(\d{20})\.[^/]+\.json")
_HINT = f"{LOG_FOLDER}/_last_checkpoint"


class Derived:
    """The files of a log that say again what its commits say."""

    def __init__(self, log: LogReader, names: Sequence[str], first: int, last: int) -> None:
        self.log, self.store, self.names = log, log.store, set(names)
        self.first, self.last = first, last
        self.complete = complete_checkpoints(names)
        """The whole checkpoints of the log, the newest first."""
        inside = [files for files in self.complete if first <= files.version <= last]
        self.checkpoints: dict[int, list[Any]] = {}
        for files in inside[:MAX_CHECKPOINTS]:
            self.checkpoints.setdefault(files.version, []).append(files)
        self.passed_over = sorted({files.version for files in inside[MAX_CHECKPOINTS:]})
        self.rows = 0
        numbered = {version: checksum_name(version) for version in range(max(0, first - 1), last + 1)}
        listed = {version: name for version, name in numbered.items() if name in self.names}
        self._checksums = zip(listed, FolderCommits(self.store).read_many(listed), strict=True)
        """Read ahead in the order of versions, as commits are: each by itself would wait for the store."""

    def at(self, state: LogState) -> Iterator[Finding]:
        """What is said of a version; ``state`` is what its commits give."""
        name = checksum_name(state.version)
        if name in self.names:
            yield from self._checksum(state, name)
        for files in self.checkpoints.get(state.version, ()):
            yield from self._checkpoint(state, files)

    def beside(self) -> Iterator[Finding]:
        """What belongs to no single version."""
        yield from self._incomplete()
        yield from self._hint()
        for name in sorted(self.names):
            match = _COMPACTED.match(name)
            if match and self.first <= int(match[1]) and int(match[2]) <= self.last:
                yield from self._compaction(name, int(match[1]), int(match[2]))
        yield from self._staged()

    def blind_spots(self) -> Iterator[BlindSpot]:
        """Which checkpoints were not compared."""
        if self.passed_over:
            yield kinds.blind_spot("checkpoints", self.passed_over)

    # -- checksums --------------------------------------------------------------------------------------

    def _checksum(self, state: LogState, name: str) -> Iterator[Finding]:
        data = next((data for version, data in self._checksums if version == state.version), None)
        checksum = None if data is None else checksums.parse_checksum(data, name)
        if checksum is None:
            yield kinds.CHECKSUM_UNREADABLE(f"{name} cannot be read", state.version, name)
            return
        shown = "; ".join(f"{one.field}: {_short(one.recorded)} there, {_short(one.actual)} by the commits"
                          for one in _compared(state, checksum) if not one.agrees)
        if shown:
            yield kinds.CHECKSUM_DIFFERS(f"{name} differs in {shown}", state.version, name)

    # -- checkpoints ------------------------------------------------------------------------------------

    def _checkpoint(self, state: LogState, files: Any) -> Iterator[Finding]:
        version, names = state.version, tuple(str(getattr(n, "name", n)) for n in files.names)
        try:
            parts = open_checkpoint(self.store, names)
            if self.rows + parts.num_adds > MAX_ROWS and self.rows:
                self.passed_over.append(version)
                return
            self.rows += parts.num_adds
            keys = self._keys(parts)
        except (DeltaError, OSError) as error:
            yield kinds.CHECKPOINT_UNREADABLE(f"the checkpoint of version {version}: {error}", version, names)
            return
        differing = []
        missing = [key for key in state.live if key not in keys]
        more = [key for key in keys if key not in state.live]
        for what, some in (("lacks", missing), ("has too", more)):
            if some:
                shown = ", ".join(key.partition("\0")[0] for key in some[:MAX_SHOWN])
                differing.append(f"{what} {units.count(len(some), 'file')} ({shown})")
        if len(keys) != parts.num_adds:
            differing.append("has a file twice")
        differing += [f"has another {name}" for name, recorded, actual in _small(state, parts)
                      if recorded != actual]
        if differing:
            paths = [key.partition("\0")[0] for key in (*missing, *more)]
            yield kinds.CHECKPOINT_DIFFERS(
                f"the checkpoint of version {version} {', '.join(differing)}", version, paths or names)
        if parts.sidecars and not state.supports("v2Checkpoint"):
            yield kinds.FEATURE_UNNAMED(f"the checkpoint of version {version} has sidecars, and the protocol "
                                        "does not name v2Checkpoint", version, names)

    @staticmethod
    def _keys(parts: CheckpointParts) -> set[str]:
        table = parts.read_adds(["path", "deletion_vector"])
        return set(key_array(table.column("path"), table.column("deletion_vector")).to_pylist())

    def _incomplete(self) -> Iterator[Finding]:
        complete = {files.version for files in self.complete}
        broken: dict[int, list[str]] = {}
        for name in sorted(self.names):
            parsed = parse_name(name)
            if parsed is None or parsed.version in complete:
                continue
            if self.first <= parsed.version <= self.last:
                broken.setdefault(parsed.version, []).append(name)
        for version, names in broken.items():
            yield kinds.CHECKPOINT_INCOMPLETE(
                f"of the checkpoint of version {version} only {units.count(len(names), 'part')} is there",
                version, names)

    def _hint(self) -> Iterator[Finding]:
        if _HINT not in self.names:
            return
        try:
            version = int(json.loads(self.store.read(_HINT))["version"])
        except (DeltaError, OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            yield kinds.HINT_WRONG(f"{_HINT} cannot be read: {what_is_wrong(error)}", paths=_HINT)
            return
        if all(files.version != version for files in self.complete):
            yield kinds.HINT_WRONG(f"{_HINT} names version {version}, which has no checkpoint", version,
                                   _HINT)

    # -- compactions and staged commits -----------------------------------------------------------------

    def _compaction(self, name: str, start: int, end: int) -> Iterator[Finding]:
        try:
            recorded, actual = Delta(), Delta()
            actions = parse_commit(self.store.read(name), name, self.store.root)
            feed_actions(recorded, actions)
            gone = {file_key(action) for action in actions if isinstance(action, RemoveFile)}
        except (DeltaError, OSError) as error:
            yield kinds.COMPACTION_UNREADABLE(f"{name}: {error}", (start, end), name)
            return
        try:
            for version in range(start, end + 1):
                feed_actions(actual, self.log.read_commit(version))
        except (DeltaError, OSError):
            return  # gone or damaged, which has its own finding
        differing = [what for what, one, other in (
            ("files added", _keys_of(recorded.adds) - gone, _keys_of(actual.adds)),
            ("metadata", recorded.metadata, actual.metadata),
            ("protocol", recorded.protocol, actual.protocol),
            ("transactions", _versions(recorded.txns), _versions(actual.txns)),
        ) if one != other]
        if differing:
            yield kinds.COMPACTION_DIFFERS(f"{name} has other {', '.join(differing)} than its commits",
                                           (start, end), name)

    def _staged(self) -> Iterator[Finding]:
        staged: dict[int, list[str]] = {}
        for name in sorted(self.names):
            match = _STAGED.match(name)
            if match and self.first <= int(match[1]) <= self.last:
                staged.setdefault(int(match[1]), []).append(name)
        for version, names in staged.items():
            published = f"{LOG_FOLDER}/{version:020d}.json"
            if published not in self.names:
                continue
            try:
                bodies = [self.store.read(name) for name in names]
                body = self.store.read(published)
            except (DeltaError, OSError):
                continue
            if body not in bodies:
                yield kinds.STAGED_DIFFERS(
                    f"version {version} was published with other content than "
                    f"{'each of ' if len(names) > 1 else ''}what was staged for it", version, names)


def _keys_of(files: Mapping[Any, Any]) -> set[str]:
    return {file_key(file) for file in files.values()}


def _versions(txns: Mapping[str, SetTransaction]) -> dict[str, int]:
    return {app: txn.version for app, txn in txns.items()}


def _compared(state: LogState, checksum: checksums.Checksum) -> Iterator[Comparison]:
    """What a checksum says and the state knows."""
    yield Comparison("numFiles", checksum.num_files, len(state.live))
    yield Comparison("tableSizeBytes", checksum.table_size_bytes, state.num_bytes)
    if state.metadata is not None and state.protocol is not None:
        yield from compare_definition(checksum, state.protocol, state.metadata, state.txns, state.domains)
    if checksum.in_commit_timestamp is not None and state.time is not None:
        yield Comparison("inCommitTimestampOpt", checksum.in_commit_timestamp, state.time)
    if checksum.num_deletion_vectors is not None:
        yield Comparison("numDeletionVectorsOpt", checksum.num_deletion_vectors, state.num_vectors)


def _small(state: LogState, parts: CheckpointParts) -> Iterator[tuple[str, Any, Any]]:
    yield "metadata", parts.metadata, state.metadata
    yield "protocol", _features(parts.protocol), _features(state.protocol)
    domains = {name: domain.configuration for name, domain in parts.domains.items()}
    yield "set of domains", domains, state.domains
    if state.metadata is not None and not properties.get(
            state.metadata.configuration, "delta.setTransactionRetentionDuration"):
        yield "set of transactions", _versions(parts.txns), state.txns


def _features(protocol: Any) -> Any:
    return None if protocol is None else (
        protocol.min_reader_version, protocol.min_writer_version, frozenset(protocol.features))


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 80 else text[:80] + "…"
