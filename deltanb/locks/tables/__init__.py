"""Tables under locks: their statements, the rows of cursors, and the one commit of all of them."""
