"""What every test may ask for: the shared data, a Spark session, settings put back afterwards."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from deltanb import options
from tests.groups import Recorder, arrange, pytest_xdist_make_scheduler, service
from tests.machine import SHORT_LIVED, chromium, missing_java
from tests.shared_tables import SHARED

__all__ = ["pytest_xdist_make_scheduler"]  # a hook

_buckets = itertools.count(1)
ROOT = Path(__file__).resolve().parent.parent
LEFT_OUT = pytest.StashKey[int]()
"""How many tests ``--thorough`` has beside those of this run."""
NO_SHARED = f"absent ({SHARED}): tests on real tables of other writers are skipped"

# The same examples at every run, on every machine: what failed here fails there. Those of the night are
# others each time, and a failure prints what repeats it. tests/examples.py says how many a test has.
settings.register_profile("ci", derandomize=True, deadline=None, database=None, stateful_step_count=25)
settings.register_profile("nightly", max_examples=2000, deadline=None, database=None, print_blob=True)
settings.load_profile("ci")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write the golden files anew instead of comparing with them",
    )
    parser.addoption(
        "--faults",
        metavar="SEED|all",
        help="which file operations tests/faults lets fail: some, chosen by a number (1), or all of them",
    )
    parser.addoption(
        "--thorough",
        action="store_true",
        help="run all of what a usual run has a part of: all faults, all orders, the examples of the night, "
             "whole environments",
    )
    parser.addoption(
        "--record-durations",
        action="store_true",
        help="write tests/durations.json, by which the longest tests begin first",
    )
    parser.addoption(
        "--connect",
        action="store_true",
        help="run the tests of Spark against a Spark Connect server on loopback",
    )


def pytest_configure(config: pytest.Config) -> None:
    """What an option brings with it, and how JVMs of Spark begin, here and in the processes of tests."""
    os.environ.setdefault("SPARK_SUBMIT_OPTS", SHORT_LIVED)
    if config.getoption("--thorough"):
        settings.load_profile("nightly")
    if config.option.faults is None:
        config.option.faults = "all" if config.getoption("--thorough") else "1"
    if config.getoption("--record-durations") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What cannot run here skips and says why: see the marks in pyproject.toml."""
    is_connect, is_thorough = config.getoption("--connect"), config.getoption("--thorough")
    with_environments = is_thorough or "environments" in config.option.markexpr
    if not is_thorough:  # thousands: each that skips has all of a test's hooks, in two processes
        left = [item for item in items if item.get_closest_marker("thorough") is not None]
        _leave_out(config, left)
        items[:] = [item for item in items if item.get_closest_marker("thorough") is None]
    for item in items:
        if "shared" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.shared)
        if not SHARED.is_dir() and item.get_closest_marker("shared") is not None:
            item.add_marker(pytest.mark.skip(reason=NO_SHARED), append=False)
        if not with_environments and item.get_closest_marker("environments") is not None:
            item.add_marker(pytest.mark.skip(reason="installs whole environments: -m environments"))
        if item.get_closest_marker("spark") is not None and (why := missing_java()) is not None:
            item.add_marker(pytest.mark.skip(reason=why))
        classic = item.get_closest_marker("classic")
        if is_connect and classic is not None:
            item.add_marker(pytest.mark.skip(reason=f"not on Spark Connect: {classic.args[0]}"))
        if not is_connect and item.get_closest_marker("connect") is not None:
            item.add_marker(pytest.mark.skip(reason="about Spark Connect alone: --connect runs it"))
    arrange(items)


def _leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What ``--thorough`` has beside: counted, here or by a worker for the process that prints it."""
    config.stash[LEFT_OUT] = len(items)
    if hasattr(config, "workeroutput"):
        config.workeroutput["left out"] = len(items)
    else:
        config.hook.pytest_deselected(items=items)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Each worker has collected all tests, and has left out the same."""
    node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get(
        "left out", node.config.stash.get(LEFT_OUT, 0))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """``-n auto``: a worker for each core, up to four; each has servers and a Spark session of its own."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, 4)


def pytest_report_header() -> list[str]:
    """Say once, at the top, what of this machine tests will skip for want of."""
    from tests.catalog.postgresql import initdb

    return [
        f"shared data: {'present' if SHARED.is_dir() else NO_SHARED}",
        f"PostgreSQL: {initdb() or 'absent (apt install postgresql), its tests skip'}",
        f"Chromium: {chromium() or 'absent, tests of pages skip'}",
        f"Java: {missing_java() or 'present'}",
    ]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say once, at the end, what was left out and why."""
    reasons = Counter(str(report.longrepr[2]).removeprefix("Skipped: ")
                      for report in terminalreporter.getreports("skipped")
                      if isinstance(report.longrepr, tuple))
    if (count := terminalreporter.config.stash.get(LEFT_OUT, 0)):
        reasons["more of what a usual run has a part of: --thorough"] = count
    if reasons:
        terminalreporter.section("left out")
        for reason, count in reasons.most_common():
            terminalreporter.write_line(f"{count:6} {reason}")


@service
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The documentation site, built once."""
    for name in ("sphinx", "myst_nb", "pydata_sphinx_theme", "vl_convert"):
        pytest.importorskip(name, reason="the site is built by what deltanb[docs] brings")
    folder = tmp_path_factory.mktemp("site") / "html"
    command = [sys.executable, "-m", "docs.build", str(folder)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, f"\n{result.stdout}{result.stderr}"
    return folder


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of tables and scenarios beside the project; its tests have the mark ``shared``."""
    return SHARED


@service
def spark(request: pytest.FixtureRequest) -> Iterator[Any]:
    """One quiet local Spark session for all tests; with ``--connect`` that of a server."""
    pytest.importorskip("pyspark")
    import deltanb
    from tests.engines.spark.connect import connect_session

    session = connect_session() if request.config.getoption("--connect") else deltanb.spark()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[Any]:
    """An S3 server on loopback (:class:`deltanb.testing.s3_server.S3Server`), for all tests of a worker."""
    pytest.importorskip("moto", reason="moto is not installed")
    pytest.importorskip("obstore", reason="obstore is not installed")
    from deltanb.testing.s3_server import S3Server

    server = S3Server()
    yield server
    server.close()


@pytest.fixture
def bucket(s3_server: Any) -> str:
    """The URI of an empty bucket on it."""
    uri: str = s3_server.make_bucket(f"bucket-{next(_buckets)}")
    return uri


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be written instead of compared."""
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture
def is_thorough(request: pytest.FixtureRequest) -> bool:
    """Whether a test that tries a part of something in a usual run is to try all of it."""
    return bool(request.config.getoption("--thorough"))


@pytest.fixture(autouse=True)
def _settings_put_back() -> Iterator[None]:
    """A test that changes the clock, the ids or any other setting changes them for itself only.

    Checkpoints are written in line, so that what a commit does is the same at every run; tests of those in
    the background say so.
    """
    before = dict(vars(options._process))
    vars(options._process)["checkpoints"] = "inline"
    yield
    vars(options._process).update(before)
    options._own.set({})
