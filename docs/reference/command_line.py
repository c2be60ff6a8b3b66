"""The reference of the command line, made from its own parser.

What lives here: the form of the page.
What it does not know: any command.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from deltanb.app.cli import EXIT_CODES, command_parser
from docs.reference.names import page_part
from docs.reference.rst import code, page, table

INTRODUCTION = """
``pip install deltanb`` brings the command ``deltanb``. ``deltanb COMMAND --help`` prints what is below.
"""


def pages() -> dict[str, str]:
    """The one page."""
    parser = command_parser()
    codes = table(("exit code", "meaning"), [(str(code), text) for code, text in EXIT_CODES.items()], "15 85")
    return {"command-line.rst": page(
        "Command line", INTRODUCTION, codes, *(_command(each, text) for each, text in commands_of(parser)))}


def commands_of(parser: argparse.ArgumentParser) -> Iterator[tuple[argparse.ArgumentParser, str]]:
    """All commands below a parser, each with what its parser's list says of it."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            texts = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, each in action.choices.items():
                yield each, texts.get(name, "")
                yield from commands_of(each)


def _command(parser: argparse.ArgumentParser, text: str) -> str:
    actions = [each for each in parser._actions if not isinstance(each, argparse._HelpAction)]
    usage = parser.format_usage().removeprefix("usage: ").strip()
    about = parser.description or f"{text[:1].upper()}{text[1:]}."
    rows = [(code(_label(each)), _help(parser, each)) for each in actions
            if not isinstance(each, argparse._SubParsersAction)]
    lines = "\n".join(f"   {line}" for line in usage.splitlines())
    return page_part(parser.prog, _plain(about), f".. code-block:: text\n\n{lines}",
                     table(("argument", "meaning"), rows, "30 70") if rows else "")


def _label(action: argparse.Action) -> str:
    value = action.metavar or ("" if action.nargs == 0 else (
        f"{{{','.join(map(str, action.choices))}}}" if action.choices else action.dest.upper()))
    if isinstance(value, tuple):
        value = " ".join(value)
    return f"{', '.join(action.option_strings)} {value}".strip() if action.option_strings else str(value)


def _help(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    """What the parser says of an argument, its defaults filled in."""
    formatter = parser._get_formatter()
    return _plain(formatter._expand_help(action)) if action.help else ""


def _plain(text: str) -> str:
    """Text of a terminal in which no sign means anything to reStructuredText."""
    for sign in "\\*`|_":
        text = text.replace(sign, f"\\{sign}")
    return " ".join(text.split())
