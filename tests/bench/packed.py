"""Which code an idle keeper and workers have run, on either store: pool/supervisor/packed.txt, the list of what is packed."""

import os
import tempfile
import time
from collections import defaultdict
from itertools import groupby
from pathlib import Path

from pool.supervisor import packing
from tests.bench import pools
from tests.bench.measures import Options

LIST = Path(packing.__file__).with_name("packed.txt")
SECONDS = 12.0  # a beat is due every 10 s
NOT_OURS = {"sitecustomize", "tasks"}  # the recorder and the application
# For each process that the pool forks: what it has run so far, written down again and again, for it leaves without notice.
RECORDER = f"""
import os, sys, threading, time

def record():
    ran = {{}}
    note = lambda frame, event, value: ran.setdefault(frame.f_code)
    def write_down():
        import gc
        from pathlib import Path
        from pool import titles
        from pool.supervisor import packing
        time.sleep({SECONDS - 2})
        gc.unfreeze()
        codes = set(map(id, list(ran)))
        names = {{name for name, code, _ in packing.referring(gc.get_objects()) if id(code) in codes}}
        title = Path("/proc/self/cmdline").read_text()
        role = "keeper" if "keeper" in title else "worker" if "worker" in title else "other"
        path = Path(os.environ["RECORDS"]) / f"{{role}}.{{os.getpid()}}"
        path.write_text("".join(f"{{module}} {{name}}\\n" for module, name in sorted(names)))
    threading.Thread(target=write_down, daemon=True).start()
    sys.setprofile(note)

os.register_at_fork(after_in_child=record)
"""


def make(options: Options) -> None:
    """Write the list anew. Who runs the same lies together, what workers run first."""
    who: dict[packing.Name, set[tuple[str, str]]] = defaultdict(set)
    for backend in ("sqlite", "redis"):
        for role, names in ran_on(backend).items():
            for name in names:
                who[name].add((role, backend))
    columns = [("worker", "sqlite"), ("worker", "redis"), ("keeper", "sqlite"), ("keeper", "redis")]
    order = sorted(who, key=lambda name: ([column not in who[name] for column in columns], name))
    by_module = groupby(order, key=lambda name: (who[name], name[0]))
    LIST.write_text(
        "".join(f"{' '.join([module, *(name for _, name in names)])}\n" for (_, module), names in by_module)
    )
    print(f"{len(order)} names in {LIST}")


def ran_on(backend: str) -> dict[str, set[packing.Name]]:
    """Role → what ran there while a pool booted, did a job and rested."""
    with tempfile.TemporaryDirectory() as folder, pools.store_for(backend) as server:
        records, site = Path(folder) / "records", Path(folder) / "site"
        records.mkdir()
        site.mkdir()
        (site / "sitecustomize.py").write_text(RECORDER)
        path = os.pathsep.join([str(site), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
        with pools.pool_on(server, 2, environ={"PYTHONPATH": path, "RECORDS": str(records)}) as house:
            house.wait_until(house.enqueue("tasks.noop"), "completed")
            time.sleep(SECONDS)
        ran: dict[str, set[packing.Name]] = defaultdict(set)
        for file in records.iterdir():
            pairs = (line.split() for line in file.read_text().splitlines() if line.count(" ") == 1)
            ran[file.stem].update((module, name) for module, name in pairs if module not in NOT_OURS)
        return ran
