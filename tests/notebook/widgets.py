"""A cell for each widget there is, and how it is moved: for tests that go through all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

BEGIN = """\
import deltanb as dn
dn.teaching(seed=1)
table = dn.create("orders", {"day": [1, 2, 3], "qty": [2, 4, 9]}, partition_by="day")
for n in range(12):
    with dn.set_options(user_name=("etl-a", "etl-b", "analyst")[n % 3]):
        table.append({"day": [n % 3 + 1], "qty": [n]})"""
STEPPER = """\
yours = table.start_transaction()
read = yours.filter_files("day = 1")
yours.stepper(yours.write_files({"day": [1], "qty": [7]}), "WRITE")"""
TRAVEL = "table.time_travel()"
GROUP = """\
catalog = dn.Catalog("sqlite:///shop.db", warehouse="shop")
catalog.create_namespace("shop")
for name in ("orders", "totals"):
    catalog.create_table(f"shop.{name}", {"n": [1]})
both = catalog.transaction()
for name in ("orders", "totals"):
    both.table(f"shop.{name}").update({"n": "n + 1"})
both.stepper()"""

PLAY = """\
writers = {"ann": lambda table: table.append({"day": [1], "qty": [7]}),
           "ben": lambda table: table.delete("day = 1")}
dn.explore(table, writers).play()"""


@dataclass(frozen=True)
class Widget:
    """Code whose last line is the object, and a call of it that changes what it shows."""

    source: str
    move: str

    def make(self, names: dict[str, Any]) -> Any:
        """The object, made in this process."""
        *lines, last = self.source.splitlines()
        exec("\n".join(lines), names)
        return eval(last, names)


WIDGETS = {
    "CommitStepper": Widget(STEPPER, "advance()"),
    "GroupStepper": Widget(GROUP, "advance()"),
    "Play": Widget(PLAY, "next()"),
    "TimeTravel": Widget(TRAVEL, "at(1)"),
}
"""By the name of the class; ``test_saved_widgets`` fails where one is missing."""
