"""Coroutine functions are tests here as they are in `behaviour`."""

from behaviour.conftest import pytest_pyfunc_call as pytest_pyfunc_call
