"""A process killed at every step of a commit under locks: all of it is there or nothing, and all goes on.

The steps are the operations on files and the statements of the catalog's database. What must hold is the law
of the trials (``tests/faults/trial``, ``tests/catalog/struck``): the tables open; they are what they were or
what the transaction makes of them; no file that a version names is gone; the next commit is the next version;
and a vacuum removes the rest. A usual run kills at some steps of some, chosen by a seed, ``--faults=all`` at
every step of all.
"""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sqlalchemy", reason="the catalog is an extra: pip install 'deltanb[catalog]'")

from deltanb.locks.core.transaction import Transaction
from deltanb.options import set_options
from tests.catalog import struck
from tests.catalog.struck import CatalogTrials
from tests.faults import commands
from tests.faults.disk import Disk, Strike
from tests.faults.killed import Killer
from tests.faults.trial import Trials

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forked processes"),
]
FEWEST_STEPS = 10
IN_EVERY_RUN = ("statements under locks", "rows under locks")
ALONE = [command.name for command in commands.COMMANDS if "under locks" in command.name]
TOGETHER = [command.name for command in struck.COMMANDS if "under locks" in command.name]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def begins(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """At which operations outermost commits begin, as they come."""
    counts: list[int] = []
    inside: list[Disk] = []
    insert, commit = Disk.__init__, Transaction._commit_outermost

    def inserted(disk: Disk, *args: Any) -> None:
        insert(disk, *args)
        inside.append(disk)

    def committing(txn: Transaction) -> None:
        counts.append(len(inside[-1].done))
        commit(txn)

    monkeypatch.setattr(Disk, "__init__", inserted)
    monkeypatch.setattr(Transaction, "_commit_outermost", committing)
    return counts


@pytest.fixture(autouse=True)
def _not_always(request: pytest.FixtureRequest) -> None:
    name = request.node.callspec.params["name"] if hasattr(request.node, "callspec") else IN_EVERY_RUN[0]
    if name not in IN_EVERY_RUN and request.config.getoption("--faults") != "all":
        pytest.skip("killed at some steps by tests/faults and tests/catalog; at all of them by --faults=all")


def kills(strikes: list[Strike], first: int, seed: str) -> list[Strike]:
    """Those of a commit, or some of them chosen by a seed; after a step is before the next one."""
    kills_after = [strike for strike in strikes if strike.fault == "kill" and strike.place >= first
             and (strike.moment != "after" or strike.place == strikes[-1].place)]
    assert len(kills_after) > FEWEST_STEPS
    return kills_after if seed == "all" else random.Random(int(seed)).sample(kills_after, FEWEST_STEPS)


@pytest.mark.parametrize("name", ALONE)
def test_one_table(name: str, begins: list[int], tmp_path: Path, request: pytest.FixtureRequest) -> None:
    with Killer() as killer:
        trials = Trials(tmp_path, killer)
        strikes = trials.reference(name).strikes()
        some = kills(strikes, begins[0], request.config.getoption("--faults"))
        complaints = [each for strike in some for each in trials.complaints(name, strike)]
    assert not complaints, "\n".join(complaints)


@pytest.mark.parametrize("name", TOGETHER)
def test_two_tables_of_a_catalog(
    name: str, begins: list[int], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with Killer("tests.catalog.struck") as killer, set_options(durability="none"):
        trials = CatalogTrials(tmp_path, killer)
        trials.set_up(f"sqlite:///{tmp_path}/lake.db")
        strikes = trials.reference(name).strikes()
        some = kills(strikes, begins[0], request.config.getoption("--faults"))
        complaints = [each for strike in some for each in trials.complaints(name, strike)]
    assert not complaints, "\n".join(complaints)


def test_all_kinds_of_work_are_here() -> None:
    assert len(ALONE) >= 5 and len(TOGETHER) >= 4
