"""With the extra ``notebook``: pictures and widgets of a table."""

import tempfile
from pathlib import Path

import deltanb as dn

table = dn.create(Path(tempfile.mkdtemp()) / "ducks", {"age": [9]})
table.append({"age": [10]})
assert "<svg" in table.timeline()._repr_mimebundle_()["text/html"]
assert table.timeline().chart.to_dict()
assert table.to_pandas()["age"].tolist() == [9, 10]
assert table.time_travel() is not None
