"""Every command in a catalog, struck at its file operations and statements.

Struck means: killed, interrupted, failed by the disk, out of space, with a database that does not answer. A
usual run tries some of all strikes, chosen by a seed, fewer of them on PostgreSQL than on SQLite;
``--faults=all`` tries every one.
"""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deltanb.catalog.delta.managed import ManagedCommitter
from deltanb.catalog.store.store import CatalogStore
from deltanb.options import set_options
from tests.catalog.struck import BY_NAME, COMMANDS, OF_THE_DATABASE, CatalogTrials
from tests.examples import crossed
from tests.faults.disk import Strike
from tests.faults.killed import Killer

ON_POSTGRESQL = 5
"""How many of the strikes that a command has on SQLite in a usual run it has on PostgreSQL, too."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forked processes"),
]


@pytest.fixture(scope="module")
def killer() -> Iterator[Killer]:
    logging.disable(logging.CRITICAL)  # hundreds of failed hooks, each with its traceback
    with Killer("tests.catalog.struck") as killer:
        yield killer
    logging.disable(logging.NOTSET)


@pytest.fixture
def trials(
    new_url: Callable[[], str], killer: Killer, tmp_path: Path, request: pytest.FixtureRequest,
) -> Iterator[CatalogTrials]:
    command = BY_NAME.get(request.node.callspec.params.get("name"))
    with set_options(durability="none"):  # but for the command that is struck
        trials = CatalogTrials(tmp_path, killer)
        trials.set_up(new_url(), command.properties if command else None)
        yield trials


@pytest.mark.parametrize(
    ("new_url", "name"), crossed(2, ["sqlite", "postgresql"], [command.name for command in COMMANDS]),
    indirect=["new_url"])
def test_done_or_not_done(name: str, trials: CatalogTrials, request: pytest.FixtureRequest) -> None:
    choice = request.config.getoption("--faults")
    reference = trials.reference(name)
    strikes = reference.strikes() if choice == "all" else reference.some_strikes(int(choice))
    if choice != "all" and request.node.callspec.params["new_url"] == "postgresql":
        strikes = random.Random(f"{choice} {name}").sample(strikes, min(ON_POSTGRESQL, len(strikes)))
    complaints = [complaint for strike in strikes for complaint in trials.complaints(name, strike)]
    assert not complaints, "\n".join([f"{len(complaints)} of {len(strikes)} strikes:", *complaints])


# -- controls: faults in the library that must be found ----------------------------------------------

_ratify = CatalogStore.ratify


def one_by_one(
    store: CatalogStore, txn_id: str, principal: Any, proposals: Any, *more: Any, **most: Any
) -> Any:
    """Each table in a transaction of its own."""
    for number, proposal in enumerate(proposals):
        ratified = _ratify(store, f"{txn_id}-{number}", principal, [proposal], *more, **most)
    return ratified


def untidy(committer: ManagedCommitter, file_name: str) -> None:
    """Nothing that was staged is deleted."""


_settled = ManagedCommitter._settled


def hasty(committer: ManagedCommitter, has_landed: bool) -> None:
    """What was staged is deleted whatever became of it."""
    _settled(committer, False)


@pytest.mark.parametrize(("owner", "attribute", "broken", "command", "later", "moment", "fault", "word"), [
    (CatalogStore, "ratify", one_by_one, "two tables", 1, "before", "EIO", "is gone"),
    (ManagedCommitter, "_delete", untidy, "two tables", 0, "before", "EIO", "leaves"),
    (ManagedCommitter, "_settled", hasty, "append", 0, "after", "interrupt", "is gone"),
], ids=["torn", "untidy", "hasty"])
@pytest.mark.parametrize("new_url", ["sqlite"], indirect=True)
def test_faults_are_found(
    owner: type, attribute: str, broken: Any, command: str, later: int, moment: Any, fault: Any, word: str,
    trials: CatalogTrials, monkeypatch: pytest.MonkeyPatch,
) -> None:
    kinds = [done.kind for done in trials.reference(command).done]
    strike = Strike(kinds.index("COMMIT") + later, moment, fault)
    assert not trials.complaints(command, strike)
    monkeypatch.setattr(owner, attribute, broken)
    complaints = trials.complaints(command, strike)
    assert any(word in complaint for complaint in complaints), complaints


# -- a database that is started anew -----------------------------------------------------------------


@pytest.mark.parametrize("new_url", ["postgresql"], indirect=True)
def test_a_database_that_is_started_anew_at_any_statement_of_a_commit(trials: CatalogTrials) -> None:
    done = trials.reference("two tables").done
    begins = next(at for at, one in enumerate(done) if one.kind == "change") - 2
    strikes = [Strike(at, "before", "restart") for at, one in enumerate(done)
               if at >= begins and one.name.startswith(OF_THE_DATABASE)]
    assert len(strikes) == 7, "all tables are held, moved and recorded by one statement each"
    assert [complaint for strike in strikes for complaint in trials.complaints("two tables", strike)] == []
