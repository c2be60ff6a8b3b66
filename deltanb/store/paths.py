"""What a path of the log means, and which files lie inside a table's folder.

What lives here: the one reading of the paths of ``add``, ``remove``, ``cdc`` and deletion vectors
(PROTOCOL.md, "Add File and Remove File": URIs, relative to the table or absolute), and the one answer to
what is inside. Whatever reads a file asks :func:`place_of`; whatever deletes, or spares, asks
:class:`Inside`.
What it does not know: which files a version needs, or what is in them.

A path is percent-decoded once; then ``.``, ``..`` and empty parts are taken out as text, as Hadoop and
RFC 3986 (5.2.4) do; then the file system follows its links. So ``link/../a`` is ``a``, and a file behind a
linked folder is where the link leads: readable, and inside only if that is below the table's folder.
"""

from __future__ import annotations

import os
import posixpath
import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from deltanb.actions import decode_path
from deltanb.errors import InvalidTable
from deltanb.text.safe_text import without_credentials

if TYPE_CHECKING:
    from deltanb.store.base import LogStore

__all__ = ["Inside", "Place", "address_of", "can_be_named", "is_same_table", "place_of"]

# A slash must follow: "a:b.parquet" is a file name. Two letters at least, for the sake of "C:/".
_URI = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]+):(?P<slashes>/+)")
_ALIASES = {"s3a": "s3", "s3n": "s3"}  # one bucket, by whichever of Hadoop's clients
_HERE = ("", "localhost")  # the machines of a file: URI that are this one


class Place(NamedTuple):
    """Where a path leads, as text: no link is followed, no file looked at.

    ``name`` is below the root of ``table``, None elsewhere, "" for the root itself; ``address`` is the
    absolute path or URI, decoded.
    """

    table: LogStore
    name: str | None
    address: str

    def opened(self) -> tuple[LogStore, str]:
        """The store that has the file, and its name there.

        Raises:
            InvalidArgument: no store serves such a URI.
        """
        if self.name is not None:
            return self.table, self.name
        return self.table.resolve(self.address)


def place_of(store: LogStore, path: str, *, is_encoded: bool = True) -> Place:
    """What a path means in the log of the table that ``store`` is rooted at.

    ``is_encoded`` is False for paths that are not URIs: names of files, and those of deletion vectors that
    are derived from a UUID.

    Raises:
        InvalidTable: no file can have such a name.

    >>> from deltanb.store.local import LocalStore
    >>> lake = LocalStore("/lake/t")
    >>> [place_of(lake, path).name for path in ("a%20b", "p/..%2Fa", "file:///lake/t/a", "../t/./a", "..")]
    ['a b', 'a', 'a', 'a', None]
    >>> place_of(lake, "%2e%2e/u/a").address, place_of(lake, "s3://lake/a").address
    ('/lake/u/a', 's3://lake/a')
    """
    text = decode_path(path) if is_encoded else path
    if not can_be_named(text):
        raise InvalidTable(
            f"the table at {store.root} names a file {path!r}, but no file can have such a name. Restore "
            "the log from a copy, or remove the file from the table with a commit",
            path=store.root, file=path)
    if _is_simple(text):
        return Place(store, text, f"{store.root.rstrip('/')}/{text}")
    root = _parsed(store.root)
    if _URI.match(text):
        place = _parsed(text)
    else:  # on the table's own file system
        place = root.at(text if text.startswith("/") else f"{root.path}/{text}")
    return Place(store, place.below(root), str(place))


def address_of(text: str) -> str:
    """The one spelling of an absolute path or URI that nothing is decoded of: on this machine a path.

    >>> address_of("file:///lake/a%20b/"), address_of("file://localhost/lake//t/../u"), address_of("s3a://b/t")
    ('/lake/a%20b', '/lake/u', 's3://b/t')
    """
    return str(_parsed(text).plain)


def is_same_table(one: LogStore, other: LogStore) -> bool:
    """Whether two stores are rooted at one folder, however it is spelled."""
    places = [getattr(store, "identity", None) for store in (one, other)]
    if all(isinstance(place, str) for place in places):
        return places[0] == places[1]
    folders = [store.local_path("") for store in (one, other)]
    if None in folders:
        roots = [_parsed(store.root).plain for store in (one, other)]
        return one == other or (folders == [None, None] and roots[0] == roots[1])
    return len({os.path.realpath(str(folder)) for folder in folders}) == 1


class Inside:
    """The files below a table's folder, each under the one name it has there, however a path spells it.

    It remembers the folders it has looked at: made for one piece of work, and not kept. ``folder`` narrows
    what counts as inside to a part of the table.
    """

    def __init__(self, store: LogStore, folder: str = "") -> None:
        self.store = store
        local = store.local_path(folder)
        self.root = None if local is None else os.path.realpath(local)
        self._start = folder.rstrip("/") + "/" if folder else ""
        self._is_folded = local is not None and _ignores_case(local)
        self._folders: dict[str, _Folder] = {}

    def name_of(self, path: str, *, is_encoded: bool = True) -> str | None:
        """The file's name below the folder, links followed; None if it lies elsewhere or can be no file."""
        return self._locate(path, is_encoded)[0]

    def keys_of(self, path: str, *, is_encoded: bool = True) -> list[str]:
        """What :meth:`key` gives for every name below the folder that the path's content hangs on.

        Usually one; a file that is a link hangs on what it links to as well, wherever it is itself.
        """
        return [self.key(name) for name in self._locate(path, is_encoded) if name is not None]

    def key(self, name: str) -> str:
        """A name as names are to be compared: on file systems that ignore case, so does this."""
        return _folded(name) if self._is_folded else name

    # -- helpers --------------------------------------------------------------------------------

    def _locate(self, path: str, is_encoded: bool) -> tuple[str | None, str | None]:
        """Below the folder, if they are there: the file, and what it links to."""
        try:
            place = place_of(self.store, path, is_encoded=is_encoded)
        except InvalidTable:  # no file can have such a name
            return None, None
        if self.root is None:
            name = place.name or ""
            return name[len(self._start):] or None if name.startswith(self._start) else None, None
        local = place.address if place.name is None else self.store.local_path(place.name)
        if not local or not local.startswith("/"):
            return None, None
        folder, _, base = local.rstrip("/").rpartition("/")
        looked = self._folders.get(folder) or self._looked_at(folder)
        target = self._below(os.path.realpath(local)) if base in looked.links else None
        return looked.start + base if looked.start is not None and base else None, target

    def _looked_at(self, folder: str) -> _Folder:
        try:
            with os.scandir(folder or "/") as entries:
                links = frozenset(entry.name for entry in entries if entry.is_symlink())
        except OSError:  # not there, or not for us to see
            links = frozenset()
        within = self._below(os.path.realpath(folder or "/") + "/.")
        cached = self._folders[folder] = _Folder(None if within is None else within[:-1], links)
        return cached

    def _below(self, real: str) -> str | None:
        assert self.root is not None
        start = self.root.rstrip("/") + "/"
        head, name = real[:len(start)], real[len(start):]
        return name or None if self.key(head) == self.key(start) else None


class _Folder(NamedTuple):
    """A folder that was looked at: what the names of its files begin with, and which entries are links."""

    start: str | None
    links: frozenset[str]


# --- text -----------------------------------------------------------------------------------------

class _Address(NamedTuple):
    """An absolute path in its parts; the path has no ``..`` and no slash at its end.

    A file of this machine has neither scheme nor host.
    """

    scheme: str
    host: str
    path: str

    def at(self, path: str) -> _Address:
        """Another path of the same file system."""
        return self._replace(path=_normal(path))

    def below(self, root: _Address) -> str | None:
        """The path below a root, "" for the root itself; None elsewhere. Who is let in does not matter."""
        own, its = self.plain, root.plain
        if own[:2] != its[:2]:
            return None
        if own.path == its.path:
            return ""
        start = its.path.rstrip("/") + "/"
        return own.path[len(start):] if own.path.startswith(start) else None

    @property
    def plain(self) -> _Address:
        """The same without credentials, under one name of its scheme."""
        if not self.scheme:
            return self
        bare = _parsed(without_credentials(str(self)))
        return bare._replace(scheme=_ALIASES.get(bare.scheme, bare.scheme), host=bare.host.lower())

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}{self.path}" if self.scheme else self.path


@lru_cache(maxsize=64)
def _parsed(text: str) -> _Address:
    match = _URI.match(text)
    if match is None:
        return _Address("", "", _normal(text))
    scheme, slashes, rest = match["scheme"].lower(), match["slashes"], text[match.end():]
    host = ""
    if len(slashes) == 2:
        host, _, rest = rest.partition("/")
    if scheme == "file" and host.lower() in _HERE:
        return _Address("", "", _normal("/" + rest))
    return _Address(scheme, host, _normal("/" + rest))


def _normal(path: str) -> str:
    """Without ``.``, ``..`` and empty parts; above the root there is nothing.

    >>> _normal("/a//b/./c/../d/"), _normal("/../a"), _normal("//a")
    ('/a/b/d', '/a', '/a')
    """
    return posixpath.normpath("/" + path.lstrip("/"))


def _is_simple(text: str) -> bool:
    """Whether a path is relative, and normal as it is: nearly all are."""
    return not (text[:1] in ("/", ".", "") or "//" in text or "/." in text or text[-1] == "/" or ":/" in text)


def can_be_named(text: str) -> bool:
    """Whether a path can be written to a log: bytes that are not UTF-8 come as lone surrogates.

    >>> can_be_named("ü"), can_be_named("a\\0b"), can_be_named("\\udcff")
    (True, False, False)
    """
    if "\0" in text:
        return False
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def _ignores_case(folder: str) -> bool:
    """Whether the file system finds the log's folder under capitals, too."""
    log = os.path.join(folder, "_delta_log")
    try:
        return os.path.samefile(log, os.path.join(folder, "_DELTA_LOG"))
    except OSError:
        return False
