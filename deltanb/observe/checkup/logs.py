"""The age of the log: commits after the newest checkpoint, files that no retained version needs.

What lives here: both checks.
What it does not know: what a checkpoint holds, how the log is cleaned up.
"""

from __future__ import annotations

from collections.abc import Iterator

from deltanb.log import cleanup
from deltanb.log.checkpoint.names import complete_checkpoints
from deltanb.observe.checkup import kinds
from deltanb.observe.checkup.report import Finding
from deltanb.observe.checkup.state import TableState
from deltanb.text import formatting as units

HOUR_MS = 3_600_000
ROW_BYTES = 150
"""Bytes of a file in a checkpoint, about, where there is no checkpoint to go by."""


def check_checkpoint(state: TableState) -> Iterator[Finding]:
    """A checkpoint that is late."""
    snapshot = state.snapshot
    state.setting("delta.checkpointInterval")  # remarks on it where it is no number
    interval = snapshot.checkpoint_interval
    last = next(iter(complete_checkpoints(list(state.log_files), snapshot.version)), None)
    newest = -1 if last is None else last.version
    since = snapshot.version - newest
    if since < kinds.TIMES_INTERVAL * interval:
        return
    written = len(state.files) * ROW_BYTES
    if last is not None:
        written = sum(state.log_files[name].size for name in last.names if name in state.log_files)
    what = f"is of v{newest}" if newest >= 0 else "is none at all"
    yield kinds.CHECKPOINT(
        f"the newest checkpoint {what}: {units.count(since, 'commit')} came since; the interval is "
        f"{units.number(interval)}",
        {"commits_since": since, "interval_commits": interval}, {"requests": since},
        reads=written, writes=written)


def check_log(state: TableState) -> Iterator[Finding]:
    """Expired files of the log."""
    retention = state.setting("delta.logRetentionDuration")
    expired = cleanup.expired_files(state.snapshot.log, state.snapshot, list(state.log_files))
    if len(expired) < kinds.LEAST_LOG_FILES:
        return
    size = sum(state.log_files[name].size for name in expired if name in state.log_files)
    hours = retention / HOUR_MS
    yield kinds.LOG(
        f"{units.count(len(expired), 'file')} of the log, {units.size(size)}, are of versions older than "
        f"{hours:g} hours, and a checkpoint stands for them",
        {"log_files": len(expired), "bytes": size, "retention_hours": hours},
        {"files": len(expired), "bytes": size}, reads=0, writes=0)
