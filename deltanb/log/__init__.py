"""The Delta log on disk: store, replay, checkpoints, snapshots, history.

What lives here: everything between the files of ``_delta_log`` and an immutable snapshot.
What it does not know: the commit algorithm, rows of data files, engines, notebooks.
"""
