"""Log files damaged by chance: the verification says so and never raises, and the rest is looked at."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import deltanb as dn
from deltanb.errors import DeltaError
from tests.examples import first
from tests.observe.verify import histories

SEEDS = first(3, of=100)
TRIALS = 25


@pytest.fixture(scope="module", params=range(3))
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of ours, of which each trial damages a copy of the log."""
    path = tmp_path_factory.mktemp("sound") / "t"
    with dn.set_options(durability="none", checkpoints="inline"):
        histories.ours(path, request.param)
    return path


def flip(data: bytes, draw: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(draw.randint(1, 8)):
        changed[draw.randrange(len(changed))] = draw.randrange(256)
    return bytes(changed)


def cut(data: bytes, draw: random.Random) -> bytes:
    return data[:draw.randrange(len(data))]


def swap(data: bytes, draw: random.Random) -> bytes:
    """A token of JSON for another one."""
    tokens = [b"null", b"true", b"1", b"-1", b'""', b"[]", b"{}", b"1e400", b'"\\ud800"', b"9" * 30, b"[[[["]
    pieces = data.split(b":")
    at = draw.randrange(len(pieces))
    _, comma, rest = pieces[at].partition(b",")
    pieces[at] = draw.choice(tokens) + comma + rest
    return b":".join(pieces)


def repeat(data: bytes, draw: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    draw.shuffle(lines)
    return b"".join(lines + lines[:draw.randrange(len(lines) + 1)])


WAYS: list[Callable[[bytes, random.Random], bytes]] = [flip, cut, swap, swap, swap, repeat]


@pytest.mark.parametrize("seed", SEEDS)
def test_damage_never_raises(seed: int, table: Path, tmp_path: Path) -> None:
    draw = random.Random(seed)
    for trial in range(TRIALS):
        path = tmp_path / str(trial)
        shutil.copytree(table, path)
        log = sorted(one for one in (path / "_delta_log").rglob("*") if one.is_file())
        for name in draw.sample(log, draw.randint(1, 3)):
            data = name.read_bytes()
            if draw.random() < 0.1:
                name.unlink()
            elif data:
                name.write_bytes(draw.choice(WAYS)(data, draw))
        try:
            report = dn.verify(path, files=draw.choice(["none", "sample", "all"]))
        except DeltaError as error:
            assert not list((path / "_delta_log").glob("*[0-9].json")), error
            continue
        assert report.versions[1] >= 0
        report.to_json()


def test_commits_without_commit_info_are_verified(table: Path, tmp_path: Path) -> None:
    path = tmp_path / "t"
    shutil.copytree(table, path)
    for name in (path / "_delta_log").glob("*[0-9].json"):
        lines = name.read_bytes().splitlines(keepends=True)
        rest = b"".join(line for line in lines if b'"commitInfo"' not in line)
        name.write_bytes(rest or b'{"txn":{"appId":"a","version":1}}\n')
    report = dn.verify(path, files="none")
    assert any(spot.kind == "read-version" for spot in report.blind_spots)
    assert not [one for one in report.findings if one.kind == "commit-unreadable"]
