"""`jobpool`, `python -m pool`: which verb is meant, and only what it needs is loaded."""

import sys


def main(words: list[str] | None = None) -> int:
    """Run the command line; returns the exit code (0, 1, 2, 69 or 78)."""
    words = sys.argv[1:] if words is None else words
    from pool.cli.failures import run_guarded

    return run_guarded(lambda: _run(words))


def _run(words: list[str]) -> int:
    if words[:1] in (["--version"], ["-V"]):
        return _say_version()
    if words[:1] == ["start"]:
        from pool.supervisor.first_steps import take_first_steps

        take_first_steps()
        from pool.cli.starting import plain_flags, run_pool

        flags = plain_flags(words[1:])
        if flags is not None:
            return run_pool(**flags)
    from pool.cli.light import VERBS, run_light

    if words and words[0] in VERBS:
        return run_light(words[0], words[1:])
    from pool.cli.app import run_app

    return run_app(words)


def _say_version() -> int:
    from pool.cli.output import say
    from pool.version import VERSION

    say(f"jobpool {VERSION}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
