"""Middleware: functions and objects around the handlers of messages, and ready ones for common tasks."""
