"""`import pool` costs a caller's program next to nothing."""

import subprocess
import sys
from time import perf_counter

import pytest

HEAVY = (
    "redis",
    "pydantic",
    "pydantic_core",
    "pydantic_settings",
    "loguru",
    "typer",
    "rich",
    "psutil",
    "asyncio",
    "sqlite3",
    "prometheus_client",
    "h11",
    "fastapi",
    "uvicorn",
    "starlette",
    "jsonschema_rs",
)


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def heavy_after(program: str) -> list[str]:
    return run(f"import sys\n{program}\nprint(*[name for name in {HEAVY!r} if name in sys.modules])").split()


def test_importing_the_front_door_loads_no_library() -> None:
    assert heavy_after("import pool") == []


def test_declaring_a_job_loads_no_library() -> None:
    declared = (
        "import pool\n@pool.job(queue='q', backoff=pool.exponential(1), timeout=3)\ndef f(x: int) -> None: ...\nf(1)"
    )

    assert heavy_after(declared) == []


def test_making_a_client_loads_no_library() -> None:
    assert heavy_after("import pool\npool.Client('redis://127.0.0.1:1/0')") == []


def test_drafting_a_job_of_plain_arguments_loads_no_more_than_the_core_of_pydantic() -> None:
    drafted = "import pool\n@pool.job(name='shop.f')\ndef f(x: int, y: str = ''): ...\n"

    assert heavy_after(drafted + "pool.Client('sqlite:///none').draft(f, {'x': 1})") == ["pydantic_core"]


def test_every_name_of_the_front_door_is_there() -> None:
    program = "import pool\nassert all(getattr(pool, name) is not None for name in pool.__all__)\nprint(set(pool.__all__) <= set(dir(pool)))"

    assert run(program) == "True"
    assert (
        run("import pool\ntry: pool.nonsense\nexcept AttributeError as error: print(error)")
        == "module 'pool' has no attribute 'nonsense'"
    )


@pytest.mark.serial
def test_importing_the_front_door_is_quick_beside_bare_python() -> None:
    def seconds(program: str) -> float:
        times = []
        for _ in range(7):
            begun = perf_counter()
            run(program)
            times.append(perf_counter() - begun)
        return min(times)

    assert seconds("import pool") < seconds("pass") * 4 + 0.05
