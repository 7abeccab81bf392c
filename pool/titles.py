"""What `ps` and `top` show: `jobpool: worker 3 idle`, `jobpool: worker 3 running mail.send`."""

_LONGEST = 120


def set_title(words: str) -> None:
    """This process's title; `words` come after `jobpool: `. Cheap enough for every job (about 2 µs)."""
    from setproctitle import setproctitle

    setproctitle(f"jobpool: {words}"[:_LONGEST])
