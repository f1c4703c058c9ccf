"""Sightline: build, train, run and see through Transformers."""

__version__ = "0.1.0"
