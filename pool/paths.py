"""Where things lie when nobody says: runtime directory, state directory, database, configuration file.

No pydantic here: `jobpool health` must find the socket without loading the models.
"""

import contextlib
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path

from pool.errors import ConfigError

SOCKET_NAME = "jobpool.sock"
DATABASE_NAME = "jobpool.db"
ETC_FILE = "/etc/jobpool/config.toml"
HERE_FILE = "jobpool.toml"
SYSTEM_RUNTIME_DIR = Path("/run/jobpool")  # RuntimeDirectory=jobpool of the shipped unit


def state_directory(setting: str = "", environ: Mapping[str, str] = os.environ) -> Path:
    """The setting, else $STATE_DIRECTORY (systemd), else $XDG_STATE_HOME/jobpool, else ~/.local/state/jobpool."""
    if setting:
        return Path(setting).expanduser().absolute()
    if given := _first(environ.get("STATE_DIRECTORY", "")):
        return Path(given)
    if home := environ.get("XDG_STATE_HOME"):
        return Path(home) / "jobpool"
    return Path(environ.get("HOME") or Path.home()) / ".local/state/jobpool"


def runtime_directory(setting: str = "", environ: Mapping[str, str] = os.environ, *, state: str = "") -> Path:
    """The setting, else $RUNTIME_DIRECTORY (systemd), else $XDG_RUNTIME_DIR/jobpool, else `run` in the state directory.

    Never plain /tmp, where a stranger could be there first.
    """
    if setting:
        return Path(setting).expanduser().absolute()
    if given := _first(environ.get("RUNTIME_DIRECTORY", "")):
        return Path(given)
    if home := environ.get("XDG_RUNTIME_DIR"):
        return Path(home) / "jobpool"
    return state_directory(state, environ) / "run"


def config_file(file: str | None = None, environ: Mapping[str, str] = os.environ) -> Path | None:
    """The file named by flag or $JOBPOOL_CONFIG (whether or not it exists), else the first default that exists."""
    if named := file or environ.get("JOBPOOL_CONFIG"):
        return Path(named)
    return next((path for path in (Path(HERE_FILE), Path(ETC_FILE)) if path.is_file()), None)


def find_socket(file: str | None = None, environ: Mapping[str, str] = os.environ) -> Path:
    """The status socket of the pool that this command line means, found without validating anything.

    A pool started by systemd is found from a login shell too, when no other was configured. ConfigError for a named
    file that cannot be read: the default socket may be that of another pool, and `stop` must not reach it.
    """
    table = _pool_table(config_file(file, environ), named=file or environ.get("JOBPOOL_CONFIG"))
    runtime = environ.get("JOBPOOL_POOL__RUNTIME_DIR") or table.get("runtime_dir", "")
    state = environ.get("JOBPOOL_POOL__STATE_DIR") or table.get("state_dir", "")
    path = runtime_directory(str(runtime), environ, state=str(state)) / SOCKET_NAME
    system = SYSTEM_RUNTIME_DIR / SOCKET_NAME
    return system if not runtime and not path.exists() and system.exists() else path


def _pool_table(path: Path | None, *, named: str | None) -> dict[str, object]:
    """[pool] of a file, or nothing: `check` and `start` are there to complain, a probe is not."""
    if path is None:
        return {}
    try:
        text = path.read_text(errors="replace")
    except OSError as error:
        if named:
            raise ConfigError(f"configuration file {path} cannot be read: {error.strerror}") from error
        return {}
    try:
        table = tomllib.loads(text).get("pool", {})
    except ValueError:
        table = _readable_lines(text)
    return table if isinstance(table, dict) else {}


def _readable_lines(text: str) -> dict[str, object]:
    """Of a file with a fault somewhere: whoever has just broken it must still reach the pool that runs by it."""
    table: dict[str, object] = {}
    for line in text.splitlines():
        if line.strip().startswith(("runtime_dir", "state_dir")):
            with contextlib.suppress(ValueError):
                table |= tomllib.loads(line)
    return table


def _first(paths: str) -> str:
    return paths.partition(":")[0]
