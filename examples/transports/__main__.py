"""Run `python -m examples.transports`: unix_socket.py, or the program that the first argument names."""

from examples.programs import run_program

run_program(__file__, "unix_socket", "web_socket")
