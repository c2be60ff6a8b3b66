"""With the extra ``spark``: rows as a DataFrame, a write of one, a filter that skips a file."""

import tempfile
from pathlib import Path

import pyspark

import deltanb as dn

path = Path(tempfile.mkdtemp()) / "ducks"
session = dn.spark()
table = dn.create(path, session.range(5).selectExpr("id", "id * 2 AS age"))
table.append({"id": [100], "age": [200]})
frame = table.to_df(session)
assert frame.where("age > 100").count() == 1
assert table.explain(frame.where("age > 100")).opened == 1
if pyspark.__version__ >= "4.2":
    assert session.read.format("deltanb").load(str(path)).count() == 6
    session.range(3).selectExpr("id", "id age").write.format("deltanb").mode("append").save(str(path))
    assert dn.open(path).count() == 9
else:
    try:
        session.read.format("deltanb").load(str(path))
    except Exception as error:
        assert "PySpark 4.2 or later" in str(error), error
    else:
        raise AssertionError("the source works with no PySpark before 4.2")
session.stop()
