"""Peers that tests ask for."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from deltanb.testing.s3_server import S3Server
from tests.groups import service
from tests.peers.delta_spark import DeltaSpark, Unavailable


@service
def delta_spark() -> Iterator[DeltaSpark]:
    """A session with Delta Spark, in a process and a JVM of its own."""
    try:
        session = DeltaSpark()
    except Unavailable as reason:
        pytest.skip(f"no Delta Spark: {reason}")
    with session:
        yield session


DELTA_RS = """
import json, sys, deltalake
options = json.loads(sys.argv[1])
for line in sys.stdin:
    uri, work = json.loads(line)
    opened = lambda **settings: deltalake.DeltaTable(uri, storage_options=options, **settings)
    query = lambda sql, **settings: deltalake.QueryBuilder().register(
        "t", opened(**settings)).execute(sql).read_all()
    result = eval(work)
    print(json.dumps(result if isinstance(result, (int, str)) else None), flush=True)
"""
"""For each line of a table and an expression delta-rs does what this says: its number or text, else null."""


@pytest.fixture(scope="module")
def delta_rs(s3_server: S3Server) -> Iterator[Callable[[str, str], Any]]:
    """delta-rs on tables in buckets, in another process, since the server is in this one."""
    options = {**s3_server.options, "aws_conditional_put": "etag"}
    process = subprocess.Popen([sys.executable, "-c", DELTA_RS, json.dumps(options)], text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None

    def done(uri: str, work: str) -> Any:
        print(json.dumps([uri, work]), file=process.stdin, flush=True)
        assert process.stdout is not None
        return json.loads(process.stdout.readline())

    yield done
    process.stdin.close()
    process.wait()
    process.stdout.close()
