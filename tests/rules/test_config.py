"""Where each value of the configuration comes from, and what people are told when one is wrong."""

import os
from pathlib import Path

import pytest

from pool.config import backend_url, load_config, runtime_dir, socket_path, state_dir
from pool.errors import ConfigError
from pool.paths import find_socket
from pool.settings import Config


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, so that no jobpool.toml is found by chance."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def complaint(text: str, here: Path, **more: object) -> str:
    file = here / "bad.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(file=str(file), environ={"HOME": str(here)}, **more)  # type: ignore[arg-type]
    return str(caught.value)


# ---------------------------------------------------------------- precedence


def test_a_flag_beats_the_environment_and_that_beats_the_file_and_that_beats_the_default(here: Path) -> None:
    (here / "jobpool.toml").write_text('[workers]\ncount = 2\nmax_jobs = 2\nmax_age = 2\n[pool]\nname = "filed"\n')
    environ = {"JOBPOOL_WORKERS__COUNT": "3", "JOBPOOL_WORKERS__MAX_JOBS": "3", "HOME": str(here)}

    loaded = load_config(overrides={"workers.count": 4}, environ=environ)

    workers = loaded.config.workers
    assert (workers.count, workers.max_jobs, workers.max_age, workers.min_priority) == (4, 3, 2, 0)
    keys = ("workers.count", "workers.max_jobs", "workers.max_age", "workers.min_priority")
    assert [loaded.origin(key) for key in keys] == ["flag", "environment", "file", "default"]
    assert loaded.file_values["workers.count"] == 2
    assert loaded.fixed_by_environment == {"workers.max_jobs"}


def test_the_environment_takes_lists_with_commas_and_everything_as_json(here: Path) -> None:
    environ = {
        "JOBPOOL_APP__MODULES": "tasks, more.tasks",
        "JOBPOOL_WORKERS__QUEUES": '["high", "low"]',
        "JOBPOOL_QUEUES": '[{"name": "mail", "max_pending": 5}]',
        "JOBPOOL_JOBS__BACKOFF__FIRST": "2m",
        "JOBPOOL_WEB__ENABLED": "true",
        "HOME": str(here),
    }
    config = load_config(environ=environ).config
    assert config.app.modules == ["tasks", "more.tasks"]
    assert config.workers.queues == ["high", "low"]
    assert config.queues[0].max_pending == 5
    assert config.jobs.backoff.first == 120
    assert config.web.enabled


@pytest.mark.parametrize("how", ["flag", "variable", "working directory"])
def test_the_file_is_found(here: Path, how: str) -> None:
    file = here / ("jobpool.toml" if how == "working directory" else "elsewhere.toml")
    file.write_text('[pool]\nname = "found"\n')
    environ = {"HOME": str(here)} | ({"JOBPOOL_CONFIG": str(file)} if how == "variable" else {})
    loaded = load_config(file=str(file) if how == "flag" else None, environ=environ)
    assert loaded.config.pool.name == "found"
    assert loaded.path is not None and loaded.path.samefile(file)


# ---------------------------------------------------------------- complaints


def test_everything_wrong_is_said_at_once_with_place_and_key(here: Path) -> None:
    said = complaint(
        '[workers]\ncuont = 3\nmin_priority = 200\nmemory_limit = "5 potatoes"\n[[groups]]\nname = "bulk"\ncount = -1\n',
        here,
        overrides={"workers.count": 0},
    ).splitlines()
    assert len(said) == 5
    file = here / "bad.toml"
    assert "--workers: workers.count = 0 must be greater than or equal to 1" in said
    assert f"{file}: unknown key workers.cuont; did you mean count?" in said
    assert f"{file}: workers.min_priority = 200 must be less than or equal to 100" in said
    assert f"{file}: groups[0] (bulk).count = -1 must be greater than or equal to 1" in said
    assert any("workers.memory_limit: '5 potatoes' is not a size" in line for line in said)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[worker]\ncount = 3\n", "unknown key worker; did you mean workers?"),
        ("[pool]\ncount = 3\n", "unknown key pool.count; did you mean [workers] count?"),
        ("workers = 3\n", "workers = 3 must be a table"),
        ('[queues]\nname = "x"\n', "queues must be an array of tables, written [[…]]"),
        ("[[groups]]\ncount = 2\n", "groups[0].name is missing"),
        ("[workers\n", "is not TOML"),
        ('[backend]\nurl = "sqlite:///a"\nurl_file = "b"\n', "backend.url and backend.url_file are both set"),
        ('[backend]\nurl_file = "not-there"\n', "backend.url_file not-there cannot be read"),
    ],
)
def test_a_wrong_file_is_named_with_what_to_do(here: Path, text: str, sentence: str) -> None:
    said = complaint(text, here)
    assert sentence in said
    assert "bad.toml" in said or "url_file" in said


def test_a_wrong_variable_is_named(here: Path) -> None:
    environ = {"JOBPOOL_WORKRES__COUNT": "3", "JOBPOOL_WEB__ENABLED": "perhaps", "HOME": str(here)}
    with pytest.raises(ConfigError) as caught:
        load_config(environ=environ)
    assert "environment JOBPOOL_WORKRES: unknown key workres; did you mean workers?" in str(caught.value)
    assert "environment JOBPOOL_WEB__ENABLED: web.enabled = 'perhaps' must be a valid boolean" in str(caught.value)


def test_a_single_underscore_is_noticed(here: Path) -> None:
    loaded = load_config(environ={"JOBPOOL_WORKERS_COUNT": "3", "JOBPOOL_HOME": "/x", "HOME": str(here)})
    assert len(loaded.warnings) == 1
    assert "did you mean JOBPOOL_WORKERS__COUNT?" in loaded.warnings[0]


def test_a_named_file_that_is_missing_is_an_error(here: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.toml does not exist"):
        load_config(file="nowhere.toml", environ={"HOME": str(here)})


def test_a_password_is_never_shown(here: Path) -> None:
    said = complaint(
        '[backend]\nurl = ["redis://:s3cr3t@host/0"]\n[[tokens]]\nname = "a"\nrole = "admin"\nsha256 = "s3cr3t"\n', here
    )
    assert "s3cr3t" not in said
    assert "backend.url" in said and "sha256" in said


# ---------------------------------------------------------------- where things lie


def test_directories_follow_setting_then_systemd_then_xdg_then_home() -> None:
    config = Config()
    assert str(state_dir(config, {"HOME": "/h"})) == "/h/.local/state/jobpool"
    assert str(state_dir(config, {"HOME": "/h", "XDG_STATE_HOME": "/x"})) == "/x/jobpool"
    assert str(state_dir(config, {"XDG_STATE_HOME": "/x", "STATE_DIRECTORY": "/s:/t"})) == "/s"
    assert str(runtime_dir(config, {"HOME": "/h"})) == "/h/.local/state/jobpool/run"
    assert str(runtime_dir(config, {"XDG_RUNTIME_DIR": "/r"})) == "/r/jobpool"
    assert str(runtime_dir(config, {"XDG_RUNTIME_DIR": "/r", "RUNTIME_DIRECTORY": "/d"})) == "/d"
    given = Config.model_validate({"pool": {"runtime_dir": "/given"}})
    assert str(socket_path(given, {"RUNTIME_DIRECTORY": "/d"})) == "/given/jobpool.sock"


def test_the_default_backend_is_a_database_in_the_state_directory(here: Path) -> None:
    loaded = load_config(environ={"STATE_DIRECTORY": "/var/lib/jobpool"})
    assert loaded.config.backend.url == "sqlite:////var/lib/jobpool/jobpool.db"
    assert loaded.origin("backend.url") == "default"
    assert backend_url(Config(), {"HOME": "/h"}) == "sqlite:////h/.local/state/jobpool/jobpool.db"


def test_probes_find_the_same_socket_as_the_pool(here: Path) -> None:
    environ = {"HOME": str(here), "JOBPOOL_POOL__STATE_DIR": str(here / "state")}
    for text in ("", f'[pool]\nruntime_dir = "{here}/run"\n', f'[pool]\nstate_dir = "{here}/other"\n'):
        (here / "jobpool.toml").write_text(text)
        assert find_socket(None, environ) == socket_path(load_config(environ=environ).config, environ)


def test_a_verb_for_a_named_file_that_is_missing_reaches_no_other_pool(here: Path) -> None:
    for file, environ in (
        ("typo.toml", {"HOME": str(here)}),
        (None, {"HOME": str(here), "JOBPOOL_CONFIG": "typo.toml"}),
    ):
        with pytest.raises(ConfigError, match=r"typo\.toml cannot be read: No such file"):
            find_socket(file, environ)


# ---------------------------------------------------------------- secrets


def test_the_url_is_read_from_a_credential(here: Path) -> None:
    (here / "credentials").mkdir()
    (here / "credentials" / "backend").write_text("redis://:pw@db/0\n")
    environ = {"CREDENTIALS_DIRECTORY": str(here / "credentials"), "HOME": str(here)}
    loaded = load_config(overrides={"backend.url_file": "backend"}, environ=environ)
    assert loaded.config.backend.url == "redis://:pw@db/0"


def test_a_url_on_the_command_line_beats_a_url_file_in_the_file(here: Path) -> None:
    (here / "jobpool.toml").write_text('[backend]\nurl_file = "secret"\n')
    loaded = load_config(overrides={"backend.url": "sqlite:///x.db"}, environ={"HOME": str(here)})
    assert loaded.config.backend.url == "sqlite:///x.db"


@pytest.mark.parametrize(("mode", "is_exposed"), [(0o644, True), (0o640, False)])
def test_a_password_that_everybody_can_read_is_warned_about(here: Path, mode: int, is_exposed: bool) -> None:
    file = here / "jobpool.toml"
    file.write_text('[backend]\nurl = "redis://:s3cr3t@host/0"\n')
    os.chmod(file, mode)
    warnings = load_config(environ={"HOME": str(here)}).warnings
    assert bool(warnings) == is_exposed
    assert "s3cr3t" not in "".join(warnings)
