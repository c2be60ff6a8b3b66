"""A session with Hadoop's S3A in it, in a process of its own, for tests and figures.

The jars come by Maven coordinates through Spark's own resolver, once, into the tests' cache: the connector
and the three parts of Amazon's SDK that it uses, 20 MB, in place of the 690 MB of the SDK's bundle. Where
they cannot be had, :class:`~tests.peers.delta_spark.Unavailable` says why.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.engines.spark.cluster import Driver
from tests.machine import SHORT_LIVED
from tests.peers.delta_spark import Unavailable, fetch
from tests.peers.maven import alone, cache_folder

HADOOP, SDK = "3.5.0", "2.35.4"  # of PySpark 4.2, and what this hadoop-aws asks for
PACKAGES = [f"org.apache.hadoop:hadoop-aws:{HADOOP}",
            *(f"software.amazon.awssdk:{name}:{SDK}" for name in ("s3", "s3-transfer-manager", "sts"))]
EXCLUDED = "software.amazon.awssdk:bundle"


def arguments() -> dict[str, Any]:
    """What ``deltanb.spark()`` is called with to have S3A, the jars being there.

    Raises:
        Unavailable: there is another Hadoop, or the jars cannot be fetched.
    """
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    if not (jars / f"hadoop-client-api-{HADOOP}.jar").exists():
        raise Unavailable(f"this PySpark brings another Hadoop than {HADOOP}")
    folder = cache_folder() / f"s3a-{HADOOP}"
    with alone("s3a"):
        if not (folder / "complete").exists():
            fetch(folder, ",".join(PACKAGES), [EXCLUDED])
    return {"packages": PACKAGES, "config": {"spark.jars.ivy": str(folder), "spark.jars.excludes": EXCLUDED}}


@contextmanager
def driver(folder: Path, name: str, master: str = "local[2]", **variables: str) -> Iterator[Driver]:
    """A process whose session has S3A, told what to do (``s3a_jobs``)."""
    options = arguments()
    request = {"arguments": {"packages": options["packages"]}, **options["config"]}
    before = dict(os.environ)
    os.environ.update(variables, DELTANB_TEST_SESSION=json.dumps(request), AWS_EC2_METADATA_DISABLED="true")
    try:
        home: Any = SimpleNamespace(folder=folder, url=master)
        made = Driver(home, name, SHORT_LIVED)
    finally:
        os.environ.clear()
        os.environ.update(before)
    try:
        yield made
    finally:
        made.close()
