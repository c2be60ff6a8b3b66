"""The handle people hold: a Delta table, where it comes from, how it is read, and statements staged on it."""
