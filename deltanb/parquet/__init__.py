"""Bytes of Parquet files: footers, pages, row groups that are copied.

Lives here: what parquet.thrift says of a file, and files made of parts of others without decoding them.
Does not know: tables, their log and its statistics.
"""
