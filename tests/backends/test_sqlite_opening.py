"""From a URL to a backend, and a URL that is safe to print."""

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from pool.backends.opening import mask_url, open_backend
from pool.backends.sqlite.backend import SqliteBackend
from pool.errors import BackendUnavailable, ConfigError
from tests.helpers.builders import put


def test_four_slashes_are_an_absolute_path(tmp_path: Path) -> None:
    with closing(open_backend(f"sqlite:///{tmp_path}/jobs.db")) as store:
        assert isinstance(store, SqliteBackend)
        assert (store.kind, store.url) == ("sqlite", f"sqlite:///{tmp_path}/jobs.db")
        put(store)
    assert (tmp_path / "jobs.db").exists()


def test_three_slashes_are_a_path_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with closing(open_backend("sqlite:///jobs.db")) as store:
        put(store)
    assert (tmp_path / "jobs.db").exists()


def test_odd_letters_in_a_path_are_written_as_in_any_url(tmp_path: Path) -> None:
    with closing(open_backend(f"sqlite:///{tmp_path}/my%20jobs%3F.db")) as store:
        put(store)
    assert (tmp_path / "my jobs?.db").exists()


def test_a_missing_store_is_made_only_when_asked_for(tmp_path: Path) -> None:
    with pytest.raises(BackendUnavailable, match=f"{tmp_path}/jobs.db.*no database"):
        open_backend(f"sqlite:///{tmp_path}/jobs.db", create=False).queues()


@pytest.mark.parametrize("url", ["", "jobs.db", "/var/lib/jobs.db", "mysql://localhost/jobs", "postgres:5432", "://"])
def test_an_unknown_scheme_names_the_choices(url: str) -> None:
    with pytest.raises(ConfigError, match=r"names no backend; choose one of sqlite:///.*redis://"):
        open_backend(url)


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///", "sqlite:////", "sqlite://jobs.db"])
def test_an_sqlite_url_without_a_file_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="names no file"):
        open_backend(url)


@pytest.mark.parametrize(
    "url, shown",
    [
        ("redis://localhost:6379/0", "redis://localhost:6379/0"),
        ("redis://:s3cr3t@localhost/0", "redis://:***@localhost/0"),
        ("rediss://jobs:s3cr3t@db.example:6380/1?timeout=2", "rediss://jobs:***@db.example:6380/1?timeout=2"),
        ("redis://jobs:s3c@r3t@host", "redis://jobs:***@host"),
        ("redis://host/0?password=s3cr3t&db=1", "redis://host/0?password=***&db=1"),
        ("redis://host:63[79/0", "redis://host:63[79/0"),
        (
            "redis+sentinel://a:1,b:2/main?sentinel_password=s3cr3t",
            "redis+sentinel://a:1,b:2/main?sentinel_password=***",
        ),
        ("rediss//:s3cr3t@host:1/0", "***@host:1/0"),
        ("redis:/jobs:s3c@r3t@host", "***@host"),
        ("s3cr3t", "s3cr3t"),
        ("sqlite:////var/lib/jobpool/jobpool.db", "sqlite:////var/lib/jobpool/jobpool.db"),
    ],
)
def test_a_password_is_never_shown(url: str, shown: str) -> None:
    assert mask_url(url) == shown


def test_a_refusal_shows_no_password() -> None:
    with pytest.raises(ConfigError) as refused:
        open_backend("mysql://jobs:s3cr3t@host/jobs")
    assert "s3cr3t" not in str(refused.value)


def test_only_the_backend_asked_for_is_imported(tmp_path: Path) -> None:
    code = f"""
import sys
from pool.backends.opening import open_backend
open_backend("sqlite:///{tmp_path}/jobs.db").queues()
assert "redis" not in sys.modules, "redis was imported"
"""
    subprocess.run([sys.executable, "-c", code], check=True)
