"""How much memory there is, read from a tree of files as the kernel shows them."""

from pathlib import Path

import pytest

from pool.supervisor import budget, cgroup, oom

MB = 1 << 20


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(cgroup, "ROOT", tmp_path)
    write(tmp_path / "proc/meminfo", "MemTotal: 8388608 kB\nMemFree: 1 kB\nMemAvailable: 4194304 kB\n")
    return tmp_path


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def v2(root: Path, path: str, *, limit: str, used: int, inactive: int = 0, kills: int = 0) -> Path:
    folder = root / "sys/fs/cgroup" / path.lstrip("/")
    write(folder / "memory.max", f"{limit}\n")
    write(folder / "memory.current", f"{used}\n")
    write(folder / "memory.stat", f"anon 1\ninactive_file {inactive}\n")
    write(folder / "memory.events", f"low 0\noom 9\noom_kill {kills}\n")
    return folder


def test_without_a_limit_it_is_what_the_machine_has(root: Path) -> None:
    write(root / "proc/self/cgroup", "0::/a\n")
    v2(root, "/a", limit="max", used=MB)
    assert budget.allowance() == budget.Allowance(8192 * MB, "machine", 4096 * MB)


def test_the_tightest_limit_above_us_counts_and_cached_files_do_not(root: Path) -> None:
    write(root / "proc/self/cgroup", "0::/slice/unit\n")
    v2(root, "/slice", limit=str(600 * MB), used=500 * MB, inactive=300 * MB)
    v2(root, "/slice/unit", limit="max", used=100 * MB)
    assert budget.allowance() == budget.Allowance(600 * MB, "cgroup", 400 * MB)


def test_version_1_is_read_too_where_the_path_is_not_below_the_mount(root: Path) -> None:
    """As in a container: the path is the host's, the mount begins at our own folder."""
    write(root / "proc/self/cgroup", "4:memory:/docker/abc\n0::/\n")
    mount = root / "sys/fs/cgroup/memory"
    write(mount / "memory.limit_in_bytes", str(300 * MB))
    write(mount / "memory.usage_in_bytes", str(250 * MB))
    write(mount / "memory.stat", f"total_inactive_file {50 * MB}\n")
    assert budget.allowance() == budget.Allowance(300 * MB, "cgroup", 100 * MB)
    write(mount / "memory.limit_in_bytes", "9223372036854771712")
    assert budget.allowance() == budget.Allowance(8192 * MB, "machine", 4096 * MB)


def test_where_nothing_can_be_read_nothing_is_said(root: Path) -> None:
    (root / "proc/meminfo").unlink()
    assert budget.allowance() is None
    assert not oom.OomCounter().explains_a_death()


def test_each_kill_of_the_kernel_explains_one_death(root: Path) -> None:
    write(root / "proc/self/cgroup", "0::/a\n")
    v2(root, "/a", limit="max", used=0, kills=3)
    counter = oom.OomCounter()
    assert not counter.explains_a_death()
    v2(root, "/a", limit="max", used=0, kills=5)
    assert [counter.explains_a_death() for _ in range(3)] == [True, True, False]


def test_a_kill_of_long_ago_explains_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It hit a subprocess of a job, say; a later SIGKILL by a person is not the kernel's."""
    now = [100.0]
    monkeypatch.setattr(oom, "monotonic_now", lambda: now[0])
    write(root / "proc/self/cgroup", "0::/a\n")
    v2(root, "/a", limit="max", used=0)
    counter = oom.OomCounter()
    v2(root, "/a", limit="max", used=0, kills=1)
    counter.look()
    now[0] += 10
    assert not counter.explains_a_death()
