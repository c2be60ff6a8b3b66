"""Profiles of Databricks' configuration file: who asks one host, by name.

What lives here: reading ``~/.databrickscfg`` (or the file that ``DATABRICKS_CONFIG_FILE`` names), and which
of its fields are used.
What it does not know: what they are used for.

The file is read by its sections alone: nothing in ``[DEFAULT]`` is inherited, as in Databricks' own tools. No
line of it is shown, since any may be a secret.
"""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping
from pathlib import Path

from deltanb.catalog.unity.client.address import origin_of
from deltanb.errors import InvalidArgument, StorageError
from deltanb.text.formatting import did_you_mean
from deltanb.text.safe_text import shown

__all__ = ["fields_of"]

CONFIG_VARIABLE = "DATABRICKS_CONFIG_FILE"
CONFIG_FILE = "~/.databrickscfg"

AUTH_TYPES = {"pat": ("token",), "oauth-m2m": ("client_id", "client_secret")}
"""``auth_type`` of a profile -> the fields that are used. Others ask a program, or another service."""


def fields_of(profile: str, address_url: str) -> dict[str, str]:
    """What a profile says of who asks: ``token``, or ``client_id`` and ``client_secret``.

    Raises:
        InvalidArgument: there is no such file or profile, or it is malformed; it is for another host; it asks
            in a way that is not supported, or in two.
        StorageError: the file cannot be read.
    """
    path = os.path.expanduser(os.environ.get(CONFIG_VARIABLE) or CONFIG_FILE)
    section = _section(profile, path)
    place = f"the profile {shown(profile)} of {path}"
    _check_host(section.get("host", ""), address_url, place)
    auth_type = section.get("auth_type")
    if auth_type is not None and auth_type not in AUTH_TYPES:
        raise InvalidArgument(f"{place} has the auth_type {shown(auth_type)}, which is not supported: "
                              f"{' and '.join(AUTH_TYPES)} are. Get a token by it, and pass token=...")
    types = [auth_type] if auth_type else [
        name for name, names in AUTH_TYPES.items() if any(field in section for field in names)]
    if len(types) > 1:
        raise InvalidArgument(f"{place} has a token and a client; set auth_type = {' or '.join(AUTH_TYPES)}")
    used = {field: section[field] for name in types for field in AUTH_TYPES[name] if field in section}
    if not used:
        raise InvalidArgument(f"{place} has neither a token nor client_id and client_secret, but "
                              f"{', '.join(section)}")
    return used


def _section(profile: str, path: str) -> Mapping[str, str]:
    """The fields of a profile that are not empty, by their names in lower case."""
    parser = configparser.ConfigParser(interpolation=None, default_section="")  # no section is special
    try:
        parser.read_string(Path(path).read_text("utf-8-sig"))
    except FileNotFoundError:
        raise InvalidArgument(f"there is no file {path} with the profile {shown(profile)}; set "
                              f"{CONFIG_VARIABLE}, or pass token=...") from None
    except OSError as error:
        raise StorageError.of(error, "read", path) from error
    except (configparser.Error, UnicodeDecodeError) as error:
        raise InvalidArgument(f"{path} is not a configuration file of Databricks{_line_of(error)}") from None
    if profile not in parser:
        hint, _ = did_you_mean(profile, parser.sections(), "profiles")
        raise InvalidArgument(f"there is no profile {shown(profile)} in {path}; {hint}")
    return {name: value for name, value in parser[profile].items() if value}


def _line_of(error: Exception) -> str:
    errors = getattr(error, "errors", None)  # (line, its text), the latter perhaps a secret
    line = errors[0][0] if errors else getattr(error, "lineno", None)
    return "" if line is None else f": see line {line}"


def _check_host(host: str, address_url: str, place: str) -> None:
    """Refuse a profile for another host: its secrets are not for this one."""
    if not host:
        raise InvalidArgument(f"{place} names no host; write host = {address_url} into it")
    try:
        origin = origin_of(host if "://" in host else f"https://{host}")  # as Databricks' tools take it
    except InvalidArgument as error:
        raise InvalidArgument(f"the host of {place} is malformed: {error}") from None
    if origin != origin_of(address_url):
        raise InvalidArgument(f"{place} is for {origin}, and the address for {address_url}; pass a profile "
                              "of that host")
