"""File, environment and flags to one frozen Config. The only reader of the environment for settings.

A flag beats JOBPOOL_* variables, they beat the file, the file beats the defaults. All that is wrong is said at once,
each in one sentence that names the place and the key (`pool.complaints`).
"""

import json
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from pydantic import ValidationError

from pool import paths
from pool.complaints import complaints, has_password
from pool.errors import ConfigError
from pool.settings import Config

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

PREFIX = "JOBPOOL_"
OURS_BUT_NO_KEYS = frozenset({"JOBPOOL_CONFIG"})

Origin = Literal["flag", "environment", "file", "default"]


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration and where each value of it came from. Keys are dotted: "workers.count".

    `config.backend.url` is complete: default and url_file are resolved. `file_values` is the file as it stood.
    """

    config: Config
    path: Path | None
    sources: Mapping[str, Origin] = field(default_factory=dict)
    file_values: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def origin(self, key: str) -> Origin:
        """Who said the value of this key."""
        return self.sources.get(key, "default")

    @property
    def fixed_by_environment(self) -> frozenset[str]:
        """Keys that no reload can change, because the process's environment holds them."""
        return frozenset(key for key, origin in self.sources.items() if origin == "environment")


def load_config(
    *, file: str | None = None, overrides: Mapping[str, Any] | None = None, environ: Mapping[str, str] = os.environ
) -> Loaded:
    """Read, merge and validate; `overrides` are flags by dotted key. ConfigError says all that is wrong."""
    path = paths.config_file(file, environ)
    layers: dict[Origin, dict[str, Any]] = {
        "file": _read_file(path),
        "environment": _read_environment(environ),
        "flag": _nested(overrides or {}),
    }
    sources = {key: origin for origin, layer in layers.items() for key, value in _leaves(layer) if value != ""}
    merged = _merge(layers["file"], _merge(layers["environment"], layers["flag"]))
    config = _validated(merged, path, sources)
    config = _with_backend_url(config, sources, path, environ)
    warnings = (*_near_misses(environ), *_exposed_secrets(config, path, layers["file"], environ))
    return Loaded(config, path, sources, dict(_leaves(layers["file"])), warnings)


# ---------------------------------------------------------------- where things lie


def runtime_dir(config: Config, environ: Mapping[str, str] = os.environ) -> Path:
    """The directory of the status socket and the lock."""
    return paths.runtime_directory(config.pool.runtime_dir, environ, state=config.pool.state_dir)


def state_dir(config: Config, environ: Mapping[str, str] = os.environ) -> Path:
    """The directory of the default database and the spool."""
    return paths.state_directory(config.pool.state_dir, environ)


def socket_path(config: Config, environ: Mapping[str, str] = os.environ) -> Path:
    """The status and control socket."""
    return runtime_dir(config, environ) / paths.SOCKET_NAME


def default_database(config: Config, environ: Mapping[str, str] = os.environ) -> Path:
    """The SQLite file that is used when no backend is configured."""
    return state_dir(config, environ) / paths.DATABASE_NAME


def backend_url(config: Config, environ: Mapping[str, str] = os.environ) -> str:
    """Where the jobs rest: what is configured, else SQLite in the state directory. May hold a password."""
    if config.backend.url:
        return config.backend.url
    if config.backend.url_file:
        return _url_from_file(config.backend.url_file, environ)
    return f"sqlite:///{quote(str(default_database(config, environ)))}"


# ---------------------------------------------------------------- the layers


def _read_file(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"configuration file {path} does not exist") from None
    except OSError as error:
        raise ConfigError(f"configuration file {path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"configuration file {path} is not TOML: {error}") from error


def _read_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """JOBPOOL_WORKERS__COUNT=8 → {"workers": {"count": "8"}}; lists and tables as JSON or, for names, with commas."""
    ours = {name: value for name, value in environ.items() if _is_key(name)}
    if not ours:
        return {}  # and pydantic-settings is not loaded
    from pydantic_settings import BaseSettings, EnvSettingsSource

    class Settings(Config, BaseSettings):  # type: ignore[misc]  # two model_configs; only the fields are used
        pass

    class Environment(EnvSettingsSource):
        def decode_complex_value(self, field_name: str, field: "FieldInfo", value: Any) -> Any:
            return _as_json(value)  # what is not JSON is left for the model to take or refuse

    source = Environment(Settings, env_prefix=PREFIX, env_nested_delimiter="__")
    source.env_vars = {PREFIX.lower() + name.removeprefix(PREFIX).lower(): value for name, value in ours.items()}
    return _merge(_unknown_sections(ours), source())


def _is_key(name: str) -> bool:
    section = name.removeprefix(PREFIX).partition("__")[0].lower()
    return name.startswith(PREFIX) and name not in OURS_BUT_NO_KEYS and ("__" in name or section in Config.model_fields)


def _unknown_sections(ours: Mapping[str, str]) -> dict[str, Any]:
    """Variables such as JOBPOOL_WORKRES__COUNT, which pydantic-settings would pass over in silence."""
    keys = {name.removeprefix(PREFIX).lower().replace("__", "."): value for name, value in ours.items()}
    return _nested({key: value for key, value in keys.items() if key.partition(".")[0] not in Config.model_fields})


def _as_json(value: Any) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value


def _near_misses(environ: Mapping[str, str]) -> Iterator[str]:
    """JOBPOOL_WORKERS_COUNT, with one underscore, is not ours to refuse, but a person should know."""
    known = [PREFIX + key.replace(".", "__").upper() for key in _known_keys()]
    for name in environ:
        if name.startswith(PREFIX) and not _is_key(name) and name not in OURS_BUT_NO_KEYS:
            for near in get_close_matches(name, known, n=1, cutoff=0.9):
                yield f"environment variable {name} is not a key of jobpool; did you mean {near}?"


def _known_keys() -> Iterator[str]:
    for section, info in Config.model_fields.items():
        fields = getattr(info.annotation, "model_fields", {})
        yield from (f"{section}.{key}" for key in fields)


# ---------------------------------------------------------------- merging and validating


def _nested(dotted: Mapping[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for key, value in dotted.items():
        *sections, last = key.split(".")
        node = tree
        for section in sections:
            node = node.setdefault(section, {})
        node[last] = value
    return tree


def _leaves(tree: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def _merge(left: Mapping[str, Any], right: Mapping[str, Any]) -> dict[str, Any]:
    """Both trees in one; where they differ the right one wins."""
    merged = dict(left)
    for key, value in right.items():
        old = merged.get(key)
        merged[key] = _merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def _validated(merged: dict[str, Any], path: Path | None, sources: Mapping[str, Origin]) -> Config:
    try:
        return Config.model_validate(merged)
    except ValidationError as error:
        wrong = ConfigError("\n".join(complaints(error, merged, path, sources)))
        wrong.add_note("Nothing was changed. Look at it again with: jobpool check")
        raise wrong from None


# ---------------------------------------------------------------- the backend's URL, and secrets


def _with_backend_url(
    config: Config, sources: Mapping[str, Origin], path: Path | None, environ: Mapping[str, str]
) -> Config:
    """Resolved now, so that children agree and a reload sees a changed secret. The nearer of url and url_file wins."""
    backend = config.backend
    if backend.url and backend.url_file:
        nearness = ("file", "environment", "flag").index
        by_url, by_file = sources["backend.url"], sources["backend.url_file"]
        if by_url == by_file:
            raise ConfigError(f"{path or by_url}: backend.url and backend.url_file are both set; keep one")
        if nearness(by_url) < nearness(by_file):
            backend = backend.model_copy(update={"url": ""})
    config = config.model_copy(update={"backend": backend})
    url = backend_url(config, environ)
    return config.model_copy(update={"backend": backend.model_copy(update={"url": url})})


def _url_from_file(name: str, environ: Mapping[str, str]) -> str:
    path = _credential(name, environ)
    try:
        url = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"backend.url_file {path} cannot be read: {getattr(error, 'strerror', error)}") from error
    if not url:
        raise ConfigError(f"backend.url_file {path} is empty; it must hold the backend's URL")
    return url


def _credential(name: str, environ: Mapping[str, str]) -> Path:
    """A relative name is looked for in $CREDENTIALS_DIRECTORY (systemd LoadCredential) first."""
    inside = Path(environ.get("CREDENTIALS_DIRECTORY") or ".") / name
    return inside if inside.exists() else Path(name)


def _exposed_secrets(
    config: Config, path: Path | None, file_layer: Mapping[str, Any], environ: Mapping[str, str]
) -> Iterator[str]:
    url = str(file_layer.get("backend", {}).get("url", ""))
    if path and has_password(url) and _is_world_readable(path):
        yield f"{path} holds a password and every user can read it; chmod 640 it, or move the URL to backend.url_file"
    if config.backend.url_file:
        secret = _credential(config.backend.url_file, environ)
        if has_password(config.backend.url) and _is_world_readable(secret):
            yield f"{secret} holds a password and every user can read it; chmod 640 it"


def _is_world_readable(path: Path) -> bool:
    try:
        return bool(path.stat().st_mode & 0o004)
    except OSError:
        return False
