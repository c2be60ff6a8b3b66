"""No credential of a job's text, condition or names is in what a post-mortem gives, whichever field it is."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import Any

import pytest

import deltanb as dn
from deltanb.testing import MemoryStore, TableBuilder, add, remove

SECRET = "hunter2"
URL = f"s3://AKIA:{SECRET}@lake/t"
WON = {"commitInfo": {"operation": "WRITE", "userName": f"etl {URL}", "timestamp": 1_772_442_862_000}}
PLACES: dict[str, dict[str, Any]] = {
    "text": {"error": f"java.lang.OutOfMemoryError: reading {URL}"},
    "known text": {"error": f"a concurrent WRITE added data to table {URL} committed at version 1."},
    "predicate": {"read_version": 0, "operation": "DELETE", "predicate": f"day = '{URL}'"},
    "predicate that is not understood": {
        "read_version": 0, "operation": "DELETE", "predicate": f"soundex(day) = '{URL}'"},
    "writer": {"read_version": 0, "operation": "DELETE", "writer": URL},
    "operation": {"read_version": 0, "operation": URL},
    "header": {"error": f"OSError: GET failed, Authorization: Bearer {SECRET}.1"},
}


def strings(value: Any) -> list[str]:
    """Every text in a value, through whatever holds it."""
    if isinstance(value, str):
        return [value]
    if is_dataclass(value) and not isinstance(value, type):
        return [text for one in fields(value) if one.name != "conflict"
                for text in strings(getattr(value, one.name))]
    if isinstance(value, dict):
        return [text for pair in value.items() for one in pair for text in strings(one)]
    if isinstance(value, (list, tuple)):
        return [text for one in value for text in strings(one)]
    return []


@pytest.mark.parametrize("place", PLACES)
def test_no_field_and_no_form_has_a_secret(place: str) -> None:
    builder = TableBuilder(MemoryStore()).create("id long, day string", partition_by=["day"])
    builder.commit(WON, add("day=mon/a", {"day": URL}))
    builder.commit(WON, add("day=mon/b", {"day": URL}), remove("day=mon/a", partitionValues={"day": URL}))
    pm = dn.post_mortem(builder.store, **PLACES[place])
    texts = strings(pm)
    assert texts and not [text for text in texts if SECRET in text]
    for form in (pm.to_json(), pm.to_markdown(), str(pm), *pm._repr_mimebundle_().values()):
        assert SECRET not in form
    assert json.loads(pm.to_json())["verdict"] == pm.verdict
    if place not in ("text", "header"):
        assert any("s3://***@lake/t" in text for text in texts)  # the rest of it is as it was
