"""Arrow's memory: the pool in which this library reads and writes rows.

What lives here: :func:`pool`, which whoever decodes or encodes a Parquet file hands to Arrow, and what the
option ``memory_pool`` may be; :func:`give_back`, for what it keeps.
What it does not know: files and rows. ``pa.default_memory_pool()`` is the user's: nothing here sets it, not
even for a while, since it is one for all threads of the process.

Arrow's own default is mimalloc where Arrow has it. It gives memory back to the system between batches and
takes it again: where a page fault is dear, as on some virtual machines, that was half the time of an update.
The allocator of glibc keeps what it has, so that in a process that goes on each page is touched once. Where
faults are cheap all three take the same time to a tenth, and about the same memory at their peak; after the
work glibc and mimalloc hold more of it than jemalloc. ``python tests/benchmarks/memory.py`` measures them.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING

from deltanb.options import options

if TYPE_CHECKING:
    import pyarrow as pa

VARIABLE = "ARROW_DEFAULT_MEMORY_POOL"
"""Arrow's environment variable: who sets it has chosen a pool for the whole process."""


def pool() -> pa.MemoryPool:
    """The memory pool for data that is read or written, as the option ``memory_pool`` says.

    Raises:
        InvalidArgument: a pool that this build of Arrow does not have.

    >>> from deltanb.options import set_options
    >>> with set_options(memory_pool="system"):
    ...     pool().backend_name
    'system'
    """
    import pyarrow as pa

    name = options.memory_pool
    if name == "auto":
        name = "system" if _has_glibc() and not os.environ.get(VARIABLE) else "default"
    if name == "default":
        return pa.default_memory_pool()
    try:
        found: pa.MemoryPool = getattr(pa, f"{name}_memory_pool")()
        return found
    except NotImplementedError:
        from deltanb.errors import InvalidArgument

        raise InvalidArgument(
            f"option memory_pool={name!r}: this build of Arrow has only "
            f"{', '.join(pa.supported_memory_backends())}") from None


def give_back() -> None:
    """Return to the system what the allocator of glibc keeps of memory that nobody uses any more.

    Each thread that worked leaves some 20 MB behind, and ``MemoryPool.release_unused`` does not reach them.
    It takes some milliseconds, and memory that is needed again has to be asked for again: worth it once,
    between the two halves of a long command.
    """
    if pool().backend_name == "system" and _has_glibc():
        import ctypes

        with suppress(OSError, AttributeError):  # a C library that says it is glibc, and lacks the function
            ctypes.CDLL(None).malloc_trim(0)


@lru_cache(1)
def _has_glibc() -> bool:
    """Other C libraries' allocators were not measured, and that of musl is known to be slow."""
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
    except (AttributeError, ValueError, OSError):  # no such function, or no such name of it
        return False
