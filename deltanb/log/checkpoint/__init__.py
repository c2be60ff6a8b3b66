"""Checkpoints: the state of a table at one version, in one or a few files.

A checkpoint is only ever a shortcut: whoever opens one is prepared for InvalidTable and takes the next of
:func:`~deltanb.log.checkpoint.names.complete_checkpoints`, or the commits.

Lives here: the names of checkpoint files, reading and writing them, the hint where the newest one is.
Does not know: commits, snapshots, or when a checkpoint is due.
"""
