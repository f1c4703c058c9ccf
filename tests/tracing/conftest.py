"""The browser in which pages of traces are opened."""

from browser import alone, browser

__all__ = ["alone", "browser"]
