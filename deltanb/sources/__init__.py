"""Front doors of other programs: Delta tables as their own data sources."""
