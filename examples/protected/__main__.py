"""Run `python -m examples.protected`: server.py, or the program that the first argument names."""

from examples.programs import run_program

run_program(__file__, "server", "authorization", "client", "one_process", "delegated")
