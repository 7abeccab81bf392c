"""`jobpool top`, on a real terminal of 80 by 24 cells (tmux) with a real pool behind it, and as plain lines."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pool.cli.top_desk import View
from pool.cli.top_screen import Choice, Screen, draw, memory_bar, share_rows
from tests.helpers.house import House
from tests.helpers.until import until

OpenHouse = Callable[..., House]
QUEUES = '[[queues]]\nname = "a-queue-with-quite-a-long-name-indeed"\n'
WIDTH, HEIGHT = 80, 24


class Terminal:
    """A tmux of its own server: what runs in it sees a terminal, the test sees its screen."""

    def __init__(self, house: House, *words: str, environ: dict[str, str] | None = None) -> None:
        self._socket = str(house.folder / "tmux")
        given = [f"-e{name}={value}" for name, value in (environ or {}).items()]
        command = [sys.executable, "-m", "pool", *words, "--config", str(house.config_file)]
        self._tmux("-f", "/dev/null", "new-session", "-d", f"-x{WIDTH}", f"-y{HEIGHT}", *given, *command)
        self._tmux("set-option", "-g", "remain-on-exit", "on")

    def screen(self) -> str:
        return self._tmux("capture-pane", "-p")

    def colours(self) -> str:
        """The screen with its escape sequences."""
        return self._tmux("capture-pane", "-p", "-e")

    def press(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def has_ended(self) -> bool:
        return self._tmux("display-message", "-p", "#{pane_dead}").strip() == "1"

    def resize(self, width: int, height: int) -> None:
        self._tmux("resize-window", f"-x{width}", f"-y{height}")

    def until_shows(self, *texts: str) -> str:
        try:
            until(lambda: all(text in self.screen() for text in texts), f"{texts} on the screen")
        except AssertionError as late:
            raise AssertionError(f"{late}\n{self.screen()}") from None
        return self.screen()

    def close(self) -> None:
        subprocess.run(["tmux", "-S", self._socket, "kill-server"], capture_output=True, check=False)

    def _tmux(self, *words: str) -> str:
        environ = {**os.environ, "LC_ALL": "C.UTF-8"}
        done = subprocess.run(["tmux", "-S", self._socket, *words], env=environ, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def open_terminal() -> Iterator[Callable[..., Terminal]]:
    if shutil.which("tmux") is None:
        assert not os.environ.get("CI"), "tmux is missing in CI"
        pytest.skip("tmux is not installed: apt-get install tmux")
    terminals: list[Terminal] = []

    def open_one(house: House, *words: str, **options: Any) -> Terminal:
        terminals.append(Terminal(house, *words, **options))
        return terminals[-1]

    yield open_one
    for terminal in terminals:
        terminal.close()


def test_at_80_by_24_it_shows_workers_jobs_queues_and_failures(
    open_house: OpenHouse, open_terminal: Callable[..., Terminal]
) -> None:
    house = open_house(workers=2, settings=QUEUES)
    house.wait_for_worker_of(house.enqueue("tasks.hold", {"gate": "never"}))
    house.wait_until(house.enqueue("tasks.give_up"), "failed")

    terminal = open_terminal(house, "top")
    counts = ["default", "0", "0", "1", "1"]
    terminal.until_shows("(1 busy, 1 idle)", "fatal_error", "failed 1  retried 0", "a second")
    until(lambda: counts in [line.split() for line in terminal.screen().splitlines()], "the queue's counts")
    lines = terminal.screen().splitlines()

    assert len(lines) == HEIGHT
    assert lines[0].startswith("house  ready  up ")
    assert lines[1].startswith("workers 2/2 (1 busy, 1 idle)  completed 0  failed 1  retried 0")
    assert lines[2].split() == ["SLOT", "STATE", "MEMORY", "DONE", "FAIL", "TIME", "DOING"]
    assert "busy" in lines[3] and "MB" in lines[3] and "tasks.hold" in lines[3]
    assert "idle" in lines[4]
    assert lines[5].split()[0] == "QUEUE"
    assert lines[6].startswith("> a-queue-with-quite-…")
    assert lines[7].split() == counts
    assert lines[8].split()[:2] == ["FAILED", "AT"]
    assert lines[9].split()[1:] == ["tasks.give_up", "1", "fatal_error", "hopeless"]
    assert lines[10:23] == [""] * 13
    assert lines[23] == "p pause  r retry  + - scale  tab ↑ ↓ choose  q quit"


def test_keys_pause_a_queue_retry_a_job_scale_and_quit(
    open_house: OpenHouse, open_terminal: Callable[..., Terminal]
) -> None:
    house = open_house(workers=1)
    job = house.enqueue("tasks.give_up")
    house.wait_until(job, "failed")
    terminal = open_terminal(house, "top")
    terminal.until_shows("> default", "hopeless")

    terminal.press("p")
    terminal.until_shows("queue default is paused")
    assert house.store.queues()[0].paused
    terminal.press("p")
    terminal.until_shows("queue default is resumed")

    terminal.press("Tab", "r")
    terminal.until_shows(f"retried job {job}")
    until(lambda: len(house.runs(job)) == 2, "its second run")

    terminal.press("+")
    terminal.until_shows("workers: 2 workers", "workers 2/2")
    terminal.press("-")
    terminal.until_shows("workers 1/1")

    terminal.press("q")
    until(terminal.has_ended, "top ended")


def test_without_colour_the_cursor_is_a_mark_and_nothing_is_lost(
    open_house: OpenHouse, open_terminal: Callable[..., Terminal]
) -> None:
    house = open_house(workers=1)
    house.wait_until(house.enqueue("tasks.quick"), "completed")
    plain = open_terminal(house, "top", environ={"NO_COLOR": "1"})
    plain.until_shows("> default")
    assert not re.search(r"\x1b\[3[0-7]", plain.colours())


def test_it_follows_the_window_and_waits_for_a_pool_that_left(
    open_house: OpenHouse, open_terminal: Callable[..., Terminal]
) -> None:
    house = open_house(workers=1)
    terminal = open_terminal(house, "top")
    terminal.until_shows("house  ready")
    terminal.resize(60, 12)
    terminal.until_shows("house  ready")
    until(lambda: len(terminal.screen().splitlines()) == 12, "twelve lines")

    house.stop()
    terminal.resize(WIDTH, HEIGHT)
    terminal.until_shows("! no pool is running")
    house.start()
    until(lambda: "! no pool" not in terminal.screen(), "the pool back on the screen")


def test_in_a_pipe_it_prints_plain_lines(open_house: OpenHouse) -> None:
    house = open_house(workers=1)
    house.wait_until(house.enqueue("tasks.fail", {"text": "\x1b[31mred\x07"}), "failed")
    text = house.cli("top", "--count", "2").stdout
    assert text.count("house  ready") == 2
    assert "\x1b" not in text and "\x07" not in text
    assert "\\x1b[31mred" in text


def test_queues_are_watched_in_place_until_ctrl_c(
    open_house: OpenHouse, open_terminal: Callable[..., Terminal]
) -> None:
    house = open_house(start=False)
    client = house.client.backend()
    client.set_queue("mail", paused=True)
    terminal = open_terminal(house, "queues", "--watch")
    terminal.until_shows("mail", "paused")
    client.set_queue("mail", paused=False)
    until(lambda: "paused" not in terminal.screen(), "the queue resumed on the screen")
    assert terminal.screen().count("mail") == 1
    terminal.press("C-c")
    until(terminal.has_ended, "the watch ended")


def test_no_pool_is_said_and_costs_69(open_house: OpenHouse) -> None:
    done = open_house(start=False).cli("top", check=False)
    assert done.returncode == 69
    assert "no pool is running" in done.stderr


# ---------------------------------------------------------------- the screen alone


def worker(slot: int, state: str = "idle", **more: Any) -> dict[str, Any]:
    return {"slot": slot, "group": "workers", "state": state, "jobs": [], "memory_limit": 512_000_000, **more}


def picture(width: int = WIDTH, height: int = HEIGHT, *, unicode: bool = True, **status: Any) -> list[str]:
    view = View(status={"pool": {"name": "house", "state": "ready"}, **status})
    return [line.plain for line in draw(view, Choice(), Screen(width, height, unicode))]


@pytest.mark.parametrize(("width", "height"), [(80, 24), (40, 10), (20, 5), (200, 60)])
def test_many_workers_and_queues_never_overflow(width: int, height: int) -> None:
    workers = [worker(n, "busy" if n % 3 else "parked", why="x" * 300) for n in range(300)]
    queues = [{"name": f"queue-{n}-日本語" * 5, "pending": 10**9} for n in range(100)]
    lines = picture(width, height, workers=workers, queues=queues)
    assert len(lines) == height
    assert all(len(line) <= width for line in lines)


def test_what_is_left_out_is_counted_and_the_busy_come_first() -> None:
    workers = [worker(n) for n in range(40)] + [worker(99, "busy", jobs=[{"type": "t", "id": "i", "seconds": 1}])]
    lines = picture(workers=workers)
    assert lines[3].split()[:2] == ["99", "busy"]
    assert any(line.strip().startswith("and ") and line.endswith(" more") for line in lines)


def test_a_terminal_with_ascii_only_gets_ascii_only() -> None:
    lines = picture(unicode=False, workers=[worker(1, rss_bytes=256_000_000)], queues=[{"name": "q" * 50}])
    assert all(line.isascii() for line in lines)


def test_names_with_control_characters_do_not_reach_the_terminal() -> None:
    lines = picture(queues=[{"name": "a\x1b[2Jb\nc"}])
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize(
    ("used", "limit", "bar"),
    [(0, 100, "░░░░░░"), (50, 100, "███░░░"), (100, 100, "██████"), (300, 100, "██████"), (50, 0, "      ")],
)
def test_the_memory_bar_is_full_at_the_ceiling(used: int, limit: int, bar: str) -> None:
    assert memory_bar({"rss_bytes": used, "memory_limit": limit}, Screen(80, 24)) == bar


def test_short_lists_get_all_they_want_and_the_longest_the_rest() -> None:
    assert share_rows([100, 2, 4], 18) == [10, 3, 5]
    assert share_rows([1, 1, 1], 18) == [2, 2, 2]
    assert sum(share_rows([100, 100, 100], 18)) <= 18
