"""Mutation testing: small changes of the code at a fixed seed, spread over all folders, and the tests nearest to them.

Run it: `nox -s mutation -- --count 150`, or the next ten of the same sample with `--limit 10`. It changes a copy of the
tree, never the tree itself. cosmic-ray changes files in place, with one command for all of them; mutmut runs the whole
suite first and takes no sample; mutatest has had no release since Python 3.8. So this is a small program of our own.
"""
