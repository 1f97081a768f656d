"""Repeatable tasks: a queue in Redis passes them to workers, and passes those of a killed worker to another one."""
