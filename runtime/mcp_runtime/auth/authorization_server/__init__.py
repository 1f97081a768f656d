"""Clients, people and their consent go in; tokens that only this authorization server gives come out."""
