"""What a program that runs strangers' payloads must not contain at all: nothing here turns data into code."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import pool
from tests.audit import brought_along

ROOT = Path(pool.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
FORBIDDEN_MODULES = {"pickle", "cPickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle", "yaml", "imp", "commands", "code", "codeop"}  # fmt: skip
FORBIDDEN_NAMES = {"eval", "exec", "compile", "__import__", "execfile"}
FORBIDDEN_ATTRIBUTES = {
    "os.system", "os.popen", "os.spawnl", "os.spawnv", "subprocess.getoutput", "subprocess.getstatusoutput",
    "asyncio.create_subprocess_shell", "tempfile.mktemp", "builtins.eval", "builtins.exec", "builtins.compile",
}  # fmt: skip


def dangers_of(tree: ast.AST) -> Iterator[str]:
    """Every forbidden call or import, with its line."""
    for node in ast.walk(tree):
        for what in (*_imports(node), *_calls(node)):
            yield f"line {getattr(node, 'lineno', 0)}: {what}"


def _imports(node: ast.AST) -> Iterator[str]:
    names = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
    for name in names:
        if name.partition(".")[0] in FORBIDDEN_MODULES or name in FORBIDDEN_ATTRIBUTES:
            yield f"import {name}"


def _calls(node: ast.AST) -> Iterator[str]:
    if not isinstance(node, ast.Call):
        return
    called = ast.unparse(node.func)
    if called in FORBIDDEN_NAMES | FORBIDDEN_ATTRIBUTES:
        yield called
    for keyword in node.keywords:
        if keyword.arg == "shell" and not (isinstance(keyword.value, ast.Constant) and keyword.value.value is False):
            yield f"{called}(shell=…)"
        if keyword.arg == "autoescape" and isinstance(keyword.value, ast.Constant) and not keyword.value.value:
            yield f"{called}(autoescape={keyword.value.value})"


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_no_data_becomes_code(file: Path) -> None:
    assert list(dangers_of(ast.parse(file.read_text()))) == []


@pytest.mark.parametrize(
    "text",
    ["import pickle", "from marshal import loads", "eval(x)", "exec('x')", "os.system('ls')", "from os import system",
     "subprocess.run('ls', shell=True)", "subprocess.run('ls', shell=flag)", "yaml.load(x); import yaml",
     "asyncio.create_subprocess_shell('ls')", "__import__(name)", "Environment(autoescape=False)"],
)  # fmt: skip
def test_each_danger_is_seen(text: str) -> None:
    assert list(dangers_of(ast.parse(text)))


def test_no_template_marks_a_text_as_safe() -> None:
    """The one script that puts HTML into a page puts in what our own templates made."""
    templates, scripts = sorted(ROOT.rglob("*.html")), sorted(ROOT.rglob("*.js"))
    assert templates and scripts
    unsafe = re.compile(r"\|\s*safe\b|autoescape\s+false|document\.write|\beval\(|new Function")
    assert [file.name for file in (*templates, *scripts) if unsafe.search(file.read_text())] == []
    assert [file.name for file in scripts if "innerHTML" in file.read_text()] == ["live.js"]


def test_the_audit_asks_about_everything_that_is_declared() -> None:
    declared = tomllib.loads((ROOT.parent / "pyproject.toml").read_text())["project"]
    lines = [*declared["dependencies"], *declared["optional-dependencies"]["web"]]
    names = {re.split(r"[\[<>=!~; ]", line)[0].lower() for line in lines}
    found = brought_along()
    assert names <= found.keys()
    assert {"pydantic-core", "starlette", "hiredis"} <= found.keys(), "what they bring along counts too"
    assert "pytest" not in found
