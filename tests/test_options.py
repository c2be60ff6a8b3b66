"""Settings: whose they are, how long they hold, and what they may be."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest

import deltanb as dn
from deltanb.errors import InvalidArgument
from deltanb.options import TEACHING_EPOCH_MS, options, set_options, teaching
from tests.patience import PATIENCE


def in_a_thread(work: Callable[[], Any]) -> Any:
    results: list[Any] = []
    thread = Thread(target=lambda: results.append(work()))
    thread.start()
    thread.join()
    return results[0]


def test_a_plain_call_holds_for_the_process() -> None:
    set_options(max_rows=7)
    assert options.max_rows == 7
    assert in_a_thread(lambda: options.max_rows) == 7


def test_a_block_is_of_its_context_alone() -> None:
    with set_options(max_rows=7):
        assert options.max_rows == 7
        assert in_a_thread(lambda: options.max_rows) == 20
    assert options.max_rows == 20


def test_two_threads_have_their_own() -> None:
    """As two requests of a server: neither sees what the other one sets, in a block or for good."""
    both_have_set = Barrier(2)

    def serve(user: str) -> tuple[str | None, int]:
        set_options(max_rows=len(user))
        with set_options(user_name=user):
            both_have_set.wait(timeout=PATIENCE)
            return options.user_name, options.max_rows

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(serve, ["me", "them"])) == [("me", 2), ("them", 4)]
    assert (options.user_name, options.max_rows) == (None, 20)


def test_two_tasks_have_their_own() -> None:
    async def request(user: str, others: asyncio.Event) -> str | None:
        with set_options(user_name=user):
            if user == "first":
                await others.wait()
            else:
                others.set()
            return options.user_name

    async def serve() -> list[str | None]:
        others = asyncio.Event()
        return await asyncio.gather(request("first", others), request("second", others))

    # A thread of its own: the browser's tests leave a loop running in the main one.
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(asyncio.run, serve()).result() == ["first", "second"]


def test_blocks_nest_and_keep_what_was_set_for_good_in_them() -> None:
    with set_options(max_rows=5):
        with set_options(max_rows=3, user_name="me"):
            assert (options.max_rows, options.user_name) == (3, "me")
            set_options(display="text")
        assert (options.max_rows, options.user_name, options.display) == (5, None, "text")
    assert options.max_rows == 20


def test_the_threads_of_a_command_work_under_the_settings_of_its_caller(tmp_path: Any) -> None:
    """OPTIMIZE writes several files at a time; their ids come from the lesson around the command."""
    table = dn.create(tmp_path / "t", {"p": [0, 1, 2], "v": [1] * 3}, partition_by="p")

    def rewritten() -> list[str]:
        table.append({"p": [0, 1, 2], "v": [2] * 3})
        assert table.optimize(engine="arrow").metrics["numAddedFiles"] == 3
        return sorted(table.snapshot.files["path"].to_pylist())

    with set_options(new_id=iter([f"id{n:03}" for n in range(100)]).__next__):
        assert all("id0" in path for path in rewritten())
    assert not any("id0" in path for path in rewritten())


@pytest.mark.parametrize("changes, message", [
    ({"no_such": 1}, "no option 'no_such'"),
    ({"durability": "maybe"}, "durability='maybe' is not one of"),
    ({"max_rows": 0}, "max_rows=0 must be an integer >= 1"),
    ({"max_rows": True}, "must be an integer"),
    ({"user_name": 3}, "user_name=3 must be a string"),
    ({"clock": 3}, "clock must be callable"),
    ({"metrics": "yes"}, "must be True or False"),
])
def test_what_no_setting_can_be_changes_nothing(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        set_options(user_metadata="changed", **changes)
    assert options.user_metadata is None


def test_an_assignment_is_checked_too() -> None:
    options.max_rows = 4
    assert options.max_rows == 4
    with pytest.raises(InvalidArgument, match="max_rows"):
        options.max_rows = -1


def test_ids_are_random_uuids() -> None:
    ids = [options.new_id() for _ in range(200)]
    assert len(set(ids)) == 200
    assert all(str(uuid.UUID(one)) == one and uuid.UUID(one).version == 4
               and uuid.UUID(one).variant == uuid.RFC_4122 for one in ids)


def test_time_passes_in_a_lesson_when_it_is_told_to() -> None:
    with dn.teaching(seed=1) as settings:
        assert settings is options
        before = options.clock()
    lesson = dn.teaching(seed=1)
    lesson.wait(days=1, hours=1)
    lesson.wait(minutes=0.5)
    assert options.clock() - before == ((24 + 1) * 3600 + 30) * 1000
    for wrong in ({"days": -1}, {"days": "1"}, {"hours": float("nan")}):
        with pytest.raises(InvalidArgument):
            lesson.wait(**wrong)  # type: ignore[arg-type]


def test_files_written_after_a_wait_are_younger_by_it(tmp_path: Path) -> None:
    lesson = dn.teaching(seed=1)
    table = dn.create(tmp_path / "t", {"id": [1]})
    lesson.wait(days=8)
    table.append({"id": [2]})
    newer, older = table.history()
    assert (newer.time - older.time).days == 8


def test_a_change_can_be_undone_more_than_once() -> None:
    before = options.clock
    with set_options(max_rows=7):
        changed = teaching(seed=1)
        set_options(max_rows=9)
        assert options.clock() == TEACHING_EPOCH_MS
        for _ in range(2):
            changed.undo()
            assert options.clock is before
            assert options.max_rows == 9, "what was changed by others stays"


def test_undoing_a_plain_call_is_for_the_process() -> None:
    before = options.clock
    changed = teaching(seed=1)
    for _ in range(2):
        changed.undo()
        assert options.clock is before
        assert in_a_thread(lambda: options.clock) is before


@pytest.mark.parametrize("name", ["clock", "timer", "new_id"])
@pytest.mark.parametrize("answer", [None, True, b"1", object()])
def test_a_function_that_gives_what_no_setting_can_be_is_named_before_anything_is_written(
    name: str, answer: Any, tmp_path: Any
) -> None:
    table = dn.create(tmp_path / "t", {"n": [1]})
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    refusal = pytest.raises(InvalidArgument, match=f"option {name} must return")
    with set_options(**{name: lambda: answer}), refusal:
        table.append({"n": [2]})
    if name == "clock":
        with pytest.raises(InvalidArgument, match="clock must return an integer"):
            table.log.start_transaction(clock=lambda: answer)
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before
