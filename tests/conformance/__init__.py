"""The official conformance suite, and what it does not look at, against this package."""
