"""``help()`` of what people begin with shows an example; the examples are run by ``test_doctests``."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from typing import Any

import pytest

import deltanb
import deltanb as dn
from deltanb.catalog.iceberg.table import IcebergTable
from deltanb.text.display import Displayable

ON_SPARK = ("df", "stream", "toDF")
"""What the names of methods begin or end with that start Spark: their examples are for reading."""


def members(cls: type[Any]) -> Iterator[tuple[str, Any]]:
    """The public methods and properties of a class, its own and those of other classes of ours."""
    ours = [base for base in cls.__mro__ if base.__module__.partition(".")[0] == "deltanb"]
    for name in sorted({name for base in ours for name in vars(base) if not name.startswith("_")}):
        member = inspect.getattr_static(cls, name)
        if isinstance(member, property | cached_property):
            yield name, member.fget if isinstance(member, property) else member.func
        elif inspect.isroutine(member):
            yield name, getattr(cls, name)


MODULES = (dn, dn.actions, dn.examples, dn.locks)
RESULTS = ("deltanb.catalog.iceberg.table", "deltanb.catalog.progress", "deltanb.catalog.snapshot",
           "deltanb.catalog.transaction", "deltanb.commands", "deltanb.locks.core.record", "deltanb.log",
           "deltanb.observe", "deltanb.query", "deltanb.text.display")
"""Where the classes are whose instances calls return, for people to look at."""
HANDLES = (dn.DeltaTable, dn.DeltaLog, dn.OptimisticTransaction, dn.Transaction, IcebergTable)
"""What is under one of these handles now and then: people read the help of the handle."""


def named() -> Iterator[tuple[str, Any]]:
    """What the modules that people import have, and what shows itself."""
    for module in MODULES:
        begin = module.__name__.removeprefix("deltanb").lstrip(".")
        yield from ((f"{begin}.{name}".lstrip("."), getattr(module, name)) for name in dir(module))
    for info in pkgutil.walk_packages(deltanb.__path__, "deltanb."):
        if info.name.startswith(RESULTS):
            for name, thing in vars(import_module(info.name)).items():
                if inspect.isclass(thing) and issubclass(thing, Displayable) and (
                        thing.__module__ == info.name and not (
                            issubclass(thing, HANDLES) and thing not in HANDLES)):
                    yield f"{info.name.removeprefix('deltanb.')}.{name}", thing


def public() -> Iterator[tuple[str, Any]]:
    """The functions and classes that people meet, with the members of these."""
    for name, thing in named():
        if name.rpartition(".")[2].startswith("_") or not (
                getattr(thing, "__module__", "").startswith("deltanb")):
            continue
        if inspect.isfunction(thing) or inspect.isclass(thing):
            yield name, thing
        if inspect.isclass(thing):
            for member, value in members(thing):
                if not (member == "fields" and issubclass(thing, Displayable)):
                    yield f"{name}.{member}", value


PUBLIC = dict(public())


@pytest.mark.parametrize("name", PUBLIC)
def test_help_has_an_example_that_runs(name: str) -> None:
    lines = [line for line in (inspect.getdoc(PUBLIC[name]) or "").splitlines() if line.startswith(">>> ")]
    is_read = [line for line in lines if "+SKIP" in line]
    assert len(lines) > len(is_read) or (is_read and name.endswith(ON_SPARK)), name


def test_all_that_people_begin_with_is_asked() -> None:
    assert {"create", "open", "DeltaTable.append", "DeltaTable.toDF", "Catalog.transaction",
            "DeltaLog.snapshot_at", "Snapshot.files", "CommitStats.retries"} <= PUBLIC.keys()
