"""Pictures of every page with realistic data, dark and light, wide and narrow, written to tests/output for people to look at."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from pool.clock import wall_now
from tests.browser.conftest import PAGES, PHONE, SHOTS, Site, Watched
from tests.helpers.house import House
from tests.helpers.until import until

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
LONG_QUEUE = "partner-feeds-of-the-north-western-european-region-nightly"
SETTINGS = f"""
[[groups]]
name = "bulk"
count = 4
queues = ["mail", "images", "reports", "{LONG_QUEUE}"]
[[queues]]
name = "{LONG_QUEUE}"
[[queues]]
name = "mail"
max_pending = 50000
[[schedule]]
name = "nightly revenue"
type = "tasks.render_quarterly_revenue_report_for_every_subsidiary_and_region"
cron = "30 3 * * 1-5"
timezone = "Europe/Berlin"
payload = {{ year = 2026, quarter = 4 }}
[[schedule]]
name = "inventory"
type = "tasks.sync_inventory"
every = "10m"
payload = {{ warehouse = "north" }}
catch_up = "skip"
"""


def fill(house: House) -> dict[str, str]:
    """Thousands of jobs in all states; ids of some that are worth a page."""
    house.enqueue_many(
        [("tasks.send_email", {"to": f"customer-{n}@example.org", "subject": "Your order"}) for n in range(3000)]
    )
    house.enqueue_many([("tasks.send_email", {"to": f"customer-{n}@refused.example"}) for n in range(60)])
    house.enqueue_many([("tasks.resize_image", {"path": f"/srv/uploads/{n}.txt"}) for n in range(25)])
    house.enqueue_many(
        [("tasks.charge_card", {"order": n, "amount_cents": 250_000, "card_token": "tok_secret"}) for n in range(12)]
    )
    house.enqueue_many([("tasks.sync_inventory", {"warehouse": name}) for name in ("north", "south", "east")])
    report = "tasks.render_quarterly_revenue_report_for_every_subsidiary_and_region"
    house.enqueue_many([(report, {"year": 2026, "quarter": n % 4 + 1}) for n in range(40)])
    killer = house.enqueue("tasks.leak")
    failed = house.enqueue("tasks.send_email", {"to": "grace@refused.example", "subject": "<b>Welcome</b>"})
    house.wait_until(killer, "failed")
    house.wait_until(failed, "failed")
    until(lambda: sum(queue.pending for queue in house.store.queues()) == 0, "all worked off", within=200)
    return {"killer": killer, "failed": failed}


def give_a_past(house: House) -> None:
    """A day of history, which no test can wait for."""
    this = int(wall_now() // 3600)
    shape = [
        210,
        180,
        150,
        160,
        240,
        420,
        900,
        1600,
        2300,
        2500,
        2400,
        2200,
        2600,
        2550,
        2300,
        2100,
        1900,
        1500,
        1200,
        900,
        700,
        500,
        380,
    ]
    with sqlite3.connect(house.folder / "jobs.db", timeout=30) as db:
        for index, done in enumerate(shape):
            failed = 140 if index == 12 else done // 90
            db.execute(
                "INSERT INTO hours (hour, enqueued, completed, retried, failed) VALUES (?, ?, ?, ?, ?)",
                (this - len(shape) + index, done + failed, done, failed * 2, failed),
            )
    db.close()


@pytest.mark.timeout(400)
def test_every_page_is_pictured(open_site: Callable[..., Site], look: Callable[..., Watched]) -> None:
    site = open_site(workers=6, settings=SETTINGS)
    house = site.house
    jobs = fill(house)
    give_a_past(house)
    house.stop()  # else the past would look like the work of the last second
    house.start()
    site.until_open()
    running = house.enqueue("tasks.export_catalogue")
    house.wait_for_worker_of(running)
    house.enqueue_many([("tasks.export_catalogue", {"gate": "export"}) for _ in range(40)])
    house.store.set_queue(LONG_QUEUE, paused=True)
    house.enqueue("tasks.send_email", {"to": "later@example.org"}, delay=3600)
    until(lambda: all(worker.state in ("idle", "busy") for worker in house.workers()), "a pool that is ready")
    watched = look(site)
    names = [
        *PAGES,
        f"/ui/jobs/{jobs['failed']}",
        f"/ui/jobs/{jobs['killer']}",
        f"/ui/jobs/{running}",
        "/ui/jobs?q=refused",
    ]
    titles = [
        "overview",
        "queues",
        "jobs",
        "dead",
        "schedule",
        "pools",
        "job-failed",
        "job-killer",
        "job-running",
        "search",
    ]
    for path, title in zip(names, titles, strict=True):
        for mode in ("light", "dark"):
            picture(watched, site, path, f"{title}-{mode}", mode)
    the_readme_shows_this_overview(watched, site)
    phone = look(site, size=PHONE)
    for path, title in zip(names, titles, strict=True):
        picture(phone, site, path, f"{title}-phone", "light")
    stranger = look(site, signed_in=False)
    stranger.shoot("sign-in-light")


def picture(watched: Watched, site: Site, path: str, name: str, mode: str) -> None:
    watched.page.emulate_media(color_scheme=mode)  # type: ignore[arg-type]
    watched.page.goto(site.url + path)
    watched.page.wait_for_selector("#pulse[data-state=live], #pulse[hidden]", state="attached")
    watched.shoot(name)


def the_readme_shows_this_overview(watched: Watched, site: Site) -> None:
    """What stands on the page for good is what stood there when the picture of the README was taken."""
    watched.page.goto(site.url)
    words = "\n".join(text.strip() for text in watched.page.locator("nav a, h2, th, dt").all_text_contents()) + "\n"
    (SHOTS / "overview-light.txt").write_text(words)
    again = "cp tests/output/overview-light.png docs/pictures/overview.png; cp tests/output/overview-light.txt docs/pictures/overview.txt"
    assert words == (PICTURES / "overview.txt").read_text(), f"the overview has changed; renew its picture: {again}"
