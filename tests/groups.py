"""Which tests one worker of pytest-xdist runs together, and what begins first.

A fixture that starts a JVM or a browser says so (:func:`service`): all tests that ask for it run on one
worker, so it is started once. Every other file is a group of its own. Servers that are up within two seconds
(moto, PostgreSQL) are no services: each worker has its own.

Groups begin in the order of their seconds in ``durations.json``, the longest first, as one that begins last
is waited for. ``pytest -n auto --record-durations`` writes the seconds of the groups that ran; those of
others stay. A service without an entry takes as long as the files that ask for it; any other group without
one begins before the short ones if one of its tests is marked as long.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

DURATIONS = Path(__file__).with_name("durations.json")
LEAST_SECONDS = 2
"""Groups that take less are not recorded: their order does not matter."""
UNKNOWN_SECONDS = 20
"""What a group with long tests and without an entry is taken for."""
LONG = ("slow", "spark", "browser", "environments")
"""Marks of tests that take more than a moment."""
_services: set[str] = set()


def service(start: Callable[..., Any]) -> Any:
    """A fixture that starts what is expensive to start, once for the whole run."""
    _services.add(start.__name__)
    return pytest.fixture(scope="session")(start)


def arrange(items: list[pytest.Item]) -> None:
    """Sort tests into groups, and the groups by how long they take."""
    asked = {item: _services.intersection(getattr(item, "fixturenames", ())) for item in items}
    askers = Counter(name for names in asked.values() for name in names)
    for item, names in asked.items():
        if names:  # of two services the rarer one: it alone is started twice
            item.add_marker(pytest.mark.xdist_group(min(names, key=lambda name: (askers[name], name))))
    seconds = recorded()
    for group, members in _by_group(items).items():
        if group not in seconds:  # a service: as long as the files that ask for it
            known = sum(seconds.get(file, 0) for file in {_file(item.nodeid) for item in members})
            seconds[group] = known or UNKNOWN_SECONDS * any(map(_is_long, members))
    items.sort(key=lambda item: (-seconds[group_of(item)], group_of(item)))


def _by_group(items: list[pytest.Item]) -> dict[str, list[pytest.Item]]:
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        groups.setdefault(group_of(item), []).append(item)
    return groups


def _is_long(item: pytest.Item) -> bool:
    return item.path.suffix == ".ipynb" or any(map(item.get_closest_marker, LONG))


def group_of(item: pytest.Item) -> str:
    """The service that a test asks for, or its file."""
    mark = item.get_closest_marker("xdist_group")
    return str(mark.args[0]) if mark is not None else _file(item.nodeid)


def _file(nodeid: str) -> str:
    return nodeid.split("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """``--dist=loadgroup``, with the file as the group of tests that have no other."""
    from xdist.scheduler import LoadGroupScheduling

    class Groups(LoadGroupScheduling):
        def _split_scope(self, nodeid: str) -> str:
            group: str = super()._split_scope(nodeid)
            return _file(nodeid) if group == nodeid else group

    return Groups(config, log) if config.getvalue("dist") == "loadgroup" else None


# -- how long groups take ----------------------------------------------------------------------------


def recorded() -> dict[str, float]:
    """Group -> seconds, as they were recorded last."""
    return json.loads(DURATIONS.read_text("utf-8")) if DURATIONS.exists() else {}


class Recorder:
    """A plug-in that writes ``durations.json`` at the end of a run."""

    def __init__(self) -> None:
        self._groups: dict[str, str] = {}
        self._seconds = Counter[str]()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._groups = {item.nodeid: group_of(item) for item in session.items}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name, _, group = report.nodeid.rpartition("@")
        by_worker = group if name and "]" not in group else _file(report.nodeid)
        self._seconds[self._groups.get(report.nodeid, by_worker)] += report.duration

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        root = session.config.rootpath
        here = {group: seconds for group, seconds in recorded().items()
                if "/" not in group or (root / group).exists()}
        seconds = {**here, **{group: round(each) for group, each in self._seconds.items()}}
        lasting = {group: each for group, each in seconds.items() if each >= LEAST_SECONDS}
        text = json.dumps(dict(sorted(lasting.items(), key=lambda item: (-item[1], item[0]))), indent=1)
        DURATIONS.write_text(text + "\n", "utf-8")
