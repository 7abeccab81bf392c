"""What `ps` and `top` show: `jobpool: worker 3 idle`, `jobpool: worker 3 running mail.send`."""

_LONGEST = 120
_who = ""


def name_process(who: str) -> None:
    """Once in each process of a pool: who it is. A process that was never named keeps the title it has."""
    global _who
    _who = who
    show_doing("")


def show_doing(words: str) -> None:
    """What it does now; cheap enough for every job (below 1 µs)."""
    if _who:
        from setproctitle import setproctitle

        title = f"jobpool: {_who} {words}".rstrip()
        setproctitle((title if title.isprintable() else ascii(title))[:_LONGEST])
