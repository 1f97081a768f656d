"""Programs of others that were written for another SDK: their import lines rewritten, run, and compared."""
