"""Derive how messages convert between neighbouring revisions."""
