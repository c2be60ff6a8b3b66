"""Work in parallel keeps order, context and the first error, however many processors there are."""

from __future__ import annotations

import threading

import pytest

from deltanb.concurrency import parallel
from deltanb.options import options, set_options
from tests.patience import PATIENCE


@pytest.mark.parametrize("limit", [1, 4])
def test_results_come_in_order_and_work_sees_the_settings_of_the_caller(limit: int) -> None:
    with set_options(max_rows=3):
        results = list(parallel.each(lambda n: (n, options.max_rows), range(20), limit, "test"))
    assert results == [(n, 3) for n in range(20)]


def test_items_are_worked_on_at_a_time() -> None:
    both = threading.Barrier(2, timeout=PATIENCE)  # one after the other would break it
    assert len(list(parallel.each(lambda _: both.wait(), [1, 2], 2))) == 2


def test_one_thread_is_this_one() -> None:
    used = set(parallel.each(lambda _: threading.current_thread(), [1, 2], 1))
    assert used == {threading.main_thread()}


@pytest.mark.parametrize("limit", [1, 2])
def test_the_first_error_is_raised_and_leaves_no_thread_behind(limit: int) -> None:
    results = parallel.each(lambda n: 1 // (2 - n), range(9), limit, "failing")
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(ZeroDivisionError):
        next(results)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("deltanb-failing")]
