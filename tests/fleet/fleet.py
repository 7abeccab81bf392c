"""Several pools that share one server, one ledger and one set of gates; what ran is told by the ledger alone."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pool.backends.contract import JobFilter
from pool.jobs.ids import new_job_id
from pool.jobs.job import Job, NewJob
from tests.helpers.house import APP, House
from tests.helpers.until import until

SHORT_RESTARTS = "[restart]\nfirst_delay = 0.05\nmax_delay = 0.5\nhealthy_after = 1\n"


class FleetHouse(House):
    """A pool with a name and a lease of its own."""

    def __init__(self, name: str, shared: Path, *, lease: float, **options: Any) -> None:
        self._name, self._lease = name, lease
        environ = {"LEDGER": f"{shared}/ledger.txt", "GATES": f"{shared}/gates"}
        super().__init__(environ=environ, **options)
        self.ledger, self.gates = shared / "ledger.txt", shared / "gates"

    def configure(self, *, workers: int = 2, settings: str = "") -> None:
        super().configure(workers=workers, settings=settings + SHORT_RESTARTS)
        text = self.config_file.read_text().replace('name = "house"', f'name = "{self._name}"', 1)
        self.config_file.write_text(text.replace("[workers]", f"lease = {self._lease}\n[workers]", 1))


@dataclass
class Fleet:
    """The pools, by order of their start."""

    pools: list[FleetHouse] = field(default_factory=list)

    @property
    def first(self) -> FleetHouse:
        return self.pools[0]

    def fill(self, count: int, kind: str, payload: dict[str, Any], **fields: Any) -> set[str]:
        """Ids of accepted jobs."""
        text = json.dumps(payload)
        accepted: set[str] = set()
        for start in range(0, count, 1000):
            drafts = [
                NewJob(id=new_job_id(), type=kind, payload=text, **fields) for _ in range(min(1000, count - start))
            ]
            accepted |= {receipt.job_id for receipt in self.first.client.enqueue_drafts(drafts)}
        return accepted

    def starts(self) -> Counter[str]:
        """How often each job began."""
        return Counter(note["job"] for note in self.first.notes() if note["what"] == "start")

    def jobs(self) -> dict[str, Job]:
        found: dict[str, Job] = {}
        after: str | None = None
        while True:
            page = self.first.store.jobs(JobFilter(), after=after, limit=500)
            found |= {job.id: job for job in page.jobs}
            if (after := page.after) is None:
                return found

    def until_over(self, within: float = 120.0) -> None:
        def live() -> int:
            return sum(q.pending + q.scheduled + q.running for q in self.first.store.queues())

        until(lambda: live() == 0, "all jobs over", within=within)


@contextmanager
def fleet(
    url: str, shared: Path, *, pools: int = 2, workers: int = 2, lease: float = 4.0, app: str = APP, settings: str = ""
) -> Iterator[Fleet]:
    """Pools that are all ready; everything they started is dead afterwards. Their logs are printed."""
    (shared / "gates").mkdir(parents=True)
    found = Fleet()
    with ExitStack() as stack:
        for number in range(pools):
            house = FleetHouse(
                f"pool{number}", shared, lease=lease, workers=workers, app=app, backend=url, settings=settings
            )
            stack.callback(_close, house)
            found.pools.append(house)
            house.start(wait=False)
        for house in found.pools:
            house.wait_ready()
        yield found


def _close(house: House) -> None:
    print(f"--- log of {house.folder}")
    print("\n".join(house.log_text().splitlines()[-100:]))
    house.close()
