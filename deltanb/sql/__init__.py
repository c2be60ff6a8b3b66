"""Conditions and expressions in Spark's SQL, understood once and run on Arrow."""
