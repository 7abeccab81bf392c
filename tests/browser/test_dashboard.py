"""The dashboard as people use it: in a real browser, on a real pool."""

import os
import re
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.browser.conftest import PAGES, PHONE, TOKEN, Site, Watched
from tests.helpers.until import until

if TYPE_CHECKING:
    from playwright.sync_api import Page

OpenSite = Callable[..., Site]
Look = Callable[..., Watched]


def test_a_stranger_is_sent_to_the_door_and_back_to_the_page_after_signing_in(open_site: OpenSite, look: Look) -> None:
    site = open_site(workers=1)
    page = look(site, "/ui/queues?said=hello", signed_in=False).page
    assert "/ui/sign-in" in page.url

    page.fill("#token", TOKEN)
    page.press("#token", "Enter")
    page.wait_for_url(re.compile("/ui/queues"))
    page.get_by_role("heading", name="Queues").wait_for()
    assert page.title() == "Queues · jobpool"


def test_a_wrong_token_is_refused_in_words(open_site: OpenSite, look: Look) -> None:
    site = open_site(workers=1)
    watched = look(site, signed_in=False)
    page = watched.page
    page.fill("#token", "wrong")
    page.click("text=Sign in")
    page.get_by_role("alert").get_by_text("This token is not known.").wait_for()
    assert "401" in watched.next_word()  # the browser notes the refusal, rightly


def test_the_session_cookie_is_out_of_reach_and_signing_out_ends_it(open_site: OpenSite, look: Look) -> None:
    site = open_site(workers=1)
    page = look(site).page
    (cookie,) = page.context.cookies()
    assert (cookie["name"], cookie["httpOnly"], cookie["sameSite"]) == ("jobpool", True, "Strict")
    assert page.evaluate("document.cookie") == ""

    page.click("text=Sign out")
    page.wait_for_url(re.compile("/ui/sign-in"))
    page.context.add_cookies([cookie])
    page.goto(site.url + "/")
    assert "/ui/sign-in" in page.url


def test_a_job_is_seen_running_and_completing_without_a_reload(open_site: OpenSite, look: Look) -> None:
    site = open_site(workers=1)
    job = site.house.enqueue("tasks.export_catalogue")
    page = look(site, f"/ui/jobs/{job}").page
    page.evaluate("window.stays = true")
    page.locator("h1 .badge", has_text="running").wait_for()
    page.get_by_text("It says it is 42% done.").wait_for()

    site.house.release("export")

    page.locator("h1 .badge", has_text="completed").wait_for()
    page.get_by_text('"10,000 articles"').wait_for()
    assert page.evaluate("window.stays")


def test_a_killed_worker_is_seen_with_its_cause(open_site: OpenSite, look: Look) -> None:
    site = open_site(workers=1)
    house = site.house
    job = house.enqueue("tasks.export_catalogue")
    worker = house.wait_for_worker_of(job)
    page = look(site, "/ui/pools").page
    page.get_by_role("cell", name=str(worker.pid), exact=True).wait_for()

    os.kill(worker.pid, signal.SIGKILL)

    heir = house.wait_for_worker_of(job, other_than=worker)
    page.get_by_role("cell", name=str(heir.pid), exact=True).wait_for()
    page.goto(f"{site.url}/ui/jobs/{job}")
    page.locator(".timeline .badge", has_text="signal 9").wait_for()
    house.release("export")
    house.wait_until(job, "completed")


def test_a_dead_job_is_retried_in_two_clicks(open_site: OpenSite, look: Look) -> None:
    site = open_site(workers=1)
    job = site.house.enqueue("tasks.charge_card", {"order": 7, "amount_cents": 250_000, "card_token": "tok_secret"})
    site.house.wait_until(job, "failed")
    page = look(site).page

    page.locator("section", has=page.get_by_role("heading", name="Newest dead letters")).get_by_text(
        "tasks.charge_card"
    ).click()
    page.get_by_role("button", name="Retry").click()

    page.get_by_text("It is pending again.").wait_for()
    until(lambda: len(site.house.job(job).attempts) == 2, "its second attempt")
    assert "tok_secret" not in page.content()
    assert [(entry.who, entry.act) for entry in site.house.store.audit()] == [("ada@dashboard", "jobs retry")]
    assert '"card_token": "***"' in page.inner_text("pre >> nth=0")


def test_dead_letters_of_one_kind_are_retried_together_at_a_rate(open_site: OpenSite, look: Look) -> None:
    site = open_site(workers=2)
    jobs = site.house.enqueue_many(
        [("tasks.charge_card", {"order": n, "amount_cents": 250_000 + n}) for n in range(6)]
        + [("tasks.send_email", {"to": "a@refused.example"})]
    )
    for job in jobs:
        site.house.wait_until(job, "failed")
    page = look(site, "/ui/dead").page
    row = page.get_by_role("row", name=re.compile("charge_card"))
    assert row.locator("td").first.inner_text() == "6"

    row.get_by_role("spinbutton").fill("50")
    row.get_by_role("button", name="Retry 6 of tasks.charge_card").click()

    page.get_by_role("cell", name="Retry dead letters of tasks.charge_card").wait_for()
    page.locator(".badge", has_text="finished").wait_for()
    until(lambda: all(len(site.house.job(job).attempts) == 2 for job in jobs[:6]), "all tried again")
    assert site.house.job(jobs[6]).status == "failed"


def test_a_queue_is_paused_resumed_and_purged(open_site: OpenSite, look: Look) -> None:
    site = open_site(workers=1)
    house = site.house
    house.wait_until(house.enqueue("tasks.send_email", {"to": "a@example.org"}), "completed")
    page = look(site, "/ui/queues").page
    row = page.get_by_role("row", name=re.compile("^mail"))

    row.get_by_role("button", name="Pause mail").click()
    row.locator(".badge", has_text="paused").wait_for()
    house.enqueue_many([("tasks.send_email", {"to": "b@example.org"})] * 3)
    row.get_by_role("button", name="Purge mail").wait_for()

    page.once("dialog", lambda dialog: dialog.dismiss())
    row.get_by_role("button", name="Purge mail").click()
    assert house.counts("mail")["pending"] == 3
    asked: list[str] = []
    page.once("dialog", lambda dialog: (asked.append(dialog.message), dialog.accept()))
    row.get_by_role("button", name="Purge mail").click()
    until(lambda: house.counts("mail")["pending"] == 0, "purged")
    assert "Remove 3 waiting jobs of mail?" in asked[0]

    row.get_by_role("button", name="Resume mail").click()
    row.get_by_role("button", name="Pause mail").wait_for()


def test_what_is_wrong_stands_on_top_with_the_way_out(open_site: OpenSite, look: Look) -> None:
    site = open_site(workers=1)
    page = look(site).page
    page.get_by_text("All is well: 1 workers").wait_for()

    site.house.store.set_queue("mail", paused=True)
    page.get_by_text("Queue mail is paused").wait_for()
    page.get_by_role("link", name="Resume it").click()
    page.get_by_role("button", name="Resume mail").click()
    page.goto(site.url + "/")
    page.get_by_text("All is well").wait_for()


def test_a_pool_is_scaled_and_a_worker_restarted_from_its_page(open_site: OpenSite, look: Look) -> None:
    site = open_site(workers=1)
    page = look(site, "/ui/pools").page
    page.get_by_role("button", name="+1 worker of workers").click()
    until(lambda: len([w for w in site.house.workers() if w.state == "idle"]) == 2, "two workers")
    first = site.house.workers()[0]
    page.get_by_role("button", name=f"Restart worker {first.slot}").click()
    until(lambda: first.pid not in site.house.worker_pids(), "the first worker replaced")


def test_jobs_are_searched_filtered_and_paged(open_site: OpenSite, look: Look) -> None:
    site = open_site(workers=2)
    site.house.enqueue_many([("tasks.send_email", {"to": f"customer-{n}@example.org"}) for n in range(120)])
    odd = site.house.enqueue("tasks.resize_image", {"path": "/srv/unusual/file.png"})
    site.house.wait_until(odd, "completed")
    until(lambda: site.house.counts("mail")["completed"] == 120, "all mails sent")
    page = look(site, "/ui/jobs").page
    assert page.locator("tbody tr").count() == 50
    page.get_by_role("link", name="Older").click()
    page.get_by_role("link", name="Newest").wait_for()
    page.get_by_role("link", name="Older").click()
    until(lambda: page.locator("tbody tr").count() == 21, "the last page")

    page.fill("input[name=q] >> nth=1", "unusual")
    page.get_by_role("button", name="Search").click()
    page.get_by_text("Searched 121 of 121 jobs").wait_for()
    assert page.locator("tbody tr").count() == 1

    page.fill("#find", odd)
    page.press("#find", "Enter")
    page.wait_for_url(re.compile(f"/ui/jobs/{odd}"))


def painted(page: "Page") -> None:
    """A browser drops the keys that are pressed between a page's loading and its first picture."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def test_it_is_used_by_keyboard_alone(open_site: OpenSite, look: Look) -> None:
    site = open_site(workers=1)
    job = site.house.enqueue("tasks.charge_card", {"order": 1, "amount_cents": 250_000})
    site.house.wait_until(job, "failed")
    page = look(site).page
    painted(page)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"

    page.keyboard.press("g")
    page.keyboard.press("j")
    page.wait_for_url(re.compile("/ui/jobs$"))
    painted(page)
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(f"/ui/jobs/{job}"))
    painted(page)
    page.keyboard.press("?")
    page.get_by_role("dialog").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "find"


def test_focus_typing_and_opened_details_survive_live_updates(open_site: OpenSite, look: Look) -> None:
    site = open_site(workers=1)
    job = site.house.enqueue("tasks.charge_card", {"order": 1, "amount_cents": 250_000})
    site.house.wait_until(job, "failed")
    page = look(site, "/ui/dead").page
    rate = page.get_by_role("spinbutton")
    rate.fill("7")
    page.wait_for_selector("#pulse[data-state=live]")
    last = page.locator("tbody td").nth(5)
    before = last.inner_text()
    until(lambda: last.inner_text() != before, "a live update")
    assert rate.input_value() == "7"
    assert page.evaluate("document.activeElement.name") == "rate"


@pytest.mark.parametrize("path", PAGES)
def test_on_a_phone_no_page_is_wider_than_the_screen(open_site: OpenSite, look: Look, path: str) -> None:
    site = open_site(workers=2)
    job = site.house.enqueue("tasks.charge_card", {"order": 1, "amount_cents": 250_000})
    site.house.wait_until(job, "failed")
    page = look(site, path, size=PHONE).page
    page.wait_for_selector("#pulse[data-state=live]", state="attached")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert page.get_by_role("navigation").is_visible()


def test_colours_follow_the_system_until_chosen_and_the_choice_stays(open_site: OpenSite, look: Look) -> None:
    site = open_site(workers=1)
    page = look(site, color_scheme="dark").page
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    dark = page.evaluate(ground)
    page.click("#theme")
    assert page.evaluate(ground) != dark
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    assert page.evaluate(ground) != dark


def test_a_page_comes_back_by_itself_when_the_web_process_was_replaced(open_site: OpenSite, look: Look) -> None:
    site = open_site(workers=1)
    watched = look(site)
    watched.page.wait_for_selector("#pulse[data-state=live]")
    web = site.house.status()["web"]["pid"]
    os.kill(web, signal.SIGKILL)
    watched.page.wait_for_selector("#pulse[data-state=reconnecting]")
    watched.page.wait_for_selector("#pulse[data-state=live]", timeout=60_000)
    assert watched.page.evaluate("location.pathname") == "/"
    watched.console.clear()  # the browser notes the broken connection, rightly
