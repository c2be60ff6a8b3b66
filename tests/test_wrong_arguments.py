"""Every public method and function answers an argument that it does not have: which method, which argument,
and what to write. The matrix is made of what there is, so a new method is in it."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb.errors import IllegalStateError, WrongCall
from deltanb.table.contract import Askable, declared
from deltanb.text.display import Displayable
from deltanb.text.spellings import answer_wrong_arguments
from tests.table_kinds import MAKERS

BARE = {
    "Action": "values of the log, by thousands: their methods take about as long as the answer would",
    "StagedLog": "a log within a transaction, which people ask through its table",
    "StagedTransaction": "the same", "LockedLog": "the same", "LockedTransaction": "the same",
    "LockManager": "transactions ask it for a lock, which takes 0.8 µs",
    "Transaction": "a lock takes 0.8 µs, as long as eight answers",
    "CommandResult": "made by commands", "GroupCommit": "made by commits", "StreamState": "made by streams",
    "ScanExplanation": "asked by its view", "FileScan": "narrowed by commands",
    "Snapshot": "asked by each scan", "DeltaLog": "asked by each commit, many times",
    "OptimisticTransaction": "the same",
}
"""Classes with methods that are answered by Python alone, and why."""
ANSWERED = {"Snapshot": {"files_for_scan"},
            "DeltaLog": {"start_transaction", "with_new_transaction", "for_table"},
            "OptimisticTransaction": {"filter_files", "txn_version", "update_metadata", "commit",
                                      "commit_if_needed", "commit_large", "commit_steps", "stepper",
                                      "register_post_commit_hook"},
            "LockManager": {"locks", "name_index", "label"},
            "Transaction": {"lock_many", "table", "cursor", "attach", "reset"}}
"""What is answered of these all the same."""


@pytest.mark.parametrize("kind", MAKERS, ids=lambda kind: kind.__name__)
def test_every_method_of_every_kind_of_table(kind: type[Any], tmp_path: Path) -> None:
    tried = 0
    with MAKERS[kind](tmp_path, {"id": [1]}) as home:
        for name, asked in declared(kind).items():
            if isinstance(inspect.getattr_static(kind, name), property):
                continue
            try:
                with pytest.raises(WrongCall) as caught:
                    getattr(home.table, name)(quacks=1)
            except IllegalStateError:  # it is not for this kind of table, whatever its arguments
                assert asked.does.is_alone or not asked.does.is_read
                continue
            tried += 1
            method = name if not name.startswith("__") else asked.name
            assert f"{method}() has no argument 'quacks'; " in str(caught.value)
            assert (caught.value.argument, caught.value.__context__) == ("quacks", None)
    assert tried >= 1 and issubclass(kind, Askable)


def classes() -> Iterator[type[Any]]:
    """All that people hold, wherever it is."""
    for module in pkgutil.walk_packages(dn.__path__, "deltanb."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)

    def below(base: type[Any]) -> Iterator[type[Any]]:
        for kind in base.__subclasses__():
            yield kind
            yield from below(kind)

    yield from dict.fromkeys(kind for kind in below(Displayable)
                             if kind.__module__.startswith("deltanb.") and not kind.__name__.startswith("_"))


def methods(kind: type[Any]) -> Iterator[tuple[str, Any]]:
    """The public methods of a class that take arguments, and what calls each without an object."""
    for name, method in vars(kind).items():
        if name.startswith("_") or hasattr(method, "asked") or isinstance(method, property):
            continue
        is_bound = isinstance(method, classmethod | staticmethod)
        if not is_bound and not inspect.isfunction(method):
            continue
        called = getattr(kind, name)
        parameters = list(inspect.signature(called).parameters.values())[not is_bound:]
        if parameters and not any(one.kind is one.VAR_KEYWORD for one in parameters):
            yield name, called if is_bound else lambda called=called, **more: called(None, **more)


def test_every_method_of_what_people_hold() -> None:
    silent, tried, bare = [], set(), set()
    for kind in classes():
        bases = [base.__name__ for base in kind.__mro__ if base.__name__ in BARE]
        for name, call in methods(kind):
            if bases and name not in ANSWERED.get(kind.__name__, ()):
                bare.update(bases)
                continue
            try:
                call(quacks=1)
            except WrongCall as error:
                assert f"{name}() has no argument 'quacks'; " in str(error)
                tried.add(kind.__name__)
            except Exception as error:
                silent.append((kind.__name__, name, repr(error)))
    assert silent == []
    assert len(tried) >= 20 and bare == BARE.keys()


@pytest.mark.parametrize("name", [*dn.__all__, "open"])
def test_every_function_of_the_module(name: str) -> None:
    function = getattr(dn, name)
    if inspect.isclass(function):
        if name in ("Catalog", "DeltaTable"):
            with pytest.raises(WrongCall, match=rf"^{name}\(\) has no argument 'quacks'; "):
                function(quacks=1)
        return
    if not inspect.isfunction(function) or not (takes := inspect.signature(function).parameters):
        return
    if any(one.kind is one.VAR_KEYWORD for one in takes.values()):
        with pytest.raises(dn.errors.InvalidArgument, match="quacks"):
            function(quacks=1)
        return
    with pytest.raises(WrongCall, match=rf"^{name}\(\) has no argument 'quacks'; "):
        function(quacks=1)


def test_locks_are_made_with_arguments_that_there_are() -> None:
    with pytest.raises(WrongCall, match=r"^LockManager\(\) has no .*; did you mean lock_timeout="):
        dn.locks.LockManager(timeout=1)  # type: ignore[call-arg]
    with pytest.raises(WrongCall, match=r"did you mean user_name="):
        dn.teaching(username="ann")  # type: ignore[call-arg]


def test_an_error_of_the_work_itself_is_as_it_was() -> None:
    table = dn.create(dn.testing.MemoryStore(), {"id": [1]})

    def broken() -> None:
        raise TypeError("from within the work")

    for call in (lambda: dn.retry(broken), lambda: table.log.with_new_transaction(lambda _: broken()),
                 lambda: answer_wrong_arguments()(lambda quacks: broken())(quacks=1)):
        with pytest.raises(TypeError, match="^from within the work$"):
            call()
    with pytest.raises(TypeError, match=r"append\(\) missing 1 required positional argument: 'data'"):
        table.append()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="takes from"):
        dn.open(1, 2, 3, 4)  # type: ignore[call-arg, arg-type, misc]


def test_an_answer_costs_a_right_call_one_function() -> None:
    """Of functions that no contract goes through: against the least of them, which opens a known table."""
    table = dn.create(dn.testing.MemoryStore(), {"id": [1]})
    bare = dn.open.__wrapped__  # type: ignore[attr-defined]
    assert calls(answer_wrong_arguments()(lambda: None)) == calls(lambda: None) + 1
    opens = calls(lambda: bare(table.log.store))
    assert calls(lambda: dn.open(table.log.store)) == opens + 1 <= 1.1 * opens


def calls(work: Callable[[], Any]) -> int:
    """How many functions run for it, Python's own and those in C, too."""
    events: list[str] = []
    sys.setprofile(lambda _, event, __: events.append(event))
    try:
        work()
    finally:
        sys.setprofile(None)
    return sum(event in ("call", "c_call") for event in events)
