"""What can be asked of a table: each method is declared once, where it is defined, with what it does.

What lives here: the declarations; :class:`Does`, what they say; and :class:`Askable`, by which every call of
a declared method goes.
What it does not know: any method, any kind of table.

A kind of table says once what it refuses (:meth:`Askable._admit`) and what it does a call within
(:meth:`Askable._perform`), by what is declared and by no method's name. So a new method takes a declaration
and nothing else, and a new kind of table takes these two.

===================  =======================================================================================
declared             what the method does
===================  =======================================================================================
``reads``            reads rows, those that are staged among them
``reads_versions``   reads rows as versions have them, which have nothing that is staged elsewhere
``reads_log``        looks at the log alone
``reads_commits``    reads what is committed, and goes on as more is: what is staged is never a part of it
``writes``           changes rows
``adds``             adds rows, whatever the table has
``replaces``         replaces the rows of its ``where``, or all of them
``describes``        gives a description, whose ``execute()`` writes: that is what is done as one call
``defines``          changes what the table is: its columns, properties and constraints
``commits_alone``    makes commits of its own, or has to see the table as others see it
``copies``           the same, and makes something else of a version: so it is asked of past ones, too
``ends``             ends the transaction that the table is in
===================  =======================================================================================
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import Enum
from functools import wraps
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar, cast

from deltanb.errors import InvalidArgument

M = TypeVar("M")
P = ParamSpec("P")
R = TypeVar("R")


class Does(Enum):
    """What a method does; the table above says more."""

    READS = "reads"
    READS_VERSIONS = "reads versions"
    READS_LOG = "reads the log"
    READS_COMMITS = "reads commits"
    WRITES = "writes"
    ADDS = "adds"
    REPLACES = "replaces"
    DEFINES = "defines"
    COMMITS_ALONE = "commits alone"
    COPIES = "copies"
    ENDS = "ends"

    is_read: bool
    """Whether the table is the same afterwards."""
    is_staged: bool
    """Whether a transaction of several statements can have it as one of them."""
    is_alone: bool
    """Whether it is about the table as others see it, so that it cannot be a part of a transaction."""


for _each in Does:
    _each.is_read = _each.value.startswith("reads")
    _each.is_staged = _each in (Does.WRITES, Does.ADDS, Does.REPLACES, Does.DEFINES)
    _each.is_alone = _each in (Does.READS_COMMITS, Does.COMMITS_ALONE, Does.COPIES)


class Asked(NamedTuple):
    """The declaration of a method."""

    name: str
    does: Does


class Call(NamedTuple):
    """A method that is asked of a table, with its arguments."""

    asked: Asked
    method: Callable[..., Any]
    args: tuple[Any, ...]
    settings: Mapping[str, Any]

    def on(self, table: Any) -> Any:
        """Do it, on the table that it was asked of or on another one in its place."""
        return self.method(table, *self.args, **self.settings)


class Askable:
    """What has declared methods: each call of one is admitted, then performed."""

    def _admit(self, asked: Asked) -> None:
        """Refuse what cannot be asked of this kind of table, or not any more."""

    def _perform(self, call: Call) -> Any:
        """Do what is asked."""
        self._admit(call.asked)
        return call.on(self)


class _ClassMethod(classmethod):  # type: ignore[type-arg]
    """A method of a class, which is a call as any other where it is asked of a table."""

    def __init__(self, function: Callable[..., Any], does: Does) -> None:
        super().__init__(function)
        self.asked = Asked(function.__name__, does)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        bound = super().__get__(instance, owner)
        if instance is None:
            return bound

        @wraps(bound)
        def call(*args: Any, **settings: Any) -> Any:
            return instance._perform(Call(
                self.asked, lambda table, *a, **s: self.__func__(type(table), *a, **s), args, settings))

        return call


def _declaration(does: Does) -> Callable[[M], M]:
    def declare(method: Any) -> Any:
        if isinstance(method, classmethod):
            return _ClassMethod(method.__func__, does)
        asked = Asked(method.__name__, does)

        @wraps(method)
        def call(self: Any, *args: Any, **settings: Any) -> Any:
            return self._perform(Call(asked, method, args, settings))

        call.asked = asked  # type: ignore[attr-defined]
        return call

    return cast(Callable[[M], M], declare)


reads = _declaration(Does.READS)
reads_versions = _declaration(Does.READS_VERSIONS)
reads_log = _declaration(Does.READS_LOG)
reads_commits = _declaration(Does.READS_COMMITS)
writes = _declaration(Does.WRITES)
adds = _declaration(Does.ADDS)
replaces = _declaration(Does.REPLACES)
defines = _declaration(Does.DEFINES)
commits_alone = _declaration(Does.COMMITS_ALONE)
copies = _declaration(Does.COPIES)
ends = _declaration(Does.ENDS)


def describes(method: M) -> M:
    """Declare a method that gives a description of a statement, which writes as it is executed.

    A description has the ``log`` that it was begun on, its ``source``, ``evolves`` where it lets new columns
    into the table, and ``within``, which gets it and what runs it.
    """
    begin: Any = method
    asked = Asked(begin.__name__, Does.WRITES)

    @wraps(begin)
    def call(self: Any, *args: Any, **settings: Any) -> Any:
        def within(description: Any, run: Callable[[Any], Any]) -> Any:
            def execute(table: Any, source: Any, *, merge_schema: bool) -> Any:
                return run(description if table is self else replace(description, log=table.log))

            return self._perform(
                Call(asked, execute, (description.source,), {"merge_schema": description.evolves}))

        self._admit(asked)
        return replace(begin(self, *args, **settings), within=within)

    call.asked = asked  # type: ignore[attr-defined]
    return cast(M, call)


def like(
    pattern: Callable[Concatenate[Any, P], object]
) -> Callable[[Callable[..., R]], Callable[Concatenate[Any, P], R]]:
    """Declare a method as that of another kind of table: with what it does, and with its arguments.

    Those that the method does not have are refused, unless they ask for what is done without them.
    """
    asked: Asked = pattern.asked  # type: ignore[attr-defined]
    signature = inspect.signature(pattern)

    def declare(method: Callable[..., R]) -> Callable[Concatenate[Any, P], R]:
        has = inspect.signature(method).parameters

        @wraps(method)
        def call(self: Any, *args: Any, **settings: Any) -> Any:
            try:
                values = signature.bind(self, *args, **settings).arguments
            except TypeError as error:
                raise TypeError(f"{asked.name}(): {error}") from None
            lacks = [name for name, value in values.items()
                     if name not in has and not _is_same(value, signature.parameters[name].default)]
            if lacks:
                raise InvalidArgument(
                    f"{asked.name}: a table such as {self.name} takes no {' and no '.join(lacks)}; "
                    "leave it out", name=lacks[0])
            given = {name: value for name, value in list(values.items())[1:] if name in has}
            return self._perform(Call(asked, method, (), given))

        call.asked, call.__signature__ = asked, signature  # type: ignore[attr-defined]
        return call

    return declare


def _is_same(value: Any, default: Any) -> bool:
    return value is default or (isinstance(value, str | bool) and bool(value == default))


def declared(kind: type) -> dict[str, Asked]:
    """What can be asked of a kind of table, by name."""
    methods = {name: getattr(inspect.getattr_static(kind, name), "asked", None) for name in dir(kind)}
    return {name: asked for name, asked in methods.items() if isinstance(asked, Asked)}
