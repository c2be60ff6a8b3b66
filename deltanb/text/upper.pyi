# What methods of lower floors give people from the floors above, by name: the types are the classes' own.
# upper.py loads what is asked of it from the module named here. A line is all that a new name takes.

from deltanb.catalog.iceberg.table import IcebergTable as IcebergTable
from deltanb.catalog.named import open_named as open_named
from deltanb.catalog.transaction import CatalogTransaction as CatalogTransaction
from deltanb.locks.tables.table import LockedTables as LockedTables
from deltanb.observe.blame.blame import Blame as Blame
from deltanb.observe.blame.blame import blame_of as blame_of
from deltanb.observe.catalog_timeline import CatalogTimeline as CatalogTimeline
from deltanb.observe.checkup.examine import checkup_log as checkup_log
from deltanb.observe.checkup.report import Checkup as Checkup
from deltanb.observe.conflict_map import ConflictMap as ConflictMap
from deltanb.observe.conflict_map import conflict_map as conflict_map
from deltanb.observe.file_layout import FileLayout as FileLayout
from deltanb.observe.file_layout import layout_of as layout_of
from deltanb.observe.lock_events import lock_events as lock_events
from deltanb.observe.report import write_report as write_report
from deltanb.observe.stepper import CommitStepper as CommitStepper
from deltanb.observe.stepper import GroupStepper as GroupStepper
from deltanb.observe.stream_state import StreamState as StreamState
from deltanb.observe.verify.report import Verification as Verification
from deltanb.observe.verify.verify import verify_log as verify_log
from deltanb.observe.what_if import Replay as Replay
from deltanb.observe.what_if import replay as replay
from deltanb.query.sql import run_sql as run_sql
from deltanb.sources.spark.source import register_format as register_format
from deltanb.sources.spark.stream import read_stream as read_stream
