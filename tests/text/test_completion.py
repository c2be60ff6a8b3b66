"""What completion offers, and what ``from deltanb import *`` takes."""

from __future__ import annotations

import builtins

import pytest

import deltanb as dn

FOREIGN = {
    "Any", "annotations", "importlib", "TYPE_CHECKING", "Callable", "re", "os", "sys", "json", "offered"}
MODULES = ("", "actions", "errors", "examples", "locks", "log", "options", "spark", "store", "testing",
           "transaction")


@pytest.mark.parametrize("name", MODULES)
def test_a_module_offers_nothing_that_it_only_imports(name: str) -> None:
    module = getattr(dn, name) if name else dn
    if name == "options":
        import deltanb.options as module
    assert not FOREIGN & set(dir(module))


def test_every_public_name_is_offered() -> None:
    assert {"create", "open", "DeltaTable", "examples", "spark", "errors", *dn.__all__} <= set(dir(dn))
    assert all(getattr(dn, name) is not None for name in dir(dn))
    assert {"AddFile", "Action", "from_json"} <= set(dir(dn.actions))
    assert {"DeltaError", "InvalidArgument", "ChecksumMismatchWarning"} <= set(dir(dn.errors))
    assert {"LockManager", "LockMode"} <= set(dir(dn.locks))
    assert {"MemoryStore", "MemoryIndex"} <= set(dir(dn.testing))


def test_completion_in_ipython_follows() -> None:
    from IPython.core.completer import IPCompleter, provisionalcompleter

    completer = IPCompleter(namespace={"dn": dn})
    for use_jedi in (False, True):
        completer.use_jedi = use_jedi
        with provisionalcompleter():
            names = {completion.text.removeprefix("dn.").lstrip(".") for completion
                     in completer.completions("dn.", 3)}
        assert "create" in names and not FOREIGN & names


def test_a_star_import_leaves_open_alone() -> None:
    taken: dict[str, object] = {"open": builtins.open}
    exec("from deltanb import *", taken)
    assert taken["open"] is builtins.open and taken["create"] is dn.create
    assert dn.open is not builtins.open
