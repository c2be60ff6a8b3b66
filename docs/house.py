"""The house: its floors, what lives in each module, and which imports run between them.

What lives here: :data:`FLOORS`, the one list of floors, from which ``tests/test_imports.py`` knows what may
import what; and the command that tells the paths: ``python docs/house.py [FOLDER]`` prints a line for each
module, from its own docstring.
What it does not know: the code of any module beyond its imports and its first line.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "deltanb"

FLOORS = (
    ("_version", "errors", "options", "text"),
    ("concurrency",),
    ("actions",),
    ("store",),
    ("schema",),
    ("sql",),
    ("parquet",),
    ("log",),
    ("transaction",),
    ("locks",),
    ("engines.contract",),
    ("engines.arrow", "engines.spark"),
    ("commands",),
    ("table",),
    ("locks.tables",),
    ("catalog",),
    ("sources",),
    ("observe", "query"),
    ("notebook",),
    ("testing", "app", "examples", "spark", ""),
)
"""From the ground floor to the top: a module imports from its own floor and from those below it."""


def modules_of(*packages: str) -> list[str]:
    """Names of all modules under the given packages, from their files."""
    names = []
    for package in packages:
        for file in sorted(ROOT.joinpath(*package.split(".")).rglob("*.py")):
            parts = file.relative_to(ROOT).with_suffix("").parts
            names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return names


def file_of(module: str) -> Path:
    """The file of a module or package, from its name."""
    base = ROOT.joinpath(*module.split("."))
    return base / "__init__.py" if base.is_dir() else base.with_suffix(".py")


def floor_of(module: str) -> int:
    """The floor on which a module is, counted from below; its name without the package's."""
    floors = {name: number for number, names in enumerate(FLOORS) for name in names}
    while module not in floors:
        module = module.rpartition(".")[0]
    return floors[module]


def imports_of(path: Path) -> Iterator[tuple[str, bool]]:
    """Modules of the package that a module imports anywhere, and whether for annotations alone."""

    def below(node: ast.AST, is_type: bool) -> Iterator[tuple[str, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                yield from below(child, True)
            elif isinstance(child, ast.Import):
                yield from ((a.name, is_type) for a in child.names if a.name.startswith("deltanb"))
            elif isinstance(child, ast.ImportFrom) and (child.module or "").startswith("deltanb"):
                for alias in child.names:
                    inner = f"{child.module}.{alias.name}"
                    yield (inner if file_of(inner).exists() else str(child.module)), is_type
            else:
                yield from below(child, is_type)

    yield from below(ast.parse(path.read_text("utf-8")), False)


def arrows() -> dict[tuple[str, str], bool]:
    """(importing module, imported one), without the package's name -> whether for annotations alone."""
    pairs: dict[tuple[str, str], bool] = {}
    for module in modules_of("deltanb"):
        for target, is_type in imports_of(file_of(module)):
            source, imported = (name.removeprefix("deltanb").removeprefix(".") for name in (module, target))
            if source != imported:
                pairs[source, imported] = pairs.get((source, imported), True) and is_type
    return pairs


def lines(folder: Path) -> Iterator[str]:
    """A line for each module below a folder: its path, and the first sentence of its docstring."""
    for path in sorted(folder.rglob("*.py")):
        said = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        yield f"{path.relative_to(ROOT).as_posix():55} {said.partition(chr(10))[0]}"


def main(arguments: list[str]) -> None:
    """Print the modules of a folder, or of the whole package."""
    for folder in arguments or [str(PACKAGE)]:
        print(*lines(Path(folder).resolve()), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
