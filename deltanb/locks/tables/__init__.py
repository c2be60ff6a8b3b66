"""Tables under locks: their statements, the rows of cursors, and the one commit of all of them.

What lives here: what a statement locks before it looks, and how tables take part in a transaction's end.
What it does not know: who gets a lock (``locks/core``), what a statement does.
"""
