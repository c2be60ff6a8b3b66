"""What a fake server of Unity Catalog has: catalogs, schemas, tables, staging tables; a part of :mod:`.fake`.

What lives here: the state in plain dicts, how it is looked up and changed, and the refusals of lookups.
What it does not know: endpoints, and who else looks: whoever asks holds a lock.
"""

from __future__ import annotations

import re
import shutil
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from tests.catalog.unity.fake_updates import Json, Refusal, Table, invalid

KEYS = {"access_key_id": "vended-key", "secret_access_key": "vended-secret", "session_token": "vended-token"}
BEGIN = 1_700_000_000_000  # ms; time passes by a ms whenever somebody looks


class State:
    """What a server of one release has."""

    def __init__(self, root: Path, version: str, location: str = "file", catalog: str = "main") -> None:
        self.version = version
        self.root = root.absolute().as_uri() if location == "file" else location.rstrip("/")
        self.token: str | None = None
        """The bearer token that requests need; None for none."""
        self.keys: Mapping[str, str] = KEYS
        """What is vended for buckets; for ``file://`` nothing is."""
        self.expires: int | None = None
        """When what is vended expires, in ms since the epoch; None is what static keys have."""
        self.maintenance: tuple[str, ...] | None = ()
        """What clients may do from 0.7 on; None leaves it out of answers."""
        self.read: Callable[[str], bytes] = _read_file
        """Reads a file by its URI, to recognize a commit that the server has forgotten."""
        self._catalogs: dict[str, Json] = {}
        self._tables: dict[str, Table] = {}
        self._staging: dict[str, Json] = {}
        self._now = BEGIN
        self._create_catalog(catalog)

    def _time(self) -> int:
        self._now += 1
        return self._now

    def _create_catalog(self, name: str, **fields: Any) -> Json:
        self._catalogs[name] = {"schemas": {}, "info": {
            "name": name, "comment": None, "properties": {}, "id": str(uuid.uuid4()), **fields}}
        return self._catalogs[name]["info"]  # type: ignore[no-any-return]

    def _schemas(self, catalog: str | None) -> dict[str, Json]:
        if catalog not in self._catalogs:
            raise Refusal("NoSuchCatalogException", f"Catalog not found: {catalog}")
        return self._catalogs[catalog]["schemas"]  # type: ignore[no-any-return]

    def _schema(self, catalog: str | None, schema: str | None) -> Json:
        schemas = self._schemas(catalog)
        if schema not in schemas:
            raise Refusal("NoSuchSchemaException", f"Schema not found: {catalog}.{schema}")
        return schemas[schema]

    def _of_schema(self, catalog: str, schema: str) -> list[Table]:
        self._schema(catalog, schema)
        return [each for name, each in sorted(self._tables.items())
                if name.startswith(f"{catalog}.{schema}.")]

    def _table(self, catalog: str, schema: str, name: str) -> Table:
        self._schema(catalog, schema)
        table = self._tables.get(f"{catalog}.{schema}.{name}")
        if table is None:
            raise Refusal("NoSuchTableException", f"Table not found: {catalog}.{schema}.{name}")
        return table

    def _refuse_taken(self, catalog: str, schema: str, name: Any) -> None:
        """Refuse a name that no table may have, or that one has."""
        require_name(name)
        self._schema(catalog, schema)
        if f"{catalog}.{schema}.{name}" in self._tables:
            raise Refusal("AlreadyExistsException", f"Table already exists: {catalog}.{schema}.{name}",
                          "TABLE_ALREADY_EXISTS")

    def _drop(self, table: Table) -> None:
        """Take a table out; a managed one's folder is deleted at once, a bucket's never."""
        del self._tables[full_name(table)]
        if table["type"] == "MANAGED" and table["location"].startswith("file:"):
            shutil.rmtree(_path_of(table["location"]), ignore_errors=True)

    def _new_table(self, catalog: str, schema: str, body: Json, **fields: Any) -> Table:
        now = self._time()
        table = {"catalog": catalog, "schema": schema, "name": body["name"], "comment": body.get("comment"),
                 "created": now, "updated": now, "rows": [], "marker": None, **fields}
        self._tables[full_name(table)] = table
        return table

    def _new_external(self, kind: str, location: str) -> str:
        """A new id for an external table at a place."""
        if kind != "EXTERNAL":
            raise invalid(f"unrecognized table type {kind}")
        if f"{location}/".startswith(f"{self.root}/"):
            raise invalid(f"location overlaps with managed storage: {location}")
        return str(uuid.uuid4())


def full_name(table: Table) -> str:
    return f"{table['catalog']}.{table['schema']}.{table['name']}"


def require_name(name: Any) -> None:
    if not isinstance(name, str) or not re.fullmatch(r"[^. /\x00-\x1f\x7f]{1,255}", name):
        raise invalid("a name cannot be empty, nor contain a period, space, slash or control character")


def _path_of(location: str) -> Path:
    return Path(url2pathname(urlsplit(location).path))


def _read_file(location: str) -> bytes:
    if not location.startswith("file:"):
        raise OSError(f"not a file of this machine's: {location}")
    return _path_of(location).read_bytes()
