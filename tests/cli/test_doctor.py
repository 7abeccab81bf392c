"""`jobpool doctor`: each rule over made-up facts, and the whole verb against a real pool and the shipped unit."""

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pool.backends.contract import PoolState, QueueState
from pool.cli.doctor_facts import (
    KSMD,
    Facts,
    FileFacts,
    Merging,
    file_system_of,
    merging_of,
    read_unit,
    service_section,
)
from pool.cli.doctor_rules import examine, is_wal_reset_fixed
from pool.cli.doctor_unit import Finding, _bytes, _seconds
from pool.config import Loaded
from pool.identity import PoolId
from pool.settings import Config
from pool.supervisor.merging import is_merging
from tests.helpers.house import House

SHIPPED = Path(__file__).parents[2] / "systemd" / "jobpool.service"
GOOD_UNIT = {
    "Type": "notify", "KillMode": "mixed", "TimeoutStopSec": "45s", "WatchdogSec": "30s", "Restart": "on-failure",
    "RestartPreventExitStatus": "78", "OOMPolicy": "continue",
}  # fmt: skip


def facts(*, config: dict[str, Any] | None = None, unit: dict[str, str] | None = None, **more: Any) -> Facts:
    """A house in good order but for what is given."""
    loaded = Loaded(Config.model_validate({"workers": {"count": 4}, **(config or {})}), None)
    well: dict[str, Any] = {
        "unit_name": "jobpool.service",
        "unit": {**GOOD_UNIT, **(unit or {})},
        "status": {"pool": {"name": "house", "state": "ready", "version": "1.0", "problems": []}},
        "own_version": "1.0",
        "limits": {"open files": 16384},
        "kind": "sqlite",
        "sqlite_version": (3, 51, 3),
        "file_system": "ext4",
        "free_bytes": 10**12,
        "memory_bytes": 64 * 10**9,
        "is_clock_synchronised": True,
        "clock_ahead_s": 0.0,
        "database": FileFacts("/d/jobs.db", 0o640, 0, True),
        "folder": FileFacts("/d", 0o750, 0, True),
        "socket": FileFacts("/r/jobpool.sock", 0o660, 0, True),
    }
    return Facts(loaded=loaded, **{**well, **more})


def bad(found: Facts) -> list[Finding]:
    return [finding for finding in examine(found) if finding.level in ("warning", "error")]


def pool_state(name: str, version: str, queues: list[str] | None = None, **more: Any) -> PoolState:
    groups = {"workers": {"count": 1, "queues": queues or ["*"]}}
    told = {"version": version, "groups": groups}
    return PoolState(pool=PoolId(name, "host", "i"), age_s=more.get("age_s", 1.0), lost=False, facts=told)


def test_a_degraded_pool_is_no_pool_in_good_order() -> None:
    status = {"pool": {"name": "house", "state": "degraded", "version": "1.0", "problems": []}}
    (finding,) = bad(facts(status=status))
    assert (finding.level, finding.says, finding.remedy) == ("warning", "house is degraded", "jobpool status")


def test_a_house_in_good_order_gets_no_remedies() -> None:
    assert bad(facts()) == []
    assert all(not finding.remedy for finding in examine(facts()))


@pytest.mark.parametrize(
    ("unit", "level", "remedy"),
    [
        ({"TimeoutStopSec": "30s"}, "error", "TimeoutStopSec=45s"),
        ({"KillMode": "control-group"}, "warning", "KillMode=mixed"),
        ({"KillMode": "process"}, "error", "KillMode=mixed"),
        ({"Type": "simple"}, "error", "Type=notify"),
        ({"MemoryMax": "1G"}, "error", "MemoryMax=2149M"),
        ({"OOMPolicy": "stop"}, "warning", "OOMPolicy=continue"),
        ({"Restart": "no"}, "warning", "Restart=on-failure"),
        ({"RestartPreventExitStatus": "1"}, "warning", "RestartPreventExitStatus=78"),
        ({"TasksMax": "20"}, "warning", "TasksMax=124"),
    ],
)
def test_what_is_wrong_with_the_unit_is_named_with_the_line_to_write(
    unit: dict[str, str], level: str, remedy: str
) -> None:
    (finding,) = bad(facts(unit=unit))
    assert finding.level == level
    assert remedy in finding.remedy
    assert finding.remedy.startswith("systemctl edit jobpool.service")


def test_the_longest_deadline_of_all_groups_counts() -> None:
    groups = [{"name": "long", "count": 1, "stop_timeout": 600}]
    (finding,) = bad(facts(config={"groups": groups}))
    assert "TimeoutStopSec=615s" in finding.remedy


def test_a_unit_that_is_missing_is_a_note() -> None:
    found = dataclasses.replace(facts(), unit=None)
    assert bad(found) == []
    assert any("no unit jobpool.service" in finding.says for finding in examine(found))


@pytest.mark.parametrize(
    ("wrong", "check", "remedy"),
    [
        ({"limits": {"open files": 100}}, "open files", "LimitNOFILE=16384"),
        ({"file_system": "nfs4"}, "file system", "local disk"),
        ({"file_system": "overlay"}, "file system", "volume"),
        ({"free_bytes": 1000}, "disk", "retention"),
        ({"side_files": (FileFacts("/d/jobs.db-wal", 0o640, 0, True, 10**9),)}, "WAL", "fuser -v /d/jobs.db"),
        ({"database": FileFacts("/d/jobs.db", 0o666, 0, True)}, "data", "chmod o-rwx /d/jobs.db"),
        ({"database": FileFacts("/d/jobs.db", 0o600, 9, False)}, "data", "chgrp jobpool /d/jobs.db"),
        ({"folder": FileFacts("/d", 0o777, 0, True)}, "data", "chmod o-w /d"),
        ({"socket": FileFacts("/r/jobpool.sock", 0o666, 0, True)}, "socket", "socket_mode"),
        ({"runtime": FileFacts("/r", 0o777, 0, True)}, "socket", "chmod 0750 /r"),
        ({"config_file": FileFacts("/etc/x.toml", 0o646, 0, True)}, "configuration", "chmod o-w /etc/x.toml"),
        ({"clock_ahead_s": 5.0}, "clock", "timedatectl"),
        ({"clock_ahead_s": -500.0}, "clock", "timedatectl"),
        ({"is_clock_synchronised": False}, "clock", "timedatectl"),
        ({"store_trouble": "backend x is not available"}, "store", "[backend] url"),
        ({"own_version": "2.0"}, "version", "systemctl restart"),
        ({"queues": (QueueState(name="mail", overdue=3),), "pools": (pool_state("a", "1.0"),)}, "queues", "jobpool"),
        ({"memory_bytes": 10**9}, "memory", "memory_limit"),
    ],
)
def test_each_trouble_has_a_remedy(wrong: dict[str, Any], check: str, remedy: str) -> None:
    (finding,) = bad(facts(**wrong))
    assert finding.check == check
    assert remedy in finding.remedy


@pytest.mark.parametrize(
    ("merging", "level", "words", "remedy"),
    [
        (Merging(False), "warning", "cannot merge", "Linux 6.4 or newer with CONFIG_KSM"),
        (Merging(True, False), "warning", "does not run", "as root: echo 1 > /sys/kernel/mm/ksm/run; for each boot: "
         "echo 'w /sys/kernel/mm/ksm/run - - - - 1' > /etc/tmpfiles.d/ksm.conf"),
        (Merging(True, True, False), "warning", "the running pool does not", "jobpool reload"),
        (Merging(True, True, True, 73_000_000, 68_000_000), "ok", "73 MB of the pool are in merged pages, which saves up to 68 MB", ""),
        (Merging(True, True, None, 4096), "ok", "saves up to 0 B", ""),
        (Merging(True, True, True), "ok", "nothing of the pool is merged yet", ""),
    ],
)  # fmt: skip
def test_what_merging_lacks_has_a_remedy_and_what_it_gives_is_told(
    merging: Merging, level: str, words: str, remedy: str
) -> None:
    found = facts(config={"pool": {"merge_memory": True}}, merging=merging)
    (finding,) = [finding for finding in examine(found) if finding.check == "merge_memory"]
    assert finding.level == level
    assert words in finding.says
    assert remedy in finding.remedy


def test_nothing_is_said_of_merging_where_nobody_wants_it() -> None:
    assert not any(finding.check == "merge_memory" for finding in examine(facts(merging=Merging(False))))
    unknown = facts(config={"pool": {"merge_memory": True}}, merging=Merging(True, None, None))
    assert not any(finding.check == "merge_memory" for finding in examine(unknown))


def test_what_the_kernel_merges_is_read() -> None:
    found = merging_of([os.getpid()])
    assert found.is_able is (is_merging() is not None)
    assert found.is_let in (None, is_merging())
    assert found.saved <= found.merged


def test_redis_that_may_lose_jobs_gets_the_commands_to_type() -> None:
    warnings = (
        "appendonly is off: a crash loses jobs; set appendonly yes",
        "maxmemory-policy is allkeys-lru: the server may drop jobs when memory is short; set it to noeviction",
    )
    found = bad(facts(kind="redis", store_warnings=warnings))
    assert [finding.level for finding in found] == ["warning", "error"]
    assert "CONFIG SET appendonly yes" in found[0].remedy
    assert "CONFIG SET maxmemory-policy noeviction" in found[1].remedy


def test_pools_of_several_versions_are_told_the_newest() -> None:
    (finding,) = bad(facts(pools=(pool_state("a", "1.9.0"), pool_state("b", "1.10.0"))))
    assert finding.remedy.startswith("install the wheel of jobpool 1.10.0 on the others")


def test_jobs_in_a_queue_that_nobody_serves_are_found() -> None:
    queues = (QueueState(name="mail", pending=7), QueueState(name="idle"))
    (finding,) = bad(facts(queues=queues, pools=(pool_state("a", "1.0", queues=["other"]),)))
    assert "7 jobs wait in mail" in finding.says


def test_a_pool_in_trouble_and_a_failed_reload_are_repeated_here() -> None:
    pool = {"version": "1.0", "problems": ["slot 3 is parked: x"], "last_reload": {"ok": False, "error": "no such key"}}
    assert [finding.says for finding in bad(facts(status={"pool": pool}))] == [
        "slot 3 is parked: x",
        "the last reload failed: no such key",
    ]


@pytest.mark.parametrize(
    ("version", "fixed"),
    [((3, 40, 1), False), ((3, 44, 6), True), ((3, 50, 6), False), ((3, 50, 7), True), ((3, 51, 2), False),
     ((3, 51, 3), True), ((3, 52, 0), True)],
)  # fmt: skip
def test_sqlite_versions_with_the_wal_fault_are_known(version: tuple[int, int, int], fixed: bool) -> None:
    assert is_wal_reset_fixed(version) is fixed


@pytest.mark.parametrize(
    ("text", "seconds"), [("45", 45), ("45s", 45), ("1min 30s", 90), ("infinity", float("inf")), ("2h", 7200)]
)
def test_spans_of_systemd_are_read(text: str, seconds: float) -> None:
    assert _seconds(text) == seconds


@pytest.mark.parametrize(
    ("text", "size"), [("1024", 1024), ("1K", 1024), ("2G", 2 * 1024**3), ("50%", 500), ("infinity", float("inf"))]
)
def test_sizes_of_systemd_are_read(text: str, size: float) -> None:
    assert _bytes(text, 1000) == size


def test_a_drop_in_beats_the_unit() -> None:
    text = (
        "[Unit]\nX=1\n[Service]\nKillMode=process\n# KillMode=none\n# /etc/…/override.conf\n[Service]\nKillMode=mixed\n"
    )
    assert service_section(text) == {"KillMode": "mixed"}


def test_the_nearest_mount_decides() -> None:
    assert file_system_of(Path("/proc/self")) == "proc"


def test_the_shipped_unit_and_a_real_pool_are_well(open_house: Callable[..., House]) -> None:
    house = open_house(workers=1)
    findings = house.cli_json("doctor", "--unit", str(SHIPPED))
    wrong = [found for found in findings if found["level"] == "error"]
    assert wrong == []
    assert {"pool", "KillMode", "TimeoutStopSec", "open files", "store", "data", "socket"} <= {
        found["check"] for found in findings if found["level"] == "ok"
    }


@pytest.mark.skipif(is_merging() is None or not KSMD.exists(), reason="this kernel does not merge memory")
def test_a_real_pool_that_may_be_merged_hears_of_ksmd(open_house: Callable[..., House]) -> None:
    house = open_house(workers=1, environ={"JOBPOOL_POOL__MERGE_MEMORY": "true"})
    (finding,) = [found for found in house.cli_json("doctor") if found["check"] == "merge_memory"]
    is_working = KSMD.read_text().strip() == "1"
    assert finding["level"] == ("ok" if is_working else "warning")
    assert ("echo 1 >" in finding["remedy"]) is not is_working


def test_an_error_makes_the_answer_negative_and_is_the_last_thing_said(open_house: Callable[..., House]) -> None:
    house = open_house(start=False)
    house.client.backend().queues()
    os.chmod(house.folder / "jobs.db", 0o646)
    done = house.cli("doctor", "--unit", str(SHIPPED), check=False)
    assert done.returncode == 1
    assert f"→ chmod o-rwx {house.folder}/jobs.db" in done.stdout
    assert "no pool is running" in done.stdout


def test_the_shipped_unit_is_read() -> None:
    unit = read_unit(str(SHIPPED))
    assert unit is not None
    assert unit["KillMode"] == "mixed"
