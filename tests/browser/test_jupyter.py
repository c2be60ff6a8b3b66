"""What people see in JupyterLab and in Notebook 7, without a network: Chromium opens, clicks and looks."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import expect

import deltanb as dn
from deltanb.notebook import bundle
from deltanb.notebook.drawing.chart import VEGALITE
from deltanb.testing import MemoryStore
from tests.browser.hosts import DONE, Reader, Server, outputs, prompts, shown
from tests.notebook import samples
from tests.patience import PATIENCE

pytestmark = [pytest.mark.browser, pytest.mark.slow]
Picture = Callable[..., bytes]

LOSE_A_RACE = """\
import deltanb as dn
dn.teaching(seed=1)
table = dn.create("orders", {"day": [1, 1, 2], "qty": [2, 4, 9]}, partition_by="day")
yours = table.start_transaction()
read = yours.filter_files("day = 1")
table.append({"day": [1], "qty": [5]})
table"""
COMMIT = "yours.commit([file.remove() for file in read], dn.Operation('DELETE', {'predicate': ['day = 1']}))"
SVG, TEXT = "image/svg+xml", "text/plain"
COMMITS = 10_000
MAX_DRAWN, SLACK = 2, 4  # seconds from the key to the picture; and what a machine that does much else takes
GROUND = "node => getComputedStyle(node).backgroundColor"
COLOURS = {"light": "rgb(255, 255, 255)", "dark": "rgb(17, 17, 17)"}


def commits() -> dn.DeltaTable:
    """A table of four commits, in this process."""
    dn.teaching(seed=1)
    table = dn.create(MemoryStore("memory:///lake/orders"), {"day": [1]})
    for n in range(3):
        table.append({"day": [n]})
    return table


def test_conflict_below_the_failing_cell(
    reader: Reader, server: Server, theme: str, picture: Picture
) -> None:
    page = reader.run(server.write(f"conflict-{theme}", LOSE_A_RACE, COMMIT), is_failing=True)
    table, conflict, error = (outputs(page).nth(at) for at in range(3))
    assert table.locator(".dnb-rich").inner_text().startswith("Table orders")
    assert "✕ ConcurrentAppend" in conflict.locator(".dnb-rich").inner_text()
    assert "ConcurrentAppendException" in error.inner_text()
    assert "commit.py" not in error.inner_text()
    for rich in (table, conflict):
        assert rich.locator(".dnb-rich").evaluate(GROUND) == COLOURS[theme]
        assert not rich.locator(".dnb-text").is_visible()
    picture(page)


def test_untrusted_notebook_keeps_the_text(reader: Reader, server: Server, picture: Picture) -> None:
    conflict, table = samples.append(), commits()
    timeline = table.timeline()
    drawing = {SVG: timeline.svg, TEXT: str(timeline)}
    chart = {VEGALITE: timeline.spec, TEXT: str(timeline)}
    cell = shown(bundle.mimebundle(conflict), timeline._repr_mimebundle_(), drawing, chart)
    page = reader.open(server.write("untrusted", cell, trusted=False))
    texts = page.locator(".dnb-text")
    for at, one in enumerate((conflict, timeline)):
        expect(texts.nth(at)).to_be_visible()
        assert texts.nth(at).inner_text() == bundle.text(one)
        assert not page.locator(".dnb-rich").nth(at).is_visible()
    expect(page.locator(".vega-embed canvas")).to_be_visible()  # data alone, so it is drawn all the same
    assert outputs(page).nth(2).inner_text().strip() == str(timeline)  # no SVG without trust
    picture(page)


def test_trusted_notebook_shows_the_rich_form(reader: Reader, server: Server) -> None:
    drawing = {SVG: commits().timeline().svg, TEXT: "the timeline"}
    page = reader.open(server.write("trusted", shown(bundle.mimebundle(samples.append()), drawing)))
    expect(page.locator(".dnb-rich")).to_be_visible()
    expect(page.locator(".jp-RenderedSVG svg, .jp-RenderedSVG img")).to_be_visible()
    assert not page.locator(".dnb-text").is_visible()


def test_progress_is_there_while_work_goes_on_and_gone_after(reader: Reader, server: Server) -> None:
    begin = """\
from deltanb.text.progress import progress
line = progress("looking for rows", total=2, patience=0)
done = line.__enter__()"""
    page = reader.open(server.write("progress", begin, "line.__exit__(None, None, None)"))
    prompts(page).first.click()
    page.keyboard.press("Shift+Enter")
    expect(outputs(page)).to_contain_text("looking for rows: 0 of 2", timeout=PATIENCE * 1000)
    page.keyboard.press("Shift+Enter")
    expect(page.get_by_text("looking for rows:")).to_have_count(0, timeout=PATIENCE * 1000)


@pytest.mark.spark
def test_a_job_of_a_cells_own_code_has_a_line_until_it_is_done(
    reader: Reader, server: Server, tmp_path: Path
) -> None:
    pytest.importorskip("pyspark")
    begin = """\
import deltanb as dn
spark = dn.spark(master="local[1]")"""
    work = f"""\
def until_told(batches):
    open({str(tmp_path / "pipe")!r}).close()
    yield from batches
print(spark.range(0, 10, 1, 1).mapInArrow(until_told, "id long").count(), "rows")"""
    os.mkfifo(tmp_path / "pipe")
    page = reader.open(server.write("job", begin, work, "spark.stop()"))
    prompts(page).first.click()
    page.keyboard.press("Shift+Enter")
    expect(prompts(page).first).to_have_text(DONE)
    page.keyboard.press("Shift+Enter")
    expect(page.get_by_text("Spark: 0 of 1 tasks")).to_be_visible(timeout=PATIENCE * 1000)
    open(tmp_path / "pipe", "w").close()  # the task waits until somebody opens it
    expect(page.get_by_text("10 rows", exact=True)).to_be_visible(timeout=PATIENCE * 1000)
    expect(page.get_by_text("Spark: 0 of")).to_have_count(0)
    page.keyboard.press("Shift+Enter")


def test_ten_thousand_commits_are_drawn(reader: Reader, server: Server, picture: Picture) -> None:
    make = f"""\
from deltanb.observe.timeline import CommitTimeline, Track
kinds = ("append", "rewrite", "delete", "optimize")
tracks = [Track(v, max(0, v - 1 - v % 4), "WRITE", f"writer {{v % 7}}", kinds[v % 4])
          for v in range({COMMITS})]
timeline = CommitTimeline(tracks, "orders")"""
    page = reader.open(server.write("many", make, "timeline"))
    prompts(page).first.click()
    page.keyboard.press("Shift+Enter")
    expect(prompts(page).first).to_have_text(DONE)
    start = page.evaluate("performance.now()")
    page.keyboard.press("Shift+Enter")
    expect(page.locator(".dnb-window:visible .dnb-lanes")).to_be_visible()
    took = (page.evaluate("performance.now()") - start) / 1000
    print(f"drawn after {took:.1f} s")
    assert took <= MAX_DRAWN * SLACK
    picture(page)
