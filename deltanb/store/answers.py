"""What an object store answers when it does not do what it was asked: as errors of this library.

What lives here: the status and the code in an error of obstore's, and the words for each with the way out.
What it does not know: what was asked, and whether it is asked again.

obstore tells some answers by class and some in the text of one class alone (429, 503, and whatever a listing
is answered); the status in the text decides for all of them. Of that text no more is shown than the service's
own code: the rest repeats the request, which may be signed.
"""

from __future__ import annotations

import errno
import re
from typing import NamedTuple

from deltanb.errors import StorageError
from deltanb.store.uris import Location
from deltanb.text.safe_text import redacted

__all__ = ["Answer", "answer_of", "is_no_bucket", "storage_error"]

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>\s*([\w.]{1,80})\s*</Code>")
_LATE = re.compile(r"kind: Timeout|TimedOut|timed out")
_TRIES = re.compile(r"after (\d+) retries")
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "BucketNotFound")
_BODY = ("body error", "error decoding response body", "end of file", "connection closed before")
_CERTIFICATE = re.compile(r"InvalidCertificate\(\s*(\w+)|invalid peer certificate|CertificateUnknown")
_UNTRUSTED = {"Expired": "it has expired", "NotValidYet": "it is not valid yet", "Revoked": "it is revoked",
              "NotValidForName": "it belongs to another "
                                 "host", "NotValidForNameContext": "it belongs to another host"}
"""What rustls says of a certificate; all else comes to nobody vouching for it."""
_HOST_UNKNOWN = re.compile(r"dns error|failed to lookup address")
_HOST = re.compile(r"https?://(?:[^/@\s]*@)?(\[[^\]]+\]|[^/:?\s]+)")
_EXPIRED = re.compile(
    r"Expired(?:Authentication)?Token|TokenRefreshRequired|RequestExpired|token (?:has )?expired|"
    r"Signature not valid in the specified time frame", re.IGNORECASE)
_REGION = re.compile(r"<Region>\s*([\w-]{1,40})\s*</Region>|expecting '([\w-]{1,40})'")
_ELSEWHERE = re.compile(r"PermanentRedirect|IllegalLocationConstraint|redirect without LOCATION")
_CLASSES = {"FileNotFoundError": 404, "NotFoundError": 404, "UnauthenticatedError": 401,
            "PermissionDeniedError": 403, "AlreadyExistsError": 409, "PreconditionError": 412}
_ERRNO = {401: errno.EACCES, 403: errno.EACCES, 404: errno.ENOENT, 409: errno.EEXIST, 412: errno.EEXIST,
          429: errno.EAGAIN, 503: errno.EAGAIN, 408: errno.ETIMEDOUT, 504: errno.ETIMEDOUT}
_VARIABLES = {"s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", "gs": "GOOGLE_SERVICE_ACCOUNT",
              "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY"}


class Answer(NamedTuple):
    """What was answered: an HTTP status, None where no answer came; and the service's own code, or ""."""

    status: int | None
    code: str
    text: str
    is_late: bool = False
    """Whether the time ran out first."""
    cause: str = ""
    """Why no answer came, as far as the connection says: :func:`_cause_of`."""

    @property
    def is_refusal(self) -> bool:
        """Whether it is certain that nothing was done.

        It is not where the request was sent before: that one may have done it, and its answer was lost.
        """
        status = self.status or 0
        return 400 <= status < 500 and status not in (408, 409, 412, 429) and not _TRIES.search(self.text)

    @property
    def is_expired(self) -> bool:
        """Whether it says that the credentials have expired."""
        return self.status in (400, 401, 403) and _EXPIRED.search(self.text) is not None

    @property
    def is_denial(self) -> bool:
        """Whether other credentials could have another answer. Without a body, expired ones are a 400."""
        return self.is_expired or self.status in (401, 403) or (self.status == 400 and not self.code)

    @property
    def is_cut(self) -> bool:
        """Whether an answer came and broke off: asking again may bring the whole of it."""
        return self.status is None and any(words in self.text for words in _BODY)


def answer_of(error: BaseException) -> Answer:
    """The answer behind an error of obstore's.

    >>> answer_of(RuntimeError("… status code: 503 Service Unavailable: <Code>SlowDown</Code>"))[:2]
    (503, 'SlowDown')
    """
    text = str(error).partition("\nDebug source")[0].rstrip()
    status, code = _STATUS.search(text), _CODE.search(text)
    number = int(status[1]) if status else _CLASSES.get(type(error).__name__)
    is_late = number is None and _LATE.search(str(error)) is not None
    return Answer(number, code[1] if code else "", text, is_late, "" if number else _cause_of(str(error)))


def _cause_of(text: str) -> str:
    """What a connection failed by, as the end of a sentence with the way out; "" where it is not known."""
    if certificate := _CERTIFICATE.search(text):
        why = _UNTRUSTED.get(certificate[1] or "", "no authority that this machine trusts has signed it")
        return (f"its certificate cannot be trusted: {why}. Name the file of its authority by the "
                "variable SSL_CERT_FILE; to try things out, "
                "storage_options={'allow_invalid_certificates': 'true'} takes any")
    if _HOST_UNKNOWN.search(text):
        host = _HOST.search(text)
        return (f"{f'the host {host[1]}' if host else 'its host'} is unknown: no address of it was found. "
                "Correct the endpoint, the account or the region, or look at the network's name service")
    return ""


def is_no_bucket(error: BaseException) -> bool:
    """Whether it is the bucket that is not there, and not the object alone."""
    return any(code in str(error) for code in _NO_BUCKET)


def storage_error(
    error: BaseException, doing: str, place: Location, key: str, *, lacks_secrets: bool = False,
    is_vended: bool = False,
) -> StorageError:
    """The error for what a bucket did not do, ``doing`` in words: it names store, key, status and way out.

    ``is_vended`` says that a catalog has vended the credentials.
    """
    answer = answer_of(error)
    path = place.at(key).root
    why = (is_vended and _why_vended(answer, place)) or _why(answer, error, place, lacks_secrets)
    return StorageError(
        f"{path} cannot be {doing}: {why}", path=path, store=place.service, bucket=place.bucket,
        key=key, status=answer.status, code=answer.code,
        errno=_ERRNO.get(answer.status or 0, errno.EIO))


def _why_vended(answer: Answer, place: Location) -> str:
    """What is said otherwise of credentials that a catalog has vended; "" of all else."""
    reason = " ".join(filter(None, [str(answer.status or ""), answer.code]))
    if answer.is_expired:
        return (f"the credentials for {place.service} that a catalog vended have expired ({reason}), and it "
                "has no others. Run the operation again, and ask who runs the catalog if that does not help")
    if answer.status in (401, 403) and answer.code != "RequestTimeTooSkewed":
        return (f"{place.service} denies access ({reason}) to the credentials that a catalog vended. Ask who "
                f"runs the catalog what they may do in {place.bucket!r}")
    return ""


def _why(answer: Answer, error: BaseException, place: Location, lacks_secrets: bool) -> str:
    status, text = answer.status, answer.text
    reason = " ".join(filter(None, [str(status or ""), answer.code]))
    if _asked_for_credentials(text):
        return (f"no credentials for {place.service} were found. Give storage_options={{...}}, or set "
                f"{_VARIABLES[place.kind]}; a public bucket is read with "
                f"storage_options={{'skip_signature': 'true'}}{_elsewhere(lacks_secrets)}")
    if answer.is_expired:
        return (f"the token for {place.service} has expired ({reason}). Get a new one, and give it in "
                f"storage_options or the environment{_elsewhere(lacks_secrets)}")
    if _ELSEWHERE.search(text) or (status in (301, 400) and _REGION.search(text)):
        region = _REGION.search(text)
        name = (region[1] or region[2]) if region else ""
        return (f"the region is wrong: {place.service} keeps {place.bucket!r} in "
                f"{name or 'another one'}{f' ({reason})' if reason else ''}. Give it as "
                f"storage_options={{'aws_region': {name or '…'!r}}}, or set AWS_REGION")
    if answer.code == "RequestTimeTooSkewed":
        return (f"{place.service} and this machine have different times ({reason}). Set the clock")
    if status in (401, 403):
        return (f"{place.service} denies access ({reason}). Check the credentials, and what they may do in "
                f"{place.bucket!r}; they come from storage_options, or else from "
                f"{_VARIABLES[place.kind]} or the machine's own role{_elsewhere(lacks_secrets)}")
    if is_no_bucket(error):
        return (f"{place.service} has no bucket {place.bucket!r} ({reason}). Create it, or correct the URI, "
                "the region or the endpoint")
    if status == 404:
        return f"{place.service} has no such key ({reason})"
    if status in (409, 412):
        return f"somebody else wrote it at the same time ({reason}). Run the operation again"
    if status in (429, 503):
        return (f"{place.service} asks to slow down ({reason}){_tries(text)}. Try again later, or with fewer "
                "writers at a time")
    if status is not None and status >= 500 and status != 501:
        return f"{place.service} failed ({reason}){_tries(text)}. Try again later"
    if status is not None:
        return f"{place.service} refused the request ({reason}). Check the storage_options"
    if answer.is_cut:
        return f"the answer of {place.service} broke off{_tries(text)}. Try again"
    if answer.is_late:
        return (f"{place.service} did not answer in time{_tries(text)}. Try again, or raise 'timeout' in "
                "storage_options")
    if answer.cause:
        return f"{place.service} cannot be reached: {answer.cause}"
    if "error sending request" in text or "builder error" in text:
        return (f"{place.service} cannot be reached, or closed the connection{_tries(text)}. Check endpoint "
                "and network (http:// needs storage_options={'allow_http': 'true'})")
    return redacted(text.partition("\n")[0])[:300]


def _asked_for_credentials(text: str) -> bool:
    """Whether it was the machine's own service that did not answer, asked because nobody gave any."""
    return "169.254.169.254" in text or "metadata.google" in text or "169.254.170.2" in text


def _elsewhere(lacks_secrets: bool) -> str:
    return (". Those that the table was opened with stay in the process that opened it: in this one, set the "
            "environment, or open the table again with storage_options") if lacks_secrets else ""


def _tries(text: str) -> str:
    tries = _TRIES.search(text)
    return f" after {int(tries[1]) + 1} tries" if tries else ""
