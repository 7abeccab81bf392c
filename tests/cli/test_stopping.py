"""Waiting for a pool to end: the process that listens is meant, whatever number it has where it lives."""

import subprocess
import sys
from pathlib import Path

import pytest

from pool.cli.stopping import wait_until_gone, watch_supervisor
from tests.helpers.until import until

LISTENER = """
import socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
sys.stdin.read(1)
"""
IN_A_CONTAINER = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")


@pytest.mark.parametrize("around", [(), IN_A_CONTAINER], ids=["beside us", "in a container"])
def test_the_end_of_whoever_listens_is_waited_for(tmp_path: Path, around: tuple[str, ...]) -> None:
    """In a container it calls itself pid 1, and outside that is somebody else, who never ends."""
    path = tmp_path / "socket"
    listener = subprocess.Popen([*around, sys.executable, "-c", LISTENER, str(path)], stdin=subprocess.PIPE)
    try:
        until(lambda: path.exists() or listener.poll() is not None, "a listener")
        if around and not path.exists():
            pytest.skip("no permission for a pid namespace")
        watched = until(lambda: watch_supervisor(str(path)), "somebody who listens")
        listener.communicate(b"!")
        wait_until_gone(str(path), watched)
    finally:
        listener.kill()
        listener.communicate()


def test_where_nobody_listens_there_is_nobody_to_watch(tmp_path: Path) -> None:
    assert watch_supervisor(str(tmp_path / "socket")) is None
    wait_until_gone(str(tmp_path / "socket"), None)
