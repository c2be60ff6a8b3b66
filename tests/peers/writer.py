"""A process that writes to a table beside others (``python -m tests.peers.writer``).

Each commit moves an amount between the two rows of a pair, or brings or takes a pair, so that all amounts
come to nothing at every version. The lock is for a log on a local disk, where Delta Spark's rename would
overwrite a commit that came between its look and its rename: who commits holds it.
"""

from __future__ import annotations

import fcntl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

import deltanb as dn
from deltanb.errors import DeltaConcurrentModificationException
from deltanb.store.local import LocalStore

SCHEMA = pa.schema({"id": pa.int64(), "who": pa.string(), "amount": pa.int64()})
MOVED = "amount + 1 - 2 * (id % 2)"
MAX_TRIES = 100


def pair(who: str, n: int) -> pa.Table:
    """Two rows that come to nothing; the ids are even and odd."""
    first = 10_000 * (sum(map(ord, who)) % 97) + 2 * n
    return pa.table({"id": [first, first + 1], "who": [who, who], "amount": [n, -n]}, SCHEMA)


def of(who: str, n: int) -> str:
    """The condition of a pair."""
    return f"who = '{who}' AND id IN ({', '.join(map(str, pair(who, n)['id'].to_pylist()))})"


def work(who: str, n: int) -> tuple[str, int]:
    """What commit ``n`` does, and to which pair: one comes, is changed, and every second one goes."""
    return ("insert", "update", "delete" if n % 6 == 5 else "update")[n % 3], n // 3 + 1


@contextmanager
def held(lock: Path | str) -> Iterator[None]:
    """Hold the lock of all writers."""
    with Path(lock).open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class LockedStore(LocalStore):
    """Commits while nobody else does: Hadoop's rename on a local file system would overwrite ours."""

    def __init__(self, root: Path, lock: Path) -> None:
        super().__init__(root)
        self.lock = lock

    def put_if_absent(self, path: str, data: bytes, **settings: Any) -> Any:
        with held(self.lock):
            return super().put_if_absent(path, data, **settings)


def ours(path: str, lock: str, who: str, count: int) -> None:
    """Commits of this library."""
    table = dn.open(LockedStore(Path(path), Path(lock)))
    for n in range(count):
        what, number = work(who, n)
        for _ in range(MAX_TRIES):
            try:
                if what == "insert":
                    table.append(pair(who, number))
                elif what == "update":
                    table.update({"amount": MOVED}, of(who, number))
                else:
                    table.delete(of(who, number))
                break
            except DeltaConcurrentModificationException:
                continue
        else:
            raise RuntimeError(f"commit {n} of {who} lost {MAX_TRIES} races")


def deltalake(path: str, lock: str, who: str, count: int) -> None:
    """Commits of delta-rs, each on the version it saw before it had the lock."""
    import deltalake
    from deltalake.exceptions import DeltaError

    for n in range(count):
        what, number = work(who, n)
        for _ in range(MAX_TRIES):
            table = deltalake.DeltaTable(path)
            try:
                with held(lock):
                    if what == "insert":
                        deltalake.write_deltalake(table, pair(who, number), mode="append")
                    elif what == "update":
                        table.update(updates={"amount": MOVED}, predicate=of(who, number))
                    else:
                        table.delete(of(who, number))
                break
            except DeltaError:
                continue
        else:
            raise RuntimeError(f"commit {n} of {who} lost {MAX_TRIES} races")


if __name__ == "__main__":
    library, path, lock, who, count = sys.argv[1:]
    {"ours": ours, "deltalake": deltalake}[library](path, lock, who, int(count))
