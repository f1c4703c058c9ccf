"""Fixtures: a server with default settings for a whole module, a client of it, and the gate."""

from collections.abc import Iterator

import httpx
import pytest


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The example app, served with the usual settings."""
    from .example import example_app
    from .standing import standing

    with standing(example_app()) as server:
        yield server.url


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[httpx.Client]:
    from .wire import asking

    with asking(url) as client:
        yield client


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch):
    """The gate before every model step."""
    from .gate import Gate

    made = Gate(monkeypatch)
    yield made
    made.open()
