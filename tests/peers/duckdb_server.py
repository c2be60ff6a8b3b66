"""DuckDB with its extension for Delta in a process of its own: ``python duckdb_server.py FOLDER``.

FOLDER has the package of DuckDB whose extension it is, which need not be the one that is installed here. One
SQL statement a line, in JSON; the answer is ``{"rows": ...}``, an Arrow stream in base64, or
``{"error": ..., "message": ...}``. After an internal error DuckDB answers nothing more and is begun anew.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path

import pyarrow as pa


def main(folder: str) -> None:
    sys.path.insert(0, folder)
    import duckdb

    [extension] = Path(folder).rglob("delta.duckdb_extension")

    def begin() -> duckdb.DuckDBPyConnection:
        begun = duckdb.connect(config={"allow_unsigned_extensions": "true", "threads": "1"})
        begun.execute(f"LOAD '{extension}'")
        return begun

    connection = begin()
    print(json.dumps({"version": duckdb.__version__}), flush=True)
    for line in sys.stdin:
        try:
            result = connection.execute(json.loads(line))
            rows = result.to_arrow_table() if result.description else pa.table({})
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, rows.schema) as writer:
                writer.write_table(rows)
            answer = {"rows": base64.b64encode(sink.getvalue()).decode()}
        except duckdb.Error as error:
            answer = {"error": type(error).__name__, "message": str(error)}
            if isinstance(error, (duckdb.InternalException, duckdb.FatalException)):
                connection = begin()
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
