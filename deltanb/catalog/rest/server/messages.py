"""Requests and replies as the handlers of a server see them: values, without HTTP.

What lives here: the request with its parameters and its body, the reply, and the permissions that endpoints
need.
What it does not know: Starlette, sockets, any one endpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from deltanb.catalog.iceberg.commit import IcebergTable
from deltanb.catalog.iceberg.metadata.fields import refuse, to_json
from deltanb.catalog.rest.forms import SEPARATOR, namespace_of
from deltanb.catalog.store.names import TableName
from deltanb.errors import BadRequest, InvalidArgument, TableNotFound
from deltanb.text.safe_text import shown

if TYPE_CHECKING:
    from deltanb.catalog.rest.endpoint import Endpoint
    from deltanb.catalog.rest.server.keyed import Keyed
    from deltanb.catalog.rest.server.service import Service
    from deltanb.catalog.rest.server.tokens import Principal

__all__ = ["Reply", "Request", "anyone", "readers", "readers_of", "writers", "writers_of"]


class NoSuchCatalog(InvalidArgument):
    """Another catalog or warehouse than the one that is served."""


DAMAGED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


@dataclass(frozen=True)
class Reply:
    """An answer: a status with a value, a table, or the parts of a text, made while they are sent."""

    status: int = 200
    value: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    table: IcebergTable | None = None
    """In place of ``value``: what ``loadTable`` and its like answer with."""
    parts: Iterator[bytes] | None = None


@dataclass(frozen=True)
class Request:
    """A request whose sender is known."""

    service: Service
    principal: Principal
    method: str
    path: str
    params: Mapping[str, str]
    """Of the path."""
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """By names in lower case."""
    content: bytes = field(repr=False)
    keyed: Keyed | None = None
    """Of a request with an idempotency key."""
    endpoint: Endpoint | None = None

    def answered(self, value: Any) -> Reply:
        """The reply with a value, as its endpoint's answers are written."""
        assert self.endpoint is not None and self.endpoint.answer is not None
        return Reply(value=to_json(self.endpoint.answer, value))

    @cached_property
    def namespace(self) -> tuple[str, ...]:
        """The namespace that the path names.

        Raises:
            InvalidArgument: a name that none may have.
        """
        return namespace_of(self.params["namespace"].split(SEPARATOR))

    @cached_property
    def table(self) -> TableName:
        """The table that the path names.

        Raises:
            InvalidArgument: a name that none may have.
        """
        return TableName.of((self.namespace, self.params["table"]))

    @cached_property
    def body(self) -> Any:
        """The body, read as JSON and checked as its endpoint says.

        Raises:
            BadRequest: it is no JSON, or a field is missing, unknown or of another type.
        """
        assert self.endpoint is not None and self.endpoint.body is not None
        try:
            value = msgspec.json.decode(self.content)
        except DAMAGED as error:
            refuse("the body", f"is not JSON: {error}")
        if not isinstance(value, dict):
            refuse("the body", "must be an object")
        try:
            return self.endpoint.body(value, "")
        except BadRequest as error:
            raise BadRequest(error.message.lstrip("."), field=error.field.lstrip(".")) from None

    def flag(self, name: str) -> bool:
        """A query parameter that is ``true`` or ``false``; false where it is not given.

        Raises:
            InvalidArgument: another value.
        """
        value = self.query.get(name, "false").lower()
        if value not in ("true", "false"):
            raise InvalidArgument(f"the parameter {name} is true or false, found {shown(value)}")
        return value == "true"

    @property
    def page(self) -> tuple[str | None, int | None]:
        """The token and the size of the page that is asked for; no size: all that there is.

        Raises:
            InvalidArgument: a size that is no number above 0.
        """
        token, size = self.query.get("pageToken"), self.count("pageSize")
        if size is None:
            return token or None, None if token is None else PAGE
        return token or None, size

    def count(self, name: str, least: int = 1) -> int | None:
        """A query parameter that is a whole number of no less than ``least``; None where it is not given.

        Raises:
            InvalidArgument: another value.
        """
        text = self.query.get(name)
        if text is None:
            return None
        if not text.isascii() or not text.isdecimal() or len(text) > 9 or int(text) < least:
            raise InvalidArgument(
                f"the parameter {name} is a whole number above {least - 1}, found {shown(text)}")
        return int(text)

    def names_by_id(self, table_ids: Sequence[str]) -> Iterator[TableName]:
        """The names of tables, one after the other.

        Raises:
            TableNotFound: this catalog has no table of an id.
        """
        names = self.service.tables.store.names_of(table_ids)
        for table_id in table_ids:
            if table_id not in names:
                raise TableNotFound(f"the catalog has no table {table_id}", path=table_id)
            yield TableName.of(names[table_id])

    def allow(self, what: str, *namespaces: tuple[str, ...]) -> None:
        """Let the request go on if its sender may do this (``read`` or ``write``) in all of the namespaces.

        Raises:
            Forbidden: the sender may not.
        """
        for namespace in namespaces:
            self.principal.require(what, namespace)


PAGE = 1000  # rows of a page where the client leaves that to the server


# -- who may ask what --------------------------------------------------------------------------------


def anyone(request: Request) -> None:
    """Everybody with a token may ask this; what is answered shows no more than the sender may see."""


def readers(request: Request) -> None:
    """The sender may read in the namespace that the path names."""
    request.allow("read", request.namespace)


def writers(request: Request) -> None:
    """The sender may write in the namespace that the path names."""
    request.allow("write", request.namespace)


def readers_of(*fields: str) -> Callable[[Request], None]:
    """The sender may read in the namespaces that these fields of the body name."""
    return lambda request: request.allow("read", *_namespaces(request, fields))


def writers_of(*fields: str) -> Callable[[Request], None]:
    """The sender may write in the namespaces that these fields of the body name."""
    return lambda request: request.allow("write", *_namespaces(request, fields))


def _namespaces(request: Request, fields: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for field_ in fields:
        value = request.body.get(field_, [])
        for each in value if isinstance(value, list) else [value]:
            yield each.namespace if isinstance(each, TableName) else each
