"""After a failed write, tasks that still run are waited for, and not for ever."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from deltanb.engines.spark import jobs


def session(counts: list[int]) -> Any:
    """A session whose executors run so many tasks, each time they are asked; then as many as at last."""
    def infos() -> list[Any]:
        count = counts.pop(0) if len(counts) > 1 else counts[0]
        return [SimpleNamespace(numRunningTasks=lambda: 0), SimpleNamespace(numRunningTasks=lambda: count)]

    scala = SimpleNamespace(statusTracker=lambda: SimpleNamespace(getExecutorInfos=infos))
    return SimpleNamespace(sparkContext=SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: scala)))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that were made, none of which takes time, and a clock that they move."""
    pauses: list[float] = []
    monkeypatch.setattr(jobs, "time", SimpleNamespace(monotonic=lambda: sum(pauses), sleep=pauses.append))
    monkeypatch.setattr(jobs, "is_remote", lambda _: False)
    return pauses


def test_tasks_that_were_told_to_stop_are_waited_for(quick: list[float]) -> None:
    jobs.wait_for_stragglers(session([2, 1, 0]))
    assert len(quick) == 2


def test_the_wait_has_an_end_that_is_told(quick: list[float], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "deltanb.spark"):
        jobs.wait_for_stragglers(session([1]), 1.0)
    assert sum(quick) >= 1.0 and "VACUUM removes it" in caplog.text


def test_a_session_that_is_gone_or_remote_is_not_waited_for(
    quick: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs.wait_for_stragglers(SimpleNamespace(sparkContext=None))
    monkeypatch.setattr(jobs, "is_remote", lambda _: True)
    jobs.wait_for_stragglers(session([1]))
    assert quick == []
