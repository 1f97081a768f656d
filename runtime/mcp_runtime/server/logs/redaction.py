"""Redact secrets in the text of log messages."""

from __future__ import annotations

import re
from typing import Final

REDACTED: Final = "[redacted]"
_MAX_LENGTH: Final = 16 * 1024  # Characters of a text.

_NAMES: Final = (
    r"pass(?:word|wd|phrase|code)?|pwd|secret|token|api[_-]?key|apikey|access[_-]?key|private[_-]?key|signing[_-]?key"
    r"|encryption[_-]?key|credentials?|signature|sig|session[_-]?id|cookie|client[_-]?assertion|code[_-]?verifier"
)
# Quantifiers have limits, so that each search takes linear time.
_PATTERNS: Final = (
    # A private key in PEM, and what is left of one that is cut off.
    (re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)", re.S), ""),
    # A header with credentials: the rest of the line, or of the quoted string.
    (
        re.compile(
            r"(\b(?:proxy-)?authorization[\"']?\s{0,4}[:=,]\s{0,4}b?[\"']?|\b(?:set-)?cookie[\"']?\s{0,4}[:=,]\s{0,4}b?[\"']?)"
            r"[^\"'\r\n]+",
            re.I,
        ),
        r"\1",
    ),
    (re.compile(r"(\b(?:bearer|basic|dpop|digest)\s{1,4})[A-Za-z0-9._~+/=-]{6,}", re.I), r"\1"),
    # The user information of a URL.
    (re.compile(r"(\b[a-z][a-z0-9+.-]{0,30}://)[^\s/?#@\"'<>]{1,512}@", re.I), rf"\1{REDACTED}@"),
    # name=value, "name": "value", name: value, --name value.
    (
        re.compile(
            rf"((?:\b|_|-)(?:[A-Za-z0-9]{{1,40}}[_-]){{0,4}}(?:{_NAMES})[\"']?(?:\s{{0,4}}(?:=>|[:=])\s{{0,4}}))"
            r"(?:b?\"[^\"]*\"?|b?'[^']*'?|[^\s,;&\"'})\]]+)",
            re.I,
        ),
        r"\1",
    ),
    (re.compile(rf"(--(?:[a-z0-9]{{1,40}}-){{0,4}}(?:{_NAMES})\s{{1,4}})[^\s\"']+", re.I), r"\1"),
    # Tokens with a well-known form.
    (re.compile(r"\beyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){1,4}"), ""),
    (
        re.compile(
            r"\b(?:sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}"
            r"|xox[abeprs]-[A-Za-z0-9-]{8,}|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{30,}|npm_[A-Za-z0-9]{30,}"
            r"|hf_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{30,})"
        ),
        "",
    ),
)


def redact(text: str) -> str:
    """Return a text without secrets: tokens, `Authorization` and cookies, API keys, passwords, also those in URLs.

    Secrets are found by the names before them and by the forms of well-known tokens; a secret that has neither stays.
    Texts above 16,384 characters are cut off.
    """
    if len(text) > _MAX_LENGTH:
        text = text[:_MAX_LENGTH] + "…"
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement if replacement.endswith("@") else replacement + REDACTED, text)
    return text
