"""How numbers and texts are said to people: durations, sizes, first lines. The command line and the dashboard say the same."""


def one_line(text: str | None, width: int = 80) -> str:
    """The first line of a text, shortened."""
    line = (text or "").strip().partition("\n")[0]
    return line if len(line) <= width else line[: width - 1] + "…"


def duration(seconds: float | None) -> str:
    """`0.4 s`, `12 s`, `3 m 5 s`, `2 h 10 m`, `4 d 3 h`: how long, for people."""
    if seconds is None:
        return ""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for size, unit, small_size, small_unit in ((86_400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // small_size} {small_unit}"
    return f"{whole} s"


def progress(fraction: float | None, note: str | None) -> str:
    """`42 % half way`: how far a job says it is; empty when it says nothing."""
    percent = "" if fraction is None else f"{100 * fraction:.0f} %"
    return f"{percent} {one_line(note, 40) if note else ''}".strip()


def size(count: float | None) -> str:
    """`48 MB`: bytes for people."""
    if not count:
        return ""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if count >= 10 or unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return ""
