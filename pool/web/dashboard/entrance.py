"""The dashboard's own door: signing in and out, the assets, and what every page and every form must pass.

Pages are for admins; others are sent to the sign-in page. A form is taken only with its CSRF token and, where the
browser says where it came from, only from this site.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, quote, urlencode

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from pool.logs import log
from pool.web.auth import Caller
from pool.web.dashboard.carrying import Carrier
from pool.web.dashboard.render import Renderer
from pool.web.dashboard.sessions import HOME, Sessions, is_ours
from pool.web.dashboard.survey import Survey
from pool.web.problems import Problem
from pool.web.services import Services

SIGN_IN = "/ui/sign-in"
MOST_FIELDS = 2000
PAGE_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class Dashboard:
    """What the routes share."""

    sessions: Sessions
    renderer: Renderer
    survey: Survey
    carrier: Carrier
    services: Services


def dashboard_of(request: Request) -> Dashboard:
    found: Dashboard = request.app.state.dashboard
    return found


class GoSignIn(Problem):
    """Raised for strangers: programs read a 401, browsers are sent to the sign-in page."""

    def __init__(self, back_to: str) -> None:
        super().__init__(401, "unauthorized", "sign in with an admin token")
        self.back_to = back_to

    def response(self) -> Response:
        where = SIGN_IN if self.back_to == HOME else f"{SIGN_IN}?{urlencode({'to': self.back_to})}"
        return RedirectResponse(where, 303)


def admin_of(request: Request) -> Caller:
    """The admin who looks; GoSignIn for strangers, Problem 403 for tokens of other roles."""
    caller: Caller = request.state.caller
    if caller.role == "stranger":
        query = f"?{request.url.query}" if request.url.query else ""
        raise GoSignIn(request.url.path + query if request.method == "GET" else HOME)
    if caller.role != "admin":
        raise Problem(403, "role-not-allowed", "the dashboard needs an admin token")
    return caller


async def form_of(request: Request) -> Mapping[str, str]:
    """The fields of a form that an admin sent from one of our pages; Problem 403 for any other."""
    admin_of(request)
    return await checked_form(request)


async def checked_form(request: Request) -> Mapping[str, str]:
    """The fields, once the form is known to be ours."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise Problem(403, "cross-site", "forms are taken from the dashboard's own pages only")
    raw = (await request.body()).decode("utf-8", "replace")
    try:
        fields = parse_qs(raw, keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        raise Problem(422, "invalid-request", "the form cannot be read") from None
    form = {name: values[-1] for name, values in fields.items()}
    if not dashboard_of(request).sessions.is_csrf_token(request, form.get("csrf", "")):
        raise Problem(403, "csrf", "this form is too old: go back, reload the page and try again")
    return form


def page(request: Request, template: str, *, code: int = 200, **facts: Any) -> HTMLResponse:
    """A page from its template, with the headers of every page."""
    html = dashboard_of(request).renderer.page(template, **common_facts(request), **facts)
    return HTMLResponse(html, code, headers=PAGE_HEADERS)


def common_facts(request: Request) -> dict[str, Any]:
    """What each template may use."""
    caller: Caller = request.state.caller
    return {
        "csrf": dashboard_of(request).sessions.csrf_token(request),
        "who": caller.name if caller.role == "admin" else "",
        "path": request.url.path,
        "said": request.query_params.get("said", "")[:300],
    }


def back(to: str, said: str = "") -> RedirectResponse:
    """To a page of ours after a form was done, with a line that says what was done."""
    to = safe_path(to)
    if not said:
        return RedirectResponse(to, 303)
    return RedirectResponse(f"{to}{'&' if '?' in to else '?'}said={quote(said)}", 303)


def safe_path(to: str) -> str:
    """A path of the dashboard; anything else, most of all another site, becomes its home."""
    plain = to.partition("?")[0]
    is_path = is_ours(plain) and not to.startswith("//") and "\\" not in to and to.isprintable()
    return to if is_path else HOME


# ---------------------------------------------------------------- signing in and out


@router.get(SIGN_IN)
async def show_sign_in(request: Request) -> Response:
    if request.state.caller.role == "admin":
        return back(request.query_params.get("to", HOME))
    return page(request, "sign-in.html", to=safe_path(request.query_params.get("to", HOME)), wrong="")


@router.post(SIGN_IN)
async def sign_in(request: Request) -> Response:
    """An admin's token for a session. Wrong ones are slowed down, as at the API."""
    form, dashboard = await checked_form(request), dashboard_of(request)
    caller = dashboard.services.tokens.caller_of(form.get("token", "").strip().encode())
    to = safe_path(form.get("to", HOME))
    if caller is None or caller.role != "admin":
        await dashboard.services.failures.slow_down(request.client.host if request.client else "unix")
        wrong = "This token is not known." if caller is None else f"The token {caller.name!r} is not an admin's."
        return page(request, "sign-in.html", code=401, to=to, wrong=wrong)
    log.info("signed in to the dashboard", name=caller.name)
    answer = back(to)
    answer.headers.append("Set-Cookie", dashboard.sessions.new_cookie(request, caller.name))
    return answer


@router.post("/ui/sign-out")
async def sign_out(request: Request) -> Response:
    await form_of(request)
    answer = back(SIGN_IN)
    answer.headers.append("Set-Cookie", dashboard_of(request).sessions.end(request))
    answer.headers["Clear-Site-Data"] = '"cache"'
    return answer


@router.get("/ui/assets/{name}")
async def asset(request: Request, name: str) -> Response:
    """Style and script; their address changes with their content, so browsers may keep them."""
    found = dashboard_of(request).renderer.assets.get(name)
    if found is None:
        raise Problem(404, "not-found", "there is no such asset")
    headers = {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(found.content, media_type=found.media_type, headers=headers)
