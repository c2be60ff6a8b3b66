"""Values as people read them: counts, sizes, times, paths, and text cut to a width.

What lives here: pure functions from a value to one line of text, the same on every machine: times in
UTC, no locale, no absolute path, nothing that breaks a line.
What it does not know: any object of the library.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any
from urllib.parse import unquote

from deltanb.text.safe_text import escaped, redacted

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
MAX_COLUMNS = 88  # of a line of text: fits a terminal, and a JupyterLab cell at its usual zoom
SIZES = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
MAX_SUGGESTIONS = 3  # closest names in an error
MAX_NAMES = 12  # names listed in an error; wide tables have thousands of columns
KEEP_MEMBERS = 6  # of a list in a condition: one that is longer says how many more there are
KEEP_FILE_NAME = 34  # columns: a data file's name longer than this is cut in its middle


def count(n: int | None, noun: str, plural: str | None = None) -> str:
    """A number with its noun, thousands apart by a space that does not break.

    >>> count(1, "file"), count(2, "file"), count(None, "row"), count(3, "match")
    ('1 file', '2 files', '? rows', '3 matches')
    """
    word = noun if n == 1 else plural or noun + ("es" if noun.endswith("ch") else "s")
    return f"{number(n)} {word}"


def number(n: int | None) -> str:
    """An integer with its thousands apart.

    >>> number(1000000) == "1\\u00a0000\\u00a0000", number(None)
    (True, '?')
    """
    return "?" if n is None else f"{n:,}".replace(",", "\u00a0")


def size(n: int | None) -> str:
    """Bytes in powers of 1000, two digits while they help.

    >>> size(0), size(999), size(4100), size(1_250_000), size(999_999), size(None)
    ('0 B', '999 B', '4.1 kB', '1.2 MB', '1.0 MB', '? B')
    """
    if n is None:
        return "? B"
    value, unit = float(n), 0
    while round(value, 0 if unit == 0 else 1) >= 1000 and unit < len(SIZES) - 1:
        value, unit = value / 1000, unit + 1
    return f"{n} B" if unit == 0 else f"{value:.1f} {SIZES[unit]}"


def time(ms: Any, zone: bool = True) -> str:
    """Epoch milliseconds as UTC, to the second.

    >>> time(1_767_258_870_000), time(None), time(10**18)
    ('2026-01-01 09:14:30 UTC', 'time unknown', '1000000000000000000 ms')
    """
    if not isinstance(ms, int):
        return "time unknown" if ms is None else clean(ms)
    try:
        moment = EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return f"{ms} ms"
    return f"{moment:%Y-%m-%d %H:%M:%S}" + (" UTC" if zone else "")


def duration(ms: int | None) -> str:
    """Milliseconds in the two units that matter.

    >>> duration(41), duration(1500), duration(90_000), duration(3 * 3600_000), duration(None)
    ('41 ms', '1.5 s', '1 min 30 s', '3 h 0 min', '?')
    """
    if ms is None:
        return "?"
    if ms < 1000:
        return f"{ms} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    seconds = ms // 1000
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60} min"


def name_of(path: str | None) -> str:
    """The last part of a path or URI: what a table or a file is called.

    >>> name_of("/lake/flights/"), name_of("s3://b/part-1.parquet"), name_of("")
    ('flights', 'part-1.parquet', '(no name)')
    >>> name_of("s3://key:secret@lake"), name_of("s3://lake/part-1.parquet?sig=secret")
    ('***@lake', 'part-1.parquet?***')
    """
    parts = [part for part in redacted(path or "").replace("\\", "/").split("/") if part]
    return parts[-1] if parts else "(no name)"


def file_name(path: str, keep: int = KEEP_FILE_NAME) -> str:
    """The name of a data file as the log writes its path, decoded; a long one loses its middle.

    >>> file_name("day=2026-03-02/part-0131.parquet"), file_name("a%20b.parquet")
    ('part-0131.parquet', 'a b.parquet')
    """
    return shortened(name_of(unquote(path)), keep)


def shortened(name: str, keep: int = KEEP_FILE_NAME) -> str:
    """A name, or its two ends with ``…`` between.

    >>> shortened("abcdefgh", 5), shortened("abc", 5)
    ('abc…h', 'abc')
    """
    if len(name) <= keep:
        return name
    tail = keep // 2 - 1
    return f"{name[: keep - tail - 1]}…{name[-tail:]}"


_MEMBER = re.compile(r"(?:'[^']*'|[^\s'(),]+)")
_LISTS = re.compile(
    rf"(?P<text>'[^']*')|(?P<before>\bIN \()(?P<list>{_MEMBER.pattern}(?:, {_MEMBER.pattern})*)(?=\))",
    re.IGNORECASE)


def with_short_lists(sql: str, keep: int = KEEP_MEMBERS) -> str:
    """A condition for reading, in which a long list of an IN has its first members and their number.

    >>> with_short_lists("day IN (1, 2, 3, 4, 5, 6, 7, 8, 9) AND origin IN ('EWR', 'JFK')")
    "day IN (1, 2, 3, … 6 more) AND origin IN ('EWR', 'JFK')"
    """
    if "\\" in sql or "''" in sql:  # where a text ends is not seen at a glance
        return sql

    def short(match: re.Match[str]) -> str:
        members = _MEMBER.findall(match["list"] or "")
        if len(members) <= keep:
            return match[0]
        shown = keep // 2
        return f"{match['before']}{', '.join(members[:shown])}, … {len(members) - shown} more"

    return _LISTS.sub(short, sql)


def pairs(values: Mapping[str, Any] | Iterable[tuple[str, Any]] | None, sep: str = " ") -> str:
    """Names and values on one line.

    >>> pairs({"day": "2026-03-02", "part": None})
    'day=2026-03-02 part=null'
    """
    items = values.items() if isinstance(values, Mapping) else values or ()
    return sep.join(f"{key}={value_of(value)}" for key, value in items)


def did_you_mean(
    unknown: str, known: Iterable[str], what: str = "columns", *, least: float = 0.5,
    shown: Callable[[str], str] = str,
) -> tuple[str, list[str]]:
    """What to say of a name that is not there, and the names that are closest to it, best first.

    Args:
        unknown: the name, compared without case; one without dots also with the last part of those that have.
        known: all that there are.
        what: these, in a word in the plural.
        least: how like the name they must be, from 0 to 1.
        shown: how a name is written.

    >>> did_you_mean("nmae", ["id", "name"])
    ('did you mean name?', ['name'])
    >>> did_you_mean("city", ["id", "address.city"])[0]
    'did you mean address.city?'
    >>> did_you_mean("zzz", ["id", "name"])[0], did_you_mean("zzz", [], "options")[0]
    ('the columns are id, name', 'there are no options')
    """
    import difflib  # here: few processes make a slip

    names = list(known)
    compared = {name.rpartition(".")[2].lower(): name for name in names if "." not in unknown}
    compared |= {name.lower(): name for name in names}
    matches = difflib.get_close_matches(unknown.lower(), compared, MAX_SUGGESTIONS, least)
    close = list(dict.fromkeys(compared[match] for match in matches))
    if close:
        return f"did you mean {' or '.join(map(shown, close))}?", close
    if not names:
        return f"there are no {what}", []
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return f"the {what} are {', '.join(map(shown, names[:MAX_NAMES]))}{more}", []


def version_name(version: int, staged_behind: int | None = None) -> str:
    """What a version is called where it is shown. Of a transaction, what is staged behind the version that it
    has read is no version yet.

    >>> version_name(3), version_name(3, 3), version_name(5, 3), version_name(0, -1)
    ('v3', 'v3', 'v3 + staged', 'staged')
    """
    if staged_behind is None or version <= staged_behind:
        return f"v{version}"
    return f"v{staged_behind} + staged" if staged_behind >= 0 else "staged"


def value_of(value: Any) -> str:
    """A value of an action or a commit, as its JSON would say it but without quotes at the outside.

    >>> value_of("a"), value_of(None), value_of(True), value_of(["x"]), value_of({"k": 1})
    ('a', 'null', 'true', '["x"]', '{"k":1}')
    """
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    except (TypeError, ValueError):
        return str(value)


def parsed(text: Any) -> Any:
    """JSON in a string as its value; anything else as it is: writers disagree on what they quote.

    >>> parsed('["a"]'), parsed("a"), parsed(3)
    (['a'], 'a', 3)
    """
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def clean(text: Any) -> str:
    """Text that stays on its line and tells no secret: see :mod:`deltanb.text.safe_text`.

    >>> clean("a\\nb"), clean("x\\u202ey"), clean("s3://key:secret@lake/t")
    ('a\\\\nb', 'x\\\\u202ey', 's3://***@lake/t')
    """
    return redacted(escaped(text))


def width(text: str) -> int:
    """Columns a terminal gives the text: wide characters take two, combining ones none.

    >>> width("abc"), width("表")
    (3, 2)
    """
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def fit(text: str, columns: int) -> str:
    """The text, or as much of it as fits with ``…`` at the end.

    >>> fit("abcdef", 6), fit("abcdefg", 6), fit("abc", 0)
    ('abcdef', 'abcde…', '')
    """
    if width(text) <= columns:
        return text
    if columns <= 0:
        return ""
    taken, used = [], 0
    for char in text:
        used += width(char)
        if used > columns - 1:
            break
        taken.append(char)
    return "".join(taken).rstrip() + "…"


def fit_writer(name: str, columns: int) -> str:
    """The name of a writer in so many columns: of ``person@machine:job`` the machine goes first, so that two
    jobs of a person are still two names.

    >>> fit_writer("ann@laptop:nightly", 18), fit_writer("ann@laptop:nightly", 14)
    ('ann@laptop:nightly', 'ann@…:nightly')
    >>> fit_writer("ann@laptop:nightly", 10), fit_writer("etl-b", 4)
    ('…:nightly', 'etl…')
    """
    person, at, place = name.partition("@")
    job = place.rpartition(":")[2] if at and ":" in place else ""
    forms = (name, f"{person}@…:{job}", f"…:{job}") if job else (name,)
    return next((form for form in forms if width(form) <= columns), fit(forms[-1], columns))


def pad(text: str, columns: int) -> str:
    """The text filled with spaces to a width.

    >>> pad("表", 4) + "|"
    '表  |'
    """
    return text + " " * (columns - width(text))
