"""How an object store is reached: the options that people give, and where their secrets are kept.

What lives here: :class:`Access`, options as deltalake spells them without the secrets among them.
What it does not know: tables, keys, and what is done with an option (``clients``).

Secrets stay in this module, in a table that no object refers to but by a random token. So whatever holds an
:class:`Access` can be shown, compared, logged and pickled. In another process the token finds nothing, and
the credentials come from the environment there, or from the instance. Those that a catalog vends have a token
of their own (``vending``); where that finds nothing, there are none.
"""

from __future__ import annotations

import atexit
import difflib
import json
import os
import re
import secrets
import shutil
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from deltanb.errors import InvalidArgument, StorageError
from deltanb.store.uris import SERVICES, Location
from deltanb.store.vending import READ, Vending, take_lent, vending_of
from deltanb.text.safe_text import redacted

__all__ = [
    "CLIENT_OPTIONS",
    "PROFILE",
    "RETRY_OPTIONS",
    "Access",
    "access_of",
    "borrow",
    "lend",
    "seconds",
    "write_temp_credentials",
]

_PREFIXES = {"s3": ("aws_",), "gs": ("google_",), "az": ("azure_storage_", "azure_")}
CLIENT_OPTIONS = ("allow_http", "allow_invalid_certificates", "connect_timeout", "http1_only", "http2_only",
         "pool_idle_timeout", "pool_max_idle_per_host", "proxy_excludes", "read_timeout", "timeout",
         "user_agent")
RETRY_OPTIONS = ("max_retries", "retry_timeout", "backoff_config.init_backoff", "backoff_config.max_backoff",
          "backoff_config.base")
# What is no secret: all else that a service takes is kept as one.
_PUBLIC = {
    "s3": ("region", "default_region", "endpoint", "virtual_hosted_style_request", "skip_signature",
           "unsigned_payload", "imdsv1_fallback", "metadata_endpoint", "request_payer",
           "disable_tagging", "disable_bulk_delete", "server_side_encryption", "sse_bucket_key_enabled",
           "checksum_algorithm", "role_arn", "role_session_name", "web_identity_token_file",
           "container_credentials_relative_uri"),
    "gs": ("service_account", "service_account_path", "application_credentials", "base_url",
           "skip_signature"),
    "az": ("account_name", "tenant_id", "client_id", "authority_host", "endpoint", "use_emulator",
           "use_fabric_endpoint", "use_azure_cli", "skip_signature", "msi_endpoint", "object_id",
           "msi_resource_id", "federated_token_file", "disable_tagging", "credential_type"),
}
_SECRET = {
    "s3": ("access_key_id", "secret_access_key", "session_token", "token", "sse_kms_key_id",
           "sse_customer_key_base64"),
    "gs": ("service_account_key", "bearer_token"),
    "az": ("account_key", "access_key", "master_key", "sas_key", "sas_token", "client_secret", "bearer_token",
           "token", "encryption_key"),
}
_CREDENTIALS = {
    "s3": ("access_key_id", "secret_access_key", "session_token", "token", "skip_signature", "role_arn",
           "web_identity_token_file", "container_credentials_relative_uri"),
    "gs": ("service_account_key", "bearer_token", "service_account", "service_account_path",
           "application_credentials", "skip_signature"),
    "az": ("account_key", "access_key", "master_key", "sas_key", "sas_token", "client_secret", "bearer_token",
           "token", "client_id", "tenant_id", "use_emulator", "use_azure_cli", "skip_signature",
           "msi_endpoint", "object_id", "msi_resource_id", "federated_token_file", "credential_type"),
}
"""What is a credential, or says where to get one."""
_SPELLINGS = {"endpoint_url": "endpoint", "endpoint_url_s3": "endpoint"}
_ENVIRONMENT: dict[str, dict[str, tuple[str, ...]]] = {
    "s3": {"endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")},
    "gs": {}, "az": {"account_name": ("AZURE_STORAGE_ACCOUNT_NAME",), "endpoint": ("AZURE_STORAGE_ENDPOINT",
                                                                                  "AZURE_ENDPOINT")},
}
_UNSAFE = ("s3_allow_unsafe_rename", "s3_locking_provider", "dynamo_lock_table_name", "conditional_put",
           "copy_if_not_exists")
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|)")
_SECONDS = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0}

_secrets: dict[str, dict[str, str]] = {}
_tokens: dict[tuple[str, frozenset[tuple[str, str]]], str] = {}
_secrets_lock = threading.Lock()


@dataclass(frozen=True)
class Access:
    """The options of a store: those that are no secret, and a token for those that are.

    ``secret_names`` are the options that were given as secrets, by name. ``vending`` is the token of what a
    catalog vends for ``prefix``, a URI, and what is below it.
    """

    kind: str
    public: tuple[tuple[str, str], ...] = ()
    secret_names: tuple[str, ...] = ()
    token: str = ""
    vending: str = ""
    prefix: str = ""

    def get(self, name: str) -> str:
        """A public option, from the environment where it was not given; "" without any."""
        value = dict(self.public).get(name)
        if value is None:
            variables = _ENVIRONMENT[self.kind].get(name, ())
            value = next((os.environ[one] for one in variables if os.environ.get(one)), "")
        return value

    @property
    def lacks_secrets(self) -> bool:
        """Whether it was given secrets in another process, so that this one does not have them."""
        return bool(self.token) and self.token not in _secrets

    @property
    def secrets(self) -> dict[str, str]:
        """Those that this process has, by name."""
        return dict(_secrets.get(self.token, {}))

    @property
    def has_secrets(self) -> bool:
        """Whether there is something that stays in this process, given or vended."""
        return bool(self.token or self.vending)

    @property
    def has_own_credentials(self) -> bool:
        """Whether the options have credentials, or say where to get some."""
        options = {**dict(self.public), **dict.fromkeys(self.secret_names, "")}
        return any(options.get(name, "false") != "false" for name in _CREDENTIALS[self.kind])

    def vended(self) -> Vending | None:
        """What has the credentials that a catalog vends; None where none does.

        Raises:
            StorageError: it is in another process.
        """
        if not self.vending:
            return None
        vending = vending_of(self.vending)
        if vending is None:
            raise StorageError(
                f"there are no credentials for {self.prefix} in this process: a catalog vended them to the "
                "process that opened the table, and a pickle has none. Open the table here, through its "
                "catalog", path=self.prefix)
        return vending

    def at(self, place: Location) -> Access:
        """As it is for another place in the bucket: vended credentials are for their prefix alone."""
        if not self.vending or f"{place.root}/".startswith(f"{self.prefix}/"):
            return self
        return replace(self, vending="", prefix="")

    def is_for(self, place: Location) -> Access:
        """With what the URI itself says of the account.

        Raises:
            InvalidArgument: the options say something else, or nobody says it.
        """
        if self.kind != "az":
            return self
        named = dict(self.public)
        if place.account:
            if named.setdefault("account_name", place.account) != place.account:
                raise InvalidArgument(
                    f"{place.root} is in the account {place.account!r}, and storage_options name "
                    f"{named['account_name']!r}; leave account_name out", path=place.root)
            if place.endpoint:
                named.setdefault("endpoint", place.endpoint)
        elif not self.get("account_name") and "use_emulator" not in named:
            raise InvalidArgument(
                f"{place.root} names no account; give storage_options={{'azure_storage_account_name': ...}} "
                "or write abfss://container@account.dfs.core.windows.net/path", path=place.root)
        return replace(self, public=tuple(sorted(named.items())))


_lent: dict[str, str] = {}
_VARIABLES = ("AWS_", "AZURE_", "GOOGLE_")


def lend(access: Access, operation: str = READ) -> str:
    """A file by which processes of this user on this machine get what this one has; it goes when this ends.

    It holds the secrets of an access, the credential that a catalog has vended for an operation, with at
    least half of its life before it, and what the environment says of buckets.

    Raises:
        DeltaError: the catalog refuses to vend one.
    """
    from_environment = {name: value for name, value in os.environ.items() if name.startswith(_VARIABLES)}
    content = {"token": access.token, "secrets": access.secrets, "environment": from_environment}
    if (vending := access.vended()) is not None:
        content["vended"] = {"token": vending.token, "root": vending.root, "kind": vending.kind,
                             "credential": asdict(vending.credential(operation, before_long_work=True))}
    return _lent_file(json.dumps(content))


def _lent_file(content: str) -> str:
    """A file of this content, the same one for the same, which this user alone can read."""
    with _secrets_lock:
        if content not in _lent:
            folder = tempfile.mkdtemp(prefix="deltanb-lent-")  # which nobody else can look into
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            path = os.path.join(folder, secrets.token_hex(8))
            with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
                file.write(content)
            _lent[content] = path
        return _lent[content]


PROFILE = "deltanb"
_KEYS = {"access_key_id": "aws_access_key_id", "secret_access_key": "aws_secret_access_key",
         "session_token": "aws_session_token", "token": "aws_session_token"}


def write_temp_credentials(access: Access, operation: str = READ) -> str | None:
    """As :func:`lend`, the keys to a place on S3 alone: a credentials file of Amazon's, profile ``deltanb``.

    They are those of the options or of a catalog, or of the environment where these have none. None where
    neither has any, or where such a file could not say them.

    Raises:
        DeltaError: the catalog refuses to vend any.
    """
    vending = access.vended()
    known = access.secrets if vending is None else vending.credential(operation, before_long_work=True).values
    keys = {name: value for name, value in known.items() if name in _KEYS}
    if not keys:
        keys = {name: os.environ[key.upper()] for name, key in _KEYS.items() if os.environ.get(key.upper())}
    lines = {_KEYS[name]: value for name, value in keys.items()}
    if not {"aws_access_key_id", "aws_secret_access_key"} <= lines.keys() \
            or any(value.split() != [value] for value in lines.values()):
        return None
    return _lent_file("\n".join([f"[{PROFILE}]", *(f"{key} = {lines[key]}" for key in sorted(lines)), ""]))


def borrow(path: str) -> None:
    """Take what another process of this machine lends by :func:`lend`."""
    with open(path, encoding="utf-8") as file:
        variables = json.load(file)
    os.environ.update(variables["environment"])
    if variables["token"]:
        with _secrets_lock:
            _secrets.setdefault(variables["token"], variables["secrets"])
    if "vended" in variables:
        take_lent(**variables["vended"])


def access_of(kind: str, storage_options: Mapping[str, Any] | None) -> Access:
    """The options of a kind of store, as deltalake spells them: in any case, with or without ``AWS_``.

    Raises:
        InvalidArgument: an option that is not known, given twice, or with a value that it cannot have.

    >>> access_of("s3", {"AWS_SECRET_ACCESS_KEY": "hush", "aws_region": "eu-west-1", "allow_http": True})
    Access(kind='s3', public=(('allow_http', 'true'), ('region', 'eu-west-1')), ...)
    >>> access_of("s3", {"aws_regoin": "eu-west-1"})
    Traceback (most recent call last):
        ...
    deltanb.errors.InvalidArgument: there is no storage option 'aws_regoin' for S3; did you mean 'region'?
    """
    if storage_options is not None and not isinstance(storage_options, Mapping):
        raise InvalidArgument("storage_options is a dict of strings, found "
                              f"{type(storage_options).__name__}")
    public: dict[str, str] = {}
    hidden: dict[str, str] = {}
    for option, value in (storage_options or {}).items():
        name = _name_of(kind, option)
        text = _text_of(option, value)
        if name in public or name in hidden:
            raise InvalidArgument(f"storage_options give {name!r} twice, the second time as {option!r}")
        (hidden if name in _SECRET[kind] or name == "proxy_url" else public)[name] = text
    for name in ("endpoint", "base_url"):
        if name in public and redacted(public[name]) != public[name]:
            raise InvalidArgument(f"the {name} {redacted(public[name])} has credentials in it; give them by "
                                  "their own options")
    return Access(kind, tuple(sorted(public.items())), tuple(sorted(hidden)), _keep(kind, hidden))


def _name_of(kind: str, option: Any) -> str:
    if not isinstance(option, str):
        raise InvalidArgument(f"names in storage_options are strings, found {type(option).__name__}")
    name = option.lower()
    for prefix in _PREFIXES[kind]:
        if name.startswith(prefix):
            name = name[len(prefix):]
            break
    name = _SPELLINGS.get(name, name)
    known = (*_PUBLIC[kind], *_SECRET[kind], *CLIENT_OPTIONS, *RETRY_OPTIONS, "proxy_url")
    if name in known:
        return name
    if name in _UNSAFE:
        raise InvalidArgument(
            f"storage_options {option!r} has no effect here: each commit is a put that succeeds only if "
            "there is no such version (If-None-Match), without locks or renames. Leave it out, and write to "
            "the table with no tool that needs it")
    near = difflib.get_close_matches(name, known, 1)
    hint = f"; did you mean {near[0]!r}?" if near else f"; it knows {', '.join(sorted(known))}"
    raise InvalidArgument(f"there is no storage option {option!r} for {SERVICES[kind]}{hint}")


def _text_of(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int | float) or value == "":
        raise InvalidArgument(f"the value of {name!r} in storage_options is a string, found "
                              f"{'an empty one' if value == '' else type(value).__name__}")
    text = str(value)
    if name.lower() in RETRY_OPTIONS:
        _checked(name.lower(), text)
    return text


def _checked(name: str, text: str) -> None:
    if name in ("max_retries", "backoff_config.base"):
        if not text.replace(".", "", name != "max_retries").isdigit():
            raise InvalidArgument(f"{name} in storage_options is a number, found {text!r}")
    else:
        seconds(text)


def seconds(text: str) -> float:
    """A span of time in seconds, as deltalake writes it.

    >>> seconds("100ms"), seconds("2m"), seconds("1.5")
    (0.1, 120.0, 1.5)
    """
    span = _SPAN.fullmatch(text)
    if span is None:
        raise InvalidArgument(f"{text!r} in storage_options is not a time; write it like '10s' or '100ms'")
    return float(span[1]) * _SECONDS[span[2]]


def _keep(kind: str, hidden: dict[str, str]) -> str:
    """A token for secrets; the same one for the same secrets, drawn at random."""
    if not hidden:
        return ""
    with _secrets_lock:
        token = _tokens.setdefault((kind, frozenset(hidden.items())), secrets.token_hex(8))
        _secrets[token] = hidden
        return token
