"""Servers to ask: one with the usual settings for a whole module, and others as a test wants them."""

from collections.abc import Iterator

import httpx
import pytest


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The example app, served with the usual settings."""
    from sightline.serving import background

    from .example import example_app

    with background(example_app()) as address:
        yield address


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, timeout=20) as asking:
        yield asking
