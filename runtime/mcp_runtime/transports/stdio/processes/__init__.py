"""Child processes with all that they start: how they begin and how they end, on POSIX systems and on Windows."""
