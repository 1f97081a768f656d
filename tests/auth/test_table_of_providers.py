"""The table of identity providers: complete, plain, and what its page says."""

from __future__ import annotations

import re
from typing import Any

import pytest
from providers_report import PAGE, page

from mcp_products.auth.providers.provider import providers

KEYS = {"title", "needs", "issuer", "metadata", "audience", "setup", "sources"}
OPTIONAL = {
    "token_issuer": str,
    "jwks": str,
    "audience_claim": str,
    "bound": bool,
    "claims": dict,
    "scope_claims": list,
    "also": list,
    "lookup": dict,
    "resource": ("used", "opt-in", "ignored", "refused"),
    "registration": ("yes", "opt-in", "no"),
    "pkce": ("unlisted",),
    "roles": str,
}
ASKED_FOR = set(
    "auth0 okta entra google keycloak cognito github clerk workos descope supabase scalekit stytch ping".split()
)


def test_the_page_of_identity_providers_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python tests/providers_report.py"


def test_the_providers_that_people_use_are_there() -> None:
    assert providers().keys() >= ASKED_FOR


@pytest.mark.parametrize("name", providers())
def test_a_row_has_what_it_needs_and_says_where_it_is_from(name: str) -> None:
    row: Any = providers()[name]
    assert KEYS <= row.keys() <= KEYS | OPTIONAL.keys()
    for key, kind in OPTIONAL.items():
        value = row.get(key)
        assert value is None or (value in kind if isinstance(kind, tuple) else isinstance(value, kind)), key
    for url in (*row["metadata"], *row["sources"]):
        assert url.startswith("https://")
    used = set(re.findall(r"{(\w+)}", str({key: row[key] for key in row.keys() - {"needs", "setup"}})))
    given = row["needs"].keys() | {"resource"}
    assert used <= given and row["needs"].keys() - {"client_secret"} <= used
    assert 2 <= len(row["setup"]) <= 6 and all(text.endswith(".") for text in row["setup"])
