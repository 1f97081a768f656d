"""The update to a commit of the specification's repository: it is read, imported, compared, tried, and written."""
