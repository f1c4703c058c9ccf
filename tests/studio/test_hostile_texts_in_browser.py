"""Whatever a text, a name or an address holds, it stays text (T24): no script runs, nothing is fetched."""

from urllib.parse import quote

import pytest

PAYLOADS = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "javascript:alert(1)",
    "<iframe src=//evil.example></iframe>",
    "{{7*7}} ${7*7} <%= 7*7 %>",
    "</textarea><script>alert(1)</script>",
    "<a href=javascript:alert(1)>x</a>",
    "<style>@import '//evil.example'</style>",
    "\u202e\u2066 <b>rtl</b> \u0000\ufeff",
]
PLACES = [
    "#/watch?model=gpt&text={}",
    "#/walk?model=gpt&text={}",
    "#/write?model=gpt&text={}",
    "#/watch?model={}",
    "#/{}?model=gpt",
    "#/words?model=phrases&word={}&text={}",
]
"""Where an address puts a text, a name of a model, and a name of a view."""


@pytest.mark.parametrize("place", PLACES)
def test_what_an_address_holds_stays_text(tabs, place):
    """The tabs themselves fail on dialogs, foreign requests, errors and violations of the content policy."""
    page = tabs()
    for payload in PAYLOADS:
        address = place.format(*[quote(payload, safe="")] * place.count("{}"))
        page.evaluate("address => { location.hash = address; }", address)
        page.wait_for_timeout(120)
        assert (
            page.evaluate("() => document.querySelectorAll('iframe, svg[onload], img[onerror], main script').length")
            == 0
        )
    page.wait_for_timeout(500)


@pytest.mark.parametrize("payload", PAYLOADS[:4])
def test_what_is_typed_is_shown_as_it_was_typed(tabs, payload):
    page = tabs("#/watch?model=gpt")
    field = page.locator("main input[type=text], main textarea").first
    field.fill(payload)
    field.press("Enter")
    page.wait_for_function("() => document.querySelectorAll('.token').length > 2")
    page.wait_for_timeout(400)
    assert field.input_value() == payload
    assert page.evaluate("() => document.querySelectorAll('main script, main iframe, main img[onerror]').length") == 0
