"""What a post-mortem gives: the job, the winners, the rule, whether rows met, what would have let it pass.

What lives here: the values, and the words, the JSON and the Markdown made of them.
What it does not know: how any of it is found out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from deltanb.text import formatting as units
from deltanb.text.display import Displayable, views
from deltanb.text.safe_text import redacted

if TYPE_CHECKING:
    from deltanb.transaction.conflicts import Check, Conflict

PROVED, POSSIBLE = "proved", "possible"
FORMAT = 1
"""The version of the JSON's schema; fields are added without a new one."""

ENDED = ("ended it", "would have ended it")
"""The outcomes of the winner at which the job failed."""
Source = Literal["argument", "text", "session", "log", "inferred"]
SOURCES: Mapping[str, str] = {
    "argument": "passed to the post-mortem", "text": "in the text", "session": "recorded by this session",
    "log": "in the log", "inferred": "inferred",
}
"""Where facts come from, in words; only what is inferred may be wrong."""


@dataclass(frozen=True)
class Fact:
    """One thing that is known of the failed job: its ``name``, ``value``, ``source`` (one of
    :data:`SOURCES`), and ``why`` it is taken to be so where it is inferred."""

    name: str
    value: Any
    source: Source
    why: str = ""

    @property
    def is_inferred(self) -> bool:
        """Whether it may be wrong."""
        return self.source == "inferred"


@dataclass(frozen=True)
class WinnerReport:
    """A commit that landed after the version that the job read.

    ``outcome``: ``passed`` (no rule fails), ``ended it`` (the job failed at it), ``would have ended it``
    (inferred), ``not checked`` or ``unreadable``. ``rule`` is that by which the job failed at it.
    ``timestamp`` is in epoch milliseconds; ``checks`` are the rules in order.
    """

    version: int
    operation: str
    writer: str | None
    timestamp: int | None
    num_added: int
    num_removed: int
    outcome: str
    note: str = ""
    rule: str = ""
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True)
class MetFile:
    """A file of the winner that the rule found.

    ``action`` is ``add`` or ``remove``; ``statistics`` says whether its statistics let a row meet the job's
    condition (None where there is no condition); ``rows`` counts the rows of it that do (None: not read).
    """

    path: str
    action: str
    partition: Mapping[str, str | None]
    statistics: bool | None = None
    rows: int | None = None


@dataclass(frozen=True)
class RowsMet:
    """Whether rows that the winner changed are rows that the job asked for.

    ``answer``: ``yes``, ``no``, ``possible`` or ``unknown``; ``by`` what decided: ``values``, ``statistics``,
    ``partition values``, ``the log`` or ``the text``. ``rows`` counts the changed rows that meet the job's
    condition. ``note`` says why there is no better answer, and which bound was reached.
    """

    answer: str
    by: str = ""
    rows: int | None = None
    files: tuple[MetFile, ...] = ()
    num_files: int = 0
    note: str = ""


def in_words(met: RowsMet) -> str:
    """The answer as a sentence.

    >>> in_words(RowsMet("no", "statistics", 0)), in_words(RowsMet("yes", "values", 2))
    ('No row met, by statistics', 'Rows met: 2 rows that the winner changed meet the condition')
    """
    if met.answer == "no":
        return f"No row met, by {met.by}"
    if met.answer == "yes":
        if met.rows is None:
            return f"Rows met, by {met.by}"
        return f"Rows met: {units.count(met.rows, 'row')} that the winner changed meet the condition"
    if met.answer == "possible":
        rows = "" if met.rows is None else f": {units.count(met.rows, 'row')} that the winner changed may"
        return f"Rows may have met, by {met.by}{rows}" if met.by else "Rows may have met"
    return "Whether rows met is not known" if met.answer == "unknown" else "It is not about rows"


@dataclass(frozen=True)
class Remedy:
    """Something that would have let the job pass.

    ``change`` is what to do; ``certainty`` is ``proved`` where the rules were asked again with that change,
    at the winner and at all commits behind it, and nothing of the job that counts is inferred, else
    ``possible``; ``why`` says what came out.
    """

    change: str
    certainty: str
    why: str
    kind: str = ""


@dataclass(frozen=True)
class MetBefore:
    """How often the two sides met in the history, and when.

    ``pair`` is (winner, job), each as writer and operation. ``meetings`` counts how often commits of the two
    were under way at once, ``lost`` how often the later one failed or should have, ``hours`` counts meetings
    by the hour of the day (UTC); without meetings, ``note`` says what it counts. ``num_commits`` were looked
    at, ``versions`` are those of the latest meetings, 0 for a side that failed.
    """

    pair: tuple[str, str]
    meetings: int
    lost: int
    hours: Mapping[int, int]
    num_commits: int
    versions: tuple[tuple[int, int], ...] = ()
    note: str = ""

    @property
    def likeliest(self) -> tuple[int, int] | None:
        """The hour of the day (UTC) that ``hours`` has most of, and how many; None where it has none."""
        if not self.hours:
            return None
        hour = max(self.hours, key=lambda one: (self.hours[one], -one))
        return hour, self.hours[hour]


@dataclass(frozen=True, repr=False)
class PostMortem(Displayable):
    """Why a commit failed; see :func:`deltanb.post_mortem`.

    ``verdict`` is one sentence: which commit ended the job, by which rule. ``certainty`` is about these two:
    ``proved`` where neither is inferred, ``possible`` where one is, and ``unexplained`` where neither the
    text nor the log say what ended the job. Other facts may be inferred even if these are proved:
    ``facts`` are what is known of the job, each with its source. ``winners`` are in order; those of
    ``num_winners`` that are beyond a bound are left out. ``remarks`` are what could not
    be read, understood or decided. Credentials are cut out of every text but those of ``conflict``.

    >>> import deltanb as dn
    >>> from deltanb.testing import MemoryStore
    >>> table = dn.create(MemoryStore(), {"id": [1]})
    >>> _ = table.delete("id = 1")
    >>> why = dn.post_mortem(table, read_version=0, operation="DELETE", predicate="id = 1")
    >>> why.num_winners, why.rule
    (1, 'delete / read')
    """

    table: str
    verdict: str
    certainty: str
    facts: tuple[Fact, ...] = ()
    winners: tuple[WinnerReport, ...] = ()
    num_winners: int = 0
    rule: str | None = None
    conflict: Conflict | None = field(default=None, compare=False)
    rows_met: RowsMet = RowsMet("unknown")
    would_have_passed: tuple[Remedy, ...] = ()
    met_before: MetBefore | None = None
    remarks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for one in fields(self):  # a ticket is read by more people than the job's log
            if one.name != "conflict":
                object.__setattr__(self, one.name, _without_secrets(getattr(self, one.name)))

    @property
    def status(self) -> int:
        """The exit status of ``deltanb why``: 0 if who ended the job and the rule are proved, else 3.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1]})
        >>> dn.post_mortem(table, read_version=0).status  # nobody has committed since
        3
        """
        return 0 if self.certainty == PROVED else 3

    @property
    def winner(self) -> WinnerReport | None:
        """The commit that ended the job, or would have.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1]})
        >>> _ = table.delete("id = 1")
        >>> dn.post_mortem(table, read_version=0, operation="DELETE", predicate="id = 1").winner.version
        1
        """
        return next((one for one in self.winners if one.rule or one.outcome in ENDED), None)

    def to_json(self) -> str:
        """All of it as a JSON object; ``format`` is the version of its schema, which is the fields of the
        classes here by their names.

        >>> import deltanb as dn
        >>> _ = dn.create("ducks", {"name": ["Donald"]}).append({"name": ["Daisy"]})
        >>> pm = dn.post_mortem("ducks", read_version=0)
        >>> import json; json.loads(pm.to_json())["winners"][0]["version"]
        1
        """
        known = asdict(replace(self, conflict=None))
        del known["conflict"]
        return json.dumps({"format": FORMAT, "status": self.status, **known}, default=str)

    def to_markdown(self) -> str:
        """The post-mortem for a ticket: the sections of its text, as Markdown.

        >>> import deltanb as dn
        >>> _ = dn.create("geese", {"name": ["Gus"]}).append({"name": ["Daphne"]})
        >>> dn.post_mortem("geese", read_version=0).to_markdown().splitlines()[0]
        '## Post-mortem: geese'
        """
        text: str = views().markdown(self)
        return text


def _without_secrets(value: Any) -> Any:
    """The same value, without the credentials that texts in it have."""
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, tuple):
        return tuple(map(_without_secrets, value))
    if isinstance(value, Mapping):
        return {_without_secrets(name): _without_secrets(one) for name, one in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{
            one.name: _without_secrets(getattr(value, one.name)) for one in fields(value)})
    return value
