"""The container files, as far as they can be tried without an engine: their commands run, their numbers fit together."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from pool.config import load_config
from pool.settings import PoolSection
from pool.units import parse_size
from tests.docs.desk import Desk
from tests.docs.pages import ROOT, Block, blocks_of
from tests.helpers.until import until

DEPLOY = ROOT / "docs" / "deploy"
TIME_TO_HAND_BACK_S = 10


def dockerfile() -> dict[str, str]:
    """Instruction → its last text, continued lines joined."""
    text = re.sub(r"^\s*#.*\n", "", (DEPLOY / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return dict(re.findall(r"^([A-Z]+) +(.+)$", text, re.MULTILINE))


def documents(name: str) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all((DEPLOY / name).read_text()) if document]


def seconds(text: str) -> int:
    return int(text.removesuffix("s"))


@pytest.fixture
def container(desk: Desk) -> Desk:
    """A desk with the image's environment, its directories moved into it."""
    for word in shlex.split(dockerfile()["ENV"]):
        name, _, value = word.partition("=")
        desk.environ[name] = value.replace("/var/lib", str(desk.folder)).replace("/run/", f"{desk.folder}/run-")
    desk.environ["JOBPOOL_WORKERS__COUNT"] = "1"
    (desk.folder / "tasks.py").write_text(
        "import pool\n\n@pool.job\ndef add(a: int, b: int) -> int:\n    return a + b\n"
    )
    return desk


def pid_one(command: list[str]) -> list[str]:
    """The command as process 1 of a PID namespace of its own; skips where the kernel does not let us."""
    unshare = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child=KILL"]
    if shutil.which("unshare") is None or subprocess.run([*unshare, "true"], capture_output=True).returncode:
        pytest.skip("no PID namespaces here")
    return [*unshare, *command]


def test_the_image_runs_as_process_1_is_healthy_and_stops_in_order(container: Desk) -> None:
    start, health = json.loads(dockerfile()["CMD"]), json.loads(dockerfile()["HEALTHCHECK"].partition(" CMD ")[2])
    with container.log.open("wb") as log:
        process = subprocess.Popen(
            pid_one(start), cwd=container.folder, env=container.environ, stdout=log, stderr=log, start_new_session=True
        )
    try:

        def is_well(question: list[str]) -> bool:
            assert process.poll() is None, container.log.read_text()
            done = subprocess.run(question, cwd=container.folder, env=container.environ, capture_output=True)
            return done.returncode == 0

        until(lambda: is_well(health), "a healthy container")
        until(lambda: is_well([*health, "--ready"]), "a container that is ready")
        os.kill(children_of(process.pid)[0], signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait(60)
    assert "stopped finished=none" in container.log.read_text()


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_the_image_starts_jobpool_itself_and_not_a_shell() -> None:
    said = dockerfile()
    assert said["CMD"].startswith("[")
    assert "ENTRYPOINT" not in said
    assert said["USER"] == "jobpool"
    assert said["STOPSIGNAL"] == "SIGTERM"


def test_nobody_kills_before_the_pool_has_handed_its_jobs_back() -> None:
    needed = PoolSection.model_fields["stop_timeout"].default + TIME_TO_HAND_BACK_S
    (compose,) = documents("compose.yaml")
    pod = next(d for d in documents("kubernetes.yaml") if d["kind"] == "Deployment")["spec"]["template"]["spec"]

    assert seconds(compose["services"]["jobs"]["stop_grace_period"]) >= needed
    assert pod["terminationGracePeriodSeconds"] >= needed
    assert "init" not in compose["services"]["jobs"]


def test_the_configuration_of_kubernetes_is_taken_and_its_probes_ask_where_it_listens(tmp_path: Path) -> None:
    by_kind = {document["kind"]: document for document in documents("kubernetes.yaml")}
    pod = by_kind["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    (tmp_path / "config.toml").write_text(by_kind["ConfigMap"]["data"]["config.toml"].replace("url_file", "# url_file"))
    config = load_config(file=str(tmp_path / "config.toml"), environ={"HOME": str(tmp_path)}).config

    port = int(config.status.listen.rpartition(":")[2])
    assert [port] == [exposed["containerPort"] for exposed in container["ports"]]
    assert {container[probe]["httpGet"]["path"] for probe in ("livenessProbe", "startupProbe")} == {"/healthz"}
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    startup = container["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] > config.pool.boot_timeout
    assert container["command"][-1] == "/etc/jobpool/config.toml"


def test_the_memory_of_the_containers_is_enough_for_all_workers(tmp_path: Path) -> None:
    by_kind = {document["kind"]: document for document in documents("kubernetes.yaml")}
    (tmp_path / "config.toml").write_text(by_kind["ConfigMap"]["data"]["config.toml"].replace("url_file", "# url_file"))
    workers = load_config(file=str(tmp_path / "config.toml"), environ={"HOME": str(tmp_path)}).config.workers
    (container,) = by_kind["Deployment"]["spec"]["template"]["spec"]["containers"]
    (compose,) = documents("compose.yaml")
    jobs = compose["services"]["jobs"]

    assert workers.count * workers.memory_kill + 100e6 <= parse_size(
        container["resources"]["limits"]["memory"].replace("i", "iB")
    )
    assert (
        int(jobs["environment"]["JOBPOOL_WORKERS__COUNT"]) * 512e6 + 100e6
        <= int(jobs["mem_limit"].rstrip("m")) * 1024**2
    )


def test_compose_and_kubernetes_take_the_files_by_their_own_schemas() -> None:
    compose = ["check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(DEPLOY / "compose.yaml")]
    kubernetes = ["kubernetes_validate", "--strict", "--quiet", str(DEPLOY / "kubernetes.yaml")]
    for module in (compose, kubernetes):
        done = subprocess.run([sys.executable, "-m", *module], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_mistake_in_the_files_would_be_seen(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text((DEPLOY / "kubernetes.yaml").read_text().replace("readinessProbe", "readynessProbe"))
    done = subprocess.run(
        [sys.executable, "-m", "kubernetes_validate", "--strict", str(wrong)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode != 0


def test_what_is_asked_from_outside_is_answered_inside(container: Desk) -> None:
    """The page's `docker compose exec` and `kubectl exec`, without the engine before them."""
    (block,) = (block for block in blocks_of(DEPLOY / "README.md") if "engine" in block.tags)
    (container.folder / "config.toml").write_text('[app]\nmodules = ["tasks"]\n')
    container.start(Block(DEPLOY / "Dockerfile", 0, "sh", frozenset(), shlex.join(json.loads(dockerfile()["CMD"]))))
    inner = [line.partition(" jobpool ")[2] for line in block.text.splitlines()]
    assert len(inner) == 3 and all(inner)

    for words in inner:
        container.run(["bash", "-c", f"jobpool {words.replace('/etc/jobpool', str(container.folder))}"], block.where)


def test_every_volume_that_is_mounted_is_declared() -> None:
    pod = next(d for d in documents("kubernetes.yaml") if d["kind"] == "Deployment")["spec"]["template"]["spec"]
    (compose,) = documents("compose.yaml")

    assert {m["name"] for m in pod["containers"][0]["volumeMounts"]} == {v["name"] for v in pod["volumes"]}
    mounted = {volume.partition(":")[0] for service in compose["services"].values() for volume in service["volumes"]}
    assert mounted == set(compose["volumes"])
