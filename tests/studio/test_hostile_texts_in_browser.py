"""Whatever a text, a name or an address holds, it stays text (T24): no script runs, nothing is fetched."""

from urllib.parse import quote

import pytest

from browser import FOLLOW

pytestmark = pytest.mark.browser

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
    "<body onload=alert(1)>",
    "<input autofocus onfocus=alert(1)>",
    "<details open ontoggle=alert(1)>",
    "<video><source onerror=alert(1)></video>",
    "<audio src=x onerror=alert(1)>",
    "<object data=//evil.example></object>",
    "<embed src=//evil.example>",
    "<link rel=stylesheet href=//evil.example>",
    "<base href=//evil.example>",
    "<meta http-equiv=refresh content='0;url=//evil.example'>",
    "<form action=//evil.example><button>x</button></form>",
    "<math><mi xlink:href=javascript:alert(1)>x</mi></math>",
    "<svg><script>alert(1)</script></svg>",
    "<svg><a xlink:href=javascript:alert(1)><text>x</text></a></svg>",
    "<template><img src=x onerror=alert(1)></template>",
    "<img src=`x` onerror=alert(1)>",
    "<ScRiPt>alert(1)</sCrIpT>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "%3Cscript%3Ealert(1)%3C/script%3E",
    "'-alert(1)-'",
]
"""T24's thirty."""
FOREIGN = "iframe, object, embed, base, form[action], main script, main style, "
FOREIGN += "[onerror], [onload], [onfocus], [ontoggle]"
PLACES = {
    "#/watch?model=gpt&length=1&text={}": ".watch[aria-busy=false]",
    "#/walk?model=gpt&text={}": ".stage.drawn",
    "#/write?model=gpt&text={}": ".write textarea",
    "#/positions?model={}": "#curves .curve",
    "#/{}?model=classes&text=a": ".watch[aria-busy=false]",
    "#/words?model=phrases&word={}&text={}": ".map canvas[data-names]",
}
"""Where an address puts a text, a name of a model, and a name of a view; and what tells that it was drawn."""


@pytest.mark.parametrize("place", PLACES)
def test_what_an_address_holds_stays_text(tabs, place):
    """The tabs themselves fail on dialogs, foreign requests, errors and violations of the content policy."""
    page = tabs()
    for payload in PAYLOADS:
        address = place.format(*[quote(payload, safe="")] * place.count("{}"))
        page.evaluate(FOLLOW, address)
        page.wait_for_selector(PLACES[place])
        assert page.locator(FOREIGN).count() == 0, payload
        if "gpt" in place and "text={}" in place:
            shown = page.locator("main input[type=text], main textarea").first.input_value()
            assert shown == payload


@pytest.mark.parametrize("payload", PAYLOADS[:4])
def test_what_is_typed_is_shown_as_it_was_typed(tabs, payload):
    page = tabs("#/watch?model=gpt&length=1&text=a")
    field = page.locator("main input[type=text], main textarea").first
    page.wait_for_selector(".watch[aria-busy=false]")
    field.fill(payload)
    field.press("Enter")  # it is busy from here on
    page.wait_for_selector(".watch[aria-busy=false]")
    read = "chips => chips.map(({ textContent }) => textContent).join('').replaceAll('·', ' ')"
    assert page.locator("#sentence [data-sequence=source] .token:not(.special)").evaluate_all(read) == payload
    assert field.input_value() == payload
    assert page.evaluate("() => document.querySelectorAll('main script, main iframe, main img[onerror]').length") == 0
