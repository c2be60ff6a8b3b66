"""The data source ``deltanb`` under its public name: :mod:`deltanb.sources.spark.source`."""

from deltanb.sources.spark.source import *  # noqa: F403  # its __all__ says what is public
