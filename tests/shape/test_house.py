"""The shape of the house: sizes, and who may read the clock, fork or sleep."""

import ast
from pathlib import Path

import pytest

import pool

ROOT = Path(pool.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
FILE_LINES, BACKEND_FILE_LINES, FUNCTION_LINES = 300, 400, 40
LONGER = {"as_job": 45}  # a column a line: two functions would be harder to compare with the table
TALKING = ("cli", "worker/commands.py")  # a command's output is printed so that it is captured like a function's
VAGUE = {"utils", "util", "common", "helpers", "misc", "base", "manager"}
TREES = {file: ast.parse(file.read_text()) for file in FILES}


def functions_of(file: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in ast.walk(TREES[file]) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its docstring."""
    doc = ast.get_docstring(function, clean=False)
    return function.end_lineno - function.lineno + 1 - (len(doc.splitlines()) if doc else 0)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_file_can_be_read_in_one_sitting(file: Path) -> None:
    limit = BACKEND_FILE_LINES if "backends" in file.parts else FILE_LINES
    assert len(file.read_text().splitlines()) <= limit


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_function_fits_on_a_screen(file: Path) -> None:
    too_long = {f.name: code_lines(f) for f in functions_of(file) if code_lines(f) > LONGER.get(f.name, FUNCTION_LINES)}
    assert not too_long


def test_half_of_all_functions_are_small() -> None:
    sizes = sorted(code_lines(function) for file in FILES for function in functions_of(file))
    assert sizes[len(sizes) // 2] <= 9
    assert sizes[len(sizes) * 9 // 10] <= 22


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        str(file) for file in FILES if file.read_text().strip() and not ast.get_docstring(ast.parse(file.read_text()))
    ]
    assert not silent


def test_only_one_file_forks() -> None:
    forking = [str(file.relative_to(ROOT)) for file in FILES if "os.fork(" in file.read_text()]
    assert forking == ["supervisor/fork.py"]


def test_only_the_clock_reads_the_clock() -> None:
    """`time.time_ns` in ids.py makes UUIDv7, which are defined by it."""
    readers = ("time.time(", "time.monotonic(", "datetime.now(", "time.clock_gettime(")
    wrong = [
        str(f.relative_to(ROOT)) for f in FILES if f.name != "clock.py" and any(r in f.read_text() for r in readers)
    ]
    assert not wrong


def test_no_file_has_a_name_that_says_nothing() -> None:
    assert [str(file) for file in FILES if file.stem in VAGUE] == []


def test_a_condition_at_run_time_is_no_assert_and_no_error_is_swallowed_unnamed() -> None:
    wrong = [
        f"{file.relative_to(ROOT)}:{node.lineno}"
        for file, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Assert) or (isinstance(node, ast.ExceptHandler) and node.type is None)
    ]
    assert wrong == []


def test_only_the_command_line_prints() -> None:
    printing = [
        f"{file.relative_to(ROOT)}:{node.lineno}"
        for file, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert [place for place in printing if not place.startswith(TALKING)] == []


@pytest.mark.parametrize("suffix", [".sql", ".lua"])
def test_every_statement_and_script_begins_with_words_about_it(suffix: str) -> None:
    bare = [str(f.relative_to(ROOT)) for f in ROOT.rglob(f"*{suffix}") if not f.read_text().lstrip().startswith("--")]
    assert bare == []
