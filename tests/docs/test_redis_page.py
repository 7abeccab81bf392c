"""docs/redis.md: its configuration starts a server, its user may do all that jobpool does, and its move moves."""

import contextlib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tests.docs.desk import Desk
from tests.docs.pages import ROOT, Block, blocks_of
from tests.helpers.servers import FLAVOURS, free_port
from tests.helpers.until import until

(SETTINGS,) = (b for b in blocks_of(ROOT / "docs/redis.md") if b.language == "text" and "appendonly" in b.text)
(USER,) = (b for b in blocks_of(ROOT / "docs/redis.md") if b.language == "text" and "SETUSER" in b.text)
(MOVE,) = (b for b in blocks_of(ROOT / "docs/redis.md") if b.language == "sh")


@pytest.fixture(params=FLAVOURS)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[redis.Redis]:
    """A server whose configuration file is the page's block, and nothing but a port of its own besides."""
    port = free_port()
    (tmp_path / "redis.conf").write_text(SETTINGS.text + "\n")
    command = [FLAVOURS[request.param], str(tmp_path / "redis.conf"), "--port", str(port), "--bind", "127.0.0.1"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=tmp_path, stdout=log, stderr=log)
    client = redis.Redis(port=port, decode_responses=True)
    try:
        until(lambda: answers(client, process, tmp_path / "log"), "the server")
        yield client
    finally:
        client.close()
        process.kill()
        process.wait(60)


def answers(client: redis.Redis, process: subprocess.Popen[bytes], log: Path) -> bool:
    assert process.poll() is None, log.read_text()
    with contextlib.suppress(redis.ConnectionError):
        return bool(client.ping())
    return False


def url_of(client: redis.Redis, login: str = "") -> str:
    return f"redis://{login}127.0.0.1:{client.connection_pool.connection_kwargs['port']}/0"


def test_the_server_that_the_page_configures_is_one_that_jobpool_does_not_complain_of(
    server: redis.Redis, desk: Desk
) -> None:
    desk.environ["JOBPOOL_BACKEND__URL"] = url_of(server)
    desk.run(["jobpool", "enqueue", "any.type"])

    said = desk.run(["bash", "-c", "jobpool doctor || true"])

    assert server.config_get("appendonly") == {"appendonly": "yes"}
    assert server.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
    assert "it keeps what it accepts: appendonly yes, noeviction" in said


def test_the_user_of_the_page_can_be_made_and_a_pool_works_as_that_user(server: redis.Redis, desk: Desk) -> None:
    words = USER.text.split()
    try:
        server.execute_command(*words)
    except redis.ResponseError as problem:
        assert "+waitaof" in str(problem)
        server.execute_command(*(word for word in words if word != "+waitaof"))  # as the page says of older servers
    desk.environ["JOBPOOL_BACKEND__URL"] = url_of(server, "jobpool:secret@")
    (desk.folder / "tasks.py").write_text(
        "import pool\n\n@pool.job\ndef add(a: int, b: int) -> int:\n    return a + b\n"
    )
    desk.run(["jobpool", "enqueue", "tasks.add", '{"a": 1, "b": 2}'])

    desk.run(["jobpool", "start", "--burst", "--workers", "1", "--app", "tasks"])

    assert re.search(r"tasks\.add .*completed", desk.run(["jobpool", "jobs", "list"]))


def test_the_move_of_the_page_takes_the_jobs_along(server: redis.Redis, desk: Desk) -> None:
    desk.names = {"/var/lib/jobpool/jobpool.db": f"{desk.folder}/jobs.db", "redis://localhost/0": url_of(server)}
    desk.environ["JOBPOOL_BACKEND__URL"] = f"sqlite:///{desk.folder}/jobs.db"
    desk.run(["jobpool", "enqueue", "any.type"])

    desk.follow(MOVE)

    assert "any.type" in desk.run(["jobpool", "jobs", "list", "--backend", url_of(server)])


def test_every_block_of_the_page_is_one_of_these() -> None:
    blocks: list[Block] = blocks_of(ROOT / "docs/redis.md")
    assert sorted(block.where for block in blocks) == sorted(block.where for block in (SETTINGS, USER, MOVE))
