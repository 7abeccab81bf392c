"""The one line that puts the dashboard into the application: `add_dashboard(app, config)`."""

from fastapi import FastAPI

from pool.settings import Config
from pool.web.dashboard import actions, entrance, live, pages
from pool.web.dashboard.carrying import Carrier
from pool.web.dashboard.render import Renderer
from pool.web.dashboard.sessions import Sessions
from pool.web.dashboard.survey import Survey
from pool.web.services import Services


def add_dashboard(app: FastAPI, config: Config) -> None:
    """Routes, the session cookie as a way to sign in, and what the pages share (`app.state.dashboard`)."""
    services: Services = app.state.services
    sessions = Sessions(config)
    survey = Survey(config, services.desk, services.stopping)
    carrier = Carrier(services)
    app.state.dashboard = entrance.Dashboard(sessions, Renderer(), survey, carrier, services)
    app.state.sign_in_ways.append(sessions.by_cookie)
    for router in (entrance.router, pages.router, actions.router, live.router):
        app.router.routes.extend(router.routes)
