"""Runs a supervisor over puppets in `argv[1]`; `plan.json` there is the configuration, read again at each reload."""

import functools
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from pool import logs
from pool.board.record import Role
from pool.errors import ConfigError
from pool.identity import new_pool_id
from pool.seat import ChildSpec, MemoryRule
from pool.settings import LogSection
from pool.supervisor import cgroup
from pool.supervisor.first_steps import take_first_steps
from pool.supervisor.loop import Supervisor
from pool.supervisor.planned import Plan
from tests.supervisor.puppet import run_puppet


def read_plan(scene: Path) -> Plan:
    try:
        written = json.loads((scene / "plan.json").read_text())
    except ValueError as error:
        raise ConfigError(f"plan.json is not JSON: {error}") from error
    if "error" in written:
        raise ConfigError(written["error"])
    specs = tuple(_spec(scene, given) for given in written["specs"])
    counts = {spec.group: spec.count for spec in specs if spec.role == Role.WORKER}
    return Plan(pool=new_pool_id("stage"), specs=specs, runtime_dir=scene / "run", state_dir=scene, file_counts=counts)


def _spec(scene: Path, given: dict[str, Any]) -> ChildSpec:
    given = {"fingerprint": "a", "count": 1, "first_delay": 0.1, "max_delay": 1.0, **given}
    given["role"] = Role[given.get("role", "WORKER")]
    given["memory"] = MemoryRule(**given.get("memory", {}))
    return ChildSpec(run=functools.partial(run_puppet, scene), **given)


def wait_until_gone(path: Path) -> None:
    while path.exists():
        time.sleep(0.02)


if __name__ == "__main__":
    take_first_steps()
    stage = Path(sys.argv[1])
    if (stage / "root").exists():
        cgroup.ROOT = stage / "root"
    logs.configure(LogSection(), pool="stage", who="supervisor", in_parent=True)
    if (stage / "threads").exists():
        threading.Thread(target=wait_until_gone, args=(stage / "threads",), daemon=True).start()
    supervisor = Supervisor(read_plan(stage), functools.partial(read_plan, stage))
    try:
        code = supervisor.run()
    except ConfigError as refused:
        os.write(2, f"{refused}\n".encode())
        code = 78
    if supervisor.failure:
        os.write(2, f"failure: {supervisor.failure}\n".encode())
    sys.exit(code)
