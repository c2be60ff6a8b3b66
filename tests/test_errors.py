"""The tree of errors: what the module draws of it, and what Delta's classes are under other names."""

from __future__ import annotations

import inspect
import re

import pytest

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


@pytest.mark.parametrize("topic", errors.topics())
def test_an_error_says_why_it_is_raised_and_shows_it_and_the_way_out(topic: str) -> None:
    """The examples run in ``test_doctests``."""
    cls = errors.topics()[topic]
    cause, _, rest = inspect.cleandoc(cls.__dict__["__doc__"]).partition(">>> ")
    example, has_way, way = rest.partition("\n\nWay out: ")
    assert cause.strip() and has_way and way.strip()
    assert re.search(rf"\b{cls.__name__}\b", example), "its example raises another one"


def test_the_name_of_a_page_is_the_class_in_words() -> None:
    topics = errors.topics()
    assert topics["concurrent-append"] is errors.ConcurrentAppendException
    assert topics["invalid-transaction-error"] is errors.InvalidTransactionError
    assert errors.InvalidTable("broken").topic == "invalid-table"
    assert len(topics) == len({cls.kind for cls in topics.values()}) == len(drawn())


def test_a_commit_that_lost_too_often_is_an_illegal_state_as_in_delta() -> None:
    """Delta raises it as a ``DeltaIllegalStateException``."""
    assert issubclass(errors.MaxCommitRetriesExceeded, errors.IllegalStateError)
    assert errors.MaxCommitRetriesExceeded.kind == "DELTA_MAX_COMMIT_RETRIES_EXCEEDED"
