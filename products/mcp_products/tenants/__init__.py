"""Tenants: whom a request is for, and what each of them may use."""
