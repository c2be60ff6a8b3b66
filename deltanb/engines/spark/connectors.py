"""Buckets as Spark reaches them: through a Hadoop file system on the class path of its session.

What lives here: :func:`connector_for`, which finds out whether there is one and how it reaches a table's
files: their paths in Hadoop's spelling, and options of Spark's reader and writer; and the errors of such a
file system.
What it does not know: how files are read and written; what executors do without a file system (``buckets``).

No setting of a session is changed. Hadoop caches one file system per scheme and bucket, regardless of
options, so each access to S3 has its own scheme, ``s3a-`` and a number, which the options define. ``s3a``
itself is what the session was configured with.

No option is a secret. Processes on this machine read keys from a file that only this user can read; other
machines get none, and the connector finds its own there: in its configuration, the environment, or the
machine's role.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from deltanb.engines.spark.compiled import has_class
from deltanb.engines.spark.session_request import is_on_this_machine, is_remote
from deltanb.errors import StorageError
from deltanb.store.storage_options import (
    CLIENT_OPTIONS,
    PROFILE,
    RETRY_OPTIONS,
    Access,
    write_temp_credentials,
)
from deltanb.store.vending import READ
from deltanb.text.safe_text import safe

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltanb.store.base import LogStore
    from deltanb.store.uris import Location

__all__ = ["Connector", "connector_for", "refusals"]

S3A = "org.apache.hadoop.fs.s3a.S3AFileSystem"
KEYS_BY_FILE = "org.apache.hadoop.fs.s3a.auth.ProfileAWSCredentialsProvider"  # since Hadoop 3.5
ANONYMOUS = "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"
_CLASSES = {
    "s3": (S3A,),
    "az": ("org.apache.hadoop.fs.azurebfs.SecureAzureBlobFileSystem",),
    "gs": ("com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
           "org.apache.hadoop.fs.gs.GoogleHadoopFileSystem"),
}
"""The file systems of each service, one of which is to be there."""
_OWN_KEYS = ("fs.s3a.access.key", "fs.s3a.aws.credentials.provider",
             "hadoop.security.credential.provider.path")
_OWN_CLIENT = (*CLIENT_OPTIONS, *RETRY_OPTIONS)
"""Options about our own requests, which say nothing of those of Spark's."""
_NOT_FOR_OTHERS = ("allow_invalid_certificates", "proxy_excludes")
DEFAULT_REGION = "us-east-1"  # where an endpoint is given and no region, as our own client has it


@dataclass(frozen=True)
class Connector:
    """A bucket as a session's Hadoop file system knows it.

    >>> Connector("s3a", "lake", "flights").path("flights/part 1.parquet")
    's3a://lake/flights/part 1.parquet'
    """

    scheme: str
    authority: str
    key: str
    """Of the table in the bucket."""
    options: Mapping[str, str] = field(default_factory=dict)
    """For a reader or writer of Spark's."""
    store: LogStore | None = None

    @property
    def root(self) -> str:
        """The table's folder."""
        return self.path(self.key)

    def path(self, key: str) -> str:
        """A key as a Hadoop path; nothing in it is encoded."""
        return f"{self.scheme}://{self.authority}/{key}"

    def path_of(self, store: LogStore, name: str) -> str | None:
        """The path of a file of a store; None if the store is elsewhere, or Hadoop cannot spell the name."""
        place: Any = getattr(store, "place", None)
        if place is None or self.store is None or getattr(store, "access", None) != _access(self.store):
            return None
        key = place.named(name)
        same = (place.kind, place.bucket) == _bucket(self.store)
        return self.path(key) if same and posixpath.normpath(key) == key else None


def _access(store: LogStore) -> Any:
    return getattr(store, "access", None)


def _bucket(store: Any) -> tuple[str, str]:
    return store.place.kind, store.place.bucket


def connector_for(store: LogStore, session: SparkSession, operation: str = READ) -> Connector | None:
    """How a session's own file system reaches a table; None if it has none, or cannot be configured.

    ``operation`` says what a catalog that vends credentials is to allow it.

    That of a Connect server cannot be configured, since the server may be another machine.
    """
    access, place = _access(store), getattr(store, "place", None)
    if access is None or place is None or is_remote(session):
        return None
    if not any(has_class(session, name) for name in _CLASSES[place.kind]):
        return None
    if place.kind == "s3":
        return _s3(store, place, access, session, operation)
    if access.has_secrets or _service_options(access) - {"account_name"}:
        return None  # it is told such things by settings of the session
    authority = place.bucket
    if place.kind == "az":
        if place.endpoint:
            return None
        authority += f"@{access.get('account_name')}.dfs.core.windows.net"
    return Connector("abfss" if place.kind == "az" else "gs", authority, place.key, store=store)


def _service_options(access: Access) -> set[str]:
    """The public options that concern the service rather than our own requests."""
    return {name for name, _ in access.public if name not in _OWN_CLIENT or name in _NOT_FOR_OTHERS}


# --- S3 -------------------------------------------------------------------------------------------

def _s3(
    store: LogStore, place: Location, access: Access, session: SparkSession, operation: str
) -> Connector | None:
    options = _s3_options(access)
    if options is None:
        return None
    if access.get("skip_signature") == "true":
        options["fs.s3a.aws.credentials.provider"] = ANONYMOUS
    elif is_on_this_machine(session):
        keys = write_temp_credentials(access, operation)
        if keys is None and (access.has_secrets or os.environ.get("AWS_PROFILE")):
            return None
        if keys is not None:
            if not has_class(session, KEYS_BY_FILE):
                return None
            options.update({"fs.s3a.aws.credentials.provider": KEYS_BY_FILE,
                            "fs.s3a.auth.profile.file": keys, "fs.s3a.auth.profile.name": PROFILE})
    elif access.has_secrets:
        if not _has_own_keys(session, place.bucket):
            return None
        options = {}  # the session was told all of it when it began
    scheme = "s3a"
    if options:
        # The files of a write have names that nobody else draws: nothing need be looked for first.
        options["fs.s3a.performance.flags"] = "create,mkdir"
        text = repr(sorted(options.items())).encode()
        scheme = f"s3a-{hashlib.sha256(text).hexdigest()[:8]}"
        options[f"fs.{scheme}.impl"] = S3A
    return Connector(scheme, place.bucket, place.key, options, store)


def _s3_options(access: Access) -> dict[str, str] | None:
    """The public options as S3A's; None if one has no known equivalent."""
    known = {"endpoint", "region", "default_region", "virtual_hosted_style_request", "skip_signature",
             "request_payer", "unsigned_payload", "imdsv1_fallback", "disable_tagging",
             "disable_bulk_delete"}
    keys = {"access_key_id", "secret_access_key", "session_token", "token"}
    if _service_options(access) - known or set(access.secret_names) - keys:
        return None
    options = {}
    endpoint = access.get("endpoint")
    region = access.get("region") or access.get("default_region") or os.environ.get("AWS_REGION") \
        or os.environ.get("AWS_DEFAULT_REGION")
    if endpoint:
        options["fs.s3a.endpoint"] = endpoint
        options["fs.s3a.connection.ssl.enabled"] = str(not endpoint.startswith("http:")).lower()
        hosted = access.get("virtual_hosted_style_request") == "true"
        options["fs.s3a.path.style.access"] = str(not hosted).lower()
    if endpoint or region:
        options["fs.s3a.endpoint.region"] = region or DEFAULT_REGION
    if access.get("request_payer") == "true":
        options["fs.s3a.requester.pays.enabled"] = "true"
    return options


def _has_own_keys(session: SparkSession, bucket: str) -> bool:
    """Whether a session was started with credentials for a bucket."""
    names = [*_OWN_KEYS, *(name.replace("fs.s3a.", f"fs.s3a.bucket.{bucket}.") for name in _OWN_KEYS[:2])]
    return any(session.conf.get(f"spark.hadoop.{name}", None) for name in names)


# --- errors ---------------------------------------------------------------------------------------

_CAUSE = re.compile(r"^(?:Caused by)?: ?(?P<kind>[\w.$]+(?:Exception|Error)): (?P<text>.*)$", re.MULTILINE)
_OF_STORES = re.compile(r"java\.(io|net|nio)\.|org\.apache\.hadoop\.|software\.amazon\.|com\.google\.cloud\."
                        r"|java\.lang\.(NoClassDefFoundError|NoSuchMethodError|ClassNotFoundException)")
_REASONS = (
    (r"NoAuthWithAWSException|NoAwsCredentialsException|CredentialInitializationException",
     "it has no credentials. To other machines those of storage_options are not sent: give them to the "
     "session when it begins (config={'spark.hadoop.fs.s3a.access.key': ...}), to the environment of its "
     "executors, or to the machines as a role"),
    (r"UnknownStoreException|NoSuchBucket",
     "it finds no such bucket; check its endpoint and region"),
    (r"AccessDenied|Status Code: 40[13]", "its credentials are refused, or do not allow it"),
    (r"NoClassDefFoundError|NoSuchMethodError|ClassNotFoundException",
     "its jars do not fit this Spark; take the connector in the version of Spark's own Hadoop, and all that "
     "it needs"),
)
MAX_REASON = 300  # characters of what a service says, which may be a page


@contextmanager
def refusals(root: str) -> Iterator[None]:
    """Errors of a session's file system in the block as errors of this library.

    Raises:
        StorageError: the file system failed; ``.path`` is ``root``.
    """
    try:
        yield
    except Py4JJavaError as error:
        pairs = [(match["kind"], match["text"]) for match in _CAUSE.finditer(str(error))]
        causes = [f"{kind}: {text}" for kind, text in pairs if _OF_STORES.match(kind)]
        if not causes:
            raise
        why = next((words for pattern, words in _REASONS if any(re.search(pattern, one) for one in causes)),
                   safe(causes[-1])[:MAX_REASON])
        raise StorageError(f"{root} cannot be written by the file system of the Spark session: {why}",
                           path=root) from error
