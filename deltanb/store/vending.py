"""Credentials that a catalog vends: temporary ones, for a place and an operation, and which are in force.

What lives here: what a catalog answers (:class:`Vended`), and :class:`Vending`, which asks it, remembers the
answer and asks again before that has expired.
What it does not know: how a catalog is asked, how a request is made, and stores.

Whoever is about to make a request has the credential replaced first, in their own thread, if it ends soon. So
a refusal of the catalog reaches them as it is, and no thread of obstore ever waits for a catalog: those ask
at every request and get what is in force (:meth:`Vending.in_force`). Nothing else remembers a credential.

An access refers to a :class:`Vending` by a random token (``storage_options``), so that it can be shown and
pickled. In another process the token finds nothing.
"""

from __future__ import annotations

import secrets
import threading
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, NoReturn

from deltanb.errors import DeltaError, IllegalStateError, StorageError
from deltanb.options import options
from deltanb.store.uris import SERVICES
from deltanb.text.safe_text import get_logger

__all__ = ["MARGIN", "MIN_AGE", "PAUSE", "READ", "READ_WRITE", "Credential", "Vend", "Vended", "Vending",
           "take_lent", "vending_of"]

READ, READ_WRITE = "READ", "READ_WRITE"

MARGIN = 300_000
"""Milliseconds before its end at which a credential is replaced, or the last quarter of a shorter life: what
is asked for until then is answered in time."""
PAUSE = 10_000
"""Milliseconds until a catalog that could not be asked is asked again, while the old credential is good."""
MIN_AGE = 60_000
"""Milliseconds: to a younger credential a service denies what it may not do, and not because of its age."""

logger = get_logger(__name__)


class _Name(NamedTuple):
    """What a name in a catalog's answer stands for: a service, and obstore's name for it."""

    kind: str
    option: str
    is_needed: bool = True


NAMES = {
    "s3.access-key-id": _Name("s3", "access_key_id"),
    "s3.secret-access-key": _Name("s3", "secret_access_key"),
    "s3.session-token": _Name("s3", "token", is_needed=False),
    "azure.sas-token": _Name("az", "sas_token"),
    "gcs.oauth-token": _Name("gs", "token"),
}
"""All that a catalog may answer."""


@dataclass(frozen=True)
class Vended:
    """One answer of a catalog.

    ``config`` has values by Unity's names (:data:`NAMES`), None for what is not of this service; without any,
    the place is reached by the user's own credentials. ``expires`` is in epoch milliseconds; None: never.

    >>> Vended({"gcs.oauth-token": "hush"}, expires=None)
    Vended(gcs.oauth-token, expires=None)
    """

    config: Mapping[str, str | None]
    expires: int | None

    @property
    def has_ended(self) -> bool:
        """Whether it has expired by now."""
        return self.expires is not None and self.expires <= options.clock()

    def __repr__(self) -> str:
        return f"Vended({', '.join([*sorted(map(str, self.config)), f'expires={self.expires}'])})"

    def __reduce__(self) -> NoReturn:
        raise IllegalStateError("credentials that a catalog has vended stay in the process that asked for "
                                "them: they cannot be pickled or copied")


Vend = Callable[[str], Vended]
"""Asks a catalog for credentials for ``"READ"`` or ``"READ_WRITE"``.

It raises the :class:`~deltanb.errors.DeltaError` by which the catalog refuses; a StorageError says that the
catalog cannot be reached now."""


@dataclass(frozen=True)
class Credential:
    """What a request is signed with, by obstore's names; without values it is the user's own."""

    operation: str
    values: Mapping[str, str] = field(repr=False)
    expires: int | None
    vended: int
    """When it was, in epoch milliseconds."""
    paused: int = 0
    """Until when no other is asked for."""

    def ends_soon(self, *, before_long_work: bool = False) -> bool:
        """Whether it is to be replaced before it is used; before long work, from half of its life on."""
        if self.expires is None:
            return False
        now, life = options.clock(), self.expires - self.vended
        margin = life // 2 if before_long_work else min(MARGIN, life // 4)
        return now >= self.expires or (now >= self.expires - margin and now >= self.paused)


class Vending:
    """The credentials that a catalog vends for a place, in force or to be asked for. Threads share it.

    Reads have those for READ, or those for READ_WRITE while these are in force; only a write asks for these.

    >>> asked = []
    >>> def vend(operation):
    ...     asked.append(operation)
    ...     return Vended({"gcs.oauth-token": "hush"}, expires=None)
    >>> vending = Vending("gs://lake/t", "gs", vend)
    >>> for operation in (READ, READ, READ_WRITE, READ):
    ...     _ = vending.credential(operation)
    >>> asked
    ['READ', 'READ_WRITE']
    """

    def __init__(self, root: str, kind: str, vend: Vend | None, token: str = "") -> None:
        self.root, self.kind, self._vend = root, kind, vend
        self.token = token or secrets.token_hex(8)
        self._credentials: dict[str, Credential] = {}
        self._locks = {READ: threading.Lock(), READ_WRITE: threading.Lock()}
        self._clients: dict[str, tuple[object, Any]] = {}
        _vendings[self.token] = self

    def credential(self, operation: str, *, before_long_work: bool = False) -> Credential:
        """The one for an operation; one that ends soon is replaced first, by one thread for all.

        Raises:
            DeltaError: the catalog refuses, as it said it.
            StorageError: the catalog cannot be reached and there is none that has not expired; or its answer
                is not one for this place.
        """
        if (known := self._known(operation, before_long_work)) is not None:
            return known
        with self._locks[operation]:
            if (known := self._known(operation, before_long_work)) is not None:
                return known  # another thread was first
            old = self._credentials.get(operation)
            try:
                new = self._ask(operation)
            except StorageError as error:
                if old is None or old.expires is None or options.clock() >= old.expires:
                    raise
                logger.warning("The credentials for %s are used until they expire: %s", self.root, error)
                new = replace(old, paused=options.clock() + PAUSE)
            self._credentials[operation] = new
            return new

    def renew(self, used: Credential, operation: str, *, is_expired: bool) -> bool:
        """Whether a request that a service has refused may be made again, since there is another credential.

        ``used`` is what it was made with; ``is_expired`` says that the service has called that expired. For a
        denial without a reason a catalog is asked once in :data:`MIN_AGE`.

        Raises:
            DeltaError: the catalog refuses to give another.
        """
        with self._locks[used.operation]:
            current = self._credentials.get(used.operation)
            if current is None or current.values != used.values:
                return True
            if self._vend is None or not used.values or not (
                    is_expired or options.clock() - current.vended >= MIN_AGE):
                return False
            if used.operation != operation:  # one for writes, used by a read: reads do not ask for these
                del self._credentials[used.operation]
                return True
            try:
                new = self._ask(operation)
            except StorageError:
                if is_expired:
                    raise
                return False  # what the service has said is nearer to the cause
            self._credentials[operation] = new
            return new.values != used.values

    def in_force(self, operation: str) -> dict[str, str]:
        """The newest values for an operation, by obstore's names; no catalog is asked."""
        return dict(self._credentials[operation].values)

    @property
    def has_values(self) -> bool:
        """Whether the catalog has vended any: its answer may leave a place to the user's own."""
        return any(one.values for one in list(self._credentials.values()))

    def client(self, credential: Credential, environment: object, make: Callable[[], Any]) -> Any:
        """The client for a credential and all that come after it, as long as the environment is the same.

        It goes with the table that it is for, and is no other's.
        """
        known = self._clients.get(credential.operation)
        if known is None or known[0] != environment:
            known = self._clients[credential.operation] = environment, make()
        return known[1]

    def take(self, credential: Credential) -> None:
        """Have one that another process lends, unless there is one that lasts longer."""
        old = self._credentials.get(credential.operation)
        if self._vend is None and (old is None or _end(old) <= _end(credential)):
            self._credentials[credential.operation] = credential

    def _known(self, operation: str, before_long_work: bool) -> Credential | None:
        for_write = self._credentials.get(READ_WRITE)
        known = (for_write if for_write and for_write.values else None, self._credentials.get(operation))
        for one in filter(None, known):
            if not one.ends_soon(before_long_work=before_long_work):
                return one
        for one in filter(None, known):
            if self._vend is None and _end(one) > options.clock():
                return one  # no other can be had
        return None

    def _ask(self, operation: str) -> Credential:
        if self._vend is None:
            has_expired = operation in {READ, *self._credentials}  # those for writes are for reads, too
            raise self._refuse(
                "those lent to this process have expired. Run the command again" if has_expired else
                f"none for {operation} were lent to this process")
        try:
            answer = self._vend(operation)
        except DeltaError:
            raise
        except Exception as error:  # whose text may have the answer in it
            raise self._refuse(f"asking its catalog failed with {type(error).__name__}") from None
        values, now = self._values_of(answer), options.clock()
        if answer.has_ended:
            raise self._refuse("those that its catalog vends have expired already. Set the clock of this "
                               "machine, or ask who runs the catalog")
        logger.debug("Credentials for %s (%s) are vended until %s", self.root, operation, answer.expires)
        return Credential(operation, values, answer.expires, now)

    def _values_of(self, answer: Vended) -> dict[str, str]:
        """Those of an answer by obstore's names.

        Raises:
            StorageError: it has a name that is not known, another service's, or lacks one.
        """
        values = {}
        service = SERVICES[self.kind]
        config = {str(name): value for name, value in answer.config.items() if value is not None}
        for name, value in config.items():
            known = NAMES.get(name)
            if known is None:
                raise self._refuse(f"its catalog vends {name!r}, which deltanb does not know; it knows "
                                   f"{', '.join(NAMES)}")
            if known.kind != self.kind:
                raise self._refuse(f"its catalog vends {name!r}, which is not for {service}")
            if not _is_well_formed(known, value):
                raise self._refuse(f"the {name!r} that its catalog vends is malformed")
            values[known.option] = value.removeprefix("?")
        lacking = [name for name, one in NAMES.items()
                   if one.kind == self.kind and one.is_needed and one.option not in values]
        if config and lacking:
            raise self._refuse(f"its catalog vends credentials without {lacking[0]!r}")
        if answer.expires is not None and type(answer.expires) is not int:
            raise self._refuse("the time until which its catalog vends them is no number of milliseconds")
        return values

    def _refuse(self, why: str) -> StorageError:
        return StorageError(f"there are no credentials for {self.root}: {why}", path=self.root)


_vendings: weakref.WeakValueDictionary[str, Vending] = weakref.WeakValueDictionary()
_borrowed: dict[str, Vending] = {}


def vending_of(token: str) -> Vending | None:
    """The one with a token, as long as a store here has it; None in other processes."""
    return _vendings.get(token)


def take_lent(token: str, root: str, kind: str, credential: Mapping[str, Any]) -> None:
    """Have a credential that another process lends. Where a catalog can be asked, that is done instead."""
    vending = vending_of(token)
    if vending is None:
        vending = _borrowed[token] = Vending(root, kind, None, token)
    vending.take(Credential(**credential))


def _end(credential: Credential) -> float:
    return float("inf") if credential.expires is None else credential.expires


def _is_well_formed(name: _Name, value: Any) -> bool:
    """Whether a value can be sent in a header or a URL: obstore would panic, or show it in an error."""
    if not isinstance(value, str) or not value or not value.isascii() or not value.isprintable() \
            or " " in value:
        return False
    return name.option != "sas_token" or all("=" in pair for pair in value.removeprefix("?").split("&"))
