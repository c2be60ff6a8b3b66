"""What a checkup gives: findings with their figures and commands, and blind spots.

What lives here: the values, and the JSON and the data frame made of them.
What it does not know: what is looked at (``examine``), which kinds there are (``kinds``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from deltanb.errors import MissingDependency
from deltanb.text.display import Displayable
from deltanb.text.spellings import answer_wrong_arguments

if TYPE_CHECKING:
    import pandas

FORMAT = 1
"""The version of the JSON's schema; fields are added without a new one."""
ANY = "any"
"""In place of a kind: every one."""


@dataclass(frozen=True)
class Finding:
    """One thing that a table would gain by, and the command that does it.

    ``kind`` is a stable code of :data:`~deltanb.observe.checkup.kinds.KINDS`; ``figures`` are numbers, names
    of columns and texts under the names of :data:`~deltanb.observe.checkup.kinds.FIGURES`, which end in their
    units. ``evidence`` is one sentence. ``command`` is Python that runs where the table is called ``table``.
    ``reads`` and ``writes`` are bytes that it reads and writes, estimated; ``saves`` is what is gained, by
    its unit: ``files``, ``bytes``, ``requests`` or ``rows``.
    """

    kind: str
    figures: Mapping[str, Any]
    evidence: str
    command: str
    reads: int
    writes: int
    saves: Mapping[str, int]


@dataclass(frozen=True)
class BlindSpot:
    """What was not looked at, or not understood: of which versions, of what, and what follows from it."""

    kind: str
    versions: tuple[int, ...]
    missing: str
    evidence: str


@answer_wrong_arguments()
@dataclass(frozen=True, repr=False)
class Checkup(Displayable):
    """What upkeep a table needs at a version; see :func:`checkup`.

    ``num_files`` and ``size_in_bytes`` are those of the version, None where it cannot be read;
    ``num_commits`` counts the commits whose records were looked at, the newest ones.

    >>> import deltanb as dn
    >>> from deltanb.testing import MemoryStore
    >>> report = dn.create(MemoryStore(), {"id": [1]}).checkup()
    >>> report.version, report.num_files, report.findings
    (0, 1, ())
    """

    table: str
    version: int
    num_files: int | None
    size_in_bytes: int | None
    num_commits: int
    findings: tuple[Finding, ...] = ()
    blind_spots: tuple[BlindSpot, ...] = ()

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of the findings, each once, in their order.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> dn.create(MemoryStore(), {"id": [1]}).checkup().kinds
        ()
        """
        return tuple(dict.fromkeys(finding.kind for finding in self.findings))

    def fails(self, kinds: Iterable[str]) -> bool:
        """Whether there is a finding of one of these kinds; ``any`` is all of them.

        >>> Checkup("ducks", 0, 1, 9, 1).fails(["any"])
        False
        """
        named = set(kinds)
        return bool(self.findings) if ANY in named else not named.isdisjoint(self.kinds)

    def to_json(self) -> str:
        """All of it as a JSON object, with the schema of
        :func:`deltanb.observe.checkup.kinds.as_json_schema`.

        >>> import deltanb as dn, json
        >>> json.loads(dn.create("ducks", {"name": ["Donald"]}).checkup().to_json())["findings"]
        []
        """
        return json.dumps({"format": FORMAT, **asdict(self)})

    def to_pandas(self) -> pandas.DataFrame:
        """The findings as a DataFrame, with their fields as columns.

        Raises:
            MissingDependency: pandas is not installed.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> "kind" in dn.create(MemoryStore(), {"id": [1]}).checkup().to_pandas().columns
        True
        """
        try:
            import pandas
        except ImportError:
            raise MissingDependency(
                "checkup.to_pandas() needs pandas: pip install pandas; checkup.findings has the same",
                extra="notebook") from None
        rows: list[dict[str, Any]] = [asdict(finding) for finding in self.findings]
        return pandas.DataFrame(rows, columns=list(Finding.__dataclass_fields__))
