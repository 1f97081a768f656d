"""The conversion between the revisions of a client and an upstream, and what it loses."""
