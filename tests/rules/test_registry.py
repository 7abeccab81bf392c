"""Which function a name means, and what a declaration says."""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import pool
from pool.errors import InvalidJob
from pool.jobs.policy import Table, policy_from
from pool.jobs.registry import Defaults, JobType, Registry, registry


@pytest.fixture(autouse=True)
def forgotten_afterwards() -> Any:
    before = registry.entries()
    yield
    registry.restore(before)


def send() -> None: ...
def other() -> None: ...


def a_registry(*names: str, **kept: Any) -> Registry:
    """One type per name, each of a function of its own."""
    found = Registry(**kept)
    for name in names:
        found.add(JobType(name=name, function=_function()))
    return found


def _function() -> Callable[[], None]:
    scope: dict[str, Any] = {"__name__": "somewhere"}
    exec("def f() -> None: ...", scope)
    return scope["f"]


def test_a_type_is_found_by_its_full_name_and_by_its_bare_name() -> None:
    types = a_registry("shop.tasks.send", "shop.tasks.pay")

    assert types.known() == ["shop.tasks.pay", "shop.tasks.send"]
    assert types.get("shop.tasks.send") is types.get("send")
    assert types.get("tasks.send") is None
    assert types.get("nothing") is None


def test_a_bare_name_that_fits_two_types_is_none_of_them() -> None:
    types = a_registry("shop.send", "mail.send")

    assert types.get("send") is None
    assert types.get("mail.send") is not None


def test_an_old_name_lives_on_as_an_alias() -> None:
    types = Registry()
    types.add(JobType(name="new.send", function=send, aliases=("old.send",)))

    found = types.get("old.send")
    assert found is not None
    assert found.name == "new.send"
    assert types.known() == ["new.send"]


def test_a_name_taken_by_another_function_is_refused_with_both_places() -> None:
    types = Registry()
    types.add(JobType(name="a.send", function=send))

    with pytest.raises(InvalidJob, match=r"already taken by .*send \(.*other.* another name"):
        types.add(JobType(name="a.send", function=other))
    with pytest.raises(InvalidJob, match="already taken"):
        types.add(JobType(name="b.send", function=other, aliases=("a.send",)))


def test_what_a_declaration_leaves_out_follows_the_defaults_even_later() -> None:
    types = Registry()
    types.add(JobType(name="a.send", function=send, max_retries=7), frozenset({"timeout", "backoff"}))
    assert types.get("a.send").timeout == 0  # type: ignore[union-attr]

    types.defaults = Defaults(timeout=30, max_retries=1, backoff=Table((9,)))

    found = types.get("a.send")
    assert found is not None
    assert (found.timeout, found.max_retries) == (30, 7)
    assert found.policy.backoff_for(OSError()) == Table((9,))


def test_a_class_table_keeps_its_classes_and_takes_the_default_for_the_rest() -> None:
    types = Registry()
    policy = policy_from({OSError: [1]})
    types.add(JobType(name="a.send", function=send, policy=policy), frozenset({"backoff"}))
    types.defaults = Defaults(backoff=Table((9,)))

    found = types.get("a.send")
    assert found is not None
    assert found.policy.backoff_for(OSError()) == Table((1,))
    assert found.policy.backoff_for(ValueError()) == Table((9,))


def test_the_decorator_keeps_what_it_was_told() -> None:
    @pool.job(
        name="mail.send", queue="mail", priority="HIGH", max_retries=2, backoff=pool.exponential(60, factor=3), timeout=30,
        max_kills=1, fatal=(ValueError,), redact="token", aliases=["mail.old"], unique_key="mail:{to}",
    )  # fmt: skip
    def send_email(to: str, token: str = "") -> str:
        return f"sent to {to}"

    found = send_email.type
    assert (found.queue, found.priority, found.max_retries, found.timeout, found.max_kills) == ("mail", 20, 2, 30, 1)
    assert found.redact == ("token",)
    assert found.aliases == ("mail.old",)
    assert found.policy.fatal == (ValueError,)
    assert found.unique_key_of('{"to":"a"}') == "mail:a"
    assert send_email("x") == "sent to x"
    assert send_email.__name__ == "send_email"


def test_the_bare_decorator_takes_the_defaults() -> None:
    @pool.job
    async def ping() -> None: ...

    assert ping.type.name == f"{__name__}.test_the_bare_decorator_takes_the_defaults.ping"
    assert ping.type.is_async
    assert ping.type.max_retries == registry.defaults.max_retries


@pytest.mark.parametrize(
    "declaration, says",
    [
        ({"queue": "a\nb"}, "queue"),
        ({"queue": "*"}, "queue"),
        ({"priority": "urgent"}, "priority"),
        ({"max_retries": 101}, "max_retries"),
        ({"max_retries": True}, "max_retries"),
        ({"max_kills": 0}, "max_kills"),
        ({"timeout": -1}, "timeout"),
        ({"name": ""}, "name"),
        ({"name": "x" * 201}, "name"),
        ({"backoff": "soon"}, "backoff"),
        ({"aliases": ["\0"]}, "aliases"),
    ],
)
def test_a_declaration_out_of_range_is_refused_by_field(declaration: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidJob, match=says):
        pool.job(**declaration)(send)


def test_two_decorators_or_no_function_are_refused() -> None:
    with pytest.raises(InvalidJob, match="twice"):
        pool.job(pool.job(send))
    with pytest.raises(InvalidJob, match="function"):
        pool.job("queue")  # type: ignore[call-overload]


def test_a_unique_key_by_callable_and_with_the_functions_defaults() -> None:
    @pool.job(unique_key=lambda day, shop: f"{shop}/{day}")
    def report(day: str, shop: str = "main") -> None: ...

    @pool.job(unique_key="report:{nothing}")
    def broken(day: str) -> None: ...

    assert report.draft("monday").unique_key == "main/monday"
    with pytest.raises(InvalidJob, match="unique_key"):
        broken.draft("monday")


def test_the_callers_own_unique_key_wins() -> None:
    @pool.job(unique_key="k:{day}")
    def report(day: str) -> None: ...

    assert report.options(unique_key="mine").draft("monday").unique_key == "mine"


def test_a_published_type_holds_what_a_client_by_name_needs() -> None:
    @pool.job(queue="mail", max_retries=1, unique_key="k:{day}")
    def report(day: str) -> None: ...

    said = report.type.published()
    assert (said["queue"], said["max_retries"], said["unique_key"]) == ("mail", 1, "k:{day}")
    assert said["schema"]["required"] == ["day"]


# ---------------------------------------------------------------- definitions that come again


@pytest.fixture
def a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def make(body: str) -> ModuleType:
        (tmp_path / "its_jobs.py").write_text("import pool\n" + body)
        importlib.invalidate_caches()
        known = sys.modules.get("its_jobs")
        return importlib.reload(known) if known else importlib.import_module("its_jobs")

    yield make
    sys.modules.pop("its_jobs", None)


def test_a_reloaded_module_replaces_its_jobs(a_module: Any) -> None:
    a_module("@pool.job\ndef f(): return 1\n")
    a_module("\n\n@pool.job(queue='new')\ndef f(): return 2\n")

    found = registry.get("its_jobs.f")
    assert found is not None
    assert (found.queue, found.function()) == ("new", 2)


def test_the_same_name_twice_in_one_module_is_a_mistake(a_module: Any) -> None:
    with pytest.raises(InvalidJob, match="already taken"):
        a_module("@pool.job\ndef f(): ...\n@pool.job\ndef f(x): ...\n")


def test_a_factory_that_makes_two_different_jobs_of_one_name_is_refused(a_module: Any) -> None:
    with pytest.raises(InvalidJob, match="already taken"):
        a_module("def make(n):\n    @pool.job\n    def f(): return n\n    return f\nmake(1)\nmake(2)\n")


def test_a_declaration_with_an_unknown_word_is_refused_with_the_nearest_one() -> None:
    declaration: dict[str, Any] = {"max_retry": 3}

    with pytest.raises(InvalidJob, match="unknown field 'max_retry'; did you mean 'max_retries'"):
        pool.job(**declaration)
