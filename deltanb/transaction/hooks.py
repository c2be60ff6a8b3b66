"""What follows a commit: checkpoint, checksum, symlink manifest, and the user's hooks.

What lives here: the hooks and the rule that none of them can undo a commit. A hook that fails is
logged, is an event for listeners and the journal, and is handed to its own handler; the commit stands.
What it does not know: the commit algorithm.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from deltanb.actions import AddFile, RemoveFile
from deltanb.concurrency import background
from deltanb.errors import InvalidArgument, InvalidTable, TableNotFound, UnsupportedProtocol
from deltanb.log import checksum
from deltanb.log.compaction import RUN, due_run, write_compaction
from deltanb.log.maintenance import CLEAN_LOG
from deltanb.options import options
from deltanb.schema import properties
from deltanb.store.base import is_remote
from deltanb.store.paths import Inside, place_of
from deltanb.text.safe_text import get_logger, without_credentials
from deltanb.transaction import hook_failures
from deltanb.transaction.steps import Committed

if TYPE_CHECKING:
    from deltanb.log.commits import Commits
    from deltanb.log.reader import LogReader
    from deltanb.log.snapshot import Snapshot
    from deltanb.transaction.committer import Committer

logger = get_logger("deltanb.transaction")

FOLLOWING = "Read the Table After the Commit"
"""What must go well before any hook runs; named as one where it fails."""

MANIFEST_FOLDER = "_symlink_format_manifest"


@runtime_checkable
class PostCommitHook(Protocol):
    """Work to be done after a commit. Hooks may begin transactions of their own."""

    name: str

    def run(self, committed: Committed, snapshot: Snapshot) -> None:
        """Do the work; ``snapshot`` is the table as of the commit or later."""

    def handle_error(self, error: Exception, version: int) -> None:
        """Take note of a failure; raising from here reaches the one who committed."""


def as_hook(hook: object) -> PostCommitHook:
    """The hook itself.

    Raises:
        InvalidArgument: it lacks what a hook has.
    """
    lacking = [name for name in ("run", "handle_error") if not callable(getattr(hook, name, None))]
    if not isinstance(getattr(hook, "name", None), str) or isinstance(hook, type):
        lacking.insert(0, "name")
    if lacking:
        raise InvalidArgument(
            f"a post-commit hook has a name and the methods run and handle_error; {hook!r:.80} lacks "
            f"{', '.join(lacking)}. A function becomes one by FunctionHook(name, function)")
    assert isinstance(hook, PostCommitHook)
    return hook


@dataclass(frozen=True)
class FunctionHook:
    """A hook made of a function, and optionally one for its errors."""

    name: str
    function: Callable[[Committed, Snapshot], object]
    on_error: Callable[[Exception, int], object] | None = None

    def run(self, committed: Committed, snapshot: Snapshot) -> None:
        """Call the function."""
        self.function(committed, snapshot)

    def handle_error(self, error: Exception, version: int) -> None:
        """Call the error function, if there is one."""
        if self.on_error is not None:
            self.on_error(error, version)


class _Builtin:
    name = ""

    def handle_error(self, error: Exception, version: int) -> None:
        """Nothing more than the log entry: the next commit tries again."""


class ChecksumHook(_Builtin):
    """Writes ``<version>.crc`` beside the commit (PROTOCOL.md, "Version Checksum File")."""

    name = "Write Version Checksum"

    def run(self, committed: Committed, snapshot: Snapshot) -> None:
        """Write the checksum, incrementally where the previous one is known."""
        if snapshot.version == committed.version:
            checksum.write_checksum(snapshot.log.store, snapshot, committed.actions)


class CheckpointHook(_Builtin):
    """Writes a checkpoint every ``delta.checkpointInterval`` versions, then cleans the log up.

    Where the table does not set that, the interval follows its size (:mod:`deltanb.log.checkpoint.interval`).
    Not of a commit that is not published: a later one's checkpoint stands for it, too.
    """

    name = "Checkpoint"

    def run(self, committed: Committed, snapshot: Snapshot) -> None:
        """Write it when the version asks for it."""
        if snapshot.needs_checkpoint(committed.version) and _is_published(committed, snapshot):
            clean = properties.get(snapshot.metadata.configuration, "delta.enableExpiredLogCleanup")
            clean = clean and _may_clean(snapshot)
            _write_checkpoint(self, committed, snapshot, clean)


class CompactionHook(_Builtin):
    """Writes a log compaction for each run of versions that no checkpoint is due behind soon, in a bucket:
    there a reader waits for each commit (:data:`deltanb.log.compaction.RUN`)."""

    name = "Log Compaction"

    def run(self, committed: Committed, snapshot: Snapshot) -> None:
        """Write it when the version asks for it."""
        run = due_run(committed.version, snapshot.checkpoint_interval)
        if run is not None and _is_published(committed, snapshot):
            log = snapshot.log
            _soon(self, f"The compaction of versions {run[0]} to {run[1]} of {log.path}", committed, snapshot,
                  _Run(log, *run), lambda: write_compaction(log, *run, log.same_table_check(snapshot)))


@dataclass(frozen=True)
class _Run:
    """Under what a compaction waits: it stands for no other one, and no checkpoint stands for it."""

    log: LogReader
    first: int
    last: int

    @property
    def commits(self) -> Commits:
        """Those of the log, by which a catalog waits for what concerns it."""
        return self.log.commits


class LargeCommitHook(_Builtin):
    """Writes a checkpoint behind a commit that replaces the table's state, where none is due anyway."""

    name = "Checkpoint of a large commit"

    def run(self, committed: Committed, snapshot: Snapshot) -> None:
        """Write it."""
        if not snapshot.needs_checkpoint(committed.version) and _is_published(committed, snapshot):
            _write_checkpoint(self, committed, snapshot, False)


def _write_checkpoint(hook: PostCommitHook, committed: Committed, snapshot: Snapshot, clean: bool) -> None:
    """Write a checkpoint, and clean the log up after it where that is wanted: now, or in the background."""
    log, version, is_behind = snapshot.log, committed.version, options.checkpoints == "background"

    def work() -> None:
        if is_behind:
            log.checkpoint_behind(snapshot, version)
        else:
            log.checkpoint(version)
        if clean:
            log.clean_up()

    _soon(hook, f"The checkpoint of version {version} of {log.path}", committed, snapshot, log, work)


def _soon(
    hook: PostCommitHook, what: str, committed: Committed, snapshot: Snapshot, key: Hashable,
    work: Callable[[], object],
) -> None:
    """Do the work of a hook in the background, where the options do not want it now."""
    if options.checkpoints == "inline":
        work()
        return

    def behind() -> None:
        try:
            work()
        except TableNotFound as error:
            logger.info("%s is not written: %s", what, error)
        except Exception as error:
            _failed(hook, error, committed, snapshot.log)

    background.soon(key, what, behind, rank=committed.version)


def _may_clean(snapshot: Snapshot) -> bool:
    """Whether the log is ours to clean up; a catalog may do that by itself."""
    reason = snapshot.log.commits.maintenance_refused(CLEAN_LOG)
    if reason is not None:
        logger.debug("The log of %s is not cleaned up: %s", snapshot.log.path, reason)
    return reason is None


def _is_published(committed: Committed, snapshot: Snapshot) -> bool:
    return snapshot.log.commits.published(committed.version) == committed.version


class SymlinkManifestHook(_Builtin):
    """Keeps ``_symlink_format_manifest`` current, for engines that read lists of Parquet files.

    One text file a partition, absolute paths in it. Only the partitions that the commit touched are
    written again; a partition without files loses its manifest.
    """

    name = "Generate Symlink Format Manifest"

    def run(self, committed: Committed, snapshot: Snapshot) -> None:
        """Write the manifests of the touched partitions."""
        names = _physical_names(snapshot)
        touched = set()
        for action in committed.actions:
            if isinstance(action, AddFile | RemoveFile):
                values = action.partition_values
                if values is None:
                    return write_manifests(snapshot)
                touched.add(tuple(values.get(name) for name in names))
        write_manifests(snapshot, touched)


def write_manifests(snapshot: Snapshot, only: set[tuple[str | None, ...]] | None = None) -> None:
    """Write symlink manifests for all partitions, or for some given by their values.

    Raises:
        UnsupportedProtocol: files have deletion vectors, which such engines would not see.
    """
    from deltanb.log.skipping.partitions import hive_path

    names = _physical_names(snapshot)
    logical = snapshot.partition_columns
    table = snapshot.select_files(["path", "partition_values", "deletion_vector"])
    if table["deletion_vector"].null_count < table.num_rows:
        raise UnsupportedProtocol(
            f"table {snapshot.log.path}: files with deletion vectors cannot be listed in a manifest; "
            "their deleted rows would come back. Purge the deletion vectors first",
            features=("deletionVectors",),
        )
    listed: dict[tuple[str | None, ...], list[str]] = {key: [] for key in only or ()}
    if not logical:
        listed[()] = []
    store = snapshot.log.store
    for row in table.select(["path", "partition_values"]).to_pylist(maps_as_pydicts="lossy"):
        key = tuple((row["partition_values"] or {}).get(name) for name in names)
        if only is None or key in listed or not logical:
            place = place_of(store, row["path"])
            local = store.local_path(place.name) if place.name is not None else None
            listed.setdefault(key, []).append(local or without_credentials(place.address))
    inside = Inside(store)
    for key, paths in listed.items():
        folder = hive_path(dict(zip(logical, key, strict=True))) if logical else ""
        name = "/".join(p for p in (MANIFEST_FOLDER, folder, "manifest") if p)
        check_manifest(inside, name)
        if paths:
            store.put(name, "".join(p + "\n" for p in sorted(paths)).encode())
        else:
            store.delete(name)


def check_manifest(inside: Inside, name: str) -> None:
    """Refuse to write or delete a manifest where a link leads out of the table.

    Raises:
        InvalidTable: it does.
    """
    if inside.name_of(name, is_encoded=False) is None:
        root = inside.store.root
        raise InvalidTable(
            f"the manifest {name} of {root} lies behind a link that leads out of the table; manifests are "
            "written and deleted inside it alone. Make the link a folder", path=root, file=name)


def _physical_names(snapshot: Snapshot) -> list[str]:
    schema = snapshot.schema
    return [schema.field(c).physical_name for c in snapshot.partition_columns]


def publish(committer: Committer, version: int) -> bool:
    """Publish a commit before its hooks run, and say whether that went well; the commit stands where it did
    not, and a later one publishes it."""
    try:
        committer.publish(version)
    except Exception as error:
        logger.warning("Version %d is committed and not published yet: %s", version, error)
        return False
    return True


def builtin_hooks(committed: Committed, snapshot: Snapshot) -> list[PostCommitHook]:
    """The hooks every commit has, by the table's properties."""
    hooks: list[PostCommitHook] = [ChecksumHook(), CheckpointHook()]
    if not committed.version % RUN and is_remote(snapshot.log.store):
        hooks.append(CompactionHook())
    manifest = "delta.compatibility.symlinkFormatManifest.enabled"
    if committed.has_file_actions and properties.get(snapshot.metadata.configuration, manifest):
        hooks.append(SymlinkManifestHook())
    return hooks


def run_hooks(hooks: Sequence[PostCommitHook], committed: Committed, snapshot: Snapshot) -> None:
    """Run hooks in order; each failure is logged, an event, and handed to the hook itself."""
    for hook in hooks:
        try:
            hook.run(committed, snapshot)
        except Exception as error:
            _failed(hook, error, committed, snapshot.log)


def cannot_run(log: LogReader, committed: Committed, error: Exception) -> None:
    """Say everywhere that no hook runs, since the table cannot be read after its commit."""
    logger.warning("Version %d is committed; its hooks do not run, as the table cannot be read after it: %s",
                   committed.version, error)
    hook_failures.tell(log, committed, FOLLOWING, error)


def _failed(hook: PostCommitHook, error: Exception, committed: Committed, log: LogReader) -> None:
    """Say everywhere that a hook has failed, and hand it its error."""
    logger.exception("Error when executing post-commit hook %s for commit %d", hook.name, committed.version)
    hook_failures.tell(log, committed, hook.name, error)
    hook.handle_error(error, committed.version)
