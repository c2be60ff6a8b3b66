"""The stepper drives the real commit, shows each moment of it, and undoes nothing."""

from __future__ import annotations

import code
import gc
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import deltanb as dn
from deltanb.errors import (
    CommitOutcomeUnknown,
    ConcurrentAppendException,
    DeltaConcurrentModificationException,
    IllegalStateError,
    InvalidArgument,
    InvalidTable,
    InvalidTransaction,
)
from deltanb.log.commits import commit_name
from deltanb.notebook import bundle
from deltanb.notebook.bundle import WIDGET
from deltanb.notebook.drawing import html
from deltanb.notebook.widgets.stepper import Panel
from deltanb.observe import frames as stepper_frames
from deltanb.observe import rivals
from deltanb.observe.stepper import CommitStepper, StepLine
from deltanb.options import set_options
from deltanb.store.base import LogStore
from deltanb.testing import Fail, LoseResponse, MemoryStore, ScriptedStore
from deltanb.text import formatting as units
from deltanb.transaction.drive import answer
from deltanb.transaction.hooks import FunctionHook
from deltanb.transaction.journal import journal_of
from deltanb.transaction.steps import Backoff, Committed
from tests.examples import few
from tests.faults.trial import drawing
from tests.notebook.looks import assert_consistent, assert_golden

DAYS = ["mon", "tue"]
DELETE = dn.Operation("DELETE", {"predicate": ["day = 'mon'"]})
STEADY = settings(few, suppress_health_check=[HealthCheck.function_scoped_fixture])


def orders(store: Any = None) -> dn.DeltaTable:
    """A table of three versions, partitioned by day."""
    dn.teaching(seed=1, user_name="analyst")
    rows = {"id": list(range(10)), "day": [DAYS[i % 2] for i in range(10)]}
    table = dn.create(store or MemoryStore("memory:///lake/orders"), rows, partition_by=["day"])
    table.append({"id": [10], "day": ["mon"]})
    table.append({"id": [11], "day": ["tue"]})
    return table


def deletion(table: dn.DeltaTable) -> tuple[Any, list[Any]]:
    """A transaction that has read Monday, and its actions: Monday goes."""
    txn = table.start_transaction()
    return txn, [file.remove() for file in txn.filter_files("day = 'mon'")]


def stepper_of(table: dn.DeltaTable) -> CommitStepper:
    txn, actions = deletion(table)
    return txn.stepper(actions, DELETE)


def step(stepper: CommitStepper, times: int) -> CommitStepper:
    for _ in range(times):
        stepper.advance()
    return stepper


def raced() -> CommitStepper:
    """Two races lost to writers elsewhere, and the third attempt won."""
    stepper = step(stepper_of(orders()), 1)
    stepper.let_win("append elsewhere", "etl-b")
    step(stepper, 7)
    stepper.let_win("append elsewhere", "stream")
    step(stepper, 7)
    assert stepper.is_done
    return stepper


def refused() -> CommitStepper:
    """A commit that meets rows where it has read."""
    stepper = step(stepper_of(orders()), 1)
    stepper.let_win("append here", "etl-b")
    return step(stepper, 5)


def refused_by_the_second() -> CommitStepper:
    """Two commits before the put: the first one has the version, rows of the second meet what was read."""
    stepper = step(stepper_of(orders()), 1)
    stepper.let_win("append elsewhere", "etl-b")
    stepper.let_win("append here", "stream")
    return step(stepper, 7)


def contended(races: int = 30) -> CommitStepper:
    """More races lost than are drawn, and in one of them many versions at once."""
    stepper = step(stepper_of(orders()), 1)
    for race in range(races):
        while "put" not in stepper.advance():
            pass
        for _ in range(12 if race == 1 else 1):
            stepper.let_win("append elsewhere", "a writer with quite a long name")
    step(stepper, 3)
    return stepper


def looking_back() -> CommitStepper:
    stepper = raced()
    stepper.move(5)
    return stepper


def fresh() -> CommitStepper:
    """A table that is not there yet, and somebody else creates it."""
    metadata = orders().metadata
    log = dn.DeltaLog.for_table(MemoryStore("memory:///lake/fresh"))
    txn = log.start_transaction()
    txn.update_metadata(metadata)
    stepper = step(txn.stepper([], "CREATE TABLE"), 1)
    stepper.let_win(lambda table: dn.create(table.log.store, {"id": [1]}), "etl-b")
    return step(stepper, 5)


MOMENTS: dict[str, Callable[[], CommitStepper]] = {
    "stepper_new": lambda: stepper_of(orders()),
    "stepper_lost": lambda: step(_with_rival(), 3),
    "stepper_rival": lambda: _with_rival(),
    "stepper_won": raced,
    "stepper_back": looking_back,
    "stepper_failed": refused,
    "stepper_failed_later": refused_by_the_second,
    "stepper_contended": contended,
    "stepper_fresh": fresh,
}


def _with_rival() -> CommitStepper:
    stepper = step(stepper_of(orders()), 1)
    stepper.let_win("append elsewhere", "etl-b")
    return stepper


@pytest.mark.parametrize("name", MOMENTS)
def test_every_moment_looks_as_it_did(name: str, update_golden: bool) -> None:
    stepper = MOMENTS[name]()
    page = assert_consistent(stepper)
    assert_golden(stepper, name, update_golden)
    assert bundle.mimebundle(stepper.frame) == bundle.mimebundle(stepper)
    current = [attrs for tag, attrs in page.tags if tag == "li" and attrs.get("aria-current") == "step"]
    assert len(current) == 1


def test_a_step_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    stepper = stepper_of(orders())
    line = stepper.step()
    stepper.rival("append elsewhere", writer="etl-b")
    stepper.run()
    assert line == "1 prepare: 2 actions, Serializable"
    assert capsys.readouterr().out.splitlines() == [
        line,
        "etl-b: appended 3 rows elsewhere, in day=tue, v3",
        "2 put: v3 if it is absent",
        "3 taken: v3 exists, read who has it",
        "4 lost: v3 exists (etl-b WRITE)",
        "5 check: no conflict with v3",
        "6 next: is v4 taken too?",
        "7 again: you build on v3 now, try v4",
        "8 put: v4 if it is absent",
        "9 committed v4 after 2 attempts",
    ]


def test_a_line_is_seen_once() -> None:
    interactive = pytest.importorskip("IPython.core.interactiveshell")
    shell = interactive.InteractiveShell()
    line = stepper_of(orders()).step()
    assert isinstance(line, StepLine) and line == "1 prepare: 2 actions, Serializable"
    assert shell.display_formatter.format(line) == ({}, {})


def test_at_a_prompt_a_line_with_a_name_is_seen_once(capsys: pytest.CaptureFixture[str]) -> None:
    console = code.InteractiveConsole({"stepper": stepper_of(orders())})
    console.push("_ = stepper.step()")
    assert capsys.readouterr().out == "1 prepare: 2 actions, Serializable\n"
    interactive = pytest.importorskip("IPython.core.interactiveshell")
    shell = interactive.InteractiveShell(user_ns={"stepper": stepper_of(orders())})
    shell.run_cell("_ = stepper.step()", store_history=False)
    assert capsys.readouterr().out == "1 prepare: 2 actions, Serializable\n"


def test_it_is_the_commit_itself() -> None:
    ran: list[int] = []
    table = orders()
    txn, actions = deletion(table)
    txn.register_post_commit_hook(
        FunctionHook("note", lambda committed, snapshot: ran.append(committed.version)))
    stepper = txn.stepper(actions, DELETE)
    assert (txn.status, stepper.version) == ("open", None)
    step(stepper, 1)
    assert txn.status == "committing"
    step(stepper, 1)
    assert table.history()[0].version == 2  # the put is done when it is left
    step(stepper, 1)
    assert (txn.status, stepper.version, stepper.error) == ("committed", 3, None)
    assert (table.version, ran) == (3, [3])
    assert table.to_arrow()["day"].unique().to_pylist() == ["tue"]


def test_a_refused_transaction_is_refused_at_the_call() -> None:
    txn, actions = deletion(orders())
    with pytest.raises(InvalidTransaction):
        txn.stepper([*actions, *actions], DELETE)
    txn.commit(actions, DELETE)
    with pytest.raises(InvalidTransaction, match="already committed"):
        txn.stepper(actions, DELETE)


def test_only_one_stepper_commits() -> None:
    txn, actions = deletion(orders())
    one, two = txn.stepper(actions, DELETE), txn.stepper(actions, DELETE)
    one.advance()
    with pytest.raises(IllegalStateError, match="is being committed"):
        two.advance()
    step(one, 2)
    with pytest.raises(IllegalStateError, match="has committed v3"):
        two.advance()
    assert txn.log.update().version == one.version == 3


def test_a_conflict_ends_the_stepping_and_does_not_escape(capsys: pytest.CaptureFixture[str]) -> None:
    stepper = step(stepper_of(orders()), 1)
    stepper.let_win("append here", "etl-b")
    last = stepper.run()
    assert last == "6 failed at v3: ConcurrentAppend, nothing was written"
    assert "5 check: conflict with v3, files were added where you read" in capsys.readouterr().out
    assert isinstance(stepper.error, ConcurrentAppendException)
    assert stepper.conflict is stepper.error.conflict is stepper.txn.conflict
    assert stepper.txn.status == "failed"
    assert "ConcurrentAppend" in str(stepper)
    assert stepper.step() == "nothing left to do: failed at v3"
    with pytest.raises(IllegalStateError, match="no rival can win any more: failed at v3"):
        stepper.rival("append here")


def test_going_back_shows_what_was_and_undoes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    stepper = raced()
    frames = stepper.frames
    assert stepper.back().endswith("(looking back: v5 is committed and stays)")
    assert stepper.first() == "0 you read v2 (looking back: v5 is committed and stays)"
    assert stepper.back() == stepper.first()
    assert stepper.next().startswith("1 prepare")
    assert stepper.last() == "15 committed v5 after 3 attempts"
    assert stepper.next() == "nothing left to do: v5 is committed and stays"
    stepper.back()
    assert "looking back; in the end: committed v5" in str(stepper)
    stepper.step()
    assert stepper.position == len(frames) - 1
    assert stepper.frames == frames
    assert stepper.txn.log.update().version == 5
    assert all(units.width(line) <= units.MAX_COLUMNS for line in capsys.readouterr().out.splitlines())


def test_a_step_goes_on_from_the_newest_frame() -> None:
    stepper = step(_with_rival(), 3)
    stepper.move(1)
    assert stepper.advance() == "5 check: no conflict with v3"
    assert stepper.frame.line == "5 check: no conflict with v3"
    stepper.move(1)
    stepper.let_win("append elsewhere")
    assert stepper.frame.is_rival


def test_looking_never_touches_the_store() -> None:
    store = ScriptedStore(MemoryStore("memory:///lake/orders"))
    stepper = stepper_of(orders(store))
    for _ in range(3):
        step(stepper, 1)
        before = store.calls.copy()
        for look in (stepper.back, stepper.first, stepper.next, stepper.last):
            look()
            str(stepper), stepper.frame, stepper._repr_mimebundle_()
        stepper.last()
        assert store.calls == before


@pytest.mark.parametrize("kind", rivals.KINDS)
def test_a_rival_meets_the_rule_it_was_made_for(kind: str) -> None:
    stepper = step(stepper_of(orders()), 1)
    stepper.let_win(kind)
    while not stepper.is_done:
        stepper.advance()
    rule = stepper.conflict.rule if stepper.conflict else None
    expected = {"append here": "append", "append elsewhere": None, "delete": "delete / read",
                "metadata": "metadata"}
    assert rule == expected[kind]


def test_a_rival_may_be_any_commit_to_the_table() -> None:
    stepper = step(stepper_of(orders()), 1)
    line = stepper.let_win(lambda table: (table.append({"id": [1], "day": ["tue"]}),
                                          table.set_properties({"a": 1})), "etl-b")
    assert line == "etl-b: WRITE, SET TBLPROPERTIES, v3–v4"
    assert [(box.version, box.note) for box in stepper.frame.boxes[-2:]] == [(3, "etl-b"), (4, "etl-b")]
    assert stepper.let_win(lambda table: table.version, "etl-b") == "etl-b: committed nothing"
    with pytest.raises(ZeroDivisionError):
        stepper.let_win(lambda table: 1 // 0)
    assert [entry.user_name for entry in stepper.txn.log.history()][:3] == ["etl-b", "etl-b", "analyst"]


def test_the_name_of_a_rival_stays_on_its_line() -> None:
    stepper = stepper_of(orders())
    stepper.step()
    stepper.rival("append here", "a\n\x1b" + "x" * 500)
    stepper.run()
    for shown in (stepper, *stepper.frames):
        text = str(shown)
        assert all(character.isprintable() for character in text.replace("\n", ""))
        assert len(text.split("\n")) <= 12
    assert len(stepper.frames[2].boxes[-1].note) <= 24


def test_a_rival_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="no rival 'append'; there are 'append here'"):
        stepper_of(orders()).rival("append")
    for name in ("", 5, None):
        with pytest.raises(InvalidArgument, match=f"a rival's name is a string, found {name!r}"):
            stepper_of(orders()).rival("append here", name)  # type: ignore[arg-type]


@pytest.mark.parametrize("rivals", [1, 2, 5])
@pytest.mark.parametrize("before", range(8))
def test_an_attempt_ends_at_the_version_that_it_tried(before: int, rivals: int) -> None:
    """However many others come between, and whenever: its line never runs past a version that it has met."""
    stepper = stepper_of(orders())
    for number in range(30):
        if stepper.is_done:
            break
        if number == before:
            for _ in range(rivals):
                stepper.let_win("append elsewhere", "etl-b")
        stepper.advance()
        frame = stepper.frame
        boxes = [box.version for box in frame.boxes]
        for attempt in frame.tries:
            assert attempt.version in boxes or attempt.version == max(boxes) + 1, (attempt, boxes)
    assert stepper.is_done


def test_an_answer_that_was_lost_is_found_again() -> None:
    store = ScriptedStore(MemoryStore("memory:///lake/orders"))
    stepper = step(stepper_of(orders(store)), 2)
    store.script.append(LoseResponse())
    assert stepper.advance() == "3 unknown: no answer from the store, read whether v3 is there"
    assert "no answer from the store" in str(stepper)
    assert stepper.advance() == "4 found: v3 is your own, its answer was lost"
    assert stepper.advance() == "5 committed v3 after 1 attempt"
    assert_consistent(stepper)


def test_a_store_that_is_down_leaves_the_outcome_open() -> None:
    store = ScriptedStore(MemoryStore("memory:///lake/orders"))
    stepper = stepper_of(orders(store))
    store.script.extend([Fail()] * 9)
    while not stepper.is_done:
        line = stepper.advance()
    assert line.endswith("failed at v3: CommitOutcomeUnknown, look whether v3 is there")
    assert isinstance(stepper.error, CommitOutcomeUnknown)
    assert len(stepper.frame.tries) == 1
    assert_consistent(stepper)


def test_a_winner_that_cannot_be_read_ends_the_commit() -> None:
    store = MemoryStore("memory:///lake/orders")
    stepper = step(stepper_of(orders(store)), 1)
    store.put(commit_name(3), b"not a commit")
    step(stepper, 2)
    assert stepper.advance() == "4 failed at v3: InvalidTable, nothing was written"
    assert isinstance(stepper.error, InvalidTable)
    assert stepper.txn.status == "failed"
    assert_consistent(stepper)


def test_a_commit_that_may_have_landed_is_not_called_unwritten() -> None:
    store = ScriptedStore(MemoryStore("memory:///lake/orders"))
    stepper = step(stepper_of(orders(store)), 2)
    store.script.append(Fail())
    stepper.advance()
    store.put(commit_name(3), b"not a commit")
    assert stepper.advance() == "4 failed at v3: InvalidTable, look whether v3 is there"
    assert stepper.txn.status == "unknown"


def test_patience_ends_the_commit_too() -> None:
    with set_options(max_commit_attempts=0):
        stepper = step(stepper_of(orders()), 1)
        stepper.let_win("append elsewhere")
        step(stepper, 4)
    assert stepper.frame.line == "5 failed at v3: MaxCommitRetriesExceeded, nothing was written"
    assert stepper.conflict is None
    assert_consistent(stepper)


def test_a_pause_is_a_step() -> None:
    frame = stepper_frames.after(stepper_of(orders()).frame, Backoff(1, 0.25))
    assert frame.line == "1 wait: before attempt 2"


def test_a_hook_that_fails_reaches_the_one_who_stepped() -> None:
    def refuse(error: Exception, version: int) -> None:
        raise error

    txn, actions = deletion(orders())
    txn.register_post_commit_hook(FunctionHook("fails", lambda committed, snapshot: 1 // 0, refuse))
    stepper = step(txn.stepper(actions, DELETE), 2)
    with pytest.raises(ZeroDivisionError):
        stepper.step()
    assert stepper.frame.line == "3 committed v3 after 1 attempt"


def _interrupt(*_: Any) -> bool:
    raise KeyboardInterrupt


def test_an_interrupted_stepper_gives_the_commit_up() -> None:
    store = ScriptedStore(MemoryStore("memory:///lake/orders"))
    stepper = step(stepper_of(orders(store)), 2)
    store.script.append(_interrupt)
    with pytest.raises(KeyboardInterrupt):
        stepper.advance()
    assert stepper.frame.line == "3 abandoned: KeyboardInterrupt, nothing was written"
    assert stepper.txn.status == "abandoned"
    assert stepper.advance() == "nothing left to do: abandoned"
    assert_consistent(stepper)


def test_an_interrupted_stepper_whose_put_landed_shows_the_commit() -> None:
    def put(inner: LogStore, name: str, data: bytes) -> bool:
        inner.put_if_absent(name, data)
        raise KeyboardInterrupt

    store = ScriptedStore(MemoryStore("memory:///lake/orders"))
    stepper = step(stepper_of(orders(store)), 2)
    store.script.append(put)
    with pytest.raises(KeyboardInterrupt):
        stepper.advance()
    assert stepper.frame.line == "3 committed v3 after 1 attempt"
    assert (stepper.version, stepper.is_done, stepper.txn.status) == (3, True, "committed")
    assert_consistent(stepper)


def test_an_interrupted_stepper_of_a_store_that_may_go_on_says_where_to_look() -> None:
    store = ScriptedStore(MemoryStore("memory:///lake/orders"))
    store.is_final = False
    stepper = step(stepper_of(orders(store)), 2)
    store.script.append(_interrupt)
    with pytest.raises(KeyboardInterrupt):
        stepper.advance()
    assert stepper.frame.line == "3 abandoned: KeyboardInterrupt, look whether v3 is there"
    assert stepper.txn.status == "unknown"
    assert_consistent(stepper)


def test_a_closed_stepper_gives_the_commit_up() -> None:
    stepper = step(stepper_of(orders()), 2)
    stepper.close()
    stepper.close()
    assert stepper.frame.line == "3 abandoned: closed, nothing was written"
    assert stepper.txn.status == "abandoned"
    assert journal_of(stepper.txn.log)[-1].outcome == "abandoned"
    assert stepper.txn.log.update().version == 2
    raced().close()


def test_a_stepper_that_is_gone_gives_the_commit_up() -> None:
    txn, actions = deletion(orders())
    stepper = step(txn.stepper(actions, DELETE), 2)
    del stepper
    gc.collect()
    assert txn.status == "abandoned"


def test_a_frame_stays_small() -> None:
    few, many = contended(8).frame, contended(60).frame
    assert many.num_tries == 60 and many.num_events > 300
    assert len(many.tries) == len(few.tries)
    assert len(many.boxes) == len(few.boxes)
    assert len(many.events) == stepper_frames.MAX_EVENTS
    assert len(bundle.mimebundle(many)[bundle.HTML]) < html.MAX_BYTES / 3
    assert "… 56 more lost attempts" in str(many)


def test_the_transaction_says_where_it_stands() -> None:
    stepper = stepper_of(orders())
    assert str(stepper.txn).startswith("Transaction orders  open")
    step(stepper, 2)
    assert str(stepper.txn).startswith("Transaction orders  committing, is v3 free?  read v2")


MOVES = ["step", "step", "step", "back", "first", "last", *rivals.KINDS]


@pytest.mark.slow
@STEADY
@given(moves=st.lists(st.sampled_from(MOVES), max_size=25))
def test_the_log_is_as_without_a_stepper(moves: list[str]) -> None:
    stepped, plain = MemoryStore("memory:///lake/orders"), MemoryStore("memory:///lake/orders")
    for store, work in ((stepped, _stepped), (plain, _plain)):
        with drawing(7):  # the table's id, which no seed gives
            work(orders(store), moves)
    assert {name: data for name, (data, _) in stepped.files.items()} == {
        name: data for name, (data, _) in plain.files.items()}


def _stepped(table: dn.DeltaTable, moves: list[str]) -> None:
    stepper = stepper_of(table)
    for move in [*moves, *["step"] * 80]:
        if move in rivals.KINDS:
            try:
                stepper.let_win(move)
            except IllegalStateError:
                continue
        elif move == "step":
            stepper.advance()
        else:
            getattr(stepper, move)()
        str(stepper)


def _plain(table: dn.DeltaTable, moves: list[str]) -> None:
    """The same with the generator alone."""
    txn, actions = deletion(table)
    steps, pending, reply, is_done = txn.commit_steps(actions, DELETE), None, None, False
    for move in [*moves, *["step"] * 80]:
        if is_done:
            break
        if move in rivals.KINDS:
            try:
                rivals.commit_rival(txn, move)
            except IllegalStateError:
                continue
        elif move == "step":
            try:
                reply = None if pending is None else answer(pending, txn.committer)
                pending = steps.send(reply)
                while pending is not None and type(pending).__name__ in ("Failed", "Committed"):
                    pending = steps.send(None)
            except StopIteration as stop:
                assert isinstance(stop.value, Committed)
                txn.run_post_commit_hooks()
                is_done = True
            except DeltaConcurrentModificationException:
                is_done = True


# -- in a notebook ---------------------------------------------------------------------------------


def panel_of(stepper: CommitStepper) -> Panel:
    assert WIDGET in stepper._repr_mimebundle_()
    panel: Panel = stepper.panel
    return panel


def heading(panel: Panel) -> str:
    start = panel.picture.value.index('<div class="dnb-part">')
    return panel.picture.value[start : panel.picture.value.index("</p>", start)]


def test_buttons_step_to_the_end() -> None:
    panel = panel_of(step(stepper_of(orders()), 1))
    panel.kind.value = "append elsewhere"
    panel.rival.click()
    assert panel.message.value == "another writer: appended 3 rows elsewhere, in day=tue, v3"
    messages = []
    while not panel.next.disabled:
        panel.next.click()
        messages.append(panel.message.value)
    assert messages[-1] == "9 committed v4 after 2 attempts"
    assert "step 9 of 9" in heading(panel)
    assert panel.rival.disabled and panel.last.disabled and not panel.back.disabled


def test_buttons_and_slider_look_back() -> None:
    panel = panel_of(raced())
    end = len(panel.stepper.frames) - 1
    assert (panel.slider.value, panel.slider.max) == (end, end)
    panel.back.click()
    assert panel.slider.value == end - 1
    assert panel.message.value.endswith("(looking back: v5 is committed and stays)")
    assert panel.next.description == "next ▶"
    panel.slider.value = 4
    assert panel.stepper.position == 4
    panel.next.click()
    assert panel.slider.value == 5
    panel.first.click()
    assert "not begun" in heading(panel) and panel.first.disabled and panel.back.disabled
    panel.last.click()
    assert panel.next.description == "step ▶" and panel.next.disabled
    assert panel.stepper.txn.log.update().version == 5


def test_buttons_are_ready_before_the_picture_is_there() -> None:
    panel = panel_of(raced())
    buttons = (panel.first, panel.back, panel.next, panel.last, panel.rival, panel.slider)
    seen: list[list[bool]] = []
    panel.picture.observe(lambda _: seen.append([button.disabled for button in buttons]), names="value")
    for button in (panel.back, panel.first, panel.next, panel.last):
        button.click()
        assert seen[-1] == [button.disabled for button in buttons]
    assert len(seen) == 4 and len({tuple(one) for one in seen}) == 3


def test_code_and_buttons_keep_in_step(capsys: pytest.CaptureFixture[str]) -> None:
    stepper = stepper_of(orders())
    panel = panel_of(stepper)
    assert panel.slider.disabled and panel.slider.max == 1
    stepper.step()
    assert "step 1" in heading(panel) and not panel.slider.disabled
    panel.next.click()
    assert stepper.position == 2
    assert capsys.readouterr().out == "1 prepare: 2 actions, Serializable\n"  # a button prints nothing


def test_displays_of_a_stepper_are_views_of_one_model() -> None:
    stepper = stepper_of(orders())
    one, two = stepper._repr_mimebundle_(), stepper._repr_mimebundle_()
    assert one[WIDGET]["model_id"] == two[WIDGET]["model_id"]


def test_a_conflict_in_a_button_is_shown_and_not_raised() -> None:
    panel = panel_of(step(stepper_of(orders()), 1))
    panel.kind.value = "delete"
    panel.rival.click()
    while not panel.next.disabled:
        panel.next.click()
    assert panel.message.value == "6 failed at v3: ConcurrentDeleteRead, nothing was written"
    assert "ConcurrentDeleteRead" in panel.picture.value


def test_what_goes_wrong_is_said_beside_the_buttons() -> None:
    panel = panel_of(step(stepper_of(orders()), 1))
    panel.kind.value = "delete"
    panel.rival.click()
    panel.rival.click()
    panel.rival.click()
    assert panel.message.value.startswith("IllegalStateError: table orders: a rival cannot delete")


def test_a_choice_that_cannot_be_had_says_why() -> None:
    dn.teaching(seed=1)
    table = dn.create(MemoryStore("memory:///lake/flat"), {"id": [1]})
    txn = table.start_transaction()
    panel = panel_of(txn.stepper(txn.write_files({"id": [2]}), "WRITE"))
    assert not panel.rival.disabled
    panel.kind.value = "append elsewhere"
    assert panel.rival.disabled
    assert panel.message.value == "the table has no partitions, so there is no elsewhere"
    panel.kind.value = "delete"
    assert panel.message.value == "no file was read"


def test_a_widget_has_static_siblings() -> None:
    stepper = stepper_of(orders())
    assert set(stepper._repr_mimebundle_()) == {WIDGET, bundle.TEXT, bundle.HTML}
    assert set(stepper._repr_mimebundle_(include=[bundle.TEXT])) == {bundle.TEXT}
    assert set(stepper._repr_mimebundle_(exclude=[WIDGET])) == {bundle.TEXT, bundle.HTML}
    assert set(stepper.frame._repr_mimebundle_()) == {bundle.TEXT, bundle.HTML}
    with set_options(display="text"):
        assert set(stepper._repr_mimebundle_()) == {bundle.TEXT}


def test_without_widgets_the_picture_stands_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "deltanb.notebook.widgets.stepper")
    monkeypatch.delattr("deltanb.notebook.widgets.stepper")
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    assert set(stepper_of(orders())._repr_mimebundle_()) == {bundle.TEXT, bundle.HTML}
