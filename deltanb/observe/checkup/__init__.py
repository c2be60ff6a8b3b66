"""What upkeep a table needs: small files, skew, old logs, missing statistics; each with its command.

What lives here: the door, whose names are loaded when they are asked for: the command line reads ``kinds`` at
every start. ``kinds`` lists what can be found, ``report`` has the values that say it. ``examine`` asks each
check in turn: of the files of the newest version (``files``, ``clustering``, ``statistics``), of its commits
(``commits``, ``rewrites``), of the log (``logs``), of what is in the store (``storage``).
What it does not know: whether a table is sound (``verify``), how anything is mended.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deltanb.observe.checkup.examine import checkup as checkup
    from deltanb.observe.checkup.report import BlindSpot as BlindSpot
    from deltanb.observe.checkup.report import Checkup as Checkup
    from deltanb.observe.checkup.report import Finding as Finding

_MODULES = {"checkup": "examine", "BlindSpot": "report", "Checkup": "report", "Finding": "report"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
