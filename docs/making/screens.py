"""Pictures of the studio, as a person sees it: `python docs/making/screens.py URL [VIEW …]`, a server being there.

Each view is taken at desktop and phone width, in light and dark, and put into docs/screens.
"""

import shutil
import sys
from itertools import product
from pathlib import Path

from playwright.sync_api import sync_playwright

SCREENS = Path(__file__).parents[1] / "screens"
WIDTHS = {"": (1280, 900), "-phone": (390, 844)}
THEMES = {"": "light", "-dark": "dark"}
SENTENCE = "text=March%2014%2C%202026&to=de"
VIEWS = {
    "watch": f"#/watch?model=demo&{SENTENCE}&beam=4&step=4",
    "walk": f"#/walk?model=demo&{SENTENCE}&stage=encoder.self_attention.weights&layer=0&head=2&token=3&sums=1",
    "positions": "#/positions?model=demo",
    "words": "#/words?model=demo",
    "runs": "#/runs?model=demo",
}
SETTLED = 6000
"""Milliseconds until everything is drawn."""


def take(url: str, names: list[str]) -> None:
    """Take the pictures of some views."""
    SCREENS.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, width, theme in product(names, WIDTHS, THEMES):
            size = {"width": WIDTHS[width][0], "height": WIDTHS[width][1]}
            page = browser.new_page(viewport=size, color_scheme=THEMES[theme], reduced_motion="reduce")  # type: ignore[arg-type]
            page.goto(f"{url}/{VIEWS[name]}")
            page.wait_for_timeout(SETTLED)
            page.screenshot(path=SCREENS / f"{name}{width}{theme}.png")
            page.close()
        browser.close()


if __name__ == "__main__":
    take(sys.argv[1], sys.argv[2:] or list(VIEWS))
