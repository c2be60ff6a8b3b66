"""What a picture costs on a table of a million files: ``python tests/benchmarks/reprs.py [files]``.

Every object's MIME bundle (text, HTML, chart, widget) is made ROUNDS times; the table has the first time,
in which modules may still be loaded, the best one, the sizes of its forms, and whether the promise is kept:
50 ms, 60 kB of HTML, 250 kB of chart.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import deltanb as dn  # noqa: E402
from tests.notebook import large  # noqa: E402

FILES = 1_000_000
ROUNDS = 9
MAX_MS, MAX_HTML, MAX_CHART = 50, 60_000, 250_000
HTML, VEGALITE = "text/html", "application/vnd.vegalite.v5+json"


def milliseconds(obj: Any) -> tuple[float, dict[str, Any]]:
    start = time.perf_counter()
    forms = obj._repr_mimebundle_()
    return (time.perf_counter() - start) * 1000, forms


def main(files: int = FILES) -> None:
    broken = 0
    with tempfile.TemporaryDirectory() as folder:
        table = dn.open(large.make(Path(folder) / "orders", files))
        first, _ = milliseconds(table)
        print(f"{files:,} files; the first look at all, log and modules loaded: {first:.1f} ms\n")
        print(f"{'object':<32} {'first ms':>9} {'best ms':>9} {'text':>6} {'HTML':>7} {'chart':>7}")
        for name, make in large.objects(table).items():
            obj = make()
            times = []
            for _ in range(ROUNDS):
                took, forms = milliseconds(obj)
                times.append(took)
            rich, drawn = len(forms.get(HTML, "").encode()), len(json.dumps(forms.get(VEGALITE, "")))
            is_within = min(times) <= MAX_MS and rich <= MAX_HTML and drawn <= MAX_CHART
            broken += not is_within
            print(f"{name:<32} {times[0]:>9.1f} {min(times):>9.1f} {len(forms['text/plain']):>6} {rich:>7} "
                  f"{drawn if VEGALITE in forms else '–':>7} {'' if is_within else 'over the limit'}")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
