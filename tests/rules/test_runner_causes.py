"""What is kept of an error: class, text and stack, whatever the error is made of."""

from pool.worker.causes import MAX_STACK_CHARACTERS, cause_from, stack_of


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError

    @property
    def __cause__(self) -> BaseException:  # type: ignore[override]
        raise RuntimeError


def caught(raiser: object) -> BaseException:
    try:
        raiser()  # type: ignore[operator]
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def fail() -> None:
    raise ValueError("postgresql://bob:hunter2@db/x password=hunter2 in /home/bob/app/secret.py")


def dig() -> None:
    dig()


def ping(depth: int) -> None:
    pong(depth)


def pong(depth: int) -> None:
    if depth == 0:
        raise ValueError
    ping(depth - 1)


def translate() -> None:
    try:
        fail()
    except ValueError as error:
        raise KeyError("translated") from error


def test_secrets_and_absolute_paths_are_cleaned_from_the_text() -> None:
    text = cause_from(caught(fail)).text or ""
    assert "hunter2" not in text and "/home/bob" not in text
    assert "postgresql://bob" in text


def test_the_stack_is_one_line_per_frame_outermost_first() -> None:
    lines = stack_of(caught(fail)).splitlines()
    assert lines[0] == "ValueError:"
    assert [line.rpartition(" in ")[2] for line in lines[1:]] == ["caught", "fail"]
    assert "test_runner_causes.py:" in lines[1]


def test_what_it_came_from_is_there_too() -> None:
    assert [line for line in stack_of(caught(translate)).splitlines() if line.endswith(":")] == [
        "KeyError:",
        "ValueError:",
    ]


def test_a_recursion_takes_one_line() -> None:
    assert len(stack_of(caught(dig)).splitlines()) < 8


def test_a_mutual_recursion_keeps_both_ends() -> None:
    stack = stack_of(caught(lambda: ping(300)))
    assert "more frames" in stack
    assert len(stack.splitlines()) < 50 and len(stack) < MAX_STACK_CHARACTERS


def test_an_error_that_breaks_whoever_looks_at_it_has_a_cause_all_the_same() -> None:
    def raiser() -> None:
        raise Unspeakable

    cause = cause_from(caught(raiser))
    assert "cannot be read" in (cause.text or "") and "cannot be read" in (cause.stack or "")


def test_an_exception_group_has_a_cause() -> None:
    def raiser() -> None:
        raise ExceptionGroup("many", [ValueError("one"), KeyError("two")])

    assert (cause_from(caught(raiser)).exception or "").endswith("ExceptionGroup")
