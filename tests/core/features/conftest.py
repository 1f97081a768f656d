"""Tests that make a client by `client_of` run in memory, and over HTTP and other transports."""

from support.each_way import over, pytest_generate_tests, pytest_pycollect_makeitem

__all__ = ["over", "pytest_generate_tests", "pytest_pycollect_makeitem"]
