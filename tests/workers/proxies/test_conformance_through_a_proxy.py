"""A share of the official conformance suite, through nginx before four servers; `nox -s balanced` runs all of it."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support.project import TESTS
from support.stores.balancers import required
from support.stores.homes import redis_url

# What one server begins and another one goes on with, of two versions.
SHARE = ("server-sse-polling", "tools-call-elicitation", "resources-subscribe", "tasks-mrtr-input")
VERSIONS = ("2025-11-25", "2026-07-28")


@pytest.mark.exhaustive
@pytest.mark.skipif(sys.platform == "win32", reason="the proxy needs POSIX")
def test_scenarios_of_the_official_suite_pass_through_a_proxy() -> None:
    required("nginx")
    redis_url()  # Skips the test where there is none.
    words = [
        word for name, values in (("only", SHARE), ("revision", VERSIONS)) for v in values for word in (f"--{name}", v)
    ]
    command = [sys.executable, str(TESTS / "conformance" / "run.py"), "--balanced", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode == 2:
        pytest.skip(done.stdout)  # The suite cannot be installed here.
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    assert done.stdout.count("\nok ") >= len(SHARE) - 1
