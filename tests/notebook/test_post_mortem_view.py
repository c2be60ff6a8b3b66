"""Why a job failed, shown: the verdict, what would have let it pass, what it rests on; as Markdown, too."""

from __future__ import annotations

import json
from typing import Any

import deltanb as dn
from deltanb.notebook.drawing import markdown
from deltanb.notebook.views.model import Section, Table, View, code
from deltanb.notebook.views.post_mortem import listing
from deltanb.observe.post_mortem.report import PostMortem
from deltanb.options import set_options
from deltanb.testing import MemoryStore, TableBuilder, add, remove
from tests.notebook.large import much_of_everything
from tests.notebook.looks import assert_consistent, assert_golden

START = 1_772_442_862_000  # 2026-03-02 09:14:22 UTC
HOUR = 3_600_000
TEXT = """\
Traceback (most recent call last):
  File "/jobs/nightly.py", line 31, in <module>
    spark.sql(statement)
py4j.protocol.Py4JJavaError: An error occurred while calling o66.sql.
: io.delta.exceptions.ConcurrentAppendException: [DELTA_CONCURRENT_APPEND.WITH_PARTITION_HINT] Transaction \
conflict detected. A concurrent WRITE added data to table delta.`s3://lake/orders` committed at version 5. \
The concurrent operation modified data in the partition [day=mon] that should have been read by this \
operation.
\tat org.apache.spark.sql.delta.commands.DeleteCommand.run(DeleteCommand.scala:118)
"""


def info(operation: str, read: int, user: str, at: int, **parameters: Any) -> Any:
    blind = operation == "WRITE"
    return {"commitInfo": {
        "operation": operation, "readVersion": read, "userName": user, "isBlindAppend": blind,
        "timestamp": START + at * HOUR, "operationParameters": parameters,
        "txnId": f"{operation} {read} {user}"}}


def stats(low: int, high: int) -> str:
    return json.dumps({"numRecords": 10, "minValues": {"id": low}, "maxValues": {"id": high},
                       "nullCount": {"id": 0}})


def orders() -> TableBuilder:
    """A table into which one writer appends while another one deletes, and did so before."""
    with set_options(clock=lambda: START + HOUR):
        return built()


def built() -> TableBuilder:
    builder = TableBuilder(MemoryStore("memory:///lake/orders")).create(
        "id long, day string", partition_by=["day"])
    mon, tue, condition = {"day": "mon"}, {"day": "tue"}, '["id < 10"]'
    builder.commit(info("WRITE", 0, "etl", 0, mode="Append"), add("day=mon/a", mon, stats=stats(50, 90)),
                   add("day=tue/b", tue, stats=stats(1, 20)))
    builder.commit(info("WRITE", 1, "etl", 1, mode="Append"), add("day=tue/c", tue, stats=stats(30, 40)))
    builder.commit(info("DELETE", 1, "nightly", 1, predicate=condition),
                   remove("day=tue/b", partitionValues=tue), add("day=tue/d", tue, stats=stats(10, 20)))
    builder.commit(info("OPTIMIZE", 3, "keeper", 2),
                   remove("day=tue/c", partitionValues=tue, dataChange=False),
                   add("day=tue/e", tue, dataChange=False, stats=stats(30, 40)))
    builder.commit(info("WRITE", 4, "etl", 25, mode="Append"), add("day=mon/f", mon, stats=stats(60, 80)))
    return builder


def explained(**known: Any) -> PostMortem:
    return dn.post_mortem(orders().store, TEXT, **{
        "read_version": 3, "predicate": "id < 12", "writer": "nightly", **known})


def test_a_job_explained(update_golden: bool) -> None:
    pm = explained()
    page = assert_consistent(pm)
    assert_golden(pm, "post_mortem", update_golden)
    plain = str(pm)
    assert plain.startswith("Post-mortem orders  ✗ proved  v5 won  rule append\n"
                            "Version 5 (WRITE by etl, 2026-03-02 10:14:22 UTC) added 1 file in [day=mon]")
    assert "No row met, by statistics." in plain
    for words in ("Set delta.isolationLevel to WriteSerializable", "day = 'tue'", "cannot meet", "passed",
                  "1 time in", "most often from 10:00 to 11:00 UTC (1)", "keeper"):
        assert words in page.text, words


def test_what_is_inferred_is_marked_in_every_form(update_golden: bool) -> None:
    pm = explained(read_version=None, predicate=None, writer=None)
    page = assert_consistent(pm)
    assert_golden(pm, "post_mortem_inferred", update_golden)
    assert any(fact.is_inferred for fact in pm.facts)
    assert pm.certainty == "proved"  # of the winner and the rule, which the text names
    assert {one.certainty for one in pm.would_have_passed} == {"possible"}
    for form in (page.text, listing(pm), pm.to_markdown()):
        assert "? inferred: no later than 4" in form
    assert "read version v4 (inferred)" in str(pm).replace("(inferre…", "(inferred)")


def test_a_text_that_is_not_known(update_golden: bool) -> None:
    pm = dn.post_mortem(orders().store, "java.lang.OutOfMemoryError: Java heap space\n\tat scala.List.map")
    assert_consistent(pm)
    assert_golden(pm, "post_mortem_unknown", update_golden)
    assert "java.lang.OutOfMemoryError:\n  Java heap space." in str(pm) and pm.status == 3


def test_the_ticket_has_every_section_of_the_page() -> None:
    pm = explained()
    text, page = pm.to_markdown(), assert_consistent(pm)
    assert text.startswith("## Post-mortem: orders\n\n✗ proved  ·  v5 won  ·  rule `append`\n")
    for heading in pm.fields().headings[1:]:
        assert f"\n### {heading}\n" in text and heading in page.text
    assert "| ✓ proved | Set delta.isolationLevel to WriteSerializable |" in text
    for line in text.splitlines():
        if line.startswith("|"):
            assert line.endswith("|")


def test_names_cannot_break_out_of_markdown() -> None:
    rows = ((code("a`b|c"), "x | y <script> *z*", "[link](http://x)\n# heading"),)
    table = Table(("one", "two", "three"), rows, 3, "row")
    text = markdown.render(View("Kind", "a_b", (), ("`code`",), (Section("Part", "", table),)))
    assert "| ``a`b\\|c`` | x \\| y \\<script\\> \\*z\\* | \\[link\\](http://x)\\\\n# heading |" in text
    assert "… 2 more rows" in text and "\\`code\\`" in text


def test_many_winners_are_shown_around_the_one_that_counts() -> None:
    pm = much_of_everything()
    with set_options(max_rows=3):
        page = assert_consistent(pm)
    assert " of 5 000 winners" in page.text.replace("\u00a0", " ")
    assert len(listing(pm).splitlines()) < 200


def test_the_conflict_is_no_part_of_what_is_compared_or_written() -> None:
    pm = explained()
    assert pm == explained() and pm.conflict is not None
    assert "conflict" not in json.loads(pm.to_json())
