"""Statements: SQL that people of Delta write, as values first and calls of our methods then."""
