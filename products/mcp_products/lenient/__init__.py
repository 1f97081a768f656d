"""Messages of which a part is wrong, without that part."""
