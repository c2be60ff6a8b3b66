"""Clients of object stores: obstore's, made of options, the same ones again for the same options.

What lives here: :func:`client_of`, our bounds for repeated requests, and the refusal of a forked process.
What it does not know: what an option is called by people, and where secrets are kept (``storage_options``).
"""

from __future__ import annotations

import datetime as dt
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from deltanb.errors import IllegalStateError, InvalidArgument, MissingDependency
from deltanb.store.storage_options import CLIENT_OPTIONS, RETRY_OPTIONS, Access, seconds
from deltanb.store.uris import SERVICES, Location
from deltanb.store.vending import Credential
from deltanb.text.safe_text import redacted

__all__ = ["check_options", "client_of"]

MAX_RETRIES = 4
"""Times that a request is repeated, by default."""
RETRY_TIMEOUT = 30.0
"""Seconds after which none is repeated any more: the retries of a commit are the transaction's own."""
_BACKOFF = {"init_backoff": 0.1, "max_backoff": 3.0}

_STORES = {"s3": "S3Store", "gs": "GCSStore", "az": "AzureStore"}
_VARIABLES = ("AWS_", "AZURE_", "GOOGLE_")
_SERVICE = re.compile("ENDPOINT|BASE_URL|EMULATOR|ACCOUNT_NAME")


def client_of(place: Location, access: Access, credential: Credential | None = None) -> Any:
    """The client of a bucket; the same one for the same options, so that connections are used again.

    Where the environment says something else than before it is another one: whoever sets a variable need not
    open tables anew. With a credential that a catalog has vended it is that table's, and has those that
    replace it, too.

    Raises:
        MissingDependency: obstore is not installed.
        InvalidArgument: options that do not go together.
        IllegalStateError: the process was forked from one that had asked a bucket already.
    """
    if _process.is_forked:
        raise IllegalStateError(
            f"{place.root} cannot be reached: this process was forked from one that had used a bucket, whose "
            "threads this process does not have. Start processes by multiprocessing.get_context('spawn') or "
            "'forkserver', or fork before the first bucket is used")
    _process.is_used = True
    from_environment = hash(tuple(item for item in os.environ.items() if item[0].startswith(_VARIABLES)))
    vending = access.vended()
    if vending is None or credential is None or not credential.values:
        own = replace(access, vending="", prefix="")
        return _client(place.kind, place.bucket, own, not access.lacks_secrets, from_environment)
    provider = _Provider(access, credential.operation)
    return vending.client(credential, from_environment,
                          lambda: _made(place.kind, place.bucket, access, provider))


def check_options(place: Location, access: Access) -> None:
    """Find out whether a client can be made; nothing is asked of it.

    Raises:
        MissingDependency, InvalidArgument: as :func:`client_of`.
    """
    own = replace(access, vending="", prefix="")
    _client(place.kind, place.bucket, own, not access.lacks_secrets, 0, bool(access.vending))


def service_in_environment() -> str:
    """What the environment says of the service that is asked, where the options do not say it."""
    return ",".join(sorted(f"{name}={value}" for name, value in os.environ.items()
                           if name.startswith(_VARIABLES) and _SERVICE.search(name)))


class _process:
    """Whether this process has asked a bucket, or is the child of one that had."""

    is_used = False
    is_forked = False

    @classmethod
    def fork(cls) -> None:
        cls.is_forked = cls.is_used


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_process.fork)


class _Provider:
    """What obstore asks for a vended credential: at every request, since it takes the last for expired.

    It does not hold what has the credentials: the client is held by that, where no collector of garbage sees.
    """

    _PAST = dt.datetime.fromtimestamp(0, dt.timezone.utc)

    def __init__(self, access: Access, operation: str) -> None:
        self._access, self._operation = access, operation

    def __call__(self) -> dict[str, Any]:
        vending = self._access.vended()
        assert vending is not None
        return {**vending.in_force(self._operation), "expires_at": self._PAST}


@lru_cache(maxsize=32)
def _client(
    kind: str, bucket: str, access: Access, has_secrets: bool, environment: int, is_vended: bool = False
) -> Any:
    return _made(kind, bucket, access, dict if is_vended else None)


def _made(kind: str, bucket: str, access: Access, provider: Any = None) -> Any:
    try:
        import obstore.store
    except ImportError:
        raise MissingDependency(
            f'tables on {SERVICES[kind]} need obstore: pip install "deltanb[object-store]"',
            extra="object-store") from None
    config = {**dict(access.public), **access.secrets}
    client = {name: config.pop(name) for name in (*CLIENT_OPTIONS, "proxy_url") if name in config}
    if "allow_http" not in client and os.environ.get("AWS_ALLOW_HTTP", "") and kind == "s3":
        client["allow_http"] = os.environ["AWS_ALLOW_HTTP"]
    if config.get("use_emulator") == "true" or config.get("endpoint", "").startswith("http://127.0.0.1"):
        client.setdefault("allow_http", "true")
    retry = {name: config.pop(name) for name in RETRY_OPTIONS if name in config}
    if provider is not None:
        config["skip_signature"] = "false"  # whatever the environment says: there are credentials
    elif kind == "s3":
        provider = _profile(config)
    try:
        return getattr(obstore.store, _STORES[kind])(
            bucket, config=config, client_options=client or None, retry_config=_retry(retry),
            **({} if provider is None else {"credential_provider": provider}))
    except Exception as error:
        words = redacted(str(error).split("\n")[0])
        for value in access.secrets.values():
            words = words.replace(value, "***")
        raise InvalidArgument(
            f"{SERVICES[kind]} cannot be reached with these storage_options: {words}") from None


def _profile(config: Mapping[str, str]) -> Any:
    """Who gives the credentials of the profile that ``AWS_PROFILE`` names; None where they come otherwise.

    Raises:
        MissingDependency: boto3 is not installed, which reads profiles.
    """
    known = "access_key_id" in config or "AWS_ACCESS_KEY_ID" in os.environ or "skip_signature" in config
    if known or not os.environ.get("AWS_PROFILE"):
        return None
    try:
        import boto3
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:
        raise MissingDependency(
            "AWS_PROFILE is set, and profiles are read by boto3: pip install boto3, or set AWS_ACCESS_KEY_ID "
            "and AWS_SECRET_ACCESS_KEY", extra="boto3") from None
    return Boto3CredentialProvider(boto3.Session())


def _retry(options: dict[str, str]) -> dict[str, Any]:
    """obstore's settings for repeated requests, with our bounds where none is given."""
    backoff: dict[str, Any] = {
        name: dt.timedelta(seconds=seconds(options.get(f"backoff_config.{name}", str(usual))))
        for name, usual in _BACKOFF.items()}
    backoff["base"] = float(options.get("backoff_config.base", "2"))
    return {"max_retries": int(options.get("max_retries", MAX_RETRIES)), "backoff": backoff,
            "retry_timeout": dt.timedelta(seconds=seconds(options.get("retry_timeout", str(RETRY_TIMEOUT))))}
