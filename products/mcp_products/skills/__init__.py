"""The skills extension (SEP-2640): publish skills from a folder, and read and verify the skills of a server."""
