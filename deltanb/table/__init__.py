"""The handle of a Delta table: how to open, create and use it, and statements staged on it."""
