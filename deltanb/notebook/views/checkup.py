"""What upkeep a table needs: each finding with its command, what that costs and what it saves.

What lives here: the view of ``Checkup``, and all of it as plain lines for the command line.
What it does not know: what is looked at, and what any kind means (``observe/checkup``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deltanb.notebook.drawing import text
from deltanb.notebook.views.model import Inline, Section, Span, Table, View, code, muted, ok, present, warn
from deltanb.notebook.views.verification import blind_spots, versions_of
from deltanb.options import options
from deltanb.text import formatting as units

SIGN = "!"
COLUMNS = ("kind", "what", "command", "costs", "saves")


def view(checkup: Any) -> View:
    """The view of a :class:`~deltanb.observe.checkup.report.Checkup`."""
    number = len(checkup.findings)
    verdict = warn(f"{SIGN} {units.count(number, 'finding')}") if number else ok("✓ nothing to do")
    marks: list[Inline] = [verdict, f"v{checkup.version}"]
    if checkup.num_files is not None:
        marks += [units.count(checkup.num_files, "file"), units.size(checkup.size_in_bytes)]
    lines = (muted(f"{units.count(checkup.num_commits, 'commit')} of the history looked at"),)
    return View("Checkup", checkup.table, tuple(marks), lines,
                present(*(make(checkup) for make in (_findings, blind_spots))))


def listing(checkup: Any) -> str:
    """Every finding and every blind spot in full, as lines of any length."""
    shown = view(checkup)
    lines = [text.render(View(shown.kind, shown.name, shown.marks, shown.lines))]
    for finding in checkup.findings:
        lines += ["", f"{SIGN} {finding.kind}  {finding.evidence}", f"  to do: {finding.command}",
                  f"  saves {saved(finding.saves)}; {_costs(finding)}"]
    lines += ["", "Blind spots"] if checkup.blind_spots else []
    lines += [f"  {spot.kind}  {versions_of(spot.versions)}  {spot.evidence}"
              + (f": {spot.missing}" if spot.missing else "") for spot in checkup.blind_spots]
    return "\n".join(lines)


def saved(saves: Mapping[str, int]) -> str:
    """What is saved, in words.

    >>> saved({"files": 29, "bytes": 12_000, "requests": 1})
    '29 files, 12.0 kB, 1 request'
    """
    return ", ".join(units.size(number) if unit == "bytes" else units.count(number, unit.removesuffix("s"))
                     for unit, number in saves.items()) or "–"


def _findings(checkup: Any) -> Section | None:
    findings = checkup.findings
    if not findings:
        return None
    shown = findings[: options.max_rows]
    table = Table(COLUMNS, tuple(map(_finding, shown)), len(findings), "finding",
                  ("kind", "saves", "command"), ("kind", "saves"), unfolded=tuple(map(_figures, shown)))
    return Section("Findings", muted("each with the command that fixes it"), table, is_open=True,
                   text_rows=True)


def _finding(finding: Any) -> tuple[Inline, ...]:
    return ([warn(SIGN), Span(f" {finding.kind}", "fixed")], finding.evidence, code(finding.command),
            _costs(finding), saved(finding.saves))


def _costs(finding: Any) -> str:
    return f"reads {units.size(finding.reads)}, writes {units.size(finding.writes)}"


def _figures(finding: Any) -> Table:
    """The figures of a finding, which unfold from its row."""
    rows = tuple((code(name), _shown(name, value)) for name, value in finding.figures.items())
    return Table(("figure", "value"), rows, len(rows), "figure", limit=len(rows))


def _shown(name: str, value: Any) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(str, value))
    if isinstance(value, int):
        return units.size(value) if name.endswith("bytes") or "bytes_" in name else units.number(value)
    return str(value)
