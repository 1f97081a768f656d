"""Errors of validation, for the messages that name them."""
