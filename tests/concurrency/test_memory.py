"""The memory pool of our reads and writes: the one of the option, and the process's own stays as it is."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltanb as dn
from deltanb.concurrency import memory
from deltanb.errors import InvalidArgument
from deltanb.options import options, set_options

ROWS = 40_000
USERS = pa.proxy_memory_pool(pa.system_memory_pool())
"""A pool that counts. Buffers do not keep theirs alive, so it lives as long as the process."""

SMALL = 200_000  # bytes of masks, row numbers and parsed statistics; the rows are three times as many


def numbers(start: int = 0) -> dict[str, Any]:
    """Rows of 16 bytes each."""
    ids = pa.array(range(start, start + ROWS), pa.int64())
    return {"id": ids, "value": ids.cast(pa.float64())}


@pytest.fixture
def table(tmp_path: Path) -> Any:
    return dn.create(tmp_path / "t", numbers())


COMMANDS: dict[str, Callable[[Any, pa.Table], Any]] = {
    "scan": lambda table, _: table.to_arrow(),
    "filter": lambda table, _: table.to_arrow(where="id % 10 < 9"),
    "filter on all columns": lambda table, _: table.to_arrow(where="id + value > 10"),
    "batches": lambda table, _: list(table.to_batches()),
    "append": lambda table, rows: table.append(rows),
    "update": lambda table, _: table.update({"value": "value + 1"}, "id < 1000"),
    "delete": lambda table, _: table.delete("id % 10 = 3"),
    "optimize": lambda table, _: table.optimize(),
    "merge": lambda table, rows: table.merge(rows, "t.id = s.id", target_alias="t", source_alias="s")
                                      .when_matched_update_all().execute(),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_default_pool_is_what_it_was_and_holds_none_of_our_rows(
    table: Any, tmp_path: Path, name: str
) -> None:
    rows = pa.table(numbers())
    COMMANDS[name](dn.create(tmp_path / "warm", numbers()), rows)  # what is kept for all tables is there
    before = pa.default_memory_pool()
    pa.set_memory_pool(USERS)
    try:
        held_before = USERS.bytes_allocated()
        with set_options(memory_pool="system"):
            held = COMMANDS[name](table, rows)
        assert held is not None
        assert USERS.bytes_allocated() - held_before < SMALL
        extra = pa.allocate_buffer(SMALL)
        assert USERS.bytes_allocated() - held_before >= extra.size  # it is the default still
    finally:
        pa.set_memory_pool(before)


@pytest.mark.parametrize(("option", "is_ours"), [("system", True), ("default", False)])
def test_rows_that_are_held_are_in_the_pool_of_the_option(table: Any, option: Any, is_ours: bool) -> None:
    before = pa.default_memory_pool()
    pa.set_memory_pool(USERS)
    try:
        mark = USERS.bytes_allocated()
        with set_options(memory_pool=option):
            tables = [table.to_arrow(), table.to_arrow(where="id % 10 < 5")]
        held = sum(one.nbytes for one in tables)
        assert held > 3 * SMALL
        assert (USERS.bytes_allocated() - mark < SMALL) is is_ours
        assert (USERS.bytes_allocated() - mark >= held) is not is_ours
    finally:
        pa.set_memory_pool(before)


@pytest.mark.parametrize("name", pa.supported_memory_backends())
def test_a_pool_by_its_name(name: str) -> None:
    with set_options(memory_pool=name):
        assert memory.pool().backend_name == name


def test_a_pool_that_arrow_was_built_without_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> None:
        raise NotImplementedError

    monkeypatch.setattr(pa, "jemalloc_memory_pool", absent)
    with set_options(memory_pool="jemalloc"), pytest.raises(InvalidArgument, match="has only .*system"):
        memory.pool()


@pytest.mark.parametrize("pool", ["tcmalloc", 7, None, pa.system_memory_pool()])
def test_what_is_no_pool_is_refused(pool: Any) -> None:
    with pytest.raises(InvalidArgument, match="memory_pool"):
        set_options(memory_pool=pool)


def named(variable: str | None) -> str:
    """The backend of our pool in a fresh process with the variable set."""
    environment = {key: text for key, text in os.environ.items() if key != memory.VARIABLE}
    if variable is not None:
        environment[memory.VARIABLE] = variable
    code = "from deltanb.concurrency import memory; print(memory.pool().backend_name)"
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True,
                          check=True, cwd=Path(__file__).parent.parent.parent).stdout.strip()


def test_who_chose_a_pool_for_the_process_chose_ours() -> None:
    assert options.memory_pool == "auto"
    assert named("mimalloc" if "mimalloc" in pa.supported_memory_backends() else "system") == (
        "mimalloc" if "mimalloc" in pa.supported_memory_backends() else "system")
    if memory._has_glibc():
        has_jemalloc = "jemalloc" in pa.supported_memory_backends()
        assert named(None) == ("jemalloc" if has_jemalloc else "system")


def test_what_glibc_keeps_is_given_back_where_its_pool_is_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    import ctypes

    called: list[int] = []

    class Library:
        malloc_trim = staticmethod(called.append)

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library)
    monkeypatch.setattr(memory, "_has_glibc", lambda: True)
    with set_options(memory_pool="system"):
        memory.give_back()
    assert called == [0]
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())  # without the function nothing happens
    with set_options(memory_pool="system"):
        memory.give_back()
    monkeypatch.setattr(memory, "_has_glibc", lambda: False)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library)
    with set_options(memory_pool="system"):
        memory.give_back()
    assert called == [0]


def test_what_jemalloc_keeps_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    class Pool:
        backend_name, times = "jemalloc", 0

        def release_unused(self) -> None:
            self.times += 1

    used = Pool()
    monkeypatch.setattr(memory, "pool", lambda: used)
    memory.give_back()
    assert used.times == 1


def test_where_arrow_has_no_jemalloc_the_pool_is_that_of_glibc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_has_glibc", lambda: True)
    monkeypatch.setattr(pa, "supported_memory_backends", lambda: ["system"])
    assert memory._usual.__wrapped__() == "system"
    monkeypatch.setattr(memory, "_has_glibc", lambda: False)
    assert memory._usual.__wrapped__() == "default"
