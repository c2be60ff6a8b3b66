"""With the extra ``charts``: the page of a chart, which has Vega in it."""

import tempfile
from pathlib import Path

import deltanb as dn

folder = Path(tempfile.mkdtemp())
table = dn.create(folder / "ducks", {"age": [9]})
table.append({"age": [10]})
table.timeline().chart.save(folder / "timeline.html")
page = (folder / "timeline.html").read_text("utf-8")
assert "vegaEmbed(" in page and len(page) > 500_000
assert dn.Chart(table.diff(0).spec, "a diff").save(folder / "diff.html").stat().st_size > 500_000
