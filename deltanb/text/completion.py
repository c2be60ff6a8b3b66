"""What completion offers of a module: its own names, and nothing that it only imports.

What lives here: :func:`offered`, the ``__dir__`` of the modules people hold.
What it does not know: these modules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any


def offered(namespace: Mapping[str, Any], *also: str) -> Callable[[], list[str]]:
    """The ``__dir__`` of a module, from its ``globals()``.

    It names what the module defines: classes, functions and constants. What it imports (``Any``,
    ``annotations``, ``json``) is not its own, apart from ``also``; a package's own is what its modules
    define. A module that has an ``__all__`` says itself what is.

    >>> import json
    >>> from typing import Any
    >>> module = {"__name__": "pond", "json": json, "Any": Any, "DUCKS": 3, "offered": offered}
    >>> offered(module)(), offered(module, "offered")()
    (['DUCKS', '__name__'], ['DUCKS', '__name__', 'offered'])
    """

    def names() -> list[str]:
        own = namespace.get("__all__")
        if own is None:
            own = [name for name, value in namespace.items() if _is_own(name, value, namespace)]
        return sorted({*own, *also, *(name for name in namespace if name.startswith("__"))})

    return names


def _is_own(name: str, value: Any, namespace: Mapping[str, Any]) -> bool:
    if name.startswith("_") or name == "TYPE_CHECKING" or isinstance(value, ModuleType):
        return False
    place, defined_in = namespace["__name__"], getattr(value, "__module__", None)
    if isinstance(defined_in, str):
        return defined_in == place or ("__path__" in namespace and defined_in.startswith(f"{place}."))
    return type(value).__module__ in ("builtins", "types", "re")
