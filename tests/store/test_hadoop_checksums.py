"""Hadoop's checksums beside files (``.NAME.crc``): none stays where a name has other content, or none."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import deltanb as dn
from deltanb.store.local import LocalStore

NAME = "_delta_log/00000000000000000003.checkpoint.parquet"


def beside(path: Path) -> Path:
    return path.parent / f".{path.name}.crc"


def pieces() -> Iterator[bytes]:
    yield b"of "
    yield b"ours"


def remove_alone(store: LocalStore) -> None:
    Path(store.local_path(NAME)).unlink()


CHANGES: dict[str, Callable[[LocalStore], object]] = {
    "put": lambda store: store.put(NAME, b"ours"),
    "put in pieces": lambda store: store.put(NAME, pieces()),
    "delete": lambda store: store.delete(NAME),
    "delete what was removed alone": lambda store: (remove_alone(store), store.delete(NAME)),
    "link if absent": lambda store: (
        store.put("staged", b"ours"), remove_alone(store), store.link_if_absent("staged", NAME)),
    "put if absent": lambda store: (remove_alone(store), store.put_if_absent(NAME, b"ours")),
}


@pytest.mark.parametrize("is_nameless", [True, False])
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_takes_the_checksum_along(change: str, is_nameless: bool, tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.has_nameless_files &= is_nameless
    store.put(NAME, b"theirs")
    beside(tmp_path / NAME).write_bytes(b"crc of theirs")
    beside(tmp_path / "_delta_log" / "another").write_bytes(b"crc of another")
    CHANGES[change](store)
    assert not beside(tmp_path / NAME).exists() and beside(tmp_path / "_delta_log" / "another").exists()


def test_so_does_one_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **more: object) -> None:
        raise OSError(errno.EPERM, "operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    test_a_change_takes_the_checksum_along("put if absent", False, tmp_path)


def test_what_is_not_replaced_keeps_its_checksum(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put(NAME, b"theirs")
    beside(tmp_path / NAME).write_bytes(b"crc of theirs")
    assert not store.put_if_absent(NAME, b"ours")
    assert beside(tmp_path / NAME).exists()


def test_of_all_files_that_commands_replace_or_delete_no_checksum_stays(tmp_path: Path) -> None:
    table = dn.create(tmp_path, {"n": [0]}, properties={"delta.checkpointInterval": 2})
    for n in range(1, 4):
        table.overwrite({"n": [n]})
    dn.flush()
    for path in [path for path in tmp_path.rglob("*") if path.is_file()]:
        beside(path).write_bytes(f"crc of {path.stat().st_ino}".encode())
    table.overwrite({"n": [4]})
    table.log.checkpoint(2)
    table.vacuum(0, check=False)
    with dn.set_options(clock=lambda: 2**42):
        from deltanb.log.cleanup import clean_up

        clean_up(table.log)
    dn.flush()
    for crc in tmp_path.rglob(".*.crc"):
        path = crc.parent / crc.name[1:-4]
        assert path.is_file() and crc.read_bytes() == f"crc of {path.stat().st_ino}".encode(), path.name
