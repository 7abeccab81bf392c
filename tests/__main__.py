"""The one command that checks everything: `python -m tests`. `--full` adds what takes long; other words go to pytest."""

import os
import subprocess
import sys
import time

PYTHON = sys.executable
# Most tests wait for processes rather than compute: twice as many as there are cores keep these busy.
# The stores' tests use up descriptors and a browser leaves an event loop running: each has processes of its own.
SHARE = ("--dist", "worksteal")
OTHERS = ("--ignore=tests/backends", "--ignore=tests/browser")
AT_ONCE = str(2 * (os.cpu_count() or 1))


def steps(full: bool, extra: list[str]) -> list[tuple[str, list[str]]]:
    """Name and command of each step, cheapest first. Tests that measure time have the machine to themselves."""
    tier = [] if full else ["not full"]
    parallel = " and ".join([*tier, "not serial"])
    serial = " and ".join([*tier, "serial"])
    pytest = [PYTHON, "-m", "pytest", "-q"]
    return [
        ("lint", [PYTHON, "-m", "ruff", "check", "."]),
        ("format", [PYTHON, "-m", "ruff", "format", "--check", "."]),
        ("types", [PYTHON, "-m", "mypy"]),
        ("imports", [PYTHON, "-c", "from importlinter.cli import lint_imports_command as c; c()"]),
        ("tests of the stores", [*pytest, "-n", AT_ONCE, *SHARE, "-m", parallel, "tests/backends", *extra]),
        ("tests in a browser", [*pytest, "-n", AT_ONCE, *SHARE, "-m", parallel, "tests/browser", *extra]),
        ("tests", [*pytest, "-n", AT_ONCE, *SHARE, "-m", parallel, "tests", *OTHERS, *extra]),
        ("tests that measure", [*pytest, "-m", serial, "tests", *extra]),
    ]


def main(arguments: list[str]) -> int:
    """Run every step even when one fails, and say at the end which did; 1 if any failed."""
    extra = [word for word in arguments if word != "--full"]
    failed = []
    for name, command in steps("--full" in arguments, extra):
        print(f"\n=== {name}", flush=True)
        began = time.monotonic()
        code = subprocess.run(command, check=False).returncode
        print(
            f"=== {name}: {'ok' if code == 0 else f'failed ({code})'} after {time.monotonic() - began:.0f} s",
            flush=True,
        )
        if code:
            failed.append(name)
    print(f"\nfailed: {', '.join(failed)}" if failed else "\neverything is fine", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
