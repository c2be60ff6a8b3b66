"""Worlds: what a table can become, commit by commit, in memory.

What lives here: :class:`Attempted`, a commit that a writer can make; :class:`World`, a table at the end of
some of them; :class:`Overlay`, a world as a store.
What it does not know: who commits when, and why.

Two worlds with the same :attr:`World.digest` hold the same files, rows and definitions: whoever reads one of
them cannot know it from the other, unless it looks at single commits. Times, ids of transactions and metrics
are left out of it.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NoReturn

from deltanb.actions import Action, AddFile, RemoveFile
from deltanb.errors import IllegalStateError
from deltanb.log.commits import LOG_FOLDER, commit_name, commits_among
from deltanb.log.lines import actions_of
from deltanb.log.replay import Delta, feed_actions
from deltanb.schema import properties
from deltanb.store.base import FileStatus, LogStore
from deltanb.store.memory_file import MemoryFile
from deltanb.store.open import elsewhere
from deltanb.transaction.row_levels import PROPERTY

if TYPE_CHECKING:
    import pyarrow as pa

    from deltanb.actions import Metadata
    from deltanb.log.reader import LogReader
    from deltanb.log.snapshot import State

PASSING = frozenset({"txnId", "timestamp", "readVersion", "operationMetrics"})
"""Fields of commitInfo that differ between runs of the same work on the same rows."""
_TIMES = frozenset({"modificationTime", "deletionTimestamp"})
_numbers = itertools.count(1)


LEVEL = "delta.isolationLevel"


@dataclass(frozen=True)
class Levels:
    """At which levels a table commits while it is explored; None is its own."""

    isolation: str | None = None
    row_level: str | None = None

    def of(self, metadata: Metadata) -> Metadata:
        """The definition of a table at these levels."""
        supposed = {LEVEL: self.isolation, PROPERTY: self.row_level}
        changed = {name: level for name, level in supposed.items()
                   if level is not None and level != str(properties.get(metadata.configuration, name))}
        return replace(metadata, configuration={**metadata.configuration, **changed}) if changed else metadata


OWN = Levels()


def isolation_of(state: State) -> str:
    """The isolation level of a table."""
    return _level(state, LEVEL)


def row_level_of(state: State) -> str:
    """How closely commits to a table look at rows."""
    return _level(state, PROPERTY)


def _level(state: State, name: str) -> str:
    return str(properties.get({} if state.metadata is None else state.metadata.configuration, name))


def short_hash(*parts: object) -> str:
    """A text that differs where the parts do."""
    return hashlib.blake2b(repr(parts).encode(), digest_size=12).hexdigest()


class Attempted:
    """A commit that a writer has prepared: its lines, and the files that it has written for it."""

    def __init__(self, writer: str, body: bytes, files: Mapping[str, bytes]) -> None:
        self.writer, self.body, self.files = writer, body, dict(files)

    @cached_property
    def actions(self) -> tuple[Action, ...]:
        """Its actions, in their order."""
        return tuple(actions_of(self.body))

    @cached_property
    def operation(self) -> str:
        """What it says that it does."""
        return next((str(value.get("operation")) for kind, value in self._values if kind == "commitInfo"),
                    "TRANSACTION")

    @cached_property
    def id(self) -> str:
        """The same for commits that do the same, whenever they are made."""
        contents = {name: hashlib.blake2b(data, digest_size=12).hexdigest()
                    for name, data in self.files.items()}
        return short_hash(self.writer, sorted(contents.items()), [
            (kind, _without(value, PASSING if kind == "commitInfo" else _TIMES))
            for kind, value in self._values])

    @cached_property
    def _values(self) -> list[tuple[str, Any]]:
        lines = [json.loads(line) for line in self.body.splitlines() if line.strip()]
        return [(kind, value) for line in lines for kind, value in line.items()]


def _without(value: Any, names: frozenset[str]) -> str:
    if isinstance(value, dict):
        value = {name: one for name, one in value.items() if name not in names}
        if tags := value.get("tags"):  # a cube's id is drawn anew at every run
            value["tags"] = {name: one for name, one in tags.items() if name != "ZCUBE_ID"}
    return json.dumps(value, sort_keys=True)


class World:
    """A table after some commits. Worlds are a tree, whose root is the table as it was found."""

    def __init__(self, state: State, parent: World | None = None, commit: Attempted | None = None) -> None:
        self.state, self.parent, self.commit = state, parent, commit
        self.children: dict[str, World] = {}
        self.version: int = state.version
        self.id: str = short_hash(parent.id, commit.id) if parent and commit else "root"

    @classmethod
    def of(cls, state: State, levels: Levels = OWN) -> World:
        """A table as it was found, but for the levels that are given."""
        if state.metadata is not None:
            state = replace(state, metadata=levels.of(state.metadata))
        return cls(state)

    def child(self, commit: Attempted) -> World:
        """The world after one commit more."""
        known = self.children.get(commit.id)
        if known is None:
            delta = Delta()
            feed_actions(delta, commit.actions)
            known = self.children[commit.id] = World(
                self.state.after(delta, self.version + 1), self, commit)
        return known

    @property
    def root(self) -> World:
        """The table as it was found."""
        world = self
        while world.parent is not None:
            world = world.parent
        return world

    def since(self, version: int) -> list[World]:
        """The worlds after a version up to this one, oldest first."""
        worlds: list[World] = []
        world: World | None = self
        while world is not None and world.version > version:
            worlds.append(world)
            world = world.parent
        return worlds[::-1]

    def takes(self, versions: Mapping[str, int]) -> bool:
        """Whether the version that is expected to be free is."""
        return set(versions.values()) == {self.version + 1}

    def winners(self, versions: Mapping[str, int]) -> tuple[str, ...]:
        """The commits that are there from that version on."""
        first = min(versions.values(), default=self.version + 1)
        return tuple(world.commit.id for world in self.since(first - 1) if world.commit)

    def at(self, version: int) -> World | None:
        """The world of a version on the way to this one."""
        world: World | None = self
        while world is not None and world.version > version:
            world = world.parent
        return world if world is not None and world.version == version else None

    @cached_property
    def files(self) -> Mapping[str, bytes]:
        """The files that the commits up to here have brought, by name."""
        before = self.parent.files if self.parent else {}
        return {**before, **self.commit.files} if self.commit else before

    @cached_property
    def live(self) -> Mapping[str, str]:
        """What has changed since the root: path of a file -> a text for its content, "" where it is gone."""
        if self.parent is None or self.commit is None:
            return {}
        live = dict(self.parent.live)
        for action in self.commit.actions:
            if isinstance(action, RemoveFile):
                live[action.path] = ""
        for action in self.commit.actions:
            if isinstance(action, AddFile):
                live[action.path] = short_hash(self.commit.id, _without(action.to_value(), _TIMES))
        return live

    @cached_property
    def definition(self) -> str:
        """A text for protocol, metadata, applications' versions and domains."""
        state = self.state
        texts = [part and part.to_json() for part in (state.protocol, state.metadata)]
        return short_hash(texts, sorted((name, txn.version) for name, txn in state.txns.items()), sorted(
            (name, domain.configuration) for name, domain in state.domains.items()))

    @cached_property
    def digest(self) -> str:
        """A text for all that a reader of this version can see."""
        return short_hash(self.version, self.definition, sorted(self.live.items()))


class Overlay:
    """A world as a store: what is written lies in memory, all else is read where the table is.

    Nothing is ever written to the table's own store, or deleted from it.
    """

    is_partial_write_visible = False
    has_folders = False
    is_final = True
    creates_only = True
    is_remote = False

    def __init__(self, base: LogReader, world: World, writer: str = "") -> None:
        self.base, self.world, self.writer = base, world, writer
        self.root = base.store.root
        self.identity = f"explored {next(_numbers)}"
        self.written: dict[str, bytes] = {}

    def __reduce__(self) -> NoReturn:
        raise IllegalStateError(f"{self.root} is explored in the memory of this process alone, so it cannot "
                                "be pickled or copied")

    # -- the log -------------------------------------------------------------------------------------

    def put_if_absent(self, name: str, data: bytes, *, make_folders: bool = True) -> bool:
        """A commit, which becomes the newest of the world."""
        if (version := _version(name)) is None:
            self.put(name, data)
            return True
        if version <= self.world.version:
            return False
        self.world = self.world.child(Attempted(self.writer, data, self.written))
        self.written = {}
        return True

    def list_from(self, name: str) -> list[FileStatus]:
        """The commits, where the folder of the log is asked for; nothing else is listed."""
        return [status for one in self.list_names(name) if (status := self.status(one)) is not None]

    def list_names(self, name: str) -> list[str]:
        """The same, names only."""
        if not name.startswith(LOG_FOLDER + "/") or name.count("/") > 1:
            return []
        root = self.world.root.version
        below = [one for one in self.base.store.list_names(LOG_FOLDER + "/")
                 if _version(one) is None and self._is_of_root(one)]
        own = [commit_name(version) for version in self.base.commits.names() if version <= root]
        own += [commit_name(world.version) for world in self.world.since(root)]
        return sorted(one for one in {*below, *own} if one >= name)

    # -- files ---------------------------------------------------------------------------------------

    def list_all(self, prefix: str) -> Iterator[FileStatus]:
        """What is in memory below a folder."""
        files = {**self.world.files, **self.written}
        yield from (self._status(name, files[name]) for name in sorted(files) if name.startswith(prefix))

    def status(self, name: str) -> FileStatus | None:
        """A file of memory or of the table."""
        if (version := _version(name)) is not None:
            world = self.world.at(version)
            if world is not None and world.commit is not None:
                return self._status(name, world.commit.body)
            return None if version > self.world.root.version else self.base.commits.status(version)
        content = self._content(name)
        if content is not None:
            return self._status(name, content)
        return self.base.store.status(name) if self._is_of_root(name) else None

    def read(self, name: str) -> bytes:
        """The content of a file of memory or of the table."""
        if (version := _version(name)) is not None:
            world = self.world.at(version)
            if world is not None and world.commit is not None:
                return world.commit.body
            if version > self.world.root.version:
                raise FileNotFoundError(name)
            return self.base.commits.read(version)
        content = self._content(name)
        if content is None and not self._is_of_root(name):
            raise FileNotFoundError(name)
        return self.base.store.read(name) if content is None else content

    def put(self, name: str, data: bytes) -> None:
        """Checksums and the like are not kept: nobody reads them here."""
        if not name.startswith(LOG_FOLDER + "/"):
            self.written[name] = data

    def delete(self, name: str) -> None:
        """What was written and not committed; what a version may name stays."""
        self.written.pop(name, None)

    def open_input(self, name: str) -> pa.NativeFile:
        """A reader of the content."""
        import pyarrow as pa

        content = self._content(name)
        return self.base.store.open_input(name) if content is None else pa.BufferReader(content)

    def open_output(self, name: str) -> pa.NativeFile:
        """A file in memory, which is there once it is closed."""
        import pyarrow as pa

        if self.status(name) is not None:
            raise FileExistsError(f"{self.root}/{name}")
        return pa.PythonFile(MemoryFile(partial(self.put, name)), mode="w")

    def resolve(self, path: str) -> tuple[LogStore, str]:
        """Names of this table as they are, others by path or URI."""
        return elsewhere(self, path)

    def local_path(self, name: str) -> None:
        """Nowhere on this machine's file system."""
        return None

    def _is_of_root(self, name: str) -> bool:
        """Whether a file may be seen: none of the log that is behind the version that was found."""
        number = name.removeprefix(LOG_FOLDER + "/")[:20]
        is_numbered = name.startswith(LOG_FOLDER) and number.isdigit()
        return not is_numbered or int(number) <= self.world.root.version

    def _content(self, name: str) -> bytes | None:
        own = self.written.get(name)
        return self.world.files.get(name) if own is None else own

    def _status(self, name: str, content: bytes) -> FileStatus:
        return FileStatus(name, len(content), 0)


def _version(name: str) -> int | None:
    """The version of a commit's name; None for other names."""
    return next(iter(commits_among([name])), None)
