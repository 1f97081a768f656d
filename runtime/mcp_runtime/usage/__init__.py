"""Checks of how public functions are called: keywords, missing arguments and values, with messages for their users."""
