"""The frame of the studio: which model, which view, light or dark, and a key where one is needed."""

import re
from urllib.parse import urljoin

import pytest

from browser import FRAMES, hash_of, until
from sightline.serving.http import ServingSettings, background
from sightline.serving.service import service
from sightline.studio import routes
from sightline.studio.routes import assets

pytestmark = pytest.mark.browser

KEY = "a-long-secret"


def test_it_opens_with_the_first_model_and_lists_all(tabs, models):
    tab = tabs(fresh=True)
    tab.wait_for_selector("#bar nav a[aria-current=page]")
    assert tab.locator("#bar select option").all_text_contents() == list(models)
    assert hash_of(tab).startswith("#/watch?model=phrases")
    assert tab.title() == "Watch · phrases · Sightline"


def test_another_model_is_one_choice_away_and_back_goes_back(tab):
    tab.get_by_label("Model", exact=True).select_option("bert")
    tab.wait_for_function("() => document.title.includes('bert')")
    assert "model=bert" in hash_of(tab)
    tab.go_back()
    tab.wait_for_function("() => document.title.includes('phrases')")
    assert tab.get_by_label("Model", exact=True).input_value() == "phrases"


@pytest.mark.parametrize("address", ["#/nowhere?model=nobody", "#nonsense", "#/watch?model="])
def test_an_address_that_leads_nowhere_shows_the_first_view(tabs, address):
    tab = tabs(address)
    tab.wait_for_selector(".ask")
    assert hash_of(tab).startswith("#/watch?model=phrases")


def test_a_link_that_is_followed_mounts_the_view_anew(tabs):
    tab = tabs("#/watch?model=one-way&text=the+cat")
    tab.wait_for_selector(".ask")
    tab.evaluate("location.hash = '#/watch?model=one-way&text=a+dog'")
    tab.wait_for_function("() => document.querySelector('.ask input')?.value === 'a dog'")


def test_links_to_other_views_take_the_text_along(tabs):
    tab = tabs("#/watch?model=one-way&text=the+cat")
    tab.get_by_label("Text to translate").fill("a dog")
    tab.keyboard.press("Enter")
    tab.wait_for_function("() => location.hash.includes('a+dog')")
    for link in tab.locator("#bar nav a").all():
        assert "text=a+dog" in link.get_attribute("href")


def test_the_skip_link_leads_past_the_header_and_leaves_the_address(tab):
    tab.wait_for_selector(".ask")
    before = tab.evaluate("location.hash.split('?')[0]")
    tab.locator(".skip").focus()
    tab.keyboard.press("Enter")
    assert tab.evaluate("document.activeElement.id") == "view"
    assert tab.evaluate("location.hash.split('?')[0]") == before


def test_a_server_that_is_gone_is_said_in_a_sentence(tabs):
    tab = tabs(fresh=True)
    tab.wait_for_selector(".watch[aria-busy=false]")
    tab.route("**/trace", lambda route: route.abort())
    tab.get_by_label("Text to translate").fill("the cat sat")
    tab.keyboard.press("Enter")
    tab.wait_for_selector("text=The server does not respond. Is it still running?")


def test_the_page_asks_for_the_key_and_works_with_it(models, tabs):
    settings = ServingSettings(port=0, keys=(KEY,))
    app = service({"gpt": models["gpt"]}, settings, more_routers=routes.routers, public_paths=routes.public_paths())
    with background(app) as url:
        tab = tabs(url=url, fresh=True)
        tab.locator("#key").fill("not-this-one")
        tab.keyboard.press("Enter")
        tab.wait_for_selector("text=Wrong key")
        tab.locator("#key").fill(KEY)
        tab.keyboard.press("Enter")
        tab.wait_for_selector(".watch[aria-busy=false] .token")
        assert tab.locator("dialog").count() == 0
        tab.reload()
        tab.wait_for_selector(".watch[aria-busy=false] .token")  # kept until the tab is closed
        assert KEY not in tab.evaluate("location.href")
        assert KEY not in tab.content()


def imported(path: str) -> set[str]:
    """Return a module's path and those of all that it imports at once."""
    found, ahead = set(), [path]
    while ahead:
        here = ahead.pop()
        if here in found:
            continue
        found.add(here)
        text = assets()[here].content.decode()
        ahead += [urljoin(here, name) for name in re.findall(r'^import [^;]*?"([^"]+)";$', text, re.M)]
    return found


def test_the_page_preloads_what_its_first_view_imports_and_nothing_else():
    text = assets()["/"].content.decode()
    preloaded = set(re.findall(r'<link rel="modulepreload" href="([^"]+)">', text))
    assert preloaded == (imported("/studio/studio.js") | imported("/studio/watch/watch.js")) - {"/studio/studio.js"}


@pytest.mark.parametrize(
    ("address", "sheet"),
    [("watch?model=gpt", "watch"), ("write?model=gpt", "write"), ("words?model=gpt", "positions"), ("walk?", "walk")],
)
def test_a_view_is_drawn_when_its_stylesheet_is_there(tabs, address, sheet):
    """What it measures, and where its parts are, depends on it."""
    tab = tabs("#/fill?model=bert" if sheet == "watch" else "#/watch?model=gpt", fresh=True)
    tab.wait_for_selector(".ask")
    held = []
    tab.route(f"**/{sheet}.css", lambda route: held.append(route))
    tab.evaluate(f"location.hash = '#/{address}'")
    until(tab, lambda: len(held) == 1)
    tab.evaluate(FRAMES)
    assert tab.locator("#view > .waiting").count() == 1
    held[0].continue_()
    tab.wait_for_selector(".ask")
    assert tab.evaluate(f"[...document.styleSheets].some(({{ href }}) => href.endsWith('/{sheet}.css'))")


@pytest.mark.parametrize("width", [1280, 390])
def test_the_header_fits(tabs, width):
    tab = tabs(width=width)
    tab.wait_for_selector(".watch[aria-busy=false]")
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
