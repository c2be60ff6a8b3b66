"""Delta tables as a data source of Spark's: ``format("deltanb")``, for frames and for streams."""
