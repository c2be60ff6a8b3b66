"""``help()`` of what people begin with shows an example; the examples are run by ``test_doctests``."""

from __future__ import annotations

import inspect

import pytest

from docs.reference.names import public

ON_SPARK = ("df", "stream", "toDF")
"""What the names of methods begin or end with that start Spark: their examples are for reading."""
TOOLS = "deltanb.testing."
"""Tools to test with have an example for their module, and for some of them."""
PUBLIC = {name.removeprefix("deltanb."): thing for name, thing in public() if not name.startswith(TOOLS)}


@pytest.mark.parametrize("name", PUBLIC)
def test_help_has_an_example_that_runs(name: str) -> None:
    lines = [line for line in (inspect.getdoc(PUBLIC[name]) or "").splitlines() if line.startswith(">>> ")]
    is_read = [line for line in lines if "+SKIP" in line]
    assert len(lines) > len(is_read) or (is_read and name.endswith(ON_SPARK)), name


def test_all_that_people_begin_with_is_asked() -> None:
    assert {"create", "open", "DeltaTable.append", "DeltaTable.toDF", "Catalog.transaction",
            "DeltaLog.snapshot_at", "Snapshot.files", "CommitStats.retries"} <= PUBLIC.keys()
