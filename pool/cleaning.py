"""Texts that people will read, without what they must not see: passwords, tokens, keys, absolute paths.

A safety net for foreign texts (exceptions, output of jobs): it knows forms, not meanings. Our own code still never puts
a secret into a text. Each pattern is anchored at a literal, so that no text makes the search slow.
"""

import re

MASK = "***"
LONGEST = 20_000

_PRIVATE_KEY = re.compile(
    r"-----BEGIN (?P<kind>[A-Z ]{0,20}PRIVATE KEY)-----.*?(?:-----END (?P=kind)-----|\Z)", re.DOTALL
)
_URL_USER_AND_PASSWORD = re.compile(r"://(?P<user>[^\s\"'<>/:@]{0,200}):(?:[^\s\"'<>]{0,1000})@")
_URL_TOKEN = re.compile(r"://[^\s\"'<>/:@]{1,400}@")
_AUTHORIZATION = re.compile(
    r"(?P<head>\b(?:proxy-)?authorization[\"']?\s{0,4}[:=]\s{0,4}[\"']?)(?:[A-Za-z]+ +)?[^\s\"',;]+", re.IGNORECASE
)
_BEARER = re.compile(
    r"\b(?P<scheme>bearer|basic)\s+(?=[^\s\"']*[\d=._-]|[^\s\"']{20})[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE
)
_KEY_WITH_VALUE = re.compile(
    r"(?P<key>(?:passwor[dt]|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|account[_-]?key|private[_-]?key"
    r"|credentials?|requirepass|masterauth)[\w-]{0,40}[\"']?\s{0,4}(?:=>|[:=])\s{0,4})"
    r"(?P<value>\"(?:[^\"\\]|\\.)*\"?|'(?:[^'\\]|\\.)*'?|[^\s,;&)}\]\"']+)",
    re.IGNORECASE,
)
_KNOWN_TOKENS = re.compile(
    r"\b(?:AKIA[0-9A-Z]{16}|gh[opsur]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|[sr]k_(?:live|test)_\w{8,}|xox[abprs]-[\w-]{8,}"
    r"|glpat-[\w-]{16,}|AIza[\w-]{30,}|eyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*)?)"
)
_PATH = re.compile(
    r"(?:(?<=file://)|(?<=sqlite:///)|(?<![\w.:/~\\-]))/(?:[^\s/:\"'<>|,;()\[\]{}]+/)+(?P<name>[^\s/:\"'<>|,;()\[\]{}]*)"
)
_WINDOWS_PATH = re.compile(r"\b[A-Za-z]:\\(?:[^\s\\\"'<>|:]+\\)+(?P<name>[^\s\\\"'<>|:]*)")


def clean(text: str) -> str:
    """For storage and strangers: without secrets, and of each absolute path only the last part."""
    text = mask_secrets(text)
    text = _PATH.sub(r"…/\g<name>", text)
    return _WINDOWS_PATH.sub(r"…\\\g<name>", text)


def mask_secrets(text: str) -> str:
    """For logs: without secrets; paths stay. Longer texts keep their head and tail."""
    text = _shortened(text)
    text = _PRIVATE_KEY.sub(MASK, text)
    text = _URL_USER_AND_PASSWORD.sub(rf"://\g<user>:{MASK}@", text)
    text = _URL_TOKEN.sub(_mask_url_token, text)
    text = _AUTHORIZATION.sub(rf"\g<head>{MASK}", text)
    text = _BEARER.sub(rf"\g<scheme> {MASK}", text)
    text = _KEY_WITH_VALUE.sub(_mask_value, text)
    return _KNOWN_TOKENS.sub(MASK, text)


def _shortened(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    half = LONGEST // 2
    return f"{text[:half]}\n… {len(text) - LONGEST:,} characters left out …\n{text[-half:]}"


def _mask_url_token(found: re.Match[str]) -> str:
    return f"://{MASK}@"


def _mask_value(found: re.Match[str]) -> str:
    quote = found["value"][0] if found["value"][0] in "\"'" else ""
    return f"{found['key']}{quote}{MASK}{quote}"
