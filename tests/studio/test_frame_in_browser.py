"""The frame of the studio: which model, which view, light or dark, and a key where one is needed."""

import pytest

pytestmark = pytest.mark.browser


def test_it_opens_with_the_first_model_and_lists_all(tab, models):
    tab.wait_for_selector("#bar nav a[aria-current=page]")
    assert tab.locator("#bar select option").all_text_contents() == list(models)
    assert tab.url.endswith("#/watch?model=phrases") or "#/watch?model=phrases&" in tab.url
