"""Support code of the tests: the project's files, endpoints, servers run as processes, and other projects' peers."""
