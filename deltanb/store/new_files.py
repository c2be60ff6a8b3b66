"""New files of a store: each has a name that no file has, whoever draws the same ids from a seed.

What lives here: :func:`created`, by which data files and deletion vectors come to be, and the names it tries.
What it does not know: what is in a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from deltanb.errors import StorageError
from deltanb.options import options, random_id

if TYPE_CHECKING:
    from deltanb.store.base import LogStore

__all__ = ["created", "names_for"]

MAX_NAMES = 10
"""Names that are tried for one file. The second is random already: a store that refuses so many is broken."""

T = TypeVar("T")


def names_for(store: LogStore, name_of: Callable[[str], str], drawn: str | None = None) -> Iterator[str]:
    """Names for one new file, made of an id by ``name_of``: the next one where the one before was taken.

    The first comes from ``options.new_id``, or was ``drawn`` from it before, where the store can say that a
    name is taken (``creates_only``) and this one is not; all others are random.

    >>> from deltanb.options import set_options
    >>> from deltanb.testing import MemoryStore
    >>> store = MemoryStore()
    >>> with set_options(new_id=lambda: "1"):
    ...     next(names_for(store, "part-{}.parquet".format))
    ...     store.put("part-1.parquet", b"of a run before")
    ...     next(names_for(store, "part-{}.parquet".format)) == "part-1.parquet"
    'part-1.parquet'
    False
    """
    drawn = options.new_id() if drawn is None else drawn
    is_random = options.new_id is random_id
    if is_random or (getattr(store, "creates_only", False) and store.status(name_of(drawn)) is None):
        yield name_of(drawn)
    for _ in range(MAX_NAMES):
        yield name_of(random_id())


def created(
    store: LogStore, name_of: Callable[[str], str], create: Callable[[str], T], begun: list[str],
    drawn: str | None = None,
) -> tuple[str, T]:
    """Make a new file by the first name that is free (:func:`names_for`): the name, and what ``create`` gave.

    ``begun`` has the name from before it is made, so that whoever is interrupted can remove the file.

    Raises:
        StorageError: it cannot be written.
    """
    for name in names_for(store, name_of, drawn):
        begun.append(name)
        try:
            return name, create(name)
        except FileExistsError:
            begun.remove(name)  # somebody else's
    raise StorageError(
        f"{store.root}/{name} cannot be written: the store says that {MAX_NAMES} names are taken",
        path=f"{store.root}/{name}")
