"""What a pasted text tells of a commit that failed.

What lives here: :func:`parse_error`, which takes a text as people paste it: with the numbers of its lines,
colours or marks of quoting, cut off, or twice.
What it does not know: the table, and whether what a text tells is true of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from deltanb.observe.post_mortem.texts import DETAILS, FRAMES, LINES, NOTHING, TEXTS, WRITERS, Text

MAX_TEXT = 2_000_000
"""Characters of a text that are looked at, its last ones: a job's log ends with what ended the job."""
MAX_DIGITS = 18
"""Digits of a number: versions and times of a log have no more, and Python converts some thousands."""
NUMBERS = ("version", "read_version", "winner_time", "attempts", "first_tried")
"""The facts that are numbers."""
MAX_SHOWN = 300  # characters of a line that is shown of a text that is none of the known ones


@dataclass(frozen=True)
class ParsedError:
    """What a text tells: the text of the table that it is, and facts by name.

    ``text`` is None where it is none of the known ones; ``others`` are texts that it has too, for instance
    those of earlier attempts. ``head`` is the line that names an exception, as far as there is one.
    ``too_long`` are facts whose numbers have more digits than any number of a log, and are left out.
    """

    text: Text | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    head: str = ""
    too_long: tuple[str, ...] = ()

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules that the text stands for."""
        return () if self.text is None else self.text.rules


def parse_error(text: str) -> ParsedError:
    """What a pasted text tells of a commit that failed.

    >>> it = parse_error("> 12 | io.delta.exceptions.ConcurrentAppendException: Files were added to "
    ...                  "partition [day=mon] by a concurrent update.")
    >>> it.text.code, it.rules, it.facts["partition"]
    ('files-added', ('append',), '[day=mon]')
    >>> parse_error("java.lang.OutOfMemoryError: Java heap space").head
    'java.lang.OutOfMemoryError: Java heap space'
    """
    lines = cleaned(text)
    flat = " ".join(" ".join(lines).split())
    matches = _matches(flat)
    facts: dict[str, Any] = {}
    for name, pattern in DETAILS:
        source = flat if name not in LINES else "\n".join(lines)
        values = [match["value"].strip() for match in re.finditer(pattern, source, re.MULTILINE)]
        values = [value for value in values if "…" not in value and value not in NOTHING]
        if values and name not in facts:
            facts[name] = values[-1]
    chosen: Text | None = None
    others: tuple[str, ...] = ()
    if matches:
        chosen, last = matches[-1]
        facts |= {name: value.strip() for name, value in last.items() if value}
        others = tuple(dict.fromkeys(
            _named(one, groups) for one, groups in matches if _differs(one, groups, chosen, last)))
    if chosen is not None or facts:
        facts |= _job(flat)
    too_long = tuple(name for name in NUMBERS if len(facts.get(name, "")) > MAX_DIGITS)
    for name in too_long:
        del facts[name]
    facts |= {name: int(facts[name]) for name in NUMBERS if name in facts}
    return ParsedError(chosen, facts, others, _head(lines), too_long)


def _matches(flat: str) -> list[tuple[Text, dict[str, str | None]]]:
    """The known texts in their order; names of exceptions count where no sentence of theirs is there."""
    places = [(match.start(), text, match.groupdict())
              for text in TEXTS for match in text.pattern.finditer(flat)]
    sentences = [one for one in places if not one[1].is_name]
    return [(text, groups) for _, text, groups in sorted(sentences or places, key=lambda one: one[0])]


def _differs(one: Text, groups: Mapping[str, Any], chosen: Text, last: Mapping[str, Any]) -> bool:
    return one.rules != chosen.rules or groups.get("version") != last.get("version")


def _named(text: Text, groups: Mapping[str, Any]) -> str:
    version = groups.get("version")
    return text.code + (f" at version {version}" if version and len(version) <= MAX_DIGITS else "")


def _job(flat: str) -> dict[str, str]:
    """The operation and the writer of the job, by frames and names in its trace."""
    facts = {}
    for name, table in (("frame_operation", FRAMES), ("engine", WRITERS)):
        known = next((value for value, pattern in table if re.search(pattern, flat)), None)
        if known is not None:
            facts[name] = known
    return facts


_COLOURS = re.compile(
    r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0e-\x1f\ud800-\udfff]")
_ESCAPED = re.compile(r"\\([nrt\"])|\\u([0-9a-fA-F]{4})")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"'}
"""What JSON makes of characters: a trace is often a field of an event."""
_QUOTED = re.compile(r"^(?:[ \t]*[>|│])+[ \t]?")
_NUMBER = re.compile(r"^[ \t]*(\d{1,7})[ \t]*(?:[|:│.)]|\t|  )[ \t]?")


def cleaned(text: str) -> list[str]:
    """The lines of a pasted text without colours, marks of quoting and the numbers of its lines.

    >>> cleaned("> a\\n> \\x1b[31mb\\x1b[0m"), cleaned("1: a\\n2: b")
    (['a', 'b'], ['a', 'b'])
    """
    text = _ESCAPED.sub(lambda match: _ESCAPES.get(match[1], "") or chr(int(match[2], 16)), text[-MAX_TEXT:])
    lines = _COLOURS.sub("", text).splitlines()
    lines = [_QUOTED.sub("", line) for line in lines]
    full = [line for line in lines if line.strip()]
    numbers = [int(match[1]) for line in full if (match := _NUMBER.match(line))]
    if len(numbers) == len(full) and all(b > a for a, b in pairwise(numbers)):
        lines = [_NUMBER.sub("", line) for line in lines]
    return [_QUOTED.sub("", line).rstrip() for line in lines]


_EXCEPTION = re.compile(r"\b[A-Z]\w*(?:Exception|Error|Failure|Interrupt)\b")


def _head(lines: list[str]) -> str:
    """The last line that names an exception, else the first line: what can be shown of any text."""
    named = [line.strip().lstrip(": ") for line in lines
             if _EXCEPTION.search(line) and not line.lstrip().startswith(("at ", "File "))]
    first = next((line.strip() for line in lines if line.strip()), "")
    return (named[-1] if named else first)[:MAX_SHOWN]

