"""What `start --watch` takes for a change of the source."""

import os
from pathlib import Path

from pool.watch import changed, source_times


def test_only_source_files_count(tmp_path: Path) -> None:
    for name in ("tasks.py", "jobpool.toml", "notes.txt", ".venv/lib.py", "__pycache__/tasks.py", "sub/more.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    names = {str(Path(path).relative_to(tmp_path)) for path in source_times(tmp_path)}
    assert names == {"tasks.py", "jobpool.toml", "sub/more.py"}


def test_new_gone_and_written_files_are_changes(tmp_path: Path) -> None:
    for name in ("same.py", "gone.py", "written.py"):
        (tmp_path / name).write_text("")
    before = source_times(tmp_path)
    (tmp_path / "gone.py").unlink()
    (tmp_path / "new.py").write_text("")
    os.utime(tmp_path / "written.py", ns=(1, 1))
    assert [Path(path).name for path in changed(before, source_times(tmp_path))] == ["gone.py", "new.py", "written.py"]
    assert changed(before, before) == []
