"""The shipped units: what an operator's systemd will make of them."""

import configparser
import shutil
import subprocess
from pathlib import Path

import pytest

UNITS = Path(__file__).parents[2] / "systemd"
NAMES = ("jobpool.service", "jobpool@.service")


def service(name: str) -> dict[str, list[str]]:
    """The [Service] section; a key may stand there several times."""
    keys: dict[str, list[str]] = {}
    section = ""
    for line in (UNITS / name).read_text().splitlines():
        if line.startswith("["):
            section = line
        elif section == "[Service]" and "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            keys.setdefault(key, []).append(value)
    return keys


@pytest.mark.parametrize("name", NAMES)
def test_the_unit_lets_the_pool_drain(name: str) -> None:
    keys = service(name)
    assert keys["Type"] == ["notify"] and keys["NotifyAccess"] == ["main"] and keys["KillMode"] == ["mixed"]
    assert int(keys["TimeoutStopSec"][0].removesuffix("s")) > 35
    assert keys["Restart"] == ["on-failure"] and keys["OOMPolicy"] == ["continue"] and keys["WatchdogSec"]
    assert "jobpool reload" in keys["ExecReload"][0]
    assert keys["StateDirectory"] and keys["RuntimeDirectory"]


@pytest.mark.parametrize("name", NAMES)
def test_the_unit_has_none_of_the_settings_that_are_known_to_hurt(name: str) -> None:
    keys = service(name)
    assert "ProcSubset" not in keys and "DynamicUser" not in keys and "ProtectProc" not in keys
    assert not any("@resources" in value for value in keys["SystemCallFilter"])


def test_both_units_differ_only_in_their_names() -> None:
    single, template = (service(name) for name in NAMES)
    assert single.keys() == template.keys()
    changed = {key for key in single if single[key] != template[key]}
    assert changed == {"ExecStart", "ExecReload", "EnvironmentFile", "StateDirectory", "RuntimeDirectory"}


def test_a_clean_start_limit_stands_in_the_unit_section() -> None:
    for name in NAMES:
        parser = configparser.ConfigParser(strict=False, interpolation=None)
        parser.optionxform = str  # type: ignore[assignment,method-assign]
        parser.read(UNITS / name)
        assert {"StartLimitIntervalSec", "StartLimitBurst"} <= set(parser["Unit"])


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("name", NAMES)
def test_systemd_finds_no_fault_and_rates_the_hardening_below_two(name: str, tmp_path: Path) -> None:
    text = (UNITS / name).read_text().replace("/opt/jobpool/venv/bin/jobpool", shutil.which("true") or "/bin/true")
    unit = tmp_path / name.replace("@", "@mail")
    unit.write_text(text.replace("WorkingDirectory=/opt/jobpool", "WorkingDirectory=/"))
    verified = subprocess.run(["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True)
    assert (verified.returncode, verified.stderr.strip()) == (0, "")
    rated = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", "--no-pager", "--threshold=19", str(unit)],
        capture_output=True,
        text=True,
    )
    assert rated.returncode == 0, rated.stdout[-200:] + rated.stderr
