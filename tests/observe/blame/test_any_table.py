"""Tables of any writer: rows are blamed, or it is said why not; a statement that holds does so always."""

from __future__ import annotations

import pytest

import deltanb as dn
from deltanb.testing import MemoryStore
from tests.shared_tables import names, path_of


@pytest.mark.shared
@pytest.mark.parametrize("name", names("rows"))
def test_rows_of_others_are_blamed_or_it_is_said_why_not(name: str) -> None:
    table = dn.open(path_of(name))
    rows = table.to_arrow()
    blame = table.blame(columns=table.schema.names[:1])
    blamed = blame.to_arrow()
    assert blamed.select(rows.column_names).num_rows == rows.num_rows
    assert blamed["_version"].null_count == blame.num_unknown <= sum(one.num_rows for one in blame.doubts)
    assert all(0 <= one.version <= table.version for one in blame.commits)
    assert "cannot be shown" not in str(blame)


@pytest.mark.shared
@pytest.mark.parametrize("name", names("rows"))
def test_what_holds_of_a_table_of_others_holds_at_each_version(name: str) -> None:
    bisection = dn.bisect(path_of(name), lambda past: past.count() >= 0, method="linear")
    assert bisection.verdict == "holds" and bisection.reads <= bisection.num_places
    assert "cannot be shown" not in str(bisection)


class Far(MemoryStore):
    """A store of which each request would wait for a network."""

    is_remote = True

    def __init__(self) -> None:
        super().__init__()
        self.alone = 0

    def read(self, name: str) -> bytes:
        self.alone += name.endswith(".json")
        return super().read(name)

    def read_many(self, names):  # type: ignore[no-untyped-def]
        return [MemoryStore.read(self, name) for name in names]


def test_commits_of_a_bucket_are_read_many_at_a_time() -> None:
    store = Far()
    table = dn.create(store, {"id": [0]})
    for number in range(1, 30):
        table.append({"id": [number]})
    store.alone = 0
    blame = table.blame()
    assert sorted(blame.to_arrow()["_version"].to_pylist()) == list(range(30))
    assert store.alone <= 3
