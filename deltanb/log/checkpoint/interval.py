"""How many versions apart the checkpoints of a table are.

Lives here: the interval that a table names, and the one that follows from its size where it names none.
Does not know: who writes a checkpoint, or when.

``delta.checkpointInterval`` decides where a table sets it. Else a checkpoint is the rarer the more it costs,
and never so rare that the commits after it cost readers more than the checkpoint itself. Measured, in CPU
time on one core: writing a checkpoint takes 4 ms, and 0.65 ms for every thousand files. A commit of a line or
two after it costs a reader 0.02 ms here and 0.17 ms in deltalake, which takes 4 ms to open a checkpoint, and
1.4 ms for every thousand files.

=============  ======== ============================= ==================================================
files up to    interval the writer's share, a commit  deltalake opens the most commits, and the checkpoint
=============  ======== ============================= ==================================================
10,000         50       0.1 to 0.2 ms                 9 ms, and 4 to 20 ms
100,000        100      0.1 to 0.7 ms                 17 ms, and 20 to 140 ms
1,000,000      500      0.1 to 1.3 ms                 85 ms, and 140 to 1,500 ms
any            1,000    from 0.7 ms                   170 ms, and from 1,500 ms
=============  ======== ============================= ==================================================

Commits that add many files are longer to read. One of twenty files counts as two here, one of a hundred as
six: the interval is divided by that, down to 10 versions, which Delta Spark always takes. Ten everywhere
would cost a one-row append about a third more processor time on a small table, and 65 ms on one of a million
files; a table that wants it sets the property. ``properties.get`` answers None where it is not set;
``snapshot.checkpoint_interval`` is the number in effect.

All writers of this library find the same interval without asking each other, and each interval is a multiple
of the one before, as is the 100 of deltalake.

>>> interval({}, 500, 3_000), interval({}, 500_000, 400_000), interval({}, 500_000, 40)
(50, 500, 10)
>>> interval({"delta.checkpointInterval": "7"}, 500, 3_000)
7
"""

from __future__ import annotations

from collections.abc import Mapping

from deltanb.schema import properties

PROPERTY = "delta.checkpointInterval"

LEAST = 10
"""Versions between two checkpoints at least, unless the table says otherwise."""

BY_FILES = ((10_000, 50), (100_000, 100), (1_000_000, 500))
"""Up to so many files, so many versions; each a multiple of the one before."""

LARGEST = 1_000

FILES_AS_A_COMMIT = 20
"""Files that a commit adds which cost a reader about as much as one more commit."""


def interval(configuration: Mapping[str, str], num_files: int, version: int) -> int:
    """How many versions lie between two checkpoints of a table of so many files, at a version of it."""
    named: int | None = properties.get(configuration, PROPERTY)
    if named is not None:
        return named
    apart_by_size = next((apart for files, apart in BY_FILES if num_files <= files), LARGEST)
    steps = (LARGEST, *(apart for _, apart in reversed(BY_FILES)))
    commits = 1 + num_files // (FILES_AS_A_COMMIT * (version + 1))
    return next((step for step in steps if step * commits <= apart_by_size), LEAST)


def may_be_due(configuration: Mapping[str, str], version: int) -> bool:
    """Whether a version can be one to checkpoint, however many files the table has: none need be counted."""
    return version > 0 and version % (properties.get(configuration, PROPERTY) or LEAST) == 0
