"""``help()`` of what people begin with shows an example; the examples are run by ``test_doctests``."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

import deltanb as dn
from deltanb.text.spellings import Spelt

ON_SPARK = ("df", "stream", "toDF")
"""What the names of methods begin or end with that start Spark: their examples are for reading."""


def public() -> Iterator[tuple[str, Any]]:
    """The functions of the module, and the classes that answer names of other libraries, with methods."""
    for name in [*dn.__all__, "open"]:
        thing = getattr(dn, name)
        if inspect.isfunction(thing):
            yield name, thing
        if inspect.isclass(thing) and issubclass(thing, Spelt):
            yield name, thing
            for method in dir(thing):
                if not method.startswith("_") and callable(getattr(thing, method)):
                    yield f"{name}.{method}", getattr(thing, method)


PUBLIC = dict(public())


@pytest.mark.parametrize("name", PUBLIC)
def test_help_has_an_example_that_runs(name: str) -> None:
    lines = [line for line in (inspect.getdoc(PUBLIC[name]) or "").splitlines() if line.startswith(">>> ")]
    is_read = [line for line in lines if "+SKIP" in line]
    assert len(lines) > len(is_read) or (is_read and name.endswith(ON_SPARK)), name


def test_all_that_people_begin_with_is_asked() -> None:
    assert {"create", "open", "DeltaTable.append", "DeltaTable.toDF", "Catalog.transaction"} <= PUBLIC.keys()
