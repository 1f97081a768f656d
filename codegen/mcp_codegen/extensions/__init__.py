"""Extensions: a manifest and a schema each, mounted on a revision."""
