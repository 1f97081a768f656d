"""For programs that run trio: an asyncio event loop in a thread of its own."""
