"""Checkpoints: the state of the table at one version, in one or a few files.

Lives here: the names that the rest of the library uses. Reading is in ``checkpoint_read``, writing
in ``checkpoint_write``, file names in ``checkpoint_files``, the hint in ``last_checkpoint``.

A checkpoint is only ever a shortcut: whoever opens one is prepared for InvalidTable and takes the
next of :func:`complete_checkpoints`, or the commits.

Does not know: commits, snapshots, or when a checkpoint is due.
"""

from deltanb.log.checkpoint_files import CheckpointFiles, complete_checkpoints
from deltanb.log.checkpoint_read import CheckpointParts, open_checkpoint
from deltanb.log.checkpoint_write import write_checkpoint
from deltanb.log.last_checkpoint import LastCheckpoint, read_last_checkpoint

__all__ = [
    "CheckpointFiles",
    "CheckpointParts",
    "LastCheckpoint",
    "complete_checkpoints",
    "open_checkpoint",
    "read_last_checkpoint",
    "write_checkpoint",
]
