"""The house: its floors, what lives in each module, and which imports run between them.

What lives here: :data:`FLOORS`, the one list of floors, from which ``tests/test_imports.py`` knows what may
import what; and two commands. ``python docs/house.py [FOLDER]`` prints a line for each module, from its own
docstring; ``python docs/house.py --figure`` writes the figure in CONTRIBUTING.md anew.
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


def figure() -> str:
    """The floors as a Mermaid flowchart: an arrow leads from a folder to each that it imports from, unless
    another arrow's way leads there, too."""
    below: dict[str, set[str]] = {}
    for (source, target), is_type in arrows().items():
        ends = _room(source), _room(target)
        if not is_type and all(map(_is_room, ends)) and floor_of(target) < floor_of(source):
            below.setdefault(ends[0], set()).add(ends[1])

    def reach(room: str) -> set[str]:
        return set().union(*({each} | reach(each) for each in below.get(room, ())))

    rows = ["flowchart TD"]
    for names in reversed(FLOORS):
        rows += [f"    {_node(name)}[{name}]" for name in filter(_is_room, names)]
    for source in sorted(below, key=lambda name: (-floor_of(name), name)):
        targets = below[source]
        passed = set().union(*(reach(each) for each in targets))
        rows += [f"    {_node(source)} --> {_node(each)}"
                 for each in sorted(targets - passed, key=lambda name: (-floor_of(name), name))]
    return "\n".join(rows)


def _room(module: str) -> str:
    """The floor's name under which a module is listed."""
    names = {name for floor in FLOORS for name in floor}
    while module not in names:
        module = module.rpartition(".")[0]
    return module


def _is_room(name: str) -> bool:
    """Whether it is drawn: a folder with code of its own, and no module that stands beside them."""
    return ((PACKAGE / name.replace(".", "/")).is_dir() and name not in ("", "spark")) \
        or name == "engines.contract"


def _node(name: str) -> str:
    return name.replace(".", "_")


BEGIN, END = "```mermaid\n", "\n```"
"""Between these the figure stands in the guide."""


def draw(guide: Path = ROOT / "CONTRIBUTING.md") -> None:
    """Write the figure into the guide."""
    head, _, rest = guide.read_text("utf-8").partition(BEGIN)
    guide.write_text(f"{head}{BEGIN}{figure()}{END}{rest.partition(END)[2]}", "utf-8")


def lines(folder: Path) -> Iterator[str]:
    """A line for each module below a folder: its path, and the first sentence of its docstring."""
    for path in sorted(folder.rglob("*.py")):
        text = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        yield f"{path.relative_to(ROOT).as_posix():55} {text.partition(chr(10))[0]}"


def main(arguments: list[str]) -> None:
    """Draw the figure, or print the modules of a folder or of the whole package."""
    if arguments == ["--figure"]:
        draw()
        return
    for folder in arguments or [str(PACKAGE)]:
        print(*lines(Path(folder).resolve()), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
