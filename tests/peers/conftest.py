"""Peers that tests ask for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

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
