"""The conversion of messages between neighbouring revisions."""
