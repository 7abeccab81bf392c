"""Help and completion know every verb and every option."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

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


# ---------------------------------------------------------------- installed in a real shell

SHOWN = {
    "bash": ["bash", "--norc", "-ic", """
source "$HOME"/.bashrc
COMP_WORDS=(jobpool sta); COMP_CWORD=1
_jobpool_completion jobpool; printf '%s\\n' "${COMPREPLY[@]}"
"""],
    "zsh": ["zsh", "-fic", """
zmodload zsh/zpty
zpty -b shell zsh -fi
zpty -w shell "source $HOME/.zshrc; PS1=READY; print DO''NE"
zpty -r shell said '*DONE*'
zpty -n -w shell $'jobpool sta\\t\\t'
for turn in {1..1200}; do
    while zpty -rt shell said; do print -rn -- $said; seen+=$said; done
    [[ $seen == *stack*start*status* ]] && break
    sleep 0.05
done
zpty -d shell
"""],
    "fish": ["fish", "-c", 'complete --do-complete "jobpool sta"'],
}  # fmt: skip


@pytest.mark.parametrize("shell", SHOWN)
def test_completion_is_installed_with_one_command_and_works_in_the_shell(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here: apt-get install {shell}")
    environ = {
        "HOME": str(tmp_path),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "SHELL": shutil.which(shell) or "",
        "TERM": "dumb",
        "LANG": "C.UTF-8",
        "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1",
    }
    installed = subprocess.run(
        ["jobpool", "--install-completion", shell], env=environ, capture_output=True, text=True, timeout=60
    )
    assert installed.returncode == 0, installed.stdout + installed.stderr

    asked = subprocess.run(
        SHOWN[shell], env=environ, capture_output=True, text=True, timeout=110, stdin=subprocess.DEVNULL
    )

    assert {"start", "status", "stack"} <= set(re.findall(r"\w+", asked.stdout)), asked.stdout + asked.stderr
