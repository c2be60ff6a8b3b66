"""A row of the table of endpoints, from which route, permission, OpenAPI and client derive.

What lives here: the row (:class:`Endpoint`) and what the endpoints of one API share (:class:`Api`).
What it does not know: any endpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from deltanb.catalog.iceberg.metadata.fields import Check, Json

if TYPE_CHECKING:
    from deltanb.catalog.rest.server.messages import Reply, Request

__all__ = ["Api", "Endpoint", "query"]


@dataclass(frozen=True)
class Api:
    """Endpoints that share where they are, and how they refuse."""

    roots: Mapping[str, str]
    """What comes before each path -> the operation's id in OpenAPI; each root has all endpoints."""
    refusal: Callable[[Exception], Reply] = field(repr=False)
    """The answer to a request that an error ended."""
    statuses: Mapping[int, str]
    """The statuses of refusals, with what each means."""
    error: Check
    """The body of a refusal."""
    in_form: Callable[[Reply], Reply] = field(default=lambda reply: reply, repr=False)
    """A refusal of the server's door, such as of a body that is too large, as this API writes refusals."""
    parameters: Mapping[str, str] | None = None
    """What a part of a path means, where its name does not say it; None: OpenAPI describes no parameters."""


@dataclass(frozen=True)
class Endpoint:
    """One endpoint of an API."""

    api: Api
    method: str
    path: str
    call: Callable[[Request], Reply]
    needs: Callable[[Request], None]
    """Refuses a sender who may not ask this."""
    summary: str
    status: int = 200
    body: Check | None = None
    answer: Check | None = None
    query: tuple[Json, ...] = ()
    """Its parameters, as OpenAPI has them."""
    is_keyed: bool = False
    """Whether it is done once for an idempotency key; asking the others twice does no more than once."""
    more: Mapping[int, str] = field(default_factory=dict)
    """Further statuses of success."""
    prefixed: bool = True
    """Whether it is also below the roots that have parameters."""
    carries: Callable[..., Any] | None = None
    """The method of a catalog's store that it is over HTTP: the client's method has its parameters."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Fields of the body, with underscores, that are not called as that method's parameters."""

    @property
    def name(self) -> str:
        """Its name in descriptions and in the log: that of the function."""
        return self.call.__name__

    def arguments(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of the store's method that the fields of a body are."""
        names = {name: name.replace("-", "_") for name in body}
        return {self.parameters.get(name, name): body[field_] for field_, name in names.items()}

    def fields(self, arguments: Mapping[str, Any]) -> Json:
        """The fields of the body, or parts of the path, that arguments of the store's method are."""
        names = {parameter: name for name, parameter in self.parameters.items()}
        return {names.get(name, name).replace("_", "-"): value for name, value in arguments.items()}

    @property
    def paths(self) -> list[str]:
        """Its whole paths."""
        return [f"{root}{self.path}" for root in self.roots]

    @property
    def roots(self) -> list[str]:
        """What comes before its path."""
        return [root for root in self.api.roots if self.prefixed or "{" not in root]


def query(name: str, schema: Json, text: str) -> Json:
    """A parameter that may be left out."""
    return {"name": name, "in": "query", "required": False, "schema": schema, "description": text}
