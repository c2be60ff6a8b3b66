"""Pages of the documentation: parts written from the code, and blocks of Python that are run.

What lives here: the comparison of such a part with the code, and its writing anew; the running of a page's
blocks, and the comparison of what they give with what the page shows.
What it does not know: what a page is about.
"""

from __future__ import annotations

import ast
import doctest
import io
import itertools
import os
import re
import textwrap
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docs.pictures import CHANCE


def assert_part(page: Path, name: str, text: str, update: bool) -> None:
    """The part of the page between ``<!-- name: … -->`` and ``<!-- end of name -->`` is this text;
    ``--update-golden`` writes it anew."""
    end = f"<!-- end of {name} -->"
    before, begin, rest = page.read_text("utf-8").partition(f"<!-- {name}: ")
    remark, arrow, part = rest.partition("-->\n")
    _, is_ended, after = part.partition(end)
    assert begin and arrow and is_ended
    if update:
        page.write_text(f"{before}{begin}{remark}{arrow}\n{text}\n{end}{after}", "utf-8")
    test = os.environ["PYTEST_CURRENT_TEST"].partition("::")[0]
    assert f"\n{text}\n{end}" in page.read_text("utf-8"), \
        f"out of date: pytest {test} --update-golden writes it"


OUTPUT = "text"
"""The language of a block that shows what the block of Python before it gives."""
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
"""How outputs are compared, here and in docstrings: ``...`` is anything, and lines may be wrapped."""
WIDTH = 96
"""Columns of an output that is written into a page."""
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A block of Python of a page, and the output that it shows; None where it shows none."""

    code: str
    line: int
    output: str | None
    span: tuple[int, int]
    """Where the output is in the page's text, or where it would be."""


def blocks_of(page: str) -> list[Block]:
    """The blocks of Python in the text of a page, in order."""
    fences, blocks = list(_FENCE.finditer(page)), []
    for fence, following in itertools.zip_longest(fences, fences[1:]):
        if fence[1] != "python":
            continue
        shows = following is not None and following[1] == OUTPUT and \
            not page[fence.end():following.start()].strip()
        blocks.append(Block(
            fence[2], page.count("\n", 0, fence.start(2)), following[2] if shows else None,
            following.span(2) if shows else (fence.end(), fence.end())))
    return blocks


def run_block(block: Block, page: str, names: dict[str, Any]) -> str:
    """What a block prints, then its last expression as a notebook has it, then its error if it ends with one.

    An error that the block does not show is raised.
    """
    tree = ast.parse("\n" * block.line + block.code, page)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with redirect_stdout(io.StringIO()) as printed:
        try:
            exec(compile(tree, page, "exec"), names)
            if last is not None:
                value = eval(compile(ast.Expression(last.value), page, "eval"), names)
                if value is not None:
                    print(repr(value))
        except Exception as error:
            if block.output is None:
                raise
            print(f"{_name(type(error))}: {error}")
    return printed.getvalue()


def _name(kind: type[BaseException]) -> str:
    """The name of an error as the last line of a traceback has it."""
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def wrapped(output: str) -> str:
    """An output whose long lines are wrapped, which its comparison does not mind."""
    return "".join(
        line if len(line) <= WIDTH else textwrap.fill(
            line, WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False) + "\n"
        for line in output.splitlines(keepends=True))


def run_page(path: Path, text: str, update: bool) -> list[str]:
    """Run a page's blocks in order, in this folder; its outputs that differ, each with its line.

    ``text`` is the page as it is to be run, with the same lines. ``update`` writes outputs that differ into
    the page, without this folder's name and what else chance decides.
    """
    names: dict[str, Any] = {"__name__": path.stem}
    checker, differences, renewed = doctest.OutputChecker(), [], path.read_text("utf-8")
    shown = blocks_of(renewed)
    outputs = [run_block(block, path.name, names) for block in blocks_of(text)]
    for block, output in reversed(list(zip(shown, outputs, strict=True))):
        expected = block.output or ""
        if checker.check_output(expected, output, FLAGS):
            continue
        example = doctest.Example(block.code, expected)
        difference = checker.output_difference(example, output, FLAGS)
        differences.insert(0, f"{path.name}:{block.line}: {difference}")
        begin, end = block.span
        new = wrapped(CHANCE.sub("...", output.replace(str(Path.cwd()), "...")))
        new = new if block.output is not None else f"\n\n```{OUTPUT}\n{new}```"
        renewed = renewed[:begin] + new + renewed[end:]
    if update and differences:
        path.write_text(renewed, "utf-8")
    return [] if update else differences
