"""Which files of a version a condition can match.

Lives here: the files left by partition values, by statistics, and by what generated columns imply.
Does not know: where the rows of the files are, or how they are read.
"""
