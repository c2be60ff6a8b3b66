"""A session of a Spark Connect server, for tests that run on one: ``pytest tests/engines/spark --connect``.

What lives here: :func:`connect_session`. The server is on loopback, on a port that the system chooses, in a
JVM of this process: it ends with it.
What it does not know: tests.
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

import pytest

NEEDED = ("grpc", "grpc_status", "google.rpc", "zstandard")


def connect_session(**config: str) -> Any:
    """Start a server and join it; this process can have no other session from then on."""
    for module in NEEDED:
        pytest.importorskip(module, reason="Spark Connect needs pip install 'pyspark[connect]'")
    from pyspark.sql import SparkSession

    from deltanb.engines.spark import session as sessions

    os.environ["SPARK_TESTING"] = "1"  # any free port; else the server waits for one that is named
    starter = SparkSession.builder.remote("local[2]").config(
        "spark.connect.grpc.binding.address", "127.0.0.1")
    variables = {"JAVA_HOME": str(sessions.java_home()), "PYSPARK_PYTHON": sys.executable}
    with sessions._environment(**variables), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Failed to set", UserWarning)  # those of the JVM
        # A busy machine is slow to start Python.
        settings = {**sessions.local_settings(), "spark.python.authenticate.socketTimeout": "60s", **config}
        for key, value in settings.items():
            if key != "spark.master":
                starter = starter.config(key, value)
        session = starter.getOrCreate()
    sessions._silence_duplicate_errors()
    return sessions._with_source(session)
