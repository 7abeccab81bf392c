"""Help and completion know every verb and every option."""

import os
import subprocess
import sys

import pytest


def jobpool(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pool", *words],
        capture_output=True, text=True, timeout=60, env={**os.environ, **environ},
    )  # fmt: skip


@pytest.mark.parametrize("words", [("start",), ("status",), ("dead", "retry"), ("schedule", "list")])
def test_help_of_a_verb_is_what_the_verb_says_of_itself(words: tuple[str, ...]) -> None:
    helped, asked = jobpool("help", *words), jobpool(*words, "--help")

    assert (helped.returncode, helped.stdout) == (0, asked.stdout)
    assert "--" in helped.stdout


def test_help_alone_lists_the_verbs() -> None:
    listing = jobpool("help")

    assert listing.returncode == 0
    assert all(f"  {verb} " in listing.stdout for verb in ("start", "status", "enqueue", "dead", "help"))


def test_help_of_something_that_is_no_verb_is_wrong_usage() -> None:
    assert jobpool("help", "strat").returncode == 2


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("jobpool sta", {"start", "status", "stack"}),
        ("jobpool start --w", {"--workers", "--watch"}),
        ("jobpool status --", {"--json", "--watch", "--config", "--socket", "--help"}),
        ("jobpool dead re", {"retry"}),
    ],
)
def test_the_shell_completes_verbs_and_options(typed: str, expected: set[str]) -> None:
    asked = jobpool(_JOBPOOL_COMPLETE="complete_bash", COMP_WORDS=typed, COMP_CWORD=str(len(typed.split()) - 1))

    assert set(asked.stdout.split()) == expected, asked.stderr
