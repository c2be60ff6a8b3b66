"""Two create a table of one name: one wins, whatever step of the other one it comes between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb.errors import TableAlreadyExists
from deltanb.store.local import LocalStore
from deltanb.testing import ScriptedStore
from tests.catalog.conftest import url_of
from tests.helpers import files_of, tree


@dataclass
class Steps:
    """The calls that were made, and what was done between two of them, if there were so many."""

    calls: list[str] = field(default_factory=list)
    made: list[Any] = field(default_factory=list)


@contextmanager
def before_call(number: int, owners: list[Any], work: Callable[[], Any]) -> Iterator[Steps]:
    """A block before whose call ``number`` of a public method of ``owners`` something else is done."""
    steps = Steps()

    def watched(method: Callable[..., Any], name: str) -> Callable[..., Any]:
        def call(*args: Any, **settings: Any) -> Any:
            steps.calls.append(name)
            if len(steps.calls) == number + 1:
                steps.made.append(work())
            return method(*args, **settings)
        return call

    with pytest.MonkeyPatch.context() as patch:
        for owner in owners:
            for name in dir(type(getattr(owner, "inner", owner))):
                if not name.startswith("_") and callable(getattr(owner, name)):
                    patch.setattr(owner, name, watched(getattr(owner, name), name), raising=False)
        yield steps


def created(catalog: dn.Catalog, name: str, mode: str, format: str, row: int) -> Any:
    try:
        return catalog.create_table(name, {"id": [row]}, mode=mode, format=format)
    except TableAlreadyExists as error:
        return error


def place(table: Any) -> str:
    """The name of a table's folder."""
    location = table.path if isinstance(table, dn.DeltaTable) else table.location
    return str(location).rstrip("/").rpartition("/")[2]


@pytest.mark.parametrize("format", ["delta", "iceberg"])
@pytest.mark.parametrize("mode", ["error", "ignore"])
def test_one_wins_and_the_other_has_its_table(
    mode: str, format: str, catalog: dn.Catalog, behind: Any, tmp_path: Path
) -> None:
    owners = [catalog.store.tables, catalog.store.namespaces]
    winners: list[Any] = []
    with dn.Catalog(url_of(behind), warehouse=tmp_path / "lake") as rival:
        for number in count():
            name = f"shop.t{number}"
            with before_call(number, owners, partial(created, rival, name, "error", format, 1)) as steps:
                second = created(catalog, name, mode, format, 2)
            if not steps.made:  # there are no more
                winners.append(second)
                break
            has_lost = isinstance(steps.made[0], TableAlreadyExists)
            winners.append(second if has_lost else steps.made[0])
            if not has_lost and mode == "error":
                assert isinstance(second, TableAlreadyExists)
            else:
                assert place(second) == place(winners[-1])
            rows = catalog.table(name).to_arrow()["id"].to_pylist()
            assert rows == ([2] if has_lost else [1]), steps.calls
    assert len(winners) > 2 and len({place(winner) for winner in winners}) == len(winners)
    folders = {Path(name).parts[1] for name in tree(tmp_path / "lake")}
    assert folders == {place(winner) for winner in winners}, "files of who lost"


def test_without_a_catalog_too(tmp_path: Path) -> None:
    rows: list[list[int]] = []
    for number in count():
        path = tmp_path / str(number)
        ours = ScriptedStore(LocalStore(path))  # to the process another log than that of the path
        with before_call(number, [ours], partial(dn.create, path, {"id": [1]}, mode="ignore")) as steps:
            second = dn.create(ours, {"id": [2]}, mode="ignore")
        if not steps.made:
            break
        rows.append(second.to_arrow()["id"].to_pylist())
        assert steps.made[0].to_arrow()["id"].to_pylist() == rows[-1] and second.version == 0
        assert len([name for name in files_of(second) if name.endswith(".parquet")]) == 1
    assert [1] in rows and [2] in rows and len(rows) > 5
