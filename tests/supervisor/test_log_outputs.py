"""Lines on their way out: a reader that stopped, a pipe that is gone, a closed descriptor, a file that was moved."""

import contextlib
import json
import os
import pty
import signal
import socket
import subprocess
import sys
from pathlib import Path

from pool.descriptors import readable
from pool.logs.outputs import LogFile, StandardError
from tests.helpers.until import until

CONFIGURE = """
import os, sys, time
from pool import logs
from pool.logs import log
from pool.settings import LogSection
def configure(who="parent", in_parent=True, **keys):
    logs.configure(LogSection(**keys), pool="p", who=who, in_parent=in_parent)
"""


def run(code: str, *arguments: str, **keys: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", CONFIGURE + code, *arguments], text=True, timeout=60, **keys)  # type: ignore[call-overload,no-any-return]


def test_a_full_pipe_holds_the_parent_up_not_at_all_and_the_loss_is_told() -> None:
    read_end, write_end = os.pipe()
    code = """
configure(format="json")
started = time.monotonic()
for number in range(5000): log.info("a line", number=number, filling="x" * 100)
print(time.monotonic() - started, logs.dropped_lines(), flush=True)
sys.stdin.readline()
log.info("the last line")
"""
    child = subprocess.Popen(
        [sys.executable, "-c", CONFIGURE + code],
        stderr=write_end,
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
    )
    os.close(write_end)
    assert child.stdout and child.stdin
    seconds, dropped = child.stdout.readline().split()
    assert float(seconds) < 20 and int(dropped) > 3000
    with os.fdopen(read_end) as reader:
        until(lambda: readable([reader.fileno()], 1), "output")
        os.set_blocking(reader.fileno(), False)
        whole = b""
        with contextlib.suppress(BlockingIOError):
            while part := os.read(reader.fileno(), 65536):
                whole += part
        child.stdin.write("\n")
        child.stdin.close()
        child.wait()
        os.set_blocking(reader.fileno(), True)
        whole += os.read(reader.fileno(), 1 << 20)
    lines = [json.loads(line) for line in whole.decode().splitlines()]  # none is torn
    assert lines[-2]["event"] == "the last line"
    assert lines[-1]["event"] == "log lines dropped" and lines[-1]["count"] == int(dropped)
    child.stdout.close()


def test_the_shared_pipe_itself_stays_blocking() -> None:
    read_end, write_end = os.pipe()
    assert run('configure(); log.info("x")', stderr=write_end).returncode == 0
    assert os.get_blocking(write_end)
    os.close(write_end)
    os.close(read_end)


def test_a_worker_waits_a_moment_for_a_slow_reader_and_then_no_more() -> None:
    read_end, write_end = os.pipe()
    code = """
configure("worker 1", False)
started = time.monotonic()
for number in range(3000): log.info("a line", filling="x" * 100)
print(time.monotonic() - started)
"""
    seconds = float(run(code, stderr=write_end, stdout=subprocess.PIPE).stdout)
    assert 0.9 < seconds < 30
    os.close(write_end)
    os.close(read_end)


def test_a_reader_that_is_gone_costs_lines_and_nothing_else() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    result = run(
        'configure()\nfor n in range(100): log.info("x")\nprint(logs.dropped_lines())', stderr=write_end, stdout=-1
    )
    os.close(write_end)
    assert (result.returncode, result.stdout.strip()) == (0, "100")


def test_a_closed_standard_error_neither_kills_nor_spins() -> None:
    code = """
os.close(2)
configure()
started = time.process_time()
for n in range(1000): log.error("x")
print(logs.dropped_lines(), time.process_time() - started < 10)
"""
    result = run(code, stdout=subprocess.PIPE)
    assert (result.returncode, result.stdout.split()) == (0, ["1000", "True"])


def test_a_terminal_stopped_with_ctrl_s_does_not_stop_the_parent() -> None:
    master, slave = pty.openpty()
    import termios

    termios.tcflow(slave, termios.TCOOFF)
    code = 'configure()\nfor n in range(2000): log.info("x", filling="y" * 100)\nprint(logs.dropped_lines() > 0)'
    result = run(code, stderr=slave, stdout=subprocess.PIPE)
    assert result.stdout.strip() == "True"
    termios.tcflow(slave, termios.TCOON)
    os.close(slave)
    os.close(master)


def test_a_socket_that_nobody_reads_as_journald_might_does_not_stop_the_parent() -> None:
    ours, theirs = socket.socketpair()
    code = 'configure()\nfor n in range(5000): log.info("x", filling="y" * 100)\nprint(logs.dropped_lines() > 0, os.get_blocking(2))'
    result = run(code, stderr=theirs, stdout=subprocess.PIPE)
    assert result.stdout.split() == ["True", "True"]
    ours.close()
    theirs.close()


def test_under_journald_lines_bear_priorities() -> None:
    ours, theirs = socket.socketpair()
    status = os.fstat(theirs.fileno())
    code = 'configure(); log.info("fine"); log.error("bad", trace="a\\nb")'
    run(code, stderr=theirs, env={**os.environ, "JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"})
    lines = ours.recv(65536).decode().splitlines()
    assert [line[:3] for line in lines] == ["<6>", "<3>", "<3>", "<3>"]
    ours.close()
    theirs.close()


def test_a_forked_child_without_the_parents_descriptors_still_logs() -> None:
    read_end, write_end = os.pipe()
    code = """
configure()
if os.fork() == 0:
    os.closerange(3, 50)
    log.info("before"); stranger = os.open("/dev/null", os.O_RDONLY)
    configure("worker 1", False); log.info("after"); os.read(stranger, 1); os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    result = run(code, stderr=write_end)
    os.close(write_end)
    with os.fdopen(read_end) as reader:
        text = reader.read()
    assert result.returncode == 0 and "before" in text and "worker 1: after" in text


# ---------------------------------------------------------------- files


def test_four_processes_write_one_file_without_torn_lines(tmp_path: Path) -> None:
    code = """
configure(f"worker {sys.argv[2]}", False, file=sys.argv[1], format="json")
for n in range(1000): log.info("a line", n=n, filling="x" * 500)
"""
    path = tmp_path / "log"
    writers = [subprocess.Popen([sys.executable, "-c", CONFIGURE + code, str(path), str(n)]) for n in range(4)]
    assert [writer.wait() for writer in writers] == [0] * 4
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(lines) == 4000
    assert {who: sum(line["who"] == who for line in lines) for who in {line["who"] for line in lines}} == {
        f"worker {n}": 1000 for n in range(4)
    }


def test_a_moved_log_file_is_left_on_the_signal_and_without_it(tmp_path: Path) -> None:
    path = tmp_path / "log"
    file = LogFile(str(path))
    file.put(b"one\n")
    path.rename(tmp_path / "log.1")
    file.reopen()
    file.put(b"two\n")
    path.rename(tmp_path / "log.2")
    until(lambda: file.put(b"three\n") and path.exists(), "the new file")
    assert (tmp_path / "log.1").read_text() == "one\n"
    assert (tmp_path / "log.2").read_text().startswith("two\n")
    file.close()


def test_a_log_directory_that_is_gone_keeps_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    file = LogFile(str(tmp_path / "logs" / "log"))
    (tmp_path / "logs").rename(tmp_path / "elsewhere")
    file.reopen()
    assert file.put(b"still\n")
    assert (tmp_path / "elsewhere" / "log").read_text() == "still\n"
    file.close()


def test_a_log_file_that_cannot_be_opened_is_an_error_with_its_key() -> None:
    result = run('configure(file="/nonexistent/log")', stderr=subprocess.PIPE)
    assert "cannot open the log file /nonexistent/log ([log] file): No such file or directory" in result.stderr


def test_a_full_disk_costs_lines_and_nothing_else() -> None:
    file = LogFile("/dev/full")
    assert not file.put(b"x\n") and file.dropped == 1
    file.close()


def test_the_parents_lines_reach_the_file_through_the_keeper_and_at_the_end_without_it(tmp_path: Path) -> None:
    code = """
configure(file=sys.argv[1], format="json")
log.info("before the fork")
keeper = os.fork()
if keeper == 0:
    configure("keeper", False, file=sys.argv[1], format="json")
    log.info("the keeper")
    time.sleep(600)
print(keeper, flush=True)
log.info("after the fork")
sys.stdin.readline()
logs.reopen()
sys.stdin.readline()
log.info("the keeper is dead")
"""
    path = tmp_path / "log"
    parent = subprocess.Popen(
        [sys.executable, "-c", CONFIGURE + code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdin and parent.stdout
    keeper = int(parent.stdout.readline())
    try:
        until(lambda: {"after the fork", "the keeper"} <= events_in(path), "the parent's line")
        assert not opened_for_the_log(parent.pid, path)
        path.rename(tmp_path / "log.1")
        parent.stdin.write("\n")
        parent.stdin.flush()
        until(lambda: path.exists() and opened_for_the_log(keeper, path), "the keeper on the new file")
        assert not opened_for_the_log(keeper, tmp_path / "log.1")
    finally:
        os.kill(keeper, signal.SIGKILL)
    parent.communicate("\n", timeout=60)
    text = (tmp_path / "log.1").read_text() + path.read_text()
    events = [json.loads(line)["event"] for line in text.splitlines()]
    assert sorted(events) == ["after the fork", "before the fork", "the keeper", "the keeper is dead"]


def events_in(path: Path) -> set[str]:
    text = path.read_text() if path.exists() else ""
    return {json.loads(line)["event"] for line in text.rpartition("\n")[0].splitlines()}


def opened_for_the_log(pid: int, path: Path) -> bool:
    opened = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            opened.add(os.readlink(entry))
    return str(path) in opened


def test_standard_error_in_a_file_is_written_plainly(tmp_path: Path) -> None:
    with open(tmp_path / "log", "w") as stream:
        output = StandardError(stream.fileno())
        assert output.put(b"x\n")
        output.close()
    assert (tmp_path / "log").read_text() == "x\n"


def test_logging_a_line_is_cheap(tmp_path: Path) -> None:
    code = """
configure("worker 1", False, file=sys.argv[1])
started = time.process_time()
for n in range(2000): log.info("job completed", job="0190", type="mail.send", seconds=0.25)
for n in range(100000): log.debug("below the level")
print(time.process_time() - started)
"""
    seconds = float(run(code, str(tmp_path / "log"), stdout=subprocess.PIPE).stdout)
    assert seconds < 5
