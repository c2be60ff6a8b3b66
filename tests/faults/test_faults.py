"""Every command, struck at its file operations: killed, out of space, failed by the disk, interrupted.

A usual run tries some of all strikes, chosen by a seed; ``--faults=all`` tries every one (half an hour), and
``--faults=7`` chooses others.
"""

from __future__ import annotations

import inspect
import logging
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deltanb.store.local import LocalStore
from deltanb.table.contract import declared
from deltanb.table.table import DeltaTable
from deltanb.transaction.transaction import OptimisticTransaction
from tests.faults import commands
from tests.faults.disk import Strike
from tests.faults.killed import Killer
from tests.faults.trial import Trials

ON_SPARK = 3
"""Strikes of a command on Spark in a usual run; each takes up to a second."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forked processes"),
]


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trials]:
    logging.disable(logging.CRITICAL)  # thousands of failed hooks, each with its traceback
    with Killer() as killer:
        yield Trials(tmp_path_factory.mktemp("trials"), killer)
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", [command.name for command in commands.COMMANDS])
def test_done_or_not_done(name: str, trials: Trials, request: pytest.FixtureRequest) -> None:
    choice = request.config.getoption("--faults")
    reference = trials.reference(name)
    strikes = reference.strikes() if choice == "all" else reference.some_strikes(f"{choice} {name}")
    complaints = [complaint for strike in strikes for complaint in trials.complaints(name, strike)]
    assert not complaints, "\n".join([f"{len(complaints)} of {len(strikes)} strikes:", *complaints])


def test_delta_rs_reads_what_every_command_makes(trials: Trials) -> None:
    refused = set()
    for command in commands.COMMANDS:
        made = trials.reference(command.name).worlds[-1][command.target]
        assert made is not None
        if isinstance(made["delta-rs"], str):
            refused.add(command.name)
        else:
            assert made["delta-rs"] == made["rows"], command.name
    assert refused <= {"widen column"}, "it may not know type widening"


@pytest.mark.spark
@pytest.mark.parametrize("name", [command.name for command in commands.ON_SPARK])
def test_done_or_not_done_on_spark(
    name: str, trials: Trials, spark: object, request: pytest.FixtureRequest
) -> None:
    choice = request.config.getoption("--faults")
    reference = trials.reference(name)
    strikes = [s for s in reference.strikes() if s.fault != "kill"]  # Spark lives in this process's child
    if choice != "all":
        strikes = random.Random(f"{choice} {name}").sample(strikes, ON_SPARK)
    complaints = [complaint for strike in strikes for complaint in trials.complaints(name, strike)]
    assert not complaints, "\n".join([f"{len(complaints)} of {len(strikes)} strikes:", *complaints])


def test_every_command_is_here() -> None:
    written = {name for name, asked in declared(DeltaTable).items() if not asked.does.is_read}
    here = inspect.getsource(commands)
    assert {name for name in written if f".{name}(" not in here} == set()
    assert len(written) > 20


# -- controls: faults in the library that must be found --------------------------------------------


def torn(store: LocalStore, name: str, data: bytes, **more: object) -> bool:
    """A put that can be seen half done."""
    path = f"{store.root}/{name}"
    if os.path.exists(path):
        return False
    store.make_folder(os.path.dirname(path))
    with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o644), "wb") as file:
        os.write(file.fileno(), data)
    return True


_put = LocalStore.put_if_absent


def deaf(store: LocalStore, name: str, data: bytes, **more: Any) -> bool:
    """A put that never says what went wrong."""
    try:
        return _put(store, name, data, **more)
    except OSError:
        return True


def untidy(txn: OptimisticTransaction) -> None:
    """Nothing is discarded."""


@pytest.mark.parametrize(("owner", "attribute", "broken", "kind", "word"), [
    (LocalStore, "put_if_absent", torn, "write", "InvalidTable"),
    (LocalStore, "put_if_absent", deaf, "open", "returned"),
    (OptimisticTransaction, "discard_written", untidy, "link", "leaves"),
], ids=["torn", "deaf", "untidy"])
def test_faults_are_found(
    owner: type, attribute: str, broken: object, kind: str, word: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(owner, attribute, broken)
    with Killer() as killer:
        trials = Trials(tmp_path, killer)
        done = trials.reference("append").done
        place = next(number for number, operation in enumerate(done)
                     if operation.kind == kind and "_delta_log" in operation.name)
        moment = "half" if kind == "write" else "before"
        problems = trials.complaints("append", Strike(place, moment, "ENOSPC"))
    assert any(word in complaint for complaint in problems), problems
