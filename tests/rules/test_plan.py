"""Which children a configuration means, and which change of it needs new ones."""

from pathlib import Path
from typing import Any

import pytest

from pool.board.record import Role
from pool.config import Loaded, load_config
from pool.errors import ConfigError
from pool.plan import Options, make_plan, make_reread
from pool.seat import ChildSpec
from pool.settings import Config
from pool.supervisor.planned import Plan


def loaded_with(**sections: Any) -> Loaded:
    base = {"backend": {"url": "sqlite:///jobs.db"}}
    return Loaded(Config.model_validate(base | sections), None)


def spec(plan: Plan, group: str) -> ChildSpec:
    return next(found for found in plan.specs if found.group == group)


def test_the_default_plan_is_workers_and_one_keeper() -> None:
    plan = make_plan(loaded_with(workers={"count": 3}))
    assert [(s.role, s.group, s.count) for s in plan.specs] == [(Role.WORKER, "workers", 3), (Role.KEEPER, "keeper", 1)]


def test_each_group_has_its_own_count_queues_and_ceilings() -> None:
    bulk = {"name": "bulk", "count": 2, "queues": ["bulk"], "memory_limit": "1GB", "concurrency": 4, "stop_timeout": 5}
    plan = make_plan(loaded_with(groups=[bulk]))
    found = spec(plan, "bulk")
    assert (found.count, found.queues, found.memory.limit, found.lanes, found.stop_timeout) == (
        2,
        ("bulk",),
        10**9,
        4,
        5,
    )
    assert spec(plan, "workers").stop_timeout == 30


def test_the_keeper_is_back_within_half_a_lease() -> None:
    keeper = spec(make_plan(loaded_with(backend={"url": "sqlite:///jobs.db", "lease": 60})), "keeper")
    assert keeper.critical and keeper.stop_last
    assert keeper.silence_timeout == 15
    assert keeper.max_delay == 6
    assert keeper.silence_timeout + keeper.max_delay + keeper.boot_timeout < 30


def test_a_watcher_comes_only_when_asked_for() -> None:
    plan = make_plan(loaded_with(), options=Options(watch=True, burst=True))
    assert spec(plan, "watch").role is Role.WATCH
    assert spec(plan, "workers").burst


@pytest.mark.parametrize(
    ("change", "workers_roll", "keeper_rolls"),
    [
        ({"workers": {"count": 9}}, False, False),
        ({"workers": {"count_min": 1, "count_max": 9, "target_wait": 5}}, False, False),
        ({"workers": {"memory_kill": "2GB"}}, False, False),
        ({"restart": {"max_delay": 5}}, False, False),
        ({"status": {"listen": "127.0.0.1:1"}}, False, False),
        ({"workers": {"queues": ["mail"]}}, True, True),
        ({"workers": {"max_jobs": 5}}, True, False),
        ({"app": {"modules": ["tasks"]}}, True, True),
        ({"jobs": {"timeout": 5}}, True, True),
        ({"retention": {"completed": 5}}, False, True),
        ({"schedule": [{"name": "a", "type": "t", "every": 5}]}, False, True),
        ({"groups": [{"name": "bulk"}]}, False, True),
    ],
)
def test_only_what_a_child_reads_needs_a_new_child(
    change: dict[str, Any], workers_roll: bool, keeper_rolls: bool
) -> None:
    before, after = make_plan(loaded_with()), make_plan(loaded_with(**change))
    assert (spec(before, "workers").fingerprint != spec(after, "workers").fingerprint) == workers_roll
    assert (spec(before, "keeper").fingerprint != spec(after, "keeper").fingerprint) == keeper_rolls


def test_a_library_to_preload_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigError, match=r"\[app\] preload needs no_such_library"):
        make_plan(loaded_with(app={"preload": ["no_such_library"]}))


# ---------------------------------------------------------------- sources and reloads


def test_a_count_says_where_it_comes_from(tmp_path: Path) -> None:
    file = tmp_path / "jobpool.toml"
    file.write_text('[workers]\ncount = 2\n[[groups]]\nname = "bulk"\ncount = 3\n[[groups]]\nname = "rest"\n')
    flagged = make_plan(load_config(file=str(file), overrides={"workers.count": 5}, environ={"HOME": str(tmp_path)}))
    assert spec(flagged, "workers").count == 5
    assert flagged.count_sources == {"workers": "flag", "bulk": "file", "rest": "default"}
    assert flagged.file_counts == {"workers": 2, "bulk": 3}


def test_a_reload_tells_what_cannot_change_now_and_keeps_it(tmp_path: Path) -> None:
    file = tmp_path / "jobpool.toml"
    file.write_text('[pool]\nname = "a"\n[workers]\ncount = 2\n')
    environ = {"HOME": str(tmp_path), "JOBPOOL_WORKERS__COUNT": "7"}

    def load() -> Loaded:
        return load_config(file=str(file), environ=environ)

    reread = make_reread(load(), load)
    file.write_text('[pool]\nname = "b"\n[workers]\ncount = 3\nmax_jobs = 9\n')
    plan = reread()

    assert plan.pool.name == "a"
    assert spec(plan, "workers").count == 7
    assert spec(plan, "workers").max_jobs == 9
    assert any("pool.name changed; it takes effect when jobpool is started again" in notice for notice in plan.notices)
    assert any("JOBPOOL_WORKERS__COUNT in the environment fixes it" in notice for notice in plan.notices)


def test_a_bad_reload_changes_nothing_and_the_next_good_one_counts_from_before(tmp_path: Path) -> None:
    file = tmp_path / "jobpool.toml"
    file.write_text("[workers]\ncount = 2\n")

    def load() -> Loaded:
        return load_config(file=str(file), environ={"HOME": str(tmp_path)})

    reread = make_reread(load(), load)
    file.write_text("[workers]\ncuont = 3\n")
    with pytest.raises(ConfigError, match="did you mean count"):
        reread()
    file.write_text("[workers]\ncount = 3\n")
    assert reread().file_counts == {"workers": 3}
