"""Two writers at once: real threads that all have read before the first one commits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from deltanb.errors import DeltaConcurrentModificationException
from deltanb.testing import ScriptedStore
from tests.patience import PATIENCE


def side_by_side(store: ScriptedStore, *commands: Callable[[], Any]) -> list[Any]:
    """Run commands in threads, so that all of them have read before the first one commits."""
    barrier = threading.Barrier(len(commands), timeout=PATIENCE)
    results: list[Any] = [None] * len(commands)

    def meet(inner: Any, name: str, data: bytes) -> bool:
        barrier.wait()
        return bool(inner.put_if_absent(name, data))

    def run(place: int) -> None:
        try:
            results[place] = commands[place]()
        except DeltaConcurrentModificationException as error:
            results[place] = error

    store.script.extend([meet] * len(commands))
    threads = [threading.Thread(target=run, args=(place,)) for place in range(len(commands))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
