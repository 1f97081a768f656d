"""The update to a commit of the specification's repository: what it needs is read, imported, tried, and written."""
