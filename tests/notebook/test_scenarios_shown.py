"""Every transaction and conflict of the scenarios can be shown, whatever became of it."""

from __future__ import annotations

from typing import Any

import pytest

from deltanb.notebook.views import registry as views
from tests.notebook.looks import assert_consistent
from tests.transaction import test_scenarios


@pytest.mark.parametrize("scenario", test_scenarios.SCENARIOS, ids=lambda s: s["id"])
def test_scenario_is_shown(scenario: dict[str, Any]) -> None:
    place, txn, error = test_scenarios.run(scenario)
    log = place.log
    for obj in (txn, log, log.update()):
        assert_consistent(obj)
    conflict = getattr(error, "conflict", None)
    if conflict is not None:
        page = assert_consistent(conflict)
        assert page.text.count("✕") >= 2  # the name, the check that failed
        view = views.fields(conflict)
        assert view.met >= 1 or view.overlap == "Differences" or not conflict.files
