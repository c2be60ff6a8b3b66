"""Every lock scenario: calls of several transactions, and what each must come to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from deltanb import errors
from deltanb.locks import LockResult, Transaction
from deltanb.testing import MemoryIndex
from tests.locks.clockwork import Call, Clockwork

FILE = Path(__file__).parent.parent.parent / "scenarios" / "locks.json"
SCENARIOS = json.loads(FILE.read_text())["scenarios"]
ROWS = ("load", "store", "insert", "replace", "delete")
SETTERS = {"set_lock_mode": "lock_mode", "set_lock_timeout": "lock_timeout",
           "set_durability_mode": "durability_mode"}


class Stage:
    """The transactions, indexes and cursors of a scenario."""

    def __init__(self, scenario: dict[str, Any], clockwork: Clockwork) -> None:
        self.clockwork = clockwork
        self.manager = clockwork.manager
        self.ids: dict[str, int] = scenario["indexes"]
        rows = scenario.get("rows", {})
        self.indexes = {name: MemoryIndex(i, rows.get(name, {}), self.manager)
                        for name, i in self.ids.items()}
        self.txns: dict[str, Any] = {"null": None, "bogus": Transaction.BOGUS}
        self.cursors: dict[str, Any] = {}
        self.calls: dict[str, tuple[str, Call]] = {}

    def txn(self, name: str) -> Any:
        if name not in self.txns:
            self.txns[name] = self.manager.new_transaction()
        return self.txns[name]

    def run(self, step: dict[str, Any]) -> None:
        if "sleep" in step:
            self.clockwork.pass_time(step["sleep"])
        elif "blocked" in step:
            assert all(self.is_blocked(name) for name in step["blocked"])
        elif "interrupt" in step:
            assert self.txn(self.calls[step["interrupt"]][0]).interrupt()
        elif "await" in step:
            call = self.calls[step["await"]][1]
            self.clockwork.finish(call, step["within_s"])
            check(call, step["expect"])
        elif "manager" in step:
            member = getattr(self.manager, step["manager"])
            call = Call(member if callable(member) else lambda: member)
            call.run()
            check(call, step.get("expect", {}))
        else:
            self.start(step)

    def start(self, step: dict[str, Any]) -> None:
        txn = self.txn(step["txn"])
        call = self.clockwork.start(txn, lambda: self.perform(txn, step))
        if "async" in step:
            self.calls[step["async"]] = step["txn"], call
            if step.get("blocks"):
                assert self.is_blocked(step["async"])
            return
        self.clockwork.finish(call)
        check(call, step["expect"])

    def is_blocked(self, name: str) -> bool:
        txn, call = self.calls[name]
        return call.is_waiting and self.txn(txn).waiting is not None

    def perform(self, txn: Any, step: dict[str, Any]) -> Any:
        op, args = step["op"], list(step["args"])
        if op in ROWS or op == "count":
            return getattr(self.indexes[args[0]], op)(*([txn] if op in ROWS else []), *args[1:])
        if op == "cursor":
            self.cursors[args[0]] = self.indexes[args[1]].cursor(txn)
            return None
        if op.startswith("c_"):
            return as_text(getattr(self.cursors[args[0]], op[2:])(*args[1:]))
        if op in SETTERS:
            return setattr(txn, SETTERS[op], args[0])
        if args and args[0] in self.ids and isinstance(args[-1], str):
            args = [self.ids[args[0]], args[1].encode()]
        if "timeout_s" in step:
            args.append(step["timeout_s"])
        member = getattr(txn, op.removeprefix("get_"))
        return as_text(member(*args) if callable(member) else member)


def as_text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def check(call: Call, expect: dict[str, Any]) -> None:
    if "raises" in expect:
        error = call.error
        kind = errors.InvalidArgument if expect["raises"] == "ValueError" else expect["raises"]
        kind = getattr(errors, kind) if isinstance(kind, str) else kind
        assert type(error) is kind, (error, call.value)
        for name, attribute in {"guilty": "guilty", "owner_attachment": "owner_attachment",
                                "timeout_s": "timeout"}.items():
            if name in expect:
                assert getattr(error, attribute) == expect[name]
        assert expect.get("message_contains", "") in str(error)
        if "deadlock_set" in expect:
            assert [str(item) for item in error.deadlock_set] == expect["deadlock_set"]
    elif "result" in expect:
        assert call.error is None, call.error
        assert call.value == expect["result"]
        assert not isinstance(call.value, LockResult) or call.value.name == expect["result"]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s["id"])
def test_scenario(scenario: dict[str, Any]) -> None:
    hold(scenario)


def test_the_scenarios_as_they_were_first_written(shared: Path) -> None:
    first = json.loads((shared / "scenarios" / "locks.json").read_text())["scenarios"]
    assert {s["id"] for s in first} <= {s["id"] for s in SCENARIOS}
    for scenario in first:
        hold(scenario)


def hold(scenario: dict[str, Any]) -> None:
    detect = "timeout" if scenario.get("detect") == "on_timeout" else "enqueue"
    with Clockwork(upgrade_rule=scenario["upgrade_rule"], detect=detect,
                   lock_timeout=scenario["default_lock_timeout_s"]) as clockwork:
        stage = Stage(scenario, clockwork)
        for step in scenario["steps"]:
            stage.run(step)
