"""Identity providers as data: what each is called by its tokens, and what is unlike the others."""
