"""Arrow's memory: the pool in which this library reads and writes rows.

What lives here: :func:`pool`, which whoever decodes or encodes a Parquet file hands to Arrow, and what the
option ``memory_pool`` may be; :func:`give_back`, for what it keeps.
What it does not know: files and rows. ``pa.default_memory_pool()`` is the user's: nothing here sets it, not
even for a while, since it is one for all threads of the process.

Arrow's own default is mimalloc where Arrow has it. It gives memory back to the system between batches and
takes it again: where a page fault is dear, as on some virtual machines, that was half the time of an update.
jemalloc and the allocator of glibc keep what they have. Commands take the same time with both, to a tenth,
and about the same memory at their peak. The first scan of a process takes a tenth less with jemalloc, and
where few of 10 M rows are wanted half the memory (200 MB against 380): glibc keeps what each thread decoded.
``python tests/benchmarks/memory.py`` measures them.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

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
        name = _usual()
    if name == "default":
        return pa.default_memory_pool()
    try:
        chosen: pa.MemoryPool = getattr(pa, f"{name}_memory_pool")()
        return chosen
    except NotImplementedError:
        from deltanb.errors import InvalidArgument

        raise InvalidArgument(
            f"option memory_pool={name!r}: this build of Arrow has only "
            f"{', '.join(pa.supported_memory_backends())}") from None


def give_back() -> None:
    """Return to the system what the allocator keeps of memory that nobody uses any more.

    Of glibc's each thread that worked keeps some 20 MB, which ``MemoryPool.release_unused`` does not reach.
    It takes some milliseconds, and memory that is needed again has to be asked for again: worth it once,
    between the two halves of a long command.
    """
    used = pool()
    if used.backend_name == "jemalloc":
        used.release_unused()
    elif used.backend_name == "system" and _has_glibc():
        import ctypes

        with suppress(OSError, AttributeError):  # a C library that says it is glibc, and lacks the function
            ctypes.CDLL(None).malloc_trim(0)


@lru_cache(1)
def _usual() -> Literal["default", "jemalloc", "system"]:
    """The pool for those who chose none by the option: Arrow looks once for its variable, too."""
    import pyarrow as pa

    if os.environ.get(VARIABLE) or not _has_glibc():
        return "default"
    return "jemalloc" if "jemalloc" in pa.supported_memory_backends() else "system"


@lru_cache(1)
def _has_glibc() -> bool:
    """Other C libraries' allocators were not measured, and that of musl is known to be slow."""
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
    except (AttributeError, ValueError, OSError):  # no such function, or no such name of it
        return False
