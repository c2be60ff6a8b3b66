"""Why did this job fail: a commit that came to nothing, explained from what is left of it and from the log.

What lives here: the door. ``texts`` lists the texts of writers and ``error_text`` reads a pasted one,
``evidence`` has what is known of the job and from where, ``judge`` makes a transaction of it and asks the
conflict rules, ``rows_met`` looks whether rows met, ``remedies`` tries what would have let it pass, and
``report`` has the values that say it.
What it does not know: how a commit decides (``transaction``), how a post-mortem is drawn.
"""
