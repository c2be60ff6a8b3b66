"""What runs in the real Pyodide, without the wheels that no package index has (pyarrow, NumPy, pyroaring)."""

import os
import sys

from pyodide.ffi import can_run_sync

import deltanb as dn
from deltanb import actions, errors
from deltanb.concurrency import parallel, stacks
from deltanb.concurrency.background import flush, soon
from deltanb.store.local import LocalStore

answer = {"platform": sys.platform, "has link": hasattr(os, "link"), "threads": stacks.has_threads()}

# The folder: whole files, once.
store = LocalStore("/lake/t")
NAME = "_delta_log/00000000000000000000.json"
answer["puts"] = [store.put_if_absent(NAME, b"one"), store.put_if_absent(NAME, b"two")]
answer["files"] = [store.read(NAME).decode(), sorted(os.listdir("/lake/t/_delta_log"))]
answer["store"] = repr(store)

# Work is done one after the other.
answer["each"] = list(parallel.each(lambda n: n * n, [1, 2, 3], 4))
answer["streamed"] = list(parallel.streamed(lambda n: (n for _ in range(n)), [1, 2], 4))
answer["begun"] = parallel.begin(lambda: 42)()
done = []
soon("key", "the work", lambda: done.append(1))
answer["soon"] = [done, flush()]

# Texts: actions, and conditions by sqlglot.
line = '{"add":{"path":"a","partitionValues":{},"size":1,"modificationTime":1,"dataChange":true}}'
answer["action"] = actions.from_json(line).to_json() == line

# Locks, and who waits for one. Turns need calls that can be suspended.
manager = dn.locks.LockManager(lock_timeout=0)
ann, ben = manager.new_transaction(), manager.new_transaction()
answer["lock"] = str(ben.lock_exclusive(1, b"south"))
try:
    ann.lock_exclusive(1, b"south")
except errors.LockTimeoutError as error:
    answer["wait"] = type(error).__name__
ann.exit()
ben.exit()

answer["suspends"] = can_run_sync()
turns = []
try:
    gates = {name: stacks.gate() for name in "ab"}
    back = stacks.gate()

    def work(name):
        for _ in range(3):
            gates[name].acquire()
            turns.append(name)
            back.release()

    both = [stacks.Stack(lambda name=name: work(name), name, "dn.race") for name in "ab"]
    for one in both:
        one.start()
    for name in "abbaab":
        gates[name].release()
        back.acquire()
    for one in both:
        one.join()
except errors.NoThreads as error:
    answer["refusal"] = str(error)
answer["turns"] = "".join(turns)
