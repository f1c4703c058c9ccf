"""What the tests of the native engine share: they are skipped where it cannot be built."""

import pytest

from sightline.engine.native.compiler import load_library


@pytest.fixture(scope="session", autouse=True)
def library_is_there():
    """Skip all where there is no compiler, except tests of that."""
    if reason := load_library().reason:
        pytest.skip(f"no native engine here: {reason}")
