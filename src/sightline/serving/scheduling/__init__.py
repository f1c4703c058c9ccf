"""Scheduling: many requests share the steps of one model, in one thread."""
