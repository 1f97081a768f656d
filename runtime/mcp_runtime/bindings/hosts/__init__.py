"""Clients of several servers, as a host has them: its configuration file, and one client for all of its servers."""
