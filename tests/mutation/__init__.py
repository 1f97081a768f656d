"""Mutation testing: small changes of the code at a fixed seed, spread over all folders, and the tests nearest to them.

Run it: `nox -s mutation -- --count 150`, or the next ten of the same sample with `--limit 10`. It changes a copy of the
tree, never the tree itself. cosmic-ray has one command for all files, and changes them in place;
mutmut runs the whole suite first and takes no sample. So this is a small program of our own.
"""
