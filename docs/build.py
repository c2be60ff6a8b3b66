"""The documentation site: ``python -m docs.build [FOLDER]``, by default into ``build/site``.

What lives here: the way from the checkout to pages. Sources are brought together in one folder
(``docs/site/sources.py``), and Sphinx makes HTML of them. A warning of Sphinx is an error. Nothing is
fetched, and no notebook runs: its stored outputs are shown as they are.
What it does not know: what a page says.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "docs" / "site"
OUTPUT = ROOT / "build" / "site"


def build(folder: Path) -> int:
    """Make the site in a folder, which is emptied first; Sphinx's exit code, 0 if there was no warning."""
    from sphinx.cmd.build import build_main

    from docs.site.finish import finish
    from docs.site.sources import gather

    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory() as scratch:
        sources, doctrees = Path(scratch, "sources"), Path(scratch, "doctrees")
        gather(sources)
        code = build_main(["-b", "html", "-c", str(SITE), "-d", str(doctrees), "-q", "-W", "--keep-going",
                           str(sources), str(folder)])
    finish(folder)
    return code


def main() -> int:
    """Build the site, and say where it is."""
    parser = argparse.ArgumentParser(prog="python -m docs.build", description="Build the documentation site.")
    parser.add_argument("folder", nargs="?", type=Path, default=OUTPUT, help="default build/site")
    folder = parser.parse_args().folder
    if folder.exists() and any(folder.iterdir()) and not (folder / "searchindex.js").exists():
        print(f"{folder} has files and is no site: name another folder, this one would be emptied",
              file=sys.stderr)
        return 2
    begin = time.perf_counter()
    try:
        code = build(folder)
    except ModuleNotFoundError as error:
        print(f"the site needs {error.name}: pip install -e '.[docs]'", file=sys.stderr)
        return 2
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{folder / 'index.html'}  {size / 1e6:.1f} MB  {time.perf_counter() - begin:.0f} s")
    return code


if __name__ == "__main__":
    sys.exit(main())
