"""Secrets and paths leave texts; what helps a person to understand the error stays."""

import time

import pytest

from pool.cleaning import LONGEST, clean, mask_secrets

SECRET = "s3cr3t-XYZ"


@pytest.mark.parametrize(
    "text",
    [
        f"redis://:{SECRET}@db:6379/0",
        f"redis://user:{SECRET}@db:6379/0 refused",
        f"postgres://u:p@{SECRET}@host/db",
        f"https://{SECRET}@github.com/x",
        f"Authorization: Bearer {SECRET}",
        f"{{'Authorization': 'Basic {SECRET}'}}",
        f"bearer {SECRET}abc123",
        f"password={SECRET}",
        f"PASSWORD = '{SECRET} and more'",
        f'{{"db_password": "{SECRET}", "x": 1}}',
        f"{{'api_key': '{SECRET}'}}",
        f"Server=x;Password={SECRET};Db=y",
        f"connect(secret={SECRET})",
        f"STRIPE_SECRET_KEY={SECRET}",
        f"client_secret: {SECRET}",
        f"?access_token={SECRET}&x=1",
        f"requirepass={SECRET}",
        f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n-----END RSA PRIVATE KEY-----",
        f"-----BEGIN PRIVATE KEY-----\n{SECRET}",
        f'password="with \\" quote {SECRET}"',
        f"token => {SECRET}",
    ],
)
def test_a_secret_is_masked(text: str) -> None:
    assert SECRET not in mask_secrets(text)
    assert "***" in mask_secrets(text)


@pytest.mark.parametrize(
    "token",
    [
        "AKIAIOSFODNN7EXAMPLE",
        "ghp_" + "a1" * 18,
        "sk_live_abcdefgh12",
        "xoxb-123456789-abc",
        "eyJhbGciOiJI.eyJzdWIi.c2ln",
    ],
)
def test_tokens_of_known_form_are_masked_wherever_they_stand(token: str) -> None:
    assert token not in mask_secrets(f"call failed for {token}!")


@pytest.mark.parametrize(
    "text",
    [
        "ValueError: invalid literal for int() with base 10: 'abc'",
        "ConnectionRefusedError: [Errno 111] Connect call failed ('127.0.0.1', 6379)",
        "https://example.org/path?page=2 answered 404",
        "redis://db:6379/0",
        "the token has expired",
        "Basic authentication failed",
        "and/or 3/4 2024/05/06 text/html ~/notes/x",
        "line one\nline two",
        "",
    ],
)
def test_an_innocent_text_stays_as_it_is(text: str) -> None:
    assert clean(text) == text


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ('File "/srv/app/tasks.py", line 3', 'File "…/tasks.py", line 3'),
        ("No such file: '/etc/app/secret.conf'", "No such file: '…/secret.conf'"),
        ("sqlite:////var/lib/jobpool/jobpool.db", "sqlite:///…/jobpool.db"),
        ("file:///home/me/data.csv", "file://…/data.csv"),
        ("at C:\\Users\\me\\app.py:3", "at …\\app.py:3"),
        ("in (/opt/x/y)", "in (…/y)"),
    ],
)
def test_of_an_absolute_path_only_the_last_part_is_stored(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned
    assert mask_secrets(text) == text  # logs keep paths


@pytest.mark.parametrize(
    "piece",
    ["a", "password", "://", "://a:", "eyJ", "/a", "bearer ", "\\", "password='", "-----BEGIN PRIVATE KEY-----"],
)
def test_no_text_makes_cleaning_slow(piece: str) -> None:
    started = time.process_time()
    clean(piece * (200_000 // len(piece)))
    assert time.process_time() - started < 2.0


def test_a_long_text_keeps_its_head_and_tail() -> None:
    cleaned = clean("head" + "x " * LONGEST + "tail")
    assert cleaned.startswith("head") and cleaned.endswith("tail") and "left out" in cleaned
    assert len(cleaned) < LONGEST + 100


def test_lone_surrogates_and_control_characters_do_not_matter() -> None:
    assert clean("\ud800\x00password=x") == "\ud800\x00password=***"
