"""Commits to a table and dies at the n-th system call on files: ``killed.py TABLE MODULE_PATH``.

For n = 0, 1, 2, … a forked child copies the table, commits to the copy, and is ended before its n-th
call. Prints how many children died and how many finished; any table that does not open ends it.
"""

from __future__ import annotations

import os
import shutil
import sys

from deltanb.actions import AddFile
from deltanb.log.delta_log import DeltaLog

CALLS = ("open", "write", "fsync", "link", "unlink", "replace", "close", "mkdir", "rename")
MOST = 500  # calls a commit with a checkpoint may make; more is a loop


def die_at(count: int) -> None:
    left = count

    def counted(real: object) -> object:
        def call(*args: object, **kwargs: object) -> object:
            nonlocal left
            if left == 0:
                os._exit(9)
            left -= 1
            return real(*args, **kwargs)  # type: ignore[operator]

        return call

    for name in CALLS:
        setattr(os, name, counted(getattr(os, name)))


def commit(path: str) -> None:
    log = DeltaLog.for_table(path)
    file = AddFile(path="new", partition_values={}, size=1, modification_time=1)
    log.start_transaction().commit([file], "WRITE")


def look(path: str) -> tuple[int, list[str]]:
    DeltaLog.clear_cache()
    snapshot = DeltaLog.for_table(path).snapshot
    return snapshot.version, sorted(snapshot.files["path"].to_pylist())


def main(table: str) -> None:
    before, died, finished, landed = look(table), 0, 0, 0
    for count in range(MOST):
        copy = f"{table}-{count}"
        shutil.copytree(table, copy)
        child = os.fork()
        if child == 0:
            die_at(count)
            commit(copy)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        version, files = look(copy)
        assert version - before[0] in (0, 1), (count, version)
        assert files == (before[1] if version == before[0] else sorted([*before[1], "new"])), count
        landed += version - before[0]
        commit(copy)  # the table goes on
        assert look(copy)[0] == version + 1
        shutil.rmtree(copy)
        if os.waitstatus_to_exitcode(status) == 0:
            finished += 1
            break
        died += 1
    print(died, finished, landed)


if __name__ == "__main__":
    main(sys.argv[1])
