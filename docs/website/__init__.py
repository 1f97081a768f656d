"""The documentation site: what is written here becomes the pages of build/site.

`write_source` makes the pages that Sphinx reads: those of docs/ and a few more, with their links and pictures, the
API reference, the charts, and `llms.txt`. Nothing here imports Sphinx, so tests run without it.
"""
