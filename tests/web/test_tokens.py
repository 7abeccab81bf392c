"""Tokens and where the server refuses to stand."""

import hashlib
import json
import subprocess
import sys
import tomllib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from pool.errors import ConfigError
from pool.settings import Config
from pool.web.auth import Tokens
from pool.web.listening import file_of, listen_at, refuse_unsafe, remove_file
from tests.helpers.house import House
from tests.helpers.until import until
from tests.web.serving import TYPES, Api, free_port, token_of, tokens_toml

A_TOKEN = {"name": "a", "role": "admin", "sha256": "0" * 64}


def jobpool(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pool", *words], capture_output=True, text=True, cwd=folder, timeout=60
    )


def test_a_new_token_is_printed_once_and_its_hash_opens_the_door(tmp_path: Path) -> None:
    done = jobpool(
        "token", "new", "shop", "--role", "producer", "--max-priority", "high", "--queues", "a,b", folder=tmp_path
    )
    token = done.stdout.strip()
    entry = tomllib.loads(done.stderr[done.stderr.index("[[tokens]]") :])["tokens"][0]
    assert done.returncode == 0
    assert entry["sha256"] == hashlib.sha256(token.encode()).hexdigest()
    assert token not in done.stderr
    caller = Tokens(Config.model_validate({"tokens": [entry]}).tokens).caller_of(token.encode())
    assert caller is not None
    assert (caller.name, caller.role, caller.max_priority, caller.queues) == ("shop", "producer", 20, ("a", "b"))
    assert list(tmp_path.iterdir()) == [], "nothing is stored"


def test_a_new_token_as_json_has_four_fields(tmp_path: Path) -> None:
    made = json.loads(jobpool("token", "new", "w", "--role", "worker", "--json", folder=tmp_path).stdout)
    assert set(made) == {"name", "role", "token", "sha256"}
    assert hashlib.sha256(made["token"].encode()).hexdigest() == made["sha256"]


def test_wrong_roles_and_names_are_refused(tmp_path: Path) -> None:
    assert jobpool("token", "new", "x", "--role", "king", folder=tmp_path).returncode == 2
    assert jobpool("token", "new", "a b", "--role", "admin", folder=tmp_path).returncode == 78


def test_listed_tokens_do_not_show_their_hash(sqlite_api: Api) -> None:
    done = jobpool("token", "list", "--json", "--config", str(sqlite_api.config_file), folder=sqlite_api.folder)
    assert {"name": "php", "role": "worker", "max_priority": 10, "types": [], "queues": ["*"]} in json.loads(
        done.stdout
    )
    assert "sha256" not in done.stdout


@pytest.mark.parametrize("listen", ["0.0.0.0:8420", ":8420", "[::]:8420", "10.0.0.1:8420", "example.org:8420"])
def test_beyond_loopback_needs_tls_or_a_proxy(listen: str) -> None:
    def config(**web: object) -> Config:
        return Config.model_validate({"web": {"listen": listen, **web}, "tokens": [A_TOKEN]})

    with pytest.raises(ConfigError, match="behind_proxy"):
        refuse_unsafe(config())
    refuse_unsafe(config(behind_proxy=True))
    refuse_unsafe(config(tls_cert="c.pem", tls_key="k.pem"))


@pytest.mark.parametrize("listen", ["127.0.0.1:1", "localhost:1", "[::1]:1", "127.8.8.8:1", "/run/jobpool/web.sock"])
def test_loopback_and_unix_sockets_are_fine(listen: str) -> None:
    refuse_unsafe(Config.model_validate({"web": {"listen": listen}, "tokens": [A_TOKEN]}))


def test_without_tokens_or_with_an_unsafe_address_it_does_not_start(open_api: Callable[..., Api]) -> None:
    bare = open_api(start=False, tokens="")
    done = jobpool("serve", "--config", str(bare.config_file), folder=bare.folder)
    assert (done.returncode, "token new" in done.stderr) == (78, True)
    api = open_api(start=False)
    done = jobpool("serve", "--listen", "0.0.0.0:0", "--config", str(api.config_file), folder=api.folder)
    assert (done.returncode, "behind_proxy" in done.stderr) == (78, True)


def test_a_second_server_on_the_same_port_is_refused(open_api: Callable[..., Api]) -> None:
    api = open_api()
    done = jobpool("serve", "--config", str(api.config_file), folder=api.folder)
    assert (done.returncode, "in use" in done.stderr) == (78, True)
    assert api.answers()


# ---------------------------------------------------------------- in a pool


def settings(port: int, tokens: str) -> str:
    return f'[web]\nenabled = true\nlisten = "127.0.0.1:{port}"\n{TYPES}\n{tokens}'


@pytest.fixture
def calling(open_api: Callable[..., Api]) -> Callable[[House, int], Api]:
    """The callers of a pool's own web child."""

    def of(house: House, port: int) -> Api:
        return open_api(house.url, port=port, start=False)

    return of


def test_the_web_child_serves_its_pool_and_is_replaced_when_it_dies(
    open_house: Callable[..., House], calling: Callable[[House, int], Api]
) -> None:
    import os
    import signal

    port = free_port()
    house = open_house(workers=1, settings=settings(port, tokens_toml()))
    api = calling(house, port)
    until(api.answers, "the API")
    job = until(
        lambda: api.shop.post("/jobs", json={"type": "tasks.quick", "payload": {"n": 7}}).json().get("id"), "a job"
    )
    done = api.shop.get(f"/jobs/{job}", params={"wait": 30}).json()
    assert (done["status"], done["result"]) == ("completed", 7)
    workers = house.worker_pids()
    first = house.status()["web"]["pid"]
    os.kill(first, signal.SIGKILL)
    until(lambda: (house.status()["web"] or {}).get("pid") not in (None, first) and api.answers(), "its heir")
    assert house.worker_pids() == workers, "workers never notice"


@pytest.mark.full
def test_a_web_child_that_hangs_is_replaced(
    open_house: Callable[..., House], calling: Callable[[House, int], Api]
) -> None:
    import os
    import signal

    port = free_port()
    house = open_house(workers=1, settings=settings(port, tokens_toml()))
    api = calling(house, port)
    until(api.answers, "the API")
    stopped = house.status()["web"]["pid"]
    os.kill(stopped, signal.SIGSTOP)
    until(lambda: (house.status()["web"] or {}).get("pid") not in (None, stopped) and api.answers(), "its heir")


def test_a_web_child_takes_its_unix_socket_away(open_house: Callable[..., House]) -> None:
    house = open_house(workers=1, start=False)
    path = house.folder / "web.sock"
    with house.config_file.open("a") as file:
        file.write(f'[web]\nenabled = true\nlisten = "{path}"\n{tokens_toml()}')
    house.start()
    until(path.exists, "the socket")
    assert house.stop() == 0
    assert not path.exists()


def test_what_an_heir_has_put_in_its_place_stays(tmp_path: Path) -> None:
    path = tmp_path / "web.sock"
    with closing(listen_at(str(path))):
        mine = file_of(str(path))
        with closing(listen_at(str(path))):
            remove_file(str(path), mine)
            assert path.exists()
            remove_file(str(path), file_of(str(path)))
            assert not path.exists()


def test_tokens_are_rotated_by_a_reload_without_a_gap(
    open_house: Callable[..., House], calling: Callable[[House, int], Api]
) -> None:
    port = free_port()
    house = open_house(workers=1, settings=settings(port, tokens_toml({"shop": {"role": "producer"}})))
    api = calling(house, port)
    until(api.answers, "the API")
    assert api.shop.get("/types").status_code == 200
    assert api.rival.get("/types").status_code == 401
    workers = house.worker_pids()
    house.configure(workers=1, settings=settings(port, tokens_toml({"rival": {"role": "producer"}})))
    house.cli("reload")

    def is_rotated() -> bool:
        """A new connection each time: none of them may be refused while the old process gives way."""
        return httpx.get(f"{api.address}/types", headers=api.rival.headers, timeout=60).status_code == 200

    until(is_rotated, "the new token")
    until(lambda: httpx.get(f"{api.address}/types", headers=api.shop.headers).status_code == 401, "the old one's end")
    assert house.worker_pids() == workers, "workers are not replaced for a token"
    assert token_of("rival") not in house.log_text()


def test_a_pool_does_not_start_an_unsafe_api(open_house: Callable[..., House]) -> None:
    house = open_house(
        start=False, settings=f'[web]\nenabled = true\nlisten = "0.0.0.0:{free_port()}"\n{tokens_toml()}'
    )
    house.start(wait=False)
    assert house.wait_exit() == 78
    assert "behind_proxy" in house.log_text()
