"""After a plain install: a table, a conflict that says who won, and one line for what needs an extra."""

import importlib.util
import tempfile
from pathlib import Path

import deltanb as dn

path = Path(tempfile.mkdtemp()) / "ducks"
table = dn.create(path, {"name": ["Huey", "Dewey"], "age": [9, 9]})
table.append({"name": ["Louie"], "age": [9]})
mine = table.transaction()
mine.delete("name = 'Huey'")
dn.open(path).update({"age": "age + 1"})
try:
    mine.commit()
except dn.errors.ConcurrentAppendException as error:
    assert "version 2" in str(error), error
else:
    raise AssertionError("two writers changed the same row")
assert dn.open(path).count("age = 10") == 3
assert dn.open(path, version=1).to_arrow().num_rows == 3
if importlib.util.find_spec("pyspark") is None:
    try:
        dn.open(path).to_df()
    except dn.errors.MissingDependency as error:
        assert "deltanb[spark]" in str(error), error
    else:
        raise AssertionError("to_df() works without PySpark")
