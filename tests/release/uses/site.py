"""With the extra ``site``: the page for a browser is made, of a Pyodide that is named."""

import json
from pathlib import Path

from deltanb.app.cli import main

own = Path("a copy of Pyodide")
own.mkdir()
info = {"python": "3.14.2", "abi_version": "2026_0"}
(own / "pyodide-lock.json").write_text(json.dumps({"info": info, "packages": {}}))
(own / "pyodide.mjs").write_text("// what a page asks for first")

assert main(["site", "--lite", "page", "--pyodide", str(own)]) == 0
assert Path("page", "lab", "index.html").is_file() and Path("page", "files", "00-tour.ipynb").is_file()
lock = json.loads(Path("page", "static", "pyodide", "pyodide-lock.json").read_text())
assert "deltanb" in lock["packages"], lock
