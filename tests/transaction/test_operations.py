"""Operations: what commands commit is known to those that read it."""

from __future__ import annotations

import ast
from pathlib import Path

import deltanb
from deltanb.commands.define.create import MODES
from deltanb.transaction.operations import CHANGES_DATA, DEFINES, OPERATIONS, RECOMMITS_FILES, TAKES_FILES

COMMANDS = Path(deltanb.__file__).parent / "commands"


def committed() -> dict[str, str]:
    """The names of operations in the modules of commands, and where each stands."""
    calls = ((path, node) for path in COMMANDS.rglob("*.py")
             for node in ast.walk(ast.parse(path.read_text("utf-8")))
             if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Operation")
    return {node.args[0].value: f"{path.name}:{node.lineno}" for path, node in calls
            if node.args and isinstance(node.args[0], ast.Constant)}


def test_what_commands_commit_is_known() -> None:
    names = committed()
    assert {"TRUNCATE", "CHANGE COLUMNS", "OPTIMIZE"} <= names.keys()
    assert not {name: where for name, where in names.items() if name not in OPERATIONS}
    assert {name + rows for name in MODES.values() for rows in ("", " AS SELECT")} <= OPERATIONS


def test_each_set_of_operations_is_of_known_ones() -> None:
    for some in (CHANGES_DATA, DEFINES, RECOMMITS_FILES, TAKES_FILES):
        assert some <= OPERATIONS
    assert not CHANGES_DATA & DEFINES
