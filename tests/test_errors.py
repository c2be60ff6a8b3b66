"""The tree of errors: what the module draws of it, and what Delta's classes are under other names."""

from __future__ import annotations

import inspect
import re

from deltanb import errors

LINE = re.compile(r"^    (?P<branch>[│├└─ ]*)(?P<name>[A-Z]\w+)(?: +\(also (?P<also>\w+)\))?", re.M)


def drawn() -> dict[str, set[str]]:
    """The bases of each class, according to the docstring."""
    path: list[str] = []
    bases = {}
    for line in LINE.finditer((errors.__doc__ or "").partition("\n::\n")[2].partition("Beside it")[0]):
        depth = len(line["branch"]) // 4
        del path[depth:]
        bases[line["name"]] = {*path[-1:], *filter(None, [line["also"]])}
        path.append(line["name"])
    return bases


def test_the_tree_is_drawn_as_it_is() -> None:
    classes = {name: kind for name, kind in inspect.getmembers(errors, inspect.isclass)
               if issubclass(kind, errors.DeltaError)}
    assert drawn() == {name: {base.__name__ for base in kind.__bases__ if base is not Exception}
                       for name, kind in classes.items()}


def test_a_commit_that_lost_too_often_is_an_illegal_state_as_in_delta() -> None:
    """Delta raises it as a ``DeltaIllegalStateException``."""
    assert issubclass(errors.MaxCommitRetriesExceeded, errors.IllegalStateError)
    assert errors.MaxCommitRetriesExceeded.kind == "DELTA_MAX_COMMIT_RETRIES_EXCEEDED"
