"""The examples in docstrings are run."""

from __future__ import annotations

import doctest
import importlib
import inspect
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted((ROOT / "deltanb").rglob("*.py"))
    if ">>> " in path.read_text("utf-8")
]


class Finder(doctest.DocTestFinder):
    """Finds the examples of decorated functions, too, which are of the module of what was decorated, and
    those of properties that are computed once."""

    def _find(self, tests: Any, obj: Any, name: str, module: Any, *rest: Any) -> None:
        super()._find(tests, obj, name, module, *rest)  # type: ignore[misc]
        if inspect.isclass(obj):
            for key, value in vars(obj).items():
                if isinstance(value, cached_property) and self._from_module(module, value.func):
                    super()._find(tests, value.func, f"{name}.{key}", module, *rest)  # type: ignore[misc]

    def _from_module(self, module: object, object: object) -> bool:  # type: ignore[override]
        return super()._from_module(module, inspect.unwrap(object))  # type: ignore[misc, arg-type]


@pytest.mark.parametrize("name", MODULES)
def test_examples(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    """Each module's examples give what they show, in a folder of their own."""
    monkeypatch.chdir(tmp_path)
    if name.startswith(("deltanb.engines.spark", "deltanb.sources.spark")):
        request.getfixturevalue("spark")
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    for test in Finder(exclude_empty=True).find(importlib.import_module(name), name):
        runner.run(test)
    assert runner.failures == 0, f"\n{capsys.readouterr().out}"
    if not runner.tries:
        pytest.skip("every example is marked +SKIP")
