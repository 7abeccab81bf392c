"""The socket file: what may stand in its place, what becomes of it, who may touch it."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from pool.cli.control import ask
from pool.errors import ConfigError
from pool.supervisor.listening import UnixListener, tcp_listener
from tests.helpers.desks import desk
from tests.helpers.until import until


def test_the_socket_of_a_killed_pool_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "jobpool.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with desk(tmp_path) as running:
        assert ask(running.path, "GET", "/healthz")[0] == 200
    assert not path.exists()


def test_a_living_pool_keeps_its_socket(tmp_path: Path) -> None:
    with desk(tmp_path) as running:
        inode = running.path.stat().st_ino
        with pytest.raises(ConfigError, match="another pool answers"):
            UnixListener(running.path, 0o660)
        assert running.path.stat().st_ino == inode
        assert ask(running.path, "GET", "/healthz")[0] == 200


def test_a_stopped_pool_with_a_full_backlog_counts_as_living(tmp_path: Path) -> None:
    path = tmp_path / "jobpool.sock"
    with socket.socket(socket.AF_UNIX) as stopped, socket.socket(socket.AF_UNIX) as waiting:
        stopped.bind(str(path))
        stopped.listen(0)
        waiting.connect(str(path))
        with pytest.raises(ConfigError, match="another pool answers"):
            UnixListener(path, 0o660)


@pytest.mark.parametrize("thing", ["file", "directory", "link"])
def test_anything_else_at_the_path_is_an_error_and_stays(tmp_path: Path, thing: str) -> None:
    path = tmp_path / "jobpool.sock"
    if thing == "directory":
        path.mkdir()
    elif thing == "link":
        (tmp_path / "precious").write_text("precious")
        path.symlink_to(tmp_path / "precious")
    else:
        path.write_text("precious")
    with pytest.raises(ConfigError, match="is in the way and is not a socket"):
        UnixListener(path, 0o660)
    assert path.exists() and (thing == "directory" or path.read_text() == "precious")


def test_a_path_too_long_for_the_kernel_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"bytes, the kernel allows 107: set a shorter runtime_dir in \[pool\]"):
        UnixListener(tmp_path / ("x" * 108), 0o660)


def test_the_longest_allowed_path_works() -> None:
    directory = Path("/run" if os.geteuid() == 0 else os.environ.get("XDG_RUNTIME_DIR", "/run"))
    if not os.access(directory, os.W_OK):
        pytest.skip("no short directory to write to")
    path = directory / ("s" * (107 - len(str(directory)) - 1))
    listener = UnixListener(path, 0o660)
    assert path.is_socket()
    listener.close()
    assert not path.exists()


def test_a_directory_open_to_everyone_is_refused() -> None:
    with pytest.raises(ConfigError, match="where everyone may write"):
        UnixListener(Path("/tmp/jobpool-test.sock"), 0o660)
    assert not Path("/tmp/jobpool-test.sock").exists()


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_the_file_has_the_configured_mode_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    old = os.umask(umask)
    try:
        listener = UnixListener(tmp_path / "s.sock", 0o660)
        assert (tmp_path / "s.sock").stat().st_mode & 0o777 == 0o660
        listener.close()
        assert os.umask(umask) == umask
    finally:
        os.umask(old)


def test_a_missing_directory_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    listener = UnixListener(tmp_path / "run" / "s.sock", 0o660)
    assert (tmp_path / "run").stat().st_mode & 0o777 == 0o700
    listener.close()


def test_a_removed_socket_file_is_made_again_within_five_seconds(tmp_path: Path) -> None:
    with desk(tmp_path / "run") as running:
        running.path.unlink()
        running.path.parent.rmdir()
        running.look_ahead(5.0)
        assert running.path.is_socket()
        assert ask(running.path, "GET", "/healthz")[0] == 200


def test_what_took_the_place_of_a_removed_socket_file_is_left_alone(tmp_path: Path) -> None:
    with desk(tmp_path) as running:
        running.path.unlink()
        running.path.write_text("precious")
        running.skip(5.0)
        turns = running.turns
        until(lambda: running.turns > turns + 3, "some turns")
        assert running.path.read_text() == "precious"
        running.path.unlink()
        running.skip(5.0)
        until(running.path.is_socket, "the new socket file")
    assert not running.path.exists()


def test_a_successors_socket_is_not_removed_by_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    first = UnixListener(path, 0o660)
    path.unlink()
    second = UnixListener(path, 0o660)
    first.close()
    assert path.is_socket()
    second.close()
    assert not path.exists()


def test_a_forked_child_that_closes_it_leaves_the_file(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from pool.supervisor.listening import UnixListener\n"
        "listener = UnixListener(Path(sys.argv[1]), 0o660)\n"
        "if os.fork() == 0: listener.close(); os._exit(0)\n"
        "os.wait(); print(Path(sys.argv[1]).is_socket()); listener.close(); print(Path(sys.argv[1]).exists())\n"
    )
    result = subprocess.run([sys.executable, "-c", code, str(tmp_path / "s.sock")], capture_output=True, text=True)
    assert result.stdout.split() == ["True", "False"], result.stderr


@pytest.mark.parametrize(
    "address", ["nonsense", "127.0.0.1:port", "127.0.0.1:99999", "203.0.113.7:8421", "example:1:2"]
)
def test_an_address_that_cannot_be_had_is_refused_by_name(address: str) -> None:
    with pytest.raises(ConfigError, match="cannot listen on"):
        tcp_listener(address)
