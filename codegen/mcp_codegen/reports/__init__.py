"""Reports on revisions: what changed between two, what is unclear in one, and a page with all."""
