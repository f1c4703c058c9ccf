"""Screenshots of the studio: `python docs/making/screens.py URL [VIEW …]`, with a server running at URL.

Each view is taken at desktop and phone width, in light and dark, and saved in docs/screens. The server has the models
`demo` (a translator of phrases), `write` (a GPT of tiny Shakespeare), `chat`, `fill` (a BERT of a toy grammar) and
`classify` (SST-2), and `--runs`.
"""

import shutil
import sys
from itertools import product
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import Page, sync_playwright

SCREENS = Path(__file__).parents[1] / "screens"
WIDTHS = {"": (1280, 900), "-phone": (390, 844)}
THEMES = {"": "light", "-dark": "dark"}
SENTENCE = "text=March%2014%2C%202026&to=de"
STORY = "ROMEO:\nI will not speak to thee,\nAnd"
OPINION = "the plot is thin , but the actors are wonderful and the ending is moving ."
VIEWS = {
    "watch": f"#/watch?model=demo&{SENTENCE}&beam=4&step=4",
    "walk": f"#/walk?model=demo&{SENTENCE}&stage=encoder.self_attention.weights&layer=0&head=2&token=3&sums=1",
    "positions": "#/positions?model=demo",
    "words": "#/words?model=demo",
    "runs": "#/runs?model=demo",
    "write": f"#/write?model=write&text={quote(STORY)}&probabilities=1&temperature=0.6&seed=8&max_tokens=16",
    "chat": "#/chat?model=chat",
    "fill": f"#/fill?model=fill&text={quote('the red dog often [MASK] here .')}",
    "classify": f"#/classify?model=classify&text={quote(OPINION)}",
}
SAID = ["Who are you?", "What do you like?", "Are you a robot?"]
SETTLED = 4000
"""Milliseconds to wait until everything is drawn."""


def act(page: Page, name: str) -> None:
    """Interact with a view so that it shows something."""
    if name == "write":
        page.get_by_role("button", name="Three options").click()
    for turn in SAID if name == "chat" else []:
        page.get_by_label("Message").fill(turn)
        page.keyboard.press("Enter")
        page.wait_for_selector("button:has-text('Stop'):not(:disabled)")
        page.wait_for_selector("button:has-text('Stop'):disabled")


def take(url: str, names: list[str]) -> None:
    """Take the screenshots of some views."""
    SCREENS.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, width, theme in product(names, WIDTHS, THEMES):
            size = {"width": WIDTHS[width][0], "height": WIDTHS[width][1]}
            page = browser.new_page(viewport=size, color_scheme=THEMES[theme], reduced_motion="reduce")  # type: ignore[arg-type]
            page.goto(f"{url}/{VIEWS[name]}")
            act(page, name)
            page.wait_for_timeout(SETTLED)
            page.evaluate("document.activeElement.blur()")
            low = page.evaluate("document.querySelector('main').getBoundingClientRect().bottom + 16")
            clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], low)}
            page.screenshot(path=SCREENS / f"{name}{width}{theme}.png", clip=clip)  # type: ignore[arg-type]
            page.close()
        browser.close()


if __name__ == "__main__":
    take(sys.argv[1], sys.argv[2:] or list(VIEWS))
