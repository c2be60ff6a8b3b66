"""What methods of lower floors give people from those above, as ``upper.CommitStepper``, loaded when needed.

What lives here: the way up. The names, with their types and modules, are those of ``upper.pyi`` beside it,
which type checkers read as it is.
What it does not know: any of them.
"""

from __future__ import annotations

import pkgutil
import re
from functools import cache
from importlib import import_module
from typing import Any


@cache
def modules() -> dict[str, str]:
    """The module of each name."""
    stub = (pkgutil.get_data(__name__, "upper.pyi") or b"").decode()
    lines = re.findall(r"^from (\S+) import (\w+) as \2$", stub, re.MULTILINE)
    return {name: module for module, name in lines}


def __getattr__(name: str) -> Any:
    if name not in modules():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(modules()[name]), name)
