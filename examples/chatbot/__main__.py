"""Run `python -m examples.chatbot`: client.py."""

from examples.programs import run_program

run_program(__file__, "client")
