"""Views show by what an overwrite replaced rows, as they show any other condition."""

from __future__ import annotations

from collections.abc import Callable
from html import unescape
from typing import Any

import pytest

import deltanb as dn
from deltanb.errors import DeltaConcurrentModificationException
from deltanb.notebook import bundle
from deltanb.testing import MemoryStore
from deltanb.transaction.operations import MATCHED, REPLACE_ON, REPLACE_USING

WAYS: dict[str, tuple[dict[str, Any], str]] = {
    REPLACE_USING: ({"replace_using": ["id", "day"]}, "USING (id, day)"),
    REPLACE_ON: ({"replace_on": "target.id = source.id"}, "target.id = source.id"),
}
VIEWS: dict[str, Callable[[Any, Exception], Any]] = {
    "timeline": lambda table, lost: table.timeline(),
    "conflict": lambda table, lost: lost.conflict,  # type: ignore[attr-defined]
    "bisection": lambda table, lost: dn.bisect(table, "n < 5"),
}


def test_every_way_is_tried() -> None:
    assert set(WAYS) == set(MATCHED)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("way", WAYS)
def test_the_condition_of_an_overwrite_is_shown(way: str, view: str) -> None:
    asked, words = WAYS[way]
    table = dn.create(MemoryStore(), {"id": [1, 2], "day": [1, 1], "n": [1, 2]})
    txn = table.start_transaction()
    read = txn.filter_files()
    table.overwrite({"id": [2], "day": [1], "n": [9]}, **asked)
    assert table.history()[0].operation_parameters[way]
    with pytest.raises(DeltaConcurrentModificationException) as lost:
        txn.commit([file.remove() for file in read], "DELETE")
    shown = bundle.mimebundle(VIEWS[view](table, lost.value))
    assert words in unescape(shown[bundle.HTML]), shown[bundle.TEXT]
