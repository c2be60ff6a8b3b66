"""What all that speaks HTTP here has in common: httpx, tokens, and this machine's own addresses.

What lives here: loading httpx when it is needed, what a bearer token may be, which hosts are this machine.
What it does not know: any request.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Any

from deltanb.errors import InvalidArgument, MissingDependency

__all__ = ["bearer", "is_loopback", "load_httpx"]

_TOKEN = re.compile(r"[!-~]+")


def load_httpx() -> Any:
    """The module httpx.

    Raises:
        MissingDependency: it is not installed.
    """
    try:
        import httpx
    except ImportError:
        raise MissingDependency(
            "a catalog behind a server needs httpx, which is not installed: "
            "pip install 'deltanb[catalog]'", extra="catalog") from None
    return httpx


def bearer(token: Any, what: str = "a token") -> str:
    """The value of the header ``Authorization`` that shows a token.

    >>> bearer("abc")
    'Bearer abc'

    Raises:
        InvalidArgument: no text, or characters that no token has; ``what`` names it in the message.
    """
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise InvalidArgument(f"{what} has printable ASCII characters and no spaces")
    return f"Bearer {token}"


def is_loopback(host: str) -> bool:
    """Whether a host is this machine: ``localhost``, ``127.0.0.0/8`` or ``::1``, in brackets or not.

    >>> is_loopback("127.0.0.1"), is_loopback("[::1]"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
