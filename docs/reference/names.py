"""The reference of what people import, and of what calls return.

What lives here: which names are public (:func:`public`, which tests ask, too), and a page for
each class, for the functions of ``deltanb``, and for each module that people import. Signatures and texts are
those of the code, which Sphinx reads.
What it does not know: any name.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cached_property
from typing import Any

import deltanb
import deltanb as dn
from deltanb.catalog.iceberg.table import IcebergTable
from deltanb.text.display import Displayable
from docs.reference.rst import contents, docstring, first_sentence, indented, page, table

MODULES = (dn, dn.actions, dn.examples, dn.locks, dn.testing)
"""The modules that people import, but for those with a reference of their own."""
RESULTS = ("deltanb.catalog.iceberg.table", "deltanb.catalog.progress", "deltanb.catalog.snapshot",
           "deltanb.catalog.transaction", "deltanb.commands", "deltanb.locks.core.record", "deltanb.log",
           "deltanb.observe", "deltanb.query", "deltanb.text.display")
"""Where the classes are whose instances calls return, for people to look at."""
HANDLES = (dn.DeltaTable, dn.DeltaLog, dn.OptimisticTransaction, dn.Transaction, IcebergTable)
"""What is under one of these handles now and then: people read the help of the handle."""
ELSEWHERE = (dn.DeltaError,)
"""Classes with a reference of their own."""


def members(cls: type[Any]) -> Iterator[tuple[str, Any]]:
    """The public methods and properties of a class, its own and those of other classes of ours."""
    ours = [base for base in cls.__mro__ if base.__module__.partition(".")[0] == "deltanb"]
    for name in sorted({name for base in ours for name in vars(base) if not name.startswith("_")}):
        member = inspect.getattr_static(cls, name)
        if isinstance(member, property | cached_property):
            yield name, member.fget if isinstance(member, property) else member.func
        elif inspect.isroutine(member):
            yield name, getattr(cls, name)


def results() -> Iterator[tuple[str, type[Any]]]:
    """The classes whose instances calls return."""
    for info in pkgutil.walk_packages(deltanb.__path__, "deltanb."):
        if info.name.startswith(RESULTS):
            for name, thing in vars(importlib.import_module(info.name)).items():
                is_shown = inspect.isclass(thing) and issubclass(thing, Displayable)
                if is_shown and thing.__module__ == info.name and not name.startswith("_") and not (
                        issubclass(thing, HANDLES) and thing not in HANDLES):
                    yield f"{info.name}.{name}", thing


def named() -> Iterator[tuple[str, Any]]:
    """What the modules that people import have, and what calls return."""
    for module in MODULES:
        for name in dir(module):
            thing = getattr(module, name)
            if not name.startswith("_") and getattr(thing, "__module__", "").startswith("deltanb") and (
                    inspect.isfunction(thing) or inspect.isclass(thing)):
                yield f"{module.__name__}.{name}", thing
    yield from results()


def public() -> Iterator[tuple[str, Any]]:
    """The functions and classes that people meet, with the members of these."""
    for name, thing in named():
        yield name, thing
        if inspect.isclass(thing) and thing not in ELSEWHERE:
            for own, member in _own_members(thing):
                yield f"{name}.{own}", member


def _own_members(cls: type[Any]) -> list[tuple[str, Any]]:
    """The members of a class but for ``fields``, which all have that are shown, and which is for views."""
    return [(name, member) for name, member in members(cls)
            if not (name == "fields" and issubclass(cls, Displayable) and cls is not Displayable)]


def places() -> dict[str, tuple[str, Any]]:
    """The page of each public class -> its first public name, and the class."""
    known: dict[int, str] = {}
    classes = {}
    for name, thing in named():
        if inspect.isclass(thing) and thing not in ELSEWHERE and id(thing) not in known:
            known[id(thing)] = name
            classes[name.removeprefix("deltanb.")] = (name, thing)
    return classes


def pages() -> dict[str, str]:
    """A page for each class, those of functions and modules, and the index of all."""
    classes = places()
    written = {f"api/{place}.rst": _class_page(name, thing) for place, (name, thing) in classes.items()}
    written["api/functions.rst"] = page("Functions", *map(_function, _functions(dn)), _sql(), _spark())
    tops = [place for place in classes if "." not in place]
    parts = ["Signatures, texts and examples are those of the code; the examples run as tests. "
             "``import deltanb as dn`` stands before each.",
             page_part("What you call", _summary([(f"dn.{f.__name__}", f"deltanb.{f.__name__}", f, "func")
                                                   for f in _functions(dn)])),
             page_part("What you hold", _class_summary({p: classes[p] for p in tops}))]
    order = ["api/functions", *(f"api/{place}" for place in tops)]
    for module in MODULES[1:]:
        short = module.__name__.removeprefix("deltanb.")
        inside = {p: pair for p, pair in classes.items() if p.startswith(f"{short}.") and p.count(".") == 1
                  and pair[0].startswith(module.__name__)}
        functions = _functions(module)
        written[f"api/{short}.rst"] = page(
            module.__name__, docstring(module.__doc__ or ""), _class_summary(inside) if inside else "",
            *(_function(f, module.__name__) for f in functions))
        order += [f"api/{short}", *(f"api/{place}" for place in inside)]
        parts.append(page_part(f"In dn.{short}", f":doc:`dn.{short} <{short}>`: {first_sentence(module)}",
                               _class_summary(inside) if inside else ""))
    rest = {p: pair for p, pair in classes.items() if f"api/{p}" not in order}
    parts.append(page_part("What calls return", _class_summary(rest)))
    order += [f"api/{place}" for place in rest]
    names = [each.removeprefix("api/") for each in order]
    written["api/index.rst"] = page("Python", *parts, contents(names, hidden=True))
    return written


def page_part(title: str, *parts: str) -> str:
    """A part of a page, under a heading of its own."""
    return "\n".join([title, "-" * len(title), "", *(f"{part.strip()}\n" for part in parts)])


def _functions(module: Any) -> list[Any]:
    """The functions of a module that are public under its name."""
    return [thing for name in dir(module) if not name.startswith("_")
            and inspect.isfunction(thing := getattr(module, name))
            and thing.__module__.startswith("deltanb")]


def _function(function: Any, module: str = "deltanb") -> str:
    return f".. autofunction:: {module}.{function.__name__}\n"


def _described(cls: type[Any]) -> list[str]:
    """The fields of a dataclass that a text of their own describes."""
    from sphinx.pycode import ModuleAnalyzer

    if not is_dataclass(cls):
        return []
    texts = {name for base in cls.__mro__ if base.__module__.startswith("deltanb")
             for owner, name in ModuleAnalyzer.for_module(base.__module__).find_attr_docs()
             if owner == base.__qualname__}
    return [each.name for each in fields(cls) if each.name in texts and not each.name.startswith("_")]


def _class_page(name: str, cls: type[Any]) -> str:
    own = [member for member, _ in _own_members(cls)]
    lines = [f".. autoclass:: {name}", ""]
    for member in _described(cls):
        lines += [f"   .. autoattribute:: {member}", "      :no-value:", ""]
    for member in own:
        is_property = isinstance(inspect.getattr_static(cls, member), property | cached_property)
        lines += [f"   .. auto{'property' if is_property else 'method'}:: {member}", ""]
    return page(name.rpartition(".")[2], "\n".join(lines))


def _class_summary(classes: dict[str, tuple[str, type[Any]]]) -> str:
    return _summary([(name.rpartition(".")[2], name, cls, "class") for name, cls in classes.values()])


def _summary(rows: list[tuple[str, str, Any, str]]) -> str:
    return table(("name", "what it is"), [
        (f":py:{role}:`{label} <{name}>`", first_sentence(thing)) for label, name, thing, role in rows],
        "25 75")


def _sql() -> str:
    """``dn.sql`` is a package that is called; what it does is its own text."""
    text = indented(docstring(dn.sql.__doc__ or ""))
    return f".. py:function:: deltanb.sql(text, /, spark=None, **parameters)\n\n{text}"


def _spark() -> str:
    """``dn.spark`` is a package, too, and a function of another module when it is called."""
    from sphinx.util.inspect import signature, stringify_signature

    from deltanb.engines.spark.session import spark

    written = stringify_signature(signature(spark), unqualified_typehints=True)
    return f".. py:function:: deltanb.spark{written}\n\n{indented(docstring(spark.__doc__ or ''))}"
