"""Slips of people who know other libraries: how a wrong name and a wrong argument are answered.

What lives here: :class:`Spelt`, whose objects answer a name of another library with the name it has here;
:func:`answer_wrong_arguments`, by which functions answer an argument that they do not have; and
:class:`Aliases`, the few names that work as they are.
What it does not know: the names themselves (``text/spelling_table``, which is loaded by the first slip), what
any of the methods does.

A right call costs nothing for it, where something goes through each call anyway: the answer is made from the
``TypeError`` that Python raises (``table/contract``).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from deltanb.errors import WrongCall

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as ds

__all__ = ["Aliases", "Elsewhere", "Number", "Spelt", "SpeltClass", "SpeltRow", "answer_wrong_arguments",
           "answering", "of_module", "refuse_call", "words_of", "wrong_call"]

F = TypeVar("F")


def _here(hint: str) -> str:
    """A counterpart as a clause; where there is none, only what to do.

    >>> _here("as_of(version)"), _here("nothing: leave it out")
    ('here it is as_of(version)', 'leave it out')
    """
    return hint.removeprefix("nothing: ") if hint.startswith("nothing") else f"here it is {hint}"


def words_of(name: str) -> str:
    """A name in camel case as words.

    >>> words_of("isBlindAppend")
    'is_blind_append'
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


# -- names -------------------------------------------------------------------------------------------------


def of_module(name: str) -> str:
    """What to say of a name that ``deltanb`` does not have.

    >>> of_module("convert_to_deltalake")
    'deltanb has no convert_to_deltalake; here it is convert(path, partition_by)'
    """
    from deltanb.text.spelling_table import MODULE, names_at

    hint = names_at(MODULE).get(name)
    if hint is None and (kind := re.fullmatch(r"read_(\w+)", name)):
        hint = f"create(path, data) of rows that are read by pandas.read_{kind[1]}(…)"
        if kind[1] == "parquet":
            hint += "; a folder of Parquet files becomes a table by convert(path)"
    return f"module 'deltanb' has no attribute {name!r}" if hint is None else \
        f"deltanb has no {name}; {_here(hint)}"


class Spelt:
    """Answers names of other libraries with the name that is meant, if ``_place`` has them in the table.

    A name in camel case is found by its words.

    >>> import deltanb as dn
    >>> dn.DeltaTable.restoreToVersion
    Traceback (most recent call last):
        ...
    AttributeError: DeltaTable has no restoreToVersion; here it is restore(version)
    """

    __slots__ = ()

    _place: ClassVar[str] = ""
    """Where it is asked, as the table of spellings says it."""

    def __init_subclass__(cls, place: str = "", **more: Any) -> None:
        super().__init_subclass__(**more)
        cls._place = place or cls._place

    if not TYPE_CHECKING:  # else every name would be one to mypy

        def __getattr__(self, name: str) -> Any:
            _say(type(self), name)
            return object.__getattribute__(self, name)  # raises what it did, of a property as well


class SpeltRow(Spelt):
    """The same, of an object that is a dict elsewhere."""

    __slots__ = ()

    def __getitem__(self, name: Any) -> Any:
        raise WrongCall(
            f"a commit of a history has attributes, such as entry.{words_of(str(name))}; all of them as "
            "dicts are history().to_arrow().to_pylist()", method="__getitem__", argument=name)


class _Meta(type):
    """Classes that answer an unknown name, as their objects do."""

    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> Any:
            _say(cls, name)
            raise AttributeError(
                f"type object {cls.__name__!r} has no attribute {name!r}", name=name, obj=cls)


class SpeltClass(Spelt, metaclass=_Meta):
    """The same, also of the class itself."""


def _say(cls: Any, name: str) -> None:
    """Raise the error that says a name's counterpart, where it has one."""
    if name.startswith("_"):
        return
    from deltanb.text.spelling_table import names_at

    hint = names_at(cls._place).get(name)
    if hint is None:
        words = words_of(name)
        hint = words if words != name and any(words in vars(base) for base in cls.__mro__) else None
    if hint is not None:
        raise AttributeError(f"{cls.__name__} has no {name}; {_here(hint)}", name=name, obj=cls)


class Elsewhere:
    """What is found by a name within a method, as ``table.optimize.compact``: calling it says what it is
    here."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        from deltanb.text.spelling_table import TABLE, names_at

        return f"there is no {self.name}; {_here(names_at(TABLE)[self.name])}"

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise AttributeError(repr(self), name=self.name.rpartition(".")[2], obj=self)


class Number(int):
    """A number that is a property here, and a method elsewhere: ``table.version()`` says so."""

    __slots__ = ()

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise refuse_call("version")

    def __reduce__(self) -> tuple[Any, ...]:
        return int, (int(self),)


def refuse_call(name: str) -> WrongCall:
    """The error of a property that is called as a method, as deltalake has it."""
    return WrongCall(f"{name} is a property here: write table.{name}, without ()", method=name, argument=None)


# -- arguments ----------------------------------------------------------------------------------------------


def wrong_call(
    name: str, signature: inspect.Signature, passed: Collection[str]
) -> WrongCall | None:
    """The error of a call with arguments that the method does not have; None if it has all of them.

    >>> import inspect
    >>> print(wrong_call("delete", inspect.signature(lambda where=None: None), ["predicate"]))
    delete() has no argument 'predicate'; here it is where=
    """
    parameters = signature.parameters.values()
    if any(one.kind is one.VAR_KEYWORD for one in parameters):
        return None
    takes = [one.name for one in parameters
             if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY) and one.name not in ("self", "cls")]
    wrong = [one for one in passed if one not in takes]
    if not wrong:
        return None
    first, *more = (f"{one!r}; {hint_of(name, one, takes)}" for one in wrong)
    return WrongCall(f"{name}() has no argument {first}" + "".join(f". It has no {one}" for one in more),
                     method=name, argument=wrong[0])


def hint_of(method: str, argument: str, takes: Sequence[str]) -> str:
    """What to write in place of an argument that a method does not have.

    Args:
        method: its name.
        takes: the arguments it has.
    """
    from deltanb.text.formatting import did_you_mean

    hint = spelling_of(method, argument, takes)
    if hint is not None:
        return hint
    if not takes:
        return "it has none"
    close, _ = did_you_mean(argument, takes, "arguments", shown=lambda name: f"{name}=")
    return close


def spelling_of(method: str, argument: str, takes: Sequence[str]) -> str | None:
    """What the table of spellings says of an argument; None if it has no row for it."""
    from deltanb.text.spelling_table import keywords

    forms = (argument, words_of(argument))
    for row in keywords():
        if not set(forms) & set(row.words.split()) or (row.methods and method not in row.methods.split()):
            continue
        ours = next((one for one in row.ours.split() if one in takes), None)
        if ours is not None:
            return f"here it is {ours}=" + (f" ({row.note})" if row.note else "")
        if row.advice:
            return _here(row.advice.replace("{method}", method)) if row.advice.startswith("nothing") \
                else row.advice.replace("{method}", method)
    return f"here it is {forms[1]}=" if forms[1] in takes else None


def answer_wrong_arguments(
    also: Collection[str] = (), only: Collection[str] | None = None
) -> Callable[[F], F]:
    """Let a function, or the public methods of a class, answer arguments that they do not have.

    Each call goes through one more function, which takes about 0.1 µs: it is for what reads or writes
    something. ``only`` are the methods of a class of which that is true, if it is not of all; ``also`` are
    those that are not public by their names, such as ``__init__``.

    >>> @answer_wrong_arguments()
    ... def create(path, mode="error"): ...
    >>> create("ducks", save_mode="append")
    Traceback (most recent call last):
        ...
    deltanb.errors.WrongCall: create() has no argument 'save_mode'; here it is mode=
    """

    def declare(what: Any) -> Any:
        if not isinstance(what, type):
            return answering(what, what.__name__)
        for name, method in list(vars(what).items()):
            is_meant = not name.startswith("_") if only is None else name in only
            if not is_meant and name not in also:
                continue
            kind = type(method) if isinstance(method, classmethod | staticmethod) else None
            function = method.__func__ if kind is not None else method
            if not inspect.isfunction(function) or hasattr(method, "asked"):  # a declared one answers itself
                continue
            if len(inspect.signature(function).parameters) > (kind is not staticmethod):
                made = answering(function, what.__name__ if name == "__init__" else name)
                setattr(what, name, made if kind is None else kind(made))
        return what

    return declare


def answering(function: Any, name: str) -> Any:
    """A function that answers arguments which it does not have, under this name."""

    @wraps(function)
    def call(*args: Any, **settings: Any) -> Any:
        try:
            return function(*args, **settings)
        except TypeError:
            error = wrong_call(name, inspect.signature(function), settings)
            if error is None:
                raise
        raise error

    return call


class Aliases(SpeltClass, place="table"):
    """The names of delta-spark and deltalake that mean the same here, and work.

    >>> import deltanb as dn
    >>> table = dn.create("ducks", {"id": [1, 2]})
    >>> dn.DeltaTable.forPath("ducks").to_pyarrow_table().num_rows
    2
    >>> dn.DeltaTable.isDeltaTable("ducks")
    True
    """

    if TYPE_CHECKING:

        @classmethod
        def for_path(cls, path: Any) -> Any: ...

        @staticmethod
        def is_delta_table(path: Any) -> bool: ...

        def to_df(self, spark: Any = None) -> Any: ...

        def to_arrow(self, columns: Any = None, where: Any = None) -> pa.Table: ...

        def to_dataset(self) -> ds.Dataset: ...

    @classmethod
    def forPath(
        cls, *spark_and_path: Any, path: Any = None, sparkSession: Any = None,
        hadoopConf: Mapping[str, Any] | None = None,
    ) -> Any:
        """delta-spark's name of :meth:`for_path`; a session before the path is not needed, and not used.

        >>> import deltanb as dn
        >>> _ = dn.create("for_path", {"id": [1]})
        >>> dn.DeltaTable.forPath("for_path").count()
        1
        """
        if hadoopConf is not None:
            raise WrongCall("forPath() has no argument 'hadoopConf'; here it is storage_options= of for_path",
                            method="forPath", argument="hadoopConf")
        return cls.for_path(_path_of("forPath", spark_and_path, path))

    @classmethod
    def isDeltaTable(cls, *spark_and_path: Any, identifier: Any = None, sparkSession: Any = None) -> bool:
        """delta-spark's name of :meth:`is_delta_table`; a session before the path is not used.

        >>> import deltanb as dn
        >>> dn.DeltaTable.isDeltaTable("nowhere")
        False
        """
        return cls.is_delta_table(_path_of("isDeltaTable", spark_and_path, identifier))

    def toDF(self) -> Any:
        """delta-spark's name of :meth:`to_df`.

        >>> table.toDF().show()  # doctest: +SKIP
        """
        return self.to_df()

    def to_pyarrow_table(self, columns: Any = None, *, filters: Any = None) -> pa.Table:
        """deltalake's name of :meth:`to_arrow`, in which ``filters`` are ``where``.

        >>> import deltanb as dn
        >>> dn.create("arrow", {"id": [1]}).to_pyarrow_table().num_rows
        1
        """
        return self.to_arrow(columns, filters)

    def to_pyarrow_dataset(self) -> ds.Dataset:
        """deltalake's name of :meth:`to_dataset`.

        >>> import deltanb as dn
        >>> dn.create("dataset", {"id": [1]}).to_pyarrow_dataset().count_rows()
        1
        """
        return self.to_dataset()


def _path_of(name: str, arguments: tuple[Any, ...], path: Any) -> Any:
    passed = arguments if path is None else (*arguments, path)
    if len(passed) not in (1, 2):
        raise TypeError(f"{name} takes a path, or a Spark session and a path")
    return passed[-1]
