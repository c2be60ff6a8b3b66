"""The names of checkpoint files, and which of them make a whole checkpoint.

Lives here: PROTOCOL.md, "Checkpoint Naming Scheme": classic, multi-part and UUID-named files and
sidecars, both ways. Names are relative to the table's root.

Does not know: what is in the files.

>>> classic_name(10)
'_delta_log/00000000000000000010.checkpoint.parquet'
>>> parse_name(classic_name(10)).kind
'classic'
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from deltanb.actions import decode_path, encode_path

LOG_FOLDER = "_delta_log/"
SIDECAR_FOLDER = "_delta_log/_sidecars/"

Kind = Literal["classic", "multi-part", "v2"]

# Of several checkpoints of one version, readers take the one that is cheapest to prune.
_PREFERENCE: dict[str, int] = {"classic": 0, "multi-part": 1, "v2": 2}

_NAME = re.compile(
    r"_delta_log/(?P<version>\d{20})\.checkpoint"
    r"(?:\.(?P<part>\d{10})\.(?P<parts>\d{10})|\.(?P<id>[^./]+))?\.(?P<format>parquet|json)"
)


class CheckpointName(NamedTuple):
    """A parsed name; ``part`` and ``parts`` are 1 for kinds that have one file."""

    version: int
    kind: Kind
    part: int
    parts: int


@dataclass(frozen=True)
class CheckpointFiles:
    """The files of one whole checkpoint, in part order."""

    version: int
    kind: Kind
    names: tuple[str, ...]


def parse_name(name: str) -> CheckpointName | None:
    """What a name says, or None if it is not a checkpoint file's."""
    match = _NAME.fullmatch(name)
    if match is None or (match["format"] == "json" and match["id"] is None):
        return None
    version = int(match["version"])
    if match["part"]:
        return CheckpointName(version, "multi-part", int(match["part"]), int(match["parts"]))
    return CheckpointName(version, "v2" if match["id"] else "classic", 1, 1)


def complete_checkpoints(
    names: Iterable[str], at_or_below: int | None = None
) -> list[CheckpointFiles]:
    """The whole checkpoints among ``names``, best first: newest version, then kind.

    Multi-part checkpoints with missing parts are left out, as readers must ignore them.
    """
    parts_of: dict[tuple[int, Kind, str], dict[int, str]] = defaultdict(dict)
    num_parts: dict[tuple[int, Kind, str], int] = {}
    for name in names:
        parsed = parse_name(name)
        if parsed is None or (at_or_below is not None and parsed.version > at_or_below):
            continue
        group = str(parsed.parts) if parsed.kind == "multi-part" else name
        key = (parsed.version, parsed.kind, group)
        parts_of[key][parsed.part] = name
        num_parts[key] = parsed.parts
    whole = [
        CheckpointFiles(key[0], key[1], tuple(parts[i] for i in sorted(parts)))
        for key, parts in parts_of.items()
        if set(parts) == set(range(1, num_parts[key] + 1))
    ]
    return sorted(whole, key=lambda c: (c.version, _PREFERENCE[c.kind], c.names), reverse=True)


def classic_name(version: int) -> str:
    """The name of a classic checkpoint."""
    return f"{LOG_FOLDER}{version:020d}.checkpoint.parquet"


def v2_name(version: int, unique: str) -> str:
    """The name of a UUID-named checkpoint whose top level is JSON."""
    return f"{LOG_FOLDER}{version:020d}.checkpoint.{unique}.json"


def sidecar_name(path: str) -> str:
    """Where a sidecar action's path lies: always in the table's own folder of sidecars."""
    return SIDECAR_FOLDER + decode_path(path).rsplit("/", 1)[-1]


def sidecar_path(name: str) -> str:
    """The path that a sidecar action gives for a file: its name alone."""
    return encode_path(name.removeprefix(SIDECAR_FOLDER))
