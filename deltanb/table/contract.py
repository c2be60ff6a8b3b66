"""The methods of a table: each is declared once, where it is defined, with what it does.

What lives here: the declarations; :class:`Does`, their meanings; and :class:`Askable`, through which every
call of a declared method goes.
What it does not know: any method, any kind of table.

A kind of table defines what it refuses (:meth:`Askable._admit`), in what context it performs a call
(:meth:`Askable._perform`), by declarations and never by method names, and which rows it shows
(:attr:`Askable._reads_at`). So a new method needs only a declaration, and a new kind of table only these
three.

===================  =======================================================================================
declared             what the method does
===================  =======================================================================================
``reads``            reads rows, including staged ones
``reads_versions``   reads rows of versions, which do not include what is staged
``reads_log``        reads only the log
``reads_commits``    reads commits, and follows new ones; never reads what is staged
``writes``           changes rows
``adds``             adds rows without reading any
``replaces``         replaces the rows of its ``where``, or all of them
``describes``        returns a description whose ``execute()`` writes, as one call
``defines``          changes the table's columns, properties or constraints
``commits_alone``    makes its own commits, or has to see the table as others see it
``copies``           the same, and makes something new from a version, which may be a past one
``ends``             ends the table's transaction
===================  =======================================================================================
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import Enum
from functools import wraps
from typing import Any, Concatenate, Literal, NamedTuple, ParamSpec, TypeVar, cast

from deltanb.errors import InvalidArgument
from deltanb.text.spellings import answering, wrong_call

M = TypeVar("M")
P = ParamSpec("P")
R = TypeVar("R")


class Does(Enum):
    """What a method does; see the table above."""

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
    """Whether it leaves the table unchanged."""
    is_staged: bool
    """Whether it can be a statement of a transaction."""
    is_alone: bool
    """Whether it concerns the table as others see it, so that it cannot be part of a transaction."""


for _each in Does:
    _each.is_read = _each.value.startswith("reads")
    _each.is_staged = _each in (Does.WRITES, Does.ADDS, Does.REPLACES, Does.DEFINES)
    _each.is_alone = _each in (Does.READS_COMMITS, Does.COMMITS_ALONE, Does.COPIES)


class Asked(NamedTuple):
    """The declaration of a method."""

    name: str
    does: Does


class Call(NamedTuple):
    """A call of a table's method, with its arguments."""

    asked: Asked
    method: Callable[..., Any]
    args: tuple[Any, ...]
    settings: Mapping[str, Any]

    def on(self, table: Any) -> Any:
        """Call the method on a table, which may be another one than it was called on."""
        return self.method(table, *self.args, **self.settings)


class Askable:
    """An object with declared methods; each call is admitted, then performed.

    Python refuses an argument that a method does not have; that refusal is answered with what it is here.
    """

    @property
    def _reads_at(self) -> Literal["newest", "past", "transaction"]:
        """Which rows it shows: the newest ones, those of one version, or those of a transaction."""
        return "newest"

    def _admit(self, asked: Asked) -> None:
        """Refuse calls that this kind of table does not allow, or no longer allows."""

    def _perform(self, call: Call) -> Any:
        """Perform the call."""
        self._admit(call.asked)
        return call.on(self)


class _ClassMethod(classmethod):  # type: ignore[type-arg]
    """A class method that is a call like any other when called on a table."""

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

        return answering(call, self.asked.name)


def _declaration(does: Does) -> Callable[[M], M]:
    def declare(method: Any) -> Any:
        if isinstance(method, classmethod):
            return _ClassMethod(method.__func__, does)
        asked = Asked(method.__name__, does)

        @wraps(method)
        def call(self: Any, *args: Any, **settings: Any) -> Any:
            if "filters" in settings:
                settings = _with_where(inspect.signature(method), args, settings)
            try:
                return self._perform(Call(asked, method, args, settings))
            except TypeError:
                error = wrong_call(asked.name, inspect.signature(method), settings)
                if error is None:
                    raise
            raise error

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
    """Declare a method that returns the description of a statement, which writes when it is executed.

    A description has its ``log``, its ``source``, ``evolves`` if it lets new columns into the table, and
    ``within``, a function that gets the description and what runs it.
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
    return cast(M, answering(call, asked.name))


def like(
    pattern: Callable[Concatenate[Any, P], object]
) -> Callable[[Callable[..., R]], Callable[Concatenate[Any, P], R]]:
    """Declare a method like that of another kind of table, with the same effect and arguments.

    Arguments that the method does not have are refused unless they have their default values.
    """
    asked: Asked = pattern.asked  # type: ignore[attr-defined]
    signature = inspect.signature(pattern)

    def declare(method: Callable[..., R]) -> Callable[Concatenate[Any, P], R]:
        has = inspect.signature(method).parameters

        @wraps(method)
        def call(self: Any, *args: Any, **settings: Any) -> Any:
            settings = _with_where(signature, args, settings)
            if (wrong := wrong_call(asked.name, signature, settings)) is not None:
                raise wrong
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
            arguments = {name: value for name, value in list(values.items())[1:] if name in has}
            return self._perform(Call(asked, method, (), arguments))

        call.asked, call.__signature__ = asked, signature  # type: ignore[attr-defined]
        return call

    return declare


def _with_where(
    signature: inspect.Signature, args: tuple[Any, ...], settings: dict[str, Any]
) -> dict[str, Any]:
    """The arguments, with ``filters`` as the condition that it is: pyarrow and pandas call it so.

    Raises:
        InvalidArgument: there is another condition.
    """
    if "filters" not in settings or "where" not in signature.parameters:
        return settings
    if "where" in settings or len(args) >= list(signature.parameters).index("where"):
        raise InvalidArgument("give where or filters, not both: they are one condition", name="filters")
    return {**{name: value for name, value in settings.items() if name != "filters"},
            "where": settings["filters"]}


def _is_same(value: Any, default: Any) -> bool:
    return value is default or (isinstance(value, str | bool) and bool(value == default))


def declared(kind: type) -> dict[str, Asked]:
    """The declared methods of a kind of table, and its declared properties, by name."""
    each = {name: declaration_of(kind, name) for name in dir(kind)}
    return {name: asked for name, asked in each.items() if asked is not None}


def declaration_of(kind: type, name: str) -> Asked | None:
    """The declaration of a method or a property; None where there is none of this name."""
    asked = getattr(method_of(kind, name), "asked", None)
    return asked if isinstance(asked, Asked) else None


def method_of(kind: type, name: str) -> Any:
    """A method as it is defined; of a property the one that reads it; None where there is none."""
    method = inspect.getattr_static(kind, name, None)
    return method.fget if isinstance(method, property) else method
