"""Text that is safe to show: nothing in it moves a cursor, turns its direction or tells a secret.

What lives here: the two things done to every text before a person sees it. Control and format characters
are written as escapes (a column can be called ``\\x1b[2J``), and credentials are cut out of paths and
URLs (``s3://key:secret@bucket``, ``?sig=…``) and out of headers (``Authorization: Bearer …``). Errors, log
lines, views and the command line ask here.
What it does not know: any object of the library. What opens a file is never what was made here.
"""

from __future__ import annotations

import logging
import re
import traceback
from functools import lru_cache
from typing import Any

__all__ = ["LINE_BREAK", "escaped", "get_logger", "redacted", "safe", "shown", "with_cut",
           "with_short_lines", "without_credentials", "without_keys"]

LINE_BREAK = "\n"
MAX_SQL = 300  # characters of a predicate in a message: programs write some of megabytes
MAX_LINE = 4000
"""Characters of a line of a message: a name may have a million."""
_LEFT_OUT = " […] "
_ALLOWED = "\u00a0\u200d"  # the space that does not break, and what joins the parts of an emoji
_CUT = "***"
_LONGEST = 1024  # characters of a user name with its password: bounds the work on hostile text

_CONTAINERS = frozenset({"abfs", "abfss", "wasb", "wasbs"})
"""Schemes whose ``name@host`` is a container and no user."""

_SECRETS = (
    r"(?:x-amz-|x-goog-|x-ms-)?(?:signature|credential|security-token)|sig|skoid|sas|se?cret|key|token|"
    r"(?:access|id|refresh)[_-]?token|api[_-]?key|access[_-]?key(?:[_-]?id)?|awsaccesskeyid|password|passwd|pwd|"
    r"client[_-]?secret|secret[_-]?(?:access[_-]?)?key|session[_-]?token|account[_-]?key")
_SCHEME = r"(?<![A-Za-z0-9+.\-])(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]{1,20})"
_NAME_AND = rf"[^\s/?#@:'\"\[]{{1,{_LONGEST}}}:"
# A user before the host; one whose password has a slash; one whose end was cut off with the text.
_USER = re.compile(
    _SCHEME + r"(?P<slashes>:/+)"
    rf"(?:(?P<user>[^\s/?#'\"]{{0,{_LONGEST}}}|{_NAME_AND}(?!\d+/)[^\s?#@'\"]{{0,{_LONGEST}}})@"
    rf"|(?P<begun>{_NAME_AND}(?!\d*(?:[^\w+%=~\-]|$))[^\s?#@'\"]{{1,{_LONGEST}}}))")
_QUERY = re.compile(
    _SCHEME + rf"(?P<rest>:/+[^\s?'\"]{{0,{_LONGEST}}})"
    r"(?P<mark>\?)(?P<query>[^\s'\"]*=[^\s'\"]*)")
_SIGNED = re.compile(
    rf"(?P<mark>[?#]|%3[Ff]|%23)(?P<query>(?:[^\s'\"?#]{{0,{_LONGEST}}}?(?:&|;|%26))?(?:{_SECRETS})(?:=|%3[Dd])[^\s'\"]*)",
    re.IGNORECASE)
_NAMED = re.compile(
    rf"(?P<name>(?:(?<=[&;])|(?<=%26))(?:{_SECRETS})|(?<![A-Za-z])(?:AccountKey|SharedAccess(?:Key|Signature)|"
    r"aws_(?:secret_access_key|access_key_id|session_token)))(?P<equals>=|%3[Dd])[^\s;&'\"]+",
    re.IGNORECASE)
# A setting outside of a URL. Hadoop's names can be nothing else; a word like ``key`` may be a column's.
_SETTING = re.compile(
    r"(?P<name>(?<![A-Za-z])fs\.(?:[\w\-]{1,60}\.){0,8}?(?:[\w\-]{0,60}?(?:key|secret|token|password)|sas)"
    r"(?:\.[\w.\-]{1,200})?(?P<loose>)|passw(?:or)?d|(?<![A-Za-z])(?:pwd|(?:client[_-]?)?secret|"
    r"secret[_-]?(?:access[_-]?)?key|(?:session|access|id|refresh)[_-]token|(?:api|account|access)[_-]key))"
    r"(?P<equals>(?:=|%3[Dd]|\\?['\"][ \t]{0,8}[:=][ \t]{0,8}|(?(loose)[ \t]{0,8}[:=][ \t]{0,8}|(?!)))"
    r"(?:\\?['\"])?)[^\s;&'\"]+",
    re.IGNORECASE)
_SETTINGS = ("passw", "pwd", "secret", "key", "token", "sas")  # _SETTING finds none without
# A URL whose every sign is escaped, once or more often; the same two forms of a user as above.
_SIGN = "%(?:25){0,3}"
_INSIDE = rf"(?:(?!{_SIGN}(?:2[Ff]|3[Ff]|23|40))[^\s/?#@'\"])"
_ESCAPED_USER = re.compile(
    r"(?:(?<![A-Za-z0-9+.\-])|(?<=%[0-9A-Fa-f]{2}))(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]{1,20})"
    rf"(?P<slashes>{_SIGN}3[Aa](?:{_SIGN}2[Ff])+)"
    rf"(?P<user>{_INSIDE}{{0,{_LONGEST}}}|{_INSIDE}{{1,{_LONGEST}}}?{_SIGN}3[Aa](?!\d+{_SIGN}2[Ff])"
    rf"(?:(?!{_SIGN}(?:3[Ff]|23|40))[^\s/?#@'\"]){{0,{_LONGEST}}})(?P<at>{_SIGN}40)")
_ESCAPED_COLON = re.compile(rf"{_SIGN}3[Aa]")
# Headers of requests, which SDKs quote; a word of prose after the name of a scheme is none.
_TOKEN = r"[A-Za-z0-9._~+/=\-]+"
_HEADER = re.compile(
    r"(?P<name>(?<![A-Za-z])(?:proxy-)?authorization(?:['\"]\s*:|\s*[:=])\s*(?:b?['\"])?)(?:"
    r"(?:AWS4-[A-Z0-9\-]+|Digest|GOOG4-[A-Z0-9\-]+)\s+[^\n'\"]+"
    r"|(?:Bearer|Basic|Token|SharedKey(?:Lite)?)\s+[^\s'\",;]+"
    rf"|(?=[A-Za-z._~+/=\-]*\d|{_TOKEN[:-1]}{{20}}){_TOKEN})"
    r"|(?P<other>(?<![A-Za-z])x-(?:(?:amz-security|auth|ms-access|goog-access)-token|(?:api|functions)-key)"
    r"(?:['\"]\s*:|\s*[:=])\s*(?:b?['\"])?)[^\s'\",;]+",
    re.IGNORECASE)
_BEARER = re.compile(
    r"(?<![A-Za-z])(?P<scheme>Bearer\s+(?!(?:tokens?|auth\w*|credentials?|schemes?|headers?|realm|error|scope|"
    rf"of|is|was|in|for|and|or|not|to|with|from|has|must|may|can|cannot)\b)|bearer\s+(?=[A-Za-z._~+/=\-]*\d))"
    rf"(?!\w+=['\"]){_TOKEN}")
_SIGNS = ("&", ";", "%26", "key", "signature", "aws_")  # _NAMED finds none without: most text has none
_CLOSING = ").,;:]}>"


def escaped(text: Any, keep: str = "") -> str:
    """Text whose control, format and direction characters are written as escapes, but for those kept.

    >>> escaped("a\\nb"), escaped("x\\u202ey\\x1b[31m"), escaped("a\\nb", keep=LINE_BREAK)
    ('a\\\\nb', 'x\\\\u202ey\\\\x1b[31m', 'a\\nb')
    """
    text = str(text)
    if text.isprintable():
        return text
    allowed = _ALLOWED + keep
    return "".join(
        c if c.isprintable() or c in allowed else c.encode("unicode_escape").decode() for c in text)


def with_short_lines(text: str) -> str:
    """Text whose lines are cut in the middle where they are longer than :data:`MAX_LINE`.

    >>> len(with_short_lines("a" * 1_000_000)), with_short_lines("short")
    (3999, 'short')
    """
    if len(text) <= MAX_LINE:
        return text
    half = (MAX_LINE - len(_LEFT_OUT)) // 2
    return "\n".join(line if len(line) <= MAX_LINE else line[:half] + _LEFT_OUT + line[-half:]
                     for line in text.split("\n"))


def redacted(text: str) -> str:
    """Text without the credentials of the paths and URLs in it.

    >>> redacted("s3://AKIA:se/cret@lake/t"), redacted("https://host/t/a.parquet?sv=1&sig=abc")
    ('s3://***@lake/t', 'https://host/t/a.parquet?***')
    >>> redacted("a.parquet?X-Amz-Signature=abc"), redacted("AccountName=lake;AccountKey=abc==")
    ('a.parquet?***', 'AccountName=lake;AccountKey=***')
    >>> redacted("https://host/t#sig=abc"), redacted("s3%3A%2F%2Fkey%3Asecret%40lake%2Ft")
    ('https://host/t#***', 's3%3A%2F%2F***%40lake%2Ft')
    >>> redacted("fs.azure.account.key.lake.dfs.core.windows.net=abc=="), redacted("password=abc")
    ('fs.azure.account.key.lake.dfs.core.windows.net=***', 'password=***')
    >>> redacted("GET failed, Authorization: Bearer abc.def"), redacted("the bearer token is stale")
    ('GET failed, Authorization: ***', 'the bearer token is stale')
    >>> redacted("abfss://container@lake.dfs.core.windows.net/t"), redacted("day=1/a.parquet")
    ('abfss://container@lake.dfs.core.windows.net/t', 'day=1/a.parquet')
    """
    if ":/" in text:
        text = _USER.sub(_without_user, text)
    if "%" in text and "40" in text:
        text = _ESCAPED_USER.sub(_without_escaped_user, text)
    if "earer" in text or "BEARER" in text:
        text = _BEARER.sub(rf"\g<scheme>{_CUT}", text)
    if "uthorization" in text or "x-" in (lowered := text.lower()) or "authorization" in lowered:
        text = _HEADER.sub(_without_header, text)
    if "?" in text or "#" in text or "%3" in text or "%23" in text:
        text = _QUERY.sub(_without_query, text)
        text = _SIGNED.sub(_without_query, text)
    if "=" in text or "%3" in text or ":" in text:
        lowered = text.lower()
        if any(sign in lowered for sign in _SIGNS):
            text = _NAMED.sub(rf"\g<name>\g<equals>{_CUT}", text)
        if any(word in lowered for word in _SETTINGS):
            text = _SETTING.sub(rf"\g<name>\g<equals>{_CUT}", text)
    return text


def _without_user(match: re.Match[str]) -> str:
    scheme, user = match["scheme"].lower(), match["user"]
    is_container = user is not None and ":" not in user and scheme in _CONTAINERS
    if scheme == "file" or user == "" or is_container:
        return match[0]
    return f"{match['scheme']}{match['slashes']}{_CUT}{'' if user is None else '@'}"


def _without_escaped_user(match: re.Match[str]) -> str:
    scheme, user = match["scheme"].lower(), match["user"]
    is_container = _ESCAPED_COLON.search(user) is None and scheme in _CONTAINERS
    if scheme == "file" or user == "" or is_container:
        return match[0]
    return f"{match['scheme']}{match['slashes']}{_CUT}{match['at']}"


def _without_header(match: re.Match[str]) -> str:
    return f"{match['name'] or match['other']}{_CUT}"


def _without_query(match: re.Match[str]) -> str:
    groups = match.groupdict()
    if (groups.get("scheme") or "").lower() == "file":
        return match[0]
    query = groups["query"]
    ending = query[len(query.rstrip(_CLOSING)):]  # of the sentence around it
    return f"{groups.get('scheme') or ''}{groups.get('rest') or ''}{groups['mark']}{_CUT}{ending}"


def safe(text: Any) -> str:
    """Text of several lines as a person may see it: escaped but for line breaks, credentials cut.

    >>> safe("no table at s3://key:secret@lake/t\\n\\x1b[2J")
    'no table at s3://***@lake/t\\n\\\\x1b[2J'
    """
    return redacted(escaped(text, keep=LINE_BREAK))


def with_cut(message: str, sql: Any) -> str:
    """The message with no more than the first 300 characters of the SQL in it, quoted or not.

    >>> len(with_cut(f"no column 'x' in {'x = 1 AND ' * 100!r}", "x = 1 AND " * 100))
    320
    """
    if not isinstance(sql, str) or len(sql) <= MAX_SQL:
        return message
    short = sql[:MAX_SQL] + "…"
    return message.replace(repr(sql), repr(short)).replace(sql, short)


def shown(value: object) -> str:
    """The first 80 characters of a value's repr; Python has none for an integer of thousands of digits.

    >>> shown("3"), shown(10**5000), shown([-(10**5000)])
    ("'3'", 'an integer of 16610 bits', 'a list')
    """
    try:
        return f"{value!r:.80}"
    except ValueError:
        if isinstance(value, int):
            return f"an integer of {value.bit_length()} bits"
        return f"a {type(value).__name__}"


def without_keys(value: Any) -> Any:
    """A text without the credentials of the URLs in it, or several such texts; anything else as it is."""
    if type(value) in (list, tuple):
        return type(value)(map(without_keys, value))
    return redacted(value) if isinstance(value, str) and "://" in value else value


def without_credentials(uri: str) -> str:
    """A URI that still names the same thing, without user, password and query: what may be stored.

    >>> without_credentials("s3://AKIA:se/cret@lake/t"), without_credentials("https://host/t?sig=abc")
    ('s3://lake/t', 'https://host/t')
    >>> without_credentials("/lake/a?sig=b")
    '/lake/a?sig=b'
    """
    scheme, slashes, _ = uri.partition(":/")
    if not slashes or scheme.lower() == "file" or "/" in scheme:
        return uri
    return redacted(uri).replace(f"{_CUT}@", "", 1).partition(f"?{_CUT}")[0].partition(f"#{_CUT}")[0]


# --- log lines ------------------------------------------------------------------------------------

def last_part(path: str) -> str:
    """The last part of a path or URI, as a table is called: without query and password.

    >>> last_part("/lake/flights/"), last_part("https://host/flights?sig=abc"), last_part("s3://k:se/cret@lake")
    ('flights', 'flights', 'lake')
    """
    return _last_part(path)


@lru_cache(maxsize=64)  # a command asks for its table's name some ten times
def _last_part(path: str) -> str:
    return without_credentials(path).rstrip("/").rpartition("/")[2]


def get_logger(name: str) -> logging.Logger:
    """The logger of that name; what goes through it is safe to show, tracebacks included."""
    logger = logging.getLogger(name)
    if _make_safe not in logger.filters:
        logger.addFilter(_make_safe)
    return logger


def _make_safe(record: logging.LogRecord) -> bool:
    record.msg, record.args = safe(record.getMessage()), None
    if record.exc_info and record.exc_info[0] is not None and not record.exc_text:
        lines = "".join(traceback.format_exception(*record.exc_info))
        record.exc_text = safe(lines.rstrip(LINE_BREAK))
    return True
