"""A damaged table is read rightly, or refused by name: hundreds of damaged files, the same at each run.

The files are damaged and asked in processes of their own (``mutate.py``), as an abort of the interpreter
is one of the things that must not happen. A usual run leaves out most of the first 20 000 numbers, which
``--thorough`` has. Others:

    DELTANB_MUTATION_SEED=2 pytest --thorough tests/faults/test_mutations.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.faults.mutate import KINDS, damaged, originals

MUTATIONS, ALL_MUTATIONS = 500, 20_000
SEED = int(os.environ.get("DELTANB_MUTATION_SEED", "1"))
WORKERS = 2  # processes at a time: what CI has processors
WORKER = Path(__file__).with_name("mutate.py")
ROOT = WORKER.parents[2]
MAX_ABORTS = 20  # after so many the point is made


@dataclass
class Outcome:
    """What a run of workers said."""

    answered: set[int] = field(default_factory=set)
    noticed: set[int] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)

    def take(self, line: dict[str, Any]) -> None:
        """One line of a worker's."""
        if line.get("done"):
            self.answered.add(line["number"])
            if line["noticed"]:
                self.noticed.add(line["number"])
        elif "question" in line:
            self.faults.append(f"{line['damage']}\n  {line['question']}: {line['what']}\n  {line['trace']}")


def examine(first: int, count: int) -> Outcome:
    """A range of numbers, by as many workers as end before they are through."""
    outcome, last = Outcome(), first + count
    while first < last and len(outcome.faults) < MAX_ABORTS:
        command = [sys.executable, str(WORKER), "--seed", str(SEED), "--first", str(first),
                   "--count", str(last - first)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        ended = subprocess.run(command, capture_output=True, text=True, errors="replace", env=environment)
        lines = [json.loads(line) for line in ended.stdout.splitlines()]
        for line in lines:
            outcome.take(line)
        if ended.returncode == 0:
            break
        assert lines, ended.stderr
        how = f"ended with {ended.returncode}\n{ended.stderr[-3000:]}"
        outcome.faults.append(f"{lines[-1].get('damage')}: {how}")
        first = lines[-1]["number"] + 1
    return outcome


@pytest.mark.slow
def test_a_damaged_table_is_read_rightly_or_refused_by_name(is_thorough: bool) -> None:
    mutations = ALL_MUTATIONS if is_thorough else MUTATIONS
    share = -(-mutations // WORKERS)
    with ThreadPoolExecutor(WORKERS) as pool:
        parts = list(pool.map(examine, range(0, mutations, share), [share] * WORKERS))
    faults = [fault for part in parts for fault in part.faults]
    assert not faults, f"{len(faults)} faults\n" + "\n".join(faults[:20])
    assert sum(len(part.answered) for part in parts) >= mutations
    # Damage that nothing notices would say that nothing was damaged.
    assert sum(len(part.noticed) for part in parts) > mutations // 10


def test_the_same_number_is_the_same_damage_and_every_kind_has_its_turn() -> None:
    tables, again = originals(), originals()
    assert {name: t.files for name, t in tables.items()} == {name: t.files for name, t in again.items()}
    first = [damaged(tables, SEED, number) for number in range(3 * len(KINDS))]
    assert first == [damaged(again, SEED, number) for number in range(3 * len(KINDS))]
    assert {damage.kind for damage in first} == set(KINDS)
    assert all(damage.data != tables[damage.table].files[damage.file] for damage in first)
