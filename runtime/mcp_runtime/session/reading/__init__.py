"""Messages that a thread reads in the place of the event loop."""
