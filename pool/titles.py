"""What `ps` and `top` show: `jobpool: worker 3 idle`, `jobpool: worker 3 running mail.send`."""

from collections.abc import Callable

_LONGEST = 120
_who = ""
_set_title: Callable[[str], None] | None = None
_last: str | None = None  # the words shown: mostly the same again


def name_process(who: str) -> None:
    """Once in each process of a pool: who it is. A process that was never named keeps the title it has."""
    from setproctitle import setproctitle

    global _who, _set_title, _last
    _who, _set_title, _last = who, setproctitle, None
    show_doing("")


def show_doing(words: str) -> None:
    """What it does now; cheap enough for every job (below 1 µs)."""
    global _last
    if _set_title is None:
        return
    if words != _last:
        _last = words
        title = f"jobpool: {_who} {words}".rstrip()
        _set_title((title if title.isprintable() else ascii(title))[:_LONGEST])
