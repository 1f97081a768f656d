"""Which tests prove what: tables to be read beside the lists they answer, and a check that none of them has a gap."""
