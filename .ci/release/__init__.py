"""The checks before a release: `nox -s release` runs them, and stops before the upload."""
