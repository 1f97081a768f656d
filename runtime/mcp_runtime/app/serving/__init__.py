"""How an app is served: its settings, its HTTP application, and what runs it."""
