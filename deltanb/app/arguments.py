"""What may be typed after an option: whole numbers, versions, ports, times, names of files.

What lives here: a function for each kind of argument, which refuses others in a sentence.
What it does not know: any command.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from deltanb.errors import InvalidArgument


def positive(text: str) -> int:
    """A whole number above 0."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def version(text: str) -> int:
    """A version of a table, 0 or more."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a version, a whole number from 0")
    return int(text)


def port(text: str) -> int:
    """A port; 0 takes any that is free."""
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port, 0 to 65535")
    return int(text)


def moment(text: str | None) -> int | str | None:
    """A version where digits alone are typed, else a time."""
    return int(text) if text is not None and text.isdecimal() else text


def check_ending(file: Path | None, ending: str) -> None:
    """Refuse a file whose name does not end in what will be written.

    Raises:
        InvalidArgument: it ends in something else.
    """
    if file is not None and file.suffix.lower() != ending:
        raise InvalidArgument(f"--{ending[1:]} {file}: the name of the file must end in {ending}")
