"""Two engines, one contract: rows found and written in the process by Arrow, or by Spark."""
