"""A pool with its dashboard, and Debian's Chromium that looks at it. Nothing may leave the host or be said on its console."""

import hashlib
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from tests.browser.demo_app import APP
from tests.helpers.house import House, open_house
from tests.helpers.servers import free_port
from tests.helpers.until import GENEROUS_SECONDS, until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

__all__ = ["open_house"]

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
INSTALL = "apt-get install -y chromium, and pip install playwright"
TOKEN = "admin-token-of-the-browser-tests"
WIDE, PHONE = {"width": 1360, "height": 900}, {"width": 390, "height": 844}
SHOTS = Path(__file__).parents[1] / "output"
PAGES = ("/", "/ui/queues", "/ui/jobs", "/ui/dead", "/ui/schedule", "/ui/pools")


@dataclass
class Site:
    """A running pool and where its dashboard is."""

    house: House
    url: str

    def until_open(self) -> None:
        """The web process listens; a pool is ready without it."""
        until(lambda: is_open(int(self.url.rpartition(":")[2])), "the web process listening")


@dataclass
class Watched:
    """What a browser page did that it should not: words on its console, requests to elsewhere."""

    page: "Page"
    console: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)

    def next_word(self) -> str:
        """The next thing on the console, taken off it; the browser may say it after it has drawn the page."""
        until(lambda: self.console or self.page.wait_for_timeout(20), "a word on the console")
        return self.console.pop(0)

    def shoot(self, name: str) -> None:
        """A picture for people to look at."""
        SHOTS.mkdir(exist_ok=True)
        self.page.screenshot(path=SHOTS / f"{name}.png", full_page=True)


@pytest.fixture(scope="session")
def browser() -> Iterator["Browser"]:
    """Chromium, once for all tests; where it is missing, a skip that says how to get it (in CI an error)."""
    sync_api = pytest.importorskip("playwright.sync_api", reason=INSTALL) if not os.environ.get("CI") else None
    path = next((found for name in CHROMIUM if (found := shutil.which(name))), None)
    if path is None:
        assert not os.environ.get("CI"), "there is no chromium in CI"
        pytest.skip(f"no chromium: {INSTALL}")
    if sync_api is None:
        from playwright import sync_api
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def open_site(open_house: Callable[..., House]) -> Callable[..., Site]:
    """A pool with web child and an admin token."""

    def open_one(*, settings: str = "", **options: Any) -> Site:
        port = free_port()
        web = (
            f'[web]\nenabled = true\nlisten = "127.0.0.1:{port}"\n'
            f'[[tokens]]\nname = "ada"\nrole = "admin"\nsha256 = "{hashlib.sha256(TOKEN.encode()).hexdigest()}"\n'
        )
        house = open_house(app=APP, settings=settings + web, **options)
        site = Site(house, f"http://127.0.0.1:{port}")
        site.until_open()
        return site

    return open_one


@pytest.fixture
def look(browser: "Browser") -> Iterator[Callable[..., Watched]]:
    """Open a page of a site, signed in unless told otherwise; afterwards nothing must have gone wrong in the browser."""
    opened: list[Watched] = []
    contexts = []

    def open_one(
        site: Site, path: str = "/", *, size: dict[str, int] = WIDE, signed_in: bool = True, **options: Any
    ) -> Watched:
        context = browser.new_context(viewport=size, locale="en-GB", **options)
        context.set_default_timeout(GENEROUS_SECONDS * 1000)
        contexts.append(context)
        watched = Watched(context.new_page())
        watch(watched, site)
        opened.append(watched)
        watched.page.goto(site.url + ("/ui/sign-in" if signed_in else path))
        if signed_in:
            watched.page.fill("#token", TOKEN)
            watched.page.click("text=Sign in")
            watched.page.wait_for_url(f"{site.url}/")
            if path != "/":
                watched.page.goto(site.url + path)
        return watched

    yield open_one
    for context in contexts:
        context.close()
    for watched in opened:
        assert watched.console == []
        assert watched.strangers == []


def watch(watched: Watched, site: Site) -> None:
    host = urlsplit(site.url).netloc

    def note_request(request: Any) -> None:
        if urlsplit(request.url).netloc not in (host, ""):
            watched.strangers.append(request.url)

    def note_message(message: Any) -> None:
        if message.type in ("error", "warning"):
            watched.console.append(f"{message.text} {message.location}")

    watched.page.on("request", note_request)
    watched.page.on("console", note_message)
    watched.page.on("pageerror", lambda error: watched.console.append(str(error)))


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
