"""The page as a class sees it on a wall: every text can be read, every control shows that it is in use."""

import pytest

from .drawn import PLAIN, RIGHT_TO_LEFT, UNSPACED, drawn_trace
from .models import pipeline, text_for, trace_options
from .test_page_in_browser import opened

__all__ = ["opened"]

pytestmark = pytest.mark.browser

MIN_CONTRAST = 4.5

UNREADABLE = """least => {
  const part = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const luminance = (color) => color.slice(0, 3).reduce((sum, value, k) => sum + [0.2126, 0.7152, 0.0722][k] * part(value), 0);
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const read = (text) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = text;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].map((value) => value / 255);
  };
  const over = (top, below) => [0, 1, 2].map((k) => top[k] * top[3] + below[k] * (1 - top[3]));
  const behind = (node) => {
    const layers = [];
    for (let at = node; at !== null; at = at.parentElement) {
      const box = at.matches?.(".unit, .node") ? at.querySelector("rect") : null;
      if (box !== null && getComputedStyle(box).fill !== "none") layers.push(read(getComputedStyle(box).fill));
      layers.push(read(getComputedStyle(at).backgroundColor));
    }
    return layers.reverse().reduce((below, top) => over(top, below), [1, 1, 1]);
  };
  const found = [];
  for (const node of document.querySelectorAll("main *")) {
    const own = [...node.childNodes].filter((child) => child.nodeType === 3).map((child) => child.data).join("").trim();
    if (own === "" || node.disabled || !node.checkVisibility() || node.localName === "title") continue;
    const style = getComputedStyle(node);
    let opacity = 1;
    for (let at = node; at !== null; at = at.parentElement) opacity *= Number(getComputedStyle(at).opacity);
    const ground = behind(node);
    const color = read(node.localName === "text" ? style.fill : style.color);
    const seen = over([...color.slice(0, 3), color[3] * opacity], ground);
    const [light, dark] = [luminance(seen), luminance(ground)].sort((a, b) => b - a);
    const contrast = (light + 0.05) / (dark + 0.05);
    if (contrast < least) found.push(`${node.localName}.${node.getAttribute("class")} ${own.slice(0, 20)} ${contrast.toFixed(2)}`);
  }
  return [...new Set(found)];
}"""  # noqa: E501

CUT = """() => [...document.querySelectorAll("main *")].filter((node) => {
  if (!node.checkVisibility() || node.closest(".scroller, .strip, .kind, svg, .title, .name") !== null) return false;
  const box = node.getBoundingClientRect();
  return box.width > 0 && (box.right > innerWidth + 1 || box.left < -1);
}).map((node) => `${node.localName}.${node.getAttribute("class")}`)"""


FOCUS = """() => {
  const node = document.activeElement;
  const style = getComputedStyle(node);
  return [node === document.body ? null : node.getAttribute("class") ?? "", style.outlineStyle, parseFloat(style.outlineWidth)];
}"""  # noqa: E501


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("texts", [PLAIN, RIGHT_TO_LEFT, UNSPACED], ids=["plain", "right-to-left", "unspaced"])
def test_every_text_stands_out_from_what_is_behind_it(opened, texts, theme):
    shown = opened(drawn_trace(12, texts), theme=theme, address="#step=4")
    for key in ("l", "w", "m"):
        shown.page.keyboard.press(key)
        assert shown.page.evaluate(UNREADABLE, MIN_CONTRAST) == []


@pytest.mark.parametrize("name", ["gpt", "filler", "tagger", "transformer"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_family_fits_a_phone_and_can_be_read(opened, name, theme):
    trace = pipeline(name).trace(text_for(name), head_ablation=True, **trace_options(name))
    shown = opened(trace, width=390, height=844, theme=theme)
    for key in ("l", "w", "m"):
        shown.page.keyboard.press(key)
        assert shown.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert shown.page.evaluate(CUT) == []
        assert shown.page.evaluate(UNREADABLE, MIN_CONTRAST) == []


def test_whatever_is_reached_by_keyboard_shows_that(opened):
    shown = opened(drawn_trace(5))
    reached = set()
    for _ in range(60):
        shown.page.keyboard.press("Tab")
        kind, style, width = shown.page.evaluate(FOCUS)
        if kind is None:
            break
        reached.add(kind.split(" ")[0])
        assert style != "none", kind
        assert width >= 2, kind
    assert {"token", "tile", "node", "link"} <= reached
