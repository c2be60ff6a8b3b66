"""What befalls requests on their way to a fake server, or its answers: scripts of :mod:`.fake`.

What lives here: a request as it is recorded, an answer, and what a script may do instead of answering.
What it does not know: what the server would answer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.catalog.unity.fake_updates import ERRORS, Json
from tests.patience import PATIENCE

LOST_REQUEST = "lost request"
LOST_ANSWER = "lost answer"
"""To a client the two look the same: the connection ends without an answer."""


class Lost(Exception):
    """The connection ends without an answer."""


@dataclass(frozen=True)
class Asked:
    """A request as the server sees it; ``path`` is without the API's root and without the query."""

    operation: str
    method: str
    path: str
    query: Mapping[str, str]
    body: Any
    headers: Mapping[str, str]
    names: Mapping[str, str]
    """The parts of the path that its template names."""

    @property
    def actions(self) -> dict[str, Json]:
        """The updates of an ``updateTable`` by their actions."""
        return {each["action"]: each for each in self.body["updates"]}


@dataclass(frozen=True)
class Answer:
    """A status, and a body: JSON, plain text where it is a ``str``, or none."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


Serve = Callable[[], Answer]
"""Has the server do what was asked, once; the answer."""
Does = str | tuple[int, str] | Answer | Callable[[Asked, Serve], Answer]
"""What a script does with a request: loses it, or its answer; refuses it, with a status and a type; answers
it; or calls a function, which may serve it, raise, or wait."""


def refusal(status: int, kind: str, message: str = "as the script says", **headers: str) -> Answer:
    """A refusal in the Delta API's form; of headers, hyphens are written as underscores.

    >>> refusal(429, "TooManyRequestsException", Retry_After="2").headers
    {'Retry-After': '2'}
    """
    return Answer(status, {"error": {"message": message, "type": kind, "code": status, "stack": None}},
                  {name.replace("_", "-"): value for name, value in headers.items()})


def older_refusal(status: int, code: str, message: str = "as the script says") -> Answer:
    """A refusal in the older API's form.

    >>> older_refusal(403, "PERMISSION_DENIED").body["details"][0]["reason"]
    'PERMISSION_DENIED'
    """
    return Answer(status, {"error_code": code, "message": message, "details": [
        {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": code}]})


def too_many_requests(seconds: int = 0) -> Answer:
    """429 that asks to wait, which is not the one of too many unpublished commits."""
    return refusal(429, "TooManyRequestsException", Retry_After=str(seconds))


def unavailable(seconds: int | None = None) -> Answer:
    """503, as a proxy answers: no JSON."""
    headers = {} if seconds is None else {"Retry-After": str(seconds)}
    return Answer(503, "upstream connect error", headers)


def no_server(asked: Asked, serve: Serve) -> Answer:
    """Nobody listens at the server's port."""
    raise httpx.ConnectError("connection refused")


def interrupt(asked: Asked, serve: Serve) -> Answer:
    """The user interrupts while the request is on its way."""
    raise KeyboardInterrupt


def after(does: Does) -> Does:
    """What is asked is done, and then this is the answer: a 500 of which nobody knows whether it was."""
    return lambda asked, serve: (serve(), play(does, asked, serve))[1]


class Hold:
    """Holds requests until they are released, before the server has seen them, or ``served`` already."""

    def __init__(self, served: bool = False) -> None:
        self._served = served
        self._reached, self._released = threading.Event(), threading.Event()

    def __call__(self, asked: Asked, serve: Serve) -> Answer:
        answer = serve() if self._served else None
        self._reached.set()
        assert self._released.wait(PATIENCE), "nobody released the request"
        return answer or serve()

    def reached(self) -> None:
        """Wait until a request is held."""
        assert self._reached.wait(PATIENCE), "no request came to be held"

    def release(self) -> None:
        self._released.set()


def play(does: Does, asked: Asked, serve: Serve) -> Answer:
    """What a script does with a request.

    Raises:
        Lost: the request or its answer.
    """
    if does == LOST_REQUEST:
        raise Lost(does)
    if does == LOST_ANSWER:
        serve()
        raise Lost(does)
    if isinstance(does, Answer):
        return does
    if isinstance(does, tuple):
        status, kind = does
        assert kind in ERRORS or kind == "TooManyRequestsException", f"no type of the API: {kind}"
        return refusal(status, kind)
    assert callable(does), f"no step of a script: {does!r}"
    return does(asked, serve)


class Strike:
    """A step of a script for all requests that follow: it befalls one of them, by its number."""

    def __init__(self, does: Does, at: int) -> None:
        self._does, self._left = does, at
        self.is_played = False

    def __call__(self, asked: Asked, serve: Serve) -> Answer:
        self._left -= 1
        if self._left != -1:
            return serve()
        self.is_played = True
        return play(self._does, asked, serve)


@dataclass
class Script:
    """What is done to the requests that match, one step each, and the last one for ever where it is so."""

    matches: Callable[[Asked], bool]
    steps: list[Does]
    forever: bool = False

    def next_of(self, asked: Asked) -> Does | None:
        """The next step for a request, which is used up; None where the script leaves it alone."""
        if not self.steps or not self.matches(asked):
            return None
        return self.steps[0] if self.forever and len(self.steps) == 1 else self.steps.pop(0)
