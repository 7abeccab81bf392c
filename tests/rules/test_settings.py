"""The configuration's models: what is taken, what is refused, and that the example file shows all of it."""

import tomllib
from pathlib import Path

import pytest
from pydantic import ValidationError

from pool.cli.example import example
from pool.settings import Config, parse_duration, parse_size

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("written", "seconds"),
    [(30, 30), (0.5, 0.5), ("30", 30), ("10m", 600), ("24h", 86_400), ("500ms", 0.5), ("1.5 h", 5400), ("2D", 172_800)],
)
def test_a_duration_is_seconds_however_it_is_written(written: object, seconds: float) -> None:
    assert parse_duration(written) == pytest.approx(seconds)


@pytest.mark.parametrize("written", ["", "soon", "-5", "10 parsecs", "1e3", "10m30s"])
def test_what_is_no_duration_is_refused_in_words(written: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(written)


@pytest.mark.parametrize(
    ("written", "count"), [(1024, 1024), ("512MB", 512_000_000), ("1 GiB", 2**30), ("64k", 65_536)]
)
def test_a_size_is_bytes_however_it_is_written(written: object, count: int) -> None:
    assert parse_size(written) == count


@pytest.mark.parametrize("written", ["", "many", "5 potatoes", "-1MB"])
def test_what_is_no_size_is_refused_in_words(written: str) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        parse_size(written)


def test_an_empty_configuration_is_whole() -> None:
    config = Config()
    assert config.workers.queues == ["*"]
    assert config.workers.count >= 1
    assert config.retention.failed == 30 * 86_400


def test_the_configuration_cannot_be_changed_afterwards() -> None:
    config = Config()
    with pytest.raises(ValidationError):
        config.workers.count = 3  # type: ignore[misc]


def token(name: str, digit: str) -> dict[str, str]:
    return {"name": name, "role": "admin", "sha256": digit * 64}


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"workers": {"min_priority": 30, "max_priority": 10}}, "min_priority is above max_priority"),
        ({"workers": {"queues": []}}, "queues is empty"),
        ({"workers": {"queues": ["*", "mail"]}}, "stands alone"),
        ({"workers": {"memory_limit": "512MB", "memory_kill": "100MB"}}, "memory_kill is below memory_limit"),
        ({"workers": {"count_min": 2}}, "all three"),
        ({"workers": {"count_min": 5, "count_max": 2, "target_wait": 1}}, "count_min is above count_max"),
        ({"groups": [{"name": "workers"}]}, "group name 'workers' is there twice"),
        ({"groups": [{"name": "a"}, {"name": "a"}]}, "group name 'a' is there twice"),
        ({"groups": [{"name": "a" * 25}]}, "at most 24"),
        ({"queues": [{"name": "a"}, {"name": "a"}]}, "queue 'a' is there twice"),
        ({"schedule": [{"name": "a", "type": "t", "every": n} for n in (5, 6)]}, "schedule entry 'a' is there twice"),
        ({"commands": [{"type": "a", "argv": ["x"]}, {"type": "a", "argv": ["y"]}]}, "job type 'a' is there twice"),
        ({"types": [{"name": "a", "queue": "q"}], "commands": [{"type": "a", "argv": ["x"]}]}, "'a' is there twice"),
        ({"tokens": [token("a", "0"), token("a", "1")]}, "token 'a' is there twice"),
        ({"tokens": [token("a", "0"), token("b", "0")]}, f"token with the sha256 '{'0' * 64}' is there twice"),
        ({"schedule": [{"name": "a", "type": "t"}]}, "cron or every"),
        ({"schedule": [{"name": "a", "type": "t", "cron": "* * * * *", "every": 5}]}, "cron or every"),
        ({"alerts": [{"on": "degraded"}]}, "command or url"),
        ({"web": {"tls_cert": "a.pem"}}, "belong together"),
        ({"workers": {"count": 0}}, "greater than or equal to 1"),
    ],
)
def test_what_does_not_fit_together_is_refused_in_words(values: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        Config.model_validate(values)


def test_the_example_file_shows_the_models_as_they_are() -> None:
    assert (ROOT / "config.example.toml").read_text() == example(), (
        "run: python -m pool.cli.example > config.example.toml"
    )


def test_the_example_file_changes_nothing() -> None:
    assert Config.model_validate(tomllib.loads(example())) == Config()


def test_the_example_file_works_with_every_block_in_use() -> None:
    in_use = "\n".join(line.removeprefix("# ") for line in example().splitlines() if _is_toml(line.removeprefix("# ")))
    config = Config.model_validate(tomllib.loads(in_use))
    assert config.groups[0].name == "bulk"
    assert config.schedule[0].cron
    assert config.tokens and config.alerts and config.commands and config.types and config.queues


def test_every_key_is_explained_in_one_line() -> None:
    for name, info in Config.model_fields.items():
        assert info.description and "\n" not in info.description, name


def _is_toml(line: str) -> bool:
    return line.startswith("[") or " = " in line.partition("#")[0]
