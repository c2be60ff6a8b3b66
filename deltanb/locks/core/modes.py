"""The vocabulary of locking: modes of locks, results of requests, how a transaction reads.

What lives here: the modes of a lock and which of them go together, those of a whole whose parts are locked
included; results, lock modes of a transaction, upgrade rules, durability, and how a lock is named in a
message.
What it does not know: who holds or waits (``core``), any thread or clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, Final, TypeVar

from deltanb.errors import InvalidArgument
from deltanb.locks.core.keys import in_words
from deltanb.locks.core.names import TransactionId
from deltanb.text.safe_text import shown

NONE, SHARED, UPGRADABLE, EXCLUSIVE = range(4)
"""What a transaction holds of a lock, or wants of it; each is stronger than those before it."""

COMPATIBLE: Final = {
    # held by one,  asked by another: together?
    (SHARED, SHARED): True,
    (SHARED, UPGRADABLE): True,
    (SHARED, EXCLUSIVE): False,
    (UPGRADABLE, SHARED): True,
    (UPGRADABLE, UPGRADABLE): False,
    (UPGRADABLE, EXCLUSIVE): False,
    (EXCLUSIVE, SHARED): False,
    (EXCLUSIVE, UPGRADABLE): False,
    (EXCLUSIVE, EXCLUSIVE): False,
}
"""Any number share, one of them may be the one that can upgrade, and who writes is alone."""

IS, IU, IX = 4, 8, 12
"""Intentions of who holds parts of a whole: shared, upgradable, or exclusive (or who adds parts).

A mode of a whole is a mode from above, plus an intention: ``SHARED + IX`` reads all of it and writes some."""


def base_of(mode: int) -> int:
    """What of a mode is of the whole itself."""
    return mode & 3


def intention_of(mode: int) -> int:
    """What of a mode is of parts: 0, ``IS``, ``IU`` or ``IX``."""
    return mode & 12


def _canonical(mode: int) -> int:
    """The same without an intention that the base says already: who shares all, shares every part."""
    return mode if intention_of(mode) > 4 * base_of(mode) else base_of(mode)


MODES: Final = tuple(mode for mode in range(1, 16) if _canonical(mode) == mode)
"""Every mode that a whole can be held in."""


def _goes_with(one: int, other: int) -> bool:
    bases = base_of(one), base_of(other)
    return (COMPATIBLE.get(bases, True) and _meets(intention_of(one), bases[1])
            and _meets(intention_of(other), bases[0]))


def _meets(intention: int, base: int) -> bool:
    """Whether one may have an intention where another holds the whole: as each part could be locked."""
    return NONE in (intention, base) or COMPATIBLE[base, intention // IS]


TOGETHER: Final = tuple(tuple(_goes_with(one, other) for other in range(16)) for one in range(16))
"""Whether two transactions may hold a whole, by their modes."""

JOINED: Final = tuple(
    tuple(_canonical(max(base_of(one), base_of(other)) | max(intention_of(one), intention_of(other)))
          for other in range(16)) for one in range(16))
"""The weakest mode that is as strong as two others together."""

PARENT_INTENTION: Final = tuple(max(IS * base_of(mode), intention_of(mode)) for mode in range(16))
"""The intention that whoever wants a part in a mode has for what it lies in."""

_BASES: Final = ("unlocked", "shared", "upgradable", "exclusive")


def _in_words(mode: int) -> str:
    base, intention = base_of(mode), intention_of(mode)
    words = [_BASES[base]] if base or not intention else []
    return " and ".join([*words, *([f"intention {_BASES[intention // IS]}"] if intention else [])])


MODE_NAMES: Final = tuple(_in_words(_canonical(mode)) for mode in range(16))
"""Every mode in words, by its number: "shared", "intention exclusive", "shared and intention exclusive"."""

MAX_ID: Final = 2**63 - 1
"""The greatest id of an index."""

Name = tuple[int, bytes]
"""What a lock is called: the id of an index, and a key in it."""


class IndexId(int):
    """The id of an index that knows what the index is called: messages and views say that.

    >>> flights = IndexId.named(-1, "flights", ["month"])
    >>> flights == -1, label((flights, b"")), label((-1, b""))
    (True, 'flights', '-1')
    """

    title: str
    columns: tuple[str, ...]
    """Names of the partition columns, where it is a table that has some."""

    @classmethod
    def named(cls, index_id: int, title: str, columns: Sequence[str] = ()) -> IndexId:
        """An id with a name."""
        made = cls(index_id)
        made.title, made.columns = title, tuple(columns)
        return made


class _Word(str, Enum):
    """A name that is equal to its text."""

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__
    __hash__ = str.__hash__


class LockResult(_Word):
    """What a request for a lock came to.

    >>> LockResult.ACQUIRED, LockResult.ACQUIRED == "ACQUIRED"
    (ACQUIRED, True)
    >>> LockResult.UPGRADED.is_held, LockResult.OWNED_SHARED.is_acquired
    (True, False)
    """

    ILLEGAL = "ILLEGAL"
    """A shared lock is held, and the upgrade rule does not let it become a stronger one."""
    INTERRUPTED = "INTERRUPTED"
    """Another thread ended the wait, or the lock manager is closed."""
    TIMED_OUT_LOCK = "TIMED_OUT_LOCK"
    """The lock was not free in time."""
    DEADLOCK = "DEADLOCK"
    """Transactions wait for each other; calls raise ``DeadlockError`` in place of returning this."""
    ACQUIRED = "ACQUIRED"
    """Granted; the transaction did not hold this lock before."""
    UPGRADED = "UPGRADED"
    """Granted; what was held before has become exclusive, or of a whole with parts: stronger."""
    OWNED_SHARED = "OWNED_SHARED"
    """Held already, shared."""
    OWNED_UPGRADABLE = "OWNED_UPGRADABLE"
    """Held already, upgradable; or a shared lock was made upgradable where it stood."""
    OWNED_EXCLUSIVE = "OWNED_EXCLUSIVE"
    """Held already, exclusive."""
    UNOWNED = "UNOWNED"
    """Not held."""

    @property
    def is_held(self) -> bool:
        """Whether the transaction holds the lock.

        >>> [result.name for result in LockResult if not result.is_held]
        ['ILLEGAL', 'INTERRUPTED', 'TIMED_OUT_LOCK', 'DEADLOCK', 'UNOWNED']
        """
        return self.is_acquired or self.is_already_owned

    @property
    def is_acquired(self) -> bool:
        """Whether the call took something that is to be unlocked again.

        >>> [result.name for result in LockResult if result.is_acquired]
        ['ACQUIRED', 'UPGRADED']
        """
        return self in (LockResult.ACQUIRED, LockResult.UPGRADED)

    @property
    def is_already_owned(self) -> bool:
        """Whether the lock was held before: no extra unlock belongs to this call.

        >>> [result.name for result in LockResult if result.is_already_owned]
        ['OWNED_SHARED', 'OWNED_UPGRADABLE', 'OWNED_EXCLUSIVE']
        """
        return self.name.startswith("OWNED")

    @property
    def is_timed_out(self) -> bool:
        """Whether the wait ended before the lock was free.

        >>> [result.name for result in LockResult if result.is_timed_out]
        ['TIMED_OUT_LOCK']
        """
        return self is LockResult.TIMED_OUT_LOCK


_OWNED: Final = (LockResult.UNOWNED, LockResult.OWNED_SHARED, LockResult.OWNED_UPGRADABLE,
                 LockResult.OWNED_EXCLUSIVE)
OWNED: Final = tuple(_OWNED[base_of(mode) or intention_of(mode) // IS] for mode in range(16))
"""What ``lock_check`` answers, by the mode that is held: of a whole, what is held of all of it; where that is
nothing, what is held of parts."""


class LockMode(_Word):
    """How a transaction reads; it writes under exclusive locks in every mode but ``UNSAFE``.

    ==================  ======================  ============================  =======================
    mode                a read locks            and keeps that                sees uncommitted rows
    ==================  ======================  ============================  =======================
    UPGRADABLE_READ     upgradable              to the end of the scope       no, it waits
    REPEATABLE_READ     shared                  to the end of the scope       no, it waits
    READ_COMMITTED      shared                  until the row is read         no, it waits
    READ_UNCOMMITTED    nothing                                               yes
    UNSAFE              nothing                                               yes; writes are permanent
    ==================  ======================  ============================  =======================

    >>> from deltanb.locks import LockManager
    >>> txn = LockManager().new_transaction()
    >>> txn.lock_mode = "READ_COMMITTED"
    >>> txn.lock_mode is LockMode.READ_COMMITTED, txn.lock_mode == "READ_COMMITTED"
    (True, True)
    """

    UPGRADABLE_READ = "UPGRADABLE_READ"
    REPEATABLE_READ = "REPEATABLE_READ"
    READ_COMMITTED = "READ_COMMITTED"
    READ_UNCOMMITTED = "READ_UNCOMMITTED"
    UNSAFE = "UNSAFE"

    @property
    def is_repeatable(self) -> bool:
        """Whether what was read stays locked to the end of the scope.

        >>> [mode.name for mode in LockMode if mode.is_repeatable]
        ['UPGRADABLE_READ', 'REPEATABLE_READ']
        """
        return self in (LockMode.UPGRADABLE_READ, LockMode.REPEATABLE_READ)

    @property
    def is_dirty(self) -> bool:
        """Whether reads take no locks, and so see what is not committed.

        >>> [mode.name for mode in LockMode if mode.is_dirty]
        ['READ_UNCOMMITTED', 'UNSAFE']
        """
        return self in (LockMode.READ_UNCOMMITTED, LockMode.UNSAFE)


class UpgradeRule(_Word):
    """Whether a shared lock may become a stronger one.

    ``STRICT``: never. ``LENIENT``: where its holder is the only one. ``UNCHECKED``: always, and it waits
    for the others; two holders that both do so are a deadlock.

    >>> from deltanb.locks import LockManager
    >>> for rule in UpgradeRule:
    ...     txn = LockManager(rule).new_transaction()
    ...     rule.name, txn.lock_shared(1, b"k"), txn.try_lock_exclusive(1, b"k")
    ('STRICT', ACQUIRED, ILLEGAL)
    ('LENIENT', ACQUIRED, UPGRADED)
    ('UNCHECKED', ACQUIRED, UPGRADED)
    """

    STRICT = "STRICT"
    LENIENT = "LENIENT"
    UNCHECKED = "UNCHECKED"


class DurabilityMode(_Word):
    """What is done for a commit before its locks go.

    ``SYNC``: everything is on disk. ``NO_SYNC``: everything is handed to the operating system.
    ``NO_FLUSH``: the commit waits in a buffer, with its exclusive locks, until somebody calls ``flush()`` or
    the buffer is full; it is lost where the process is killed, and its files stay until a VACUUM.
    ``NO_REDO``: nothing is logged; indexes that are only in memory allow it, tables refuse it.

    >>> from deltanb.locks import LockManager
    >>> txn = LockManager().new_transaction()
    >>> txn.durability_mode = "NO_SYNC"
    >>> txn.durability_mode
    NO_SYNC
    """

    SYNC = "SYNC"
    NO_SYNC = "NO_SYNC"
    NO_FLUSH = "NO_FLUSH"
    NO_REDO = "NO_REDO"

    @property
    def is_durable(self) -> bool:
        """Whether a commit is out of the process when ``commit()`` returns.

        >>> [mode.name for mode in DurabilityMode if mode.is_durable]
        ['SYNC', 'NO_SYNC']
        """
        return self in (DurabilityMode.SYNC, DurabilityMode.NO_SYNC)


W = TypeVar("W", bound=_Word)


def word(kind: type[W], value: Any, where: str) -> W:
    """A member of an enumeration, from itself or its name.

    >>> word(LockMode, "UNSAFE", "lock_mode")
    UNSAFE
    >>> word(LockMode, None, "lock_mode")
    Traceback (most recent call last):
    deltanb.errors.InvalidArgument: lock_mode takes one of UPGRADABLE_READ, REPEATABLE_READ, \
READ_COMMITTED, READ_UNCOMMITTED, UNSAFE, found NoneType: None

    Raises:
        InvalidArgument: anything else.
    """
    try:
        return kind(value)
    except ValueError:
        names = ", ".join(member.name for member in kind)
        raise InvalidArgument(
            f"{where} takes one of {names}, found {type(value).__name__}: {shown(value)}") from None


def named(index_id: Any, key: Any) -> Name:
    """The name of a lock, checked; bytes that can change are copied.

    >>> named(1, bytearray(b"k"))
    (1, b'k')

    Raises:
        InvalidArgument: an index id that is not an integer of 64 bits, or a key that is not bytes.
    """
    if type(index_id) not in (int, IndexId, TransactionId) or not ~MAX_ID <= index_id <= MAX_ID:
        raise InvalidArgument(f"an index id is an integer of 64 bits, found {type(index_id).__name__}: "
                              f"{shown(index_id)}; the index comes first, then the key: (1, b'key')")
    if type(key) is bytes:
        return index_id, key
    if isinstance(key, bytes | bytearray | memoryview):
        return index_id, bytes(key)
    way = '; encode it: key.encode()' if isinstance(key, str) else ""
    raise InvalidArgument(f"a key is bytes, found {type(key).__name__}: {shown(key)}{way}")


def label(name: Name) -> str:
    """The name of a lock in a message: the key as text where it is text; of a table, what it is the key of.

    >>> label((1, b"k1")), label((2, b"\\xff\\x00"))
    ('1:k1', '2:0xff00')
    >>> from deltanb.locks.core.keys import partition_key
    >>> january, flights = partition_key(["1"]), IndexId.named(-3, "flights", ["month"])
    >>> label((-3, january)), label((flights, january))
    ('-3 1', 'flights month=1')
    """
    index_id, key = name
    title = index_id.title if isinstance(index_id, IndexId) else str(index_id)
    if index_id < 0:
        columns = index_id.columns if isinstance(index_id, IndexId) else ()
        place = in_words(key, columns)
        if place is not None:
            return f"{title} {place}".rstrip()
    try:
        text = key.decode()
    except UnicodeDecodeError:
        text = ""
    return f"{title}:{text if text.isprintable() and text else '0x' + key.hex()}"
