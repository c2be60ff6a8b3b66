"""deltanb: Delta Lake tables whose transactions can be seen.

Every public name is loaded when it is first used, so that ``import deltanb`` costs little and starts
nothing: no pyarrow, no pandas, no Spark.

>>> import deltanb as dn
>>> dn.Operation("DELETE", {"predicate": ["month = 12"]}).changes_data
True
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from deltanb._version import __version__ as __version__

if TYPE_CHECKING:
    from deltanb import actions as actions
    from deltanb import errors as errors
    from deltanb import examples as examples
    from deltanb import locks as locks
    from deltanb import sql as sql
    from deltanb import testing as testing
    from deltanb.catalog.catalog import Catalog as Catalog
    from deltanb.catalog.limits import Limits as Limits
    from deltanb.catalog.rest.client.catalog import connect as connect
    from deltanb.concurrency.background import flush as flush
    from deltanb.errors import DeltaError as DeltaError
    from deltanb.locks.core.transaction import Transaction as Transaction
    from deltanb.locks.tables.retrying import retry as retry
    from deltanb.log.snapshot import Snapshot as Snapshot
    from deltanb.notebook.drawing.chart import Chart as Chart
    from deltanb.observe.bisect.bisect import bisect as bisect
    from deltanb.observe.explore.explore import explore as explore
    from deltanb.observe.post_mortem.post_mortem import post_mortem as post_mortem
    from deltanb.observe.race import race as race
    from deltanb.observe.verify.verify import verify as verify
    from deltanb.observe.what_if import explain_conflict as explain_conflict
    from deltanb.options import set_options as set_options
    from deltanb.options import teaching as teaching
    from deltanb.table.entry import convert as convert
    from deltanb.table.entry import create as create
    from deltanb.table.entry import open as open
    from deltanb.table.table import DeltaTable as DeltaTable
    from deltanb.transaction.commit_stats import CommitStats as CommitStats
    from deltanb.transaction.conflicts import Conflict as Conflict
    from deltanb.transaction.delta_log import DeltaLog as DeltaLog
    from deltanb.transaction.hook_failures import HookFailure as HookFailure
    from deltanb.transaction.journal import (
        last_commit_version_in_session as last_commit_version_in_session,
    )
    from deltanb.transaction.operations import Operation as Operation
    from deltanb.transaction.transaction import OptimisticTransaction as OptimisticTransaction

_NAMES = {
    "Catalog": "deltanb.catalog.catalog",
    "Chart": "deltanb.notebook.drawing.chart",
    "CommitStats": "deltanb.transaction.commit_stats",
    "Conflict": "deltanb.transaction.conflicts",
    "DeltaError": "deltanb.errors",
    "DeltaLog": "deltanb.transaction.delta_log",
    "DeltaTable": "deltanb.table.table",
    "HookFailure": "deltanb.transaction.hook_failures",
    "Limits": "deltanb.catalog.limits",
    "Operation": "deltanb.transaction.operations",
    "OptimisticTransaction": "deltanb.transaction.transaction",
    "Snapshot": "deltanb.log.snapshot",
    "Transaction": "deltanb.locks.core.transaction",
    "bisect": "deltanb.observe.bisect.bisect",
    "connect": "deltanb.catalog.rest.client.catalog",
    "convert": "deltanb.table.entry",
    "create": "deltanb.table.entry",
    "explain_conflict": "deltanb.observe.what_if",
    "explore": "deltanb.observe.explore.explore",
    "flush": "deltanb.concurrency.background",
    "last_commit_version_in_session": "deltanb.transaction.journal",
    "open": "deltanb.table.entry",
    "post_mortem": "deltanb.observe.post_mortem.post_mortem",
    "race": "deltanb.observe.race",
    "retry": "deltanb.locks.tables.retrying",
    "set_options": "deltanb.options",
    "teaching": "deltanb.options",
    "verify": "deltanb.observe.verify.verify",
}
"""public name -> the module that holds it."""

_MODULES = (
    "actions", "errors", "examples", "locks", "log", "options", "spark", "sql", "store", "testing",
    "transaction")
"""Submodules reachable as attributes; ``deltanb.spark`` is also the function that gives a session,
``deltanb.sql`` the one that runs SQL."""

_OFFERED = sorted([*_NAMES, *(m for m in _MODULES if m not in ("log", "store", "transaction"))])
__all__ = [name for name in _OFFERED if name != "open"]  # Python's own stays what it is


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        value = getattr(importlib.import_module(_NAMES[name]), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return importlib.import_module(f"deltanb.{name}")
    if name.startswith("_"):  # asked for by the machinery of imports and displays
        raise AttributeError(f"module 'deltanb' has no attribute {name!r}")
    raise AttributeError(importlib.import_module("deltanb.text.spellings").of_module(name))


def __dir__() -> list[str]:
    return sorted({*_OFFERED, *(name for name in globals() if name.startswith("__"))})


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext deltanb``: queries in cells, by ``%%sql``."""
    importlib.import_module("deltanb.notebook.magic").load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """``%unload_ext deltanb``."""
    importlib.import_module("deltanb.notebook.magic").unload(shell)
