"""What random programs of writers draw from, with locks and without."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

ROWS = {"id": [1, 2, 3], "n": [10, 20, 30]}
Work = Callable[[Any], Any]


def copy(lots: Random) -> Work:
    """What one row has goes into another."""
    source, target = lots.sample(range(1, 4), 2)

    def work(t: Any) -> None:
        values = t.to_arrow(where=f"id = {source}")["n"].to_pylist()
        t.update({"n": str(sum(values))}, f"id = {target}")

    return work
