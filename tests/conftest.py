"""What every test may ask for: the shared data, a Spark session, settings put back afterwards."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from deltanb import options
from tests.shared_tables import SHARED

_buckets = itertools.count(1)
ROOT = Path(__file__).resolve().parent.parent
NO_SHARED = f"absent ({SHARED}): tests on real tables of other writers are skipped"

# The same examples at every run, on every machine: what failed here fails there.
settings.register_profile("deterministic", derandomize=True, deadline=None, database=None)
settings.load_profile("deterministic")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write the golden files anew instead of comparing with them",
    )
    parser.addoption(
        "--faults",
        default="1",
        metavar="SEED|all",
        help="which file operations tests/faults lets fail: some, chosen by a number, or all of them",
    )
    parser.addoption(
        "--thorough",
        action="store_true",
        help="run also what is marked thorough: as a usual run does, many more times",
    )
    parser.addoption(
        "--connect",
        action="store_true",
        help="run the tests of Spark against a Spark Connect server on loopback",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What cannot run here skips and says why: see the marks in pyproject.toml."""
    is_connect, is_thorough = config.getoption("--connect"), config.getoption("--thorough")
    for item in items:
        if "shared" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.shared)
        if not SHARED.is_dir() and item.get_closest_marker("shared") is not None:
            item.add_marker(pytest.mark.skip(reason=NO_SHARED), append=False)
        if not is_thorough and item.get_closest_marker("thorough") is not None:
            item.add_marker(pytest.mark.skip(reason="more of what a usual run has a part of: --thorough"))
        classic = item.get_closest_marker("classic")
        if is_connect and classic is not None:
            item.add_marker(pytest.mark.skip(reason=f"not on Spark Connect: {classic.args[0]}"))
        if not is_connect and item.get_closest_marker("connect") is not None:
            item.add_marker(pytest.mark.skip(reason="about Spark Connect alone: --connect runs it"))
    _put_long_ones_first(items)


def _put_long_ones_first(items: list[pytest.Item]) -> None:
    """Files that take minutes come first, notebooks among them: one that begins last is waited for."""
    long = {item.path for item in items if item.path.suffix == ".ipynb" or any(
        map(item.get_closest_marker, ("slow", "spark", "browser")))}
    items.sort(key=lambda item: item.path not in long)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """``-n auto``: a worker for each core, up to four; each has servers and a Spark session of its own."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, 4)


def pytest_report_header() -> list[str]:
    """Say once, at the top, which tests skip because what they need is not on this machine."""
    from tests.catalog.postgresql import initdb

    return [
        f"shared data: {'present' if SHARED.is_dir() else NO_SHARED}",
        f"PostgreSQL: {initdb() or 'absent (apt install postgresql), its tests skip'}",
    ]


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of tables and scenarios beside the project; its tests have the mark ``shared``."""
    return SHARED


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest) -> Iterator[Any]:
    """One quiet local Spark session for all tests of a worker; with ``--connect`` that of a server."""
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
