"""Runs in a browser: the curves are those of the files, also while they grow, and the time-lapse that of the models."""

import json
import math
import os
import re
import shutil
from urllib.parse import unquote

import numpy as np
import pytest

import sightline
from browser import FOLLOW, hash_of, saved, settle
from sightline.runs.folder import pipeline_at
from tracing.test_legibility_in_browser import CUT, MIN_CONTRAST, UNREADABLE
from tracing.test_page_in_browser import Shown, short

from .runs import copy_of, metrics_of, served, small_run

pytestmark = pytest.mark.browser

BOTH = "#/runs?runs=first,second"
TEXT = "red green blue"
HURRY = """() => {
  const usual = setTimeout;
  window.setTimeout = (act) => usual(act, 0);
}"""
"""Let the page ask again at once for what is new, not after two seconds."""
FAR = 4_000_000_000
"""A time in the future."""
VISIBLE = "async (text) => (await import('/page/text.js')).visible(text)"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("seen") / "runs" / "first"
    return small_run(folder, **{"training.max_steps": 8, "training.validate_every": 4, "decoding.max_new_tokens": 6})


@pytest.fixture(scope="module")
def url(run, models):
    copy_of(run, "second", model={"d_ff": 64}, training={"seed": 7})
    with served({"gpt": models["gpt"]}, run.parent) as address:
        yield address


@pytest.fixture
def opened(tabs, url):
    def open_view(address=BOTH, **settings):
        tab = tabs(address, url=url, **settings)
        n_runs = 1 + unquote(address).count(",")  # each is drawn when it comes, and the axes then fit them all
        tab.wait_for_selector(f".curves-legend li:nth-child({n_runs}) b")
        settle(tab)
        return tab

    return open_view


def legend(tab, entry: int = 0) -> list[str]:
    """The texts of the legend of a picture, a run each."""
    return tab.locator(".curves-legend").nth(entry).locator("li").all_text_contents()


def measured(run, name: str) -> list[tuple[int, float]]:
    return [(record["step"], record[name]) for record in metrics_of(run) if name in record]


def drawn(tab, entry: int, number: int) -> np.ndarray:
    """The points of a curve, in pixels."""
    path = tab.locator(".curves-frame svg").nth(entry).locator("> .curve > path").nth(number).get_attribute("d")
    return np.array([[float(part) for part in pair.split(" ")] for pair in re.split("[ML]", path)[1:]])


def cells_of(body) -> list:
    """The cells of each row of a table."""
    return [row.locator("th, td") for row in body.locator("tr").all()]


def misfit(pixels: np.ndarray, values: list[float]) -> float:
    """How far pixels are from lying in proportion to values."""
    slope, start = np.polyfit(values, pixels, 1)
    return float(np.abs(pixels - (slope * np.array(values) + start)).max())


def test_legend_has_the_last_numbers_of_the_files(opened, run):
    tab = opened()
    (step, loss), (at, validation) = measured(run, "loss")[-1], measured(run, "validation_loss")[-1]
    tail = f"validation {short(validation)} at step {at}"
    assert legend(tab) == [
        f"firsttraining {short(loss)} at step {step} · {tail}",
        f"secondtraining {short(loss / 2)} at step {step} · {tail}",
    ]
    assert legend(tab, 1)[0] == f"first{short(measured(run, 'bleu')[-1][1])} at step {at}"


def test_two_kinds_of_loss_on_one_axis_are_told_apart(opened, run):
    smoothing = json.loads((run / "run.json").read_text())["resolved"]["training"]["label_smoothing"]
    said = opened().locator(".curves .note").all_text_contents()
    assert "training loss" in said[0]
    assert "validation loss" in said[0]
    assert f"label smoothing ({smoothing})" in said[0]
    assert said[1] == ""  # the other chart has one kind of numbers


def test_the_run_of_the_model_is_chosen_first(tabs, run):
    """The copy is as new, and comes first in the list by its name."""
    copy_of(run, "zebra")
    with served({"other": sightline.load(run.parent / "zebra"), "own": sightline.load(run)}, run.parent) as url:
        for model, name in (("own", "first"), ("other", "zebra")):
            tab = tabs(f"#/runs?model={model}", url=url)
            tab.wait_for_selector(".curves-legend li b")
            assert tab.locator(".runs-table input:checked").evaluate_all("(all) => all.map((one) => one.value)") == [
                name
            ]
            assert tab.get_by_label("Run", exact=True).input_value() == name
    shutil.rmtree(run.parent / "zebra")


def test_curves_are_drawn_in_proportion_to_the_numbers(opened, run):
    tab = opened()
    steps, losses = zip(*measured(run, "loss"), strict=True)
    points = drawn(tab, 0, 0)
    assert len(points) == len(losses)
    assert misfit(points[:, 0], steps) < 0.1
    assert misfit(points[:, 1], losses) < 0.1
    tab.get_by_label("y", exact=True).check()
    assert misfit(drawn(tab, 0, 0)[:, 1], np.log(losses)) < 0.1


def test_validations_lie_between_their_neighbors_in_tokens_and_time(opened, run):
    sparse = copy_of(run, "sparse")
    kept = [record for record in metrics_of(run) if "loss" not in record or record["step"] % 4]
    (sparse / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in kept))
    tab = opened("#/runs?runs=sparse")
    validated = [step for step, _ in measured(sparse, "validation_loss")]
    for axis in ("tokens", "seconds"):
        tab.get_by_label("x axis", exact=True).select_option(axis)
        steps, known = zip(*measured(sparse, axis), strict=True)
        pixels = np.concatenate([drawn(tab, 0, 0)[:, 0], drawn(tab, 0, 1)[:, 0]])
        assert misfit(pixels, [*known, *np.interp(validated, steps, known)]) < 0.2


def test_smoothing_is_the_mean_that_forgets(opened, run):
    tab = opened(f"{BOTH}&smooth=0.6")
    mean, weight = 0.0, 0.0
    for _, loss in measured(run, "loss"):
        mean, weight = 0.6 * mean + 0.4 * loss, 0.6 * weight + 0.4
    assert short(mean / weight) in legend(tab)[0]


def test_pointing_says_the_numbers_of_all_runs_at_that_step(opened, run):
    tab = opened()
    points = drawn(tab, 0, 0)
    box = tab.locator(".curves-frame").first.bounding_box()
    for number, (step, loss) in enumerate(measured(run, "loss")):
        tab.mouse.move(box["x"] + points[number, 0], box["y"] + 90)
        first, second = legend(tab)
        assert first.startswith(f"firsttraining {short(loss)} at step {step} ·")
        assert second.startswith(f"secondtraining {short(loss / 2)} at step {step} ·")
        assert tab.locator(".curves-cursor .hair").count() == 2  # in both pictures


def test_keys_walk_along_the_curve_and_zoom(opened, run):
    tab = opened()
    losses = measured(run, "loss")
    tab.locator(".curves-frame").first.focus()
    tab.keyboard.press("ArrowLeft")
    for step, loss in losses[-2::-1]:
        tab.keyboard.press("ArrowLeft")
        assert legend(tab)[0].startswith(f"firsttraining {short(loss)} at step {step} ")
    tab.keyboard.press("+")
    assert len(drawn(tab, 0, 0)) < len(losses)
    tab.keyboard.press("Escape")
    tab.keyboard.press("Escape")
    assert len(drawn(tab, 0, 0)) == len(losses)


def test_dragging_zooms_both_pictures_and_the_address_keeps_it(opened, run):
    tab = opened()
    points = drawn(tab, 0, 0)
    box = tab.locator(".curves-frame").first.bounding_box()
    tab.mouse.move(box["x"] + points[1, 0] - 4, box["y"] + 60)
    tab.mouse.down()
    tab.mouse.move(box["x"] + points[4, 0] + 4, box["y"] + 120, steps=3)
    tab.mouse.up()
    inside = [loss for step, loss in measured(run, "loss") if 2 <= step <= 5]
    assert len(drawn(tab, 0, 0)) == len(inside)
    assert misfit(drawn(tab, 0, 0)[:, 1], inside) < 0.1
    again = opened(hash_of(tab))
    assert np.abs(drawn(again, 0, 0) - drawn(tab, 0, 0)).max() < 0.2
    tab.get_by_role("button", name="Reset zoom").click()
    assert np.abs(drawn(tab, 0, 0) - points).max() == 0


def test_a_run_that_trains_is_followed_line_by_line(tabs, url, run):
    live = copy_of(run, "live")
    record = json.loads((live / "run.json").read_text())
    (live / "run.json").write_text(json.dumps({**record, "outcome": None}))
    os.utime(live / "run.json", (FAR, FAR))  # however long this takes, it has written just now
    tab = tabs("#/positions", url=url, fresh=True)
    tab.wait_for_selector("#curves .curve")
    tab.evaluate(HURRY)
    tab.evaluate(FOLLOW, "#/runs?runs=live")
    tab.wait_for_selector(".curves-legend b")
    assert "training" in tab.locator("tr", has_text="live").inner_text()
    asked = []
    tab.on("response", lambda answer: asked.append(answer) if "/metrics" in answer.url else None)
    with (live / "metrics.jsonl").open("a") as file:
        file.write('{"step": 9, "loss": 0.125, "tokens": 9999, "seconds": 99}\n{"step": 10, "lo')
    tab.locator(".curves-legend", has_text="0.125 at step 9 ").wait_for()
    with (live / "metrics.jsonl").open("a") as file:
        file.write('ss": 0.0625, "gradient_norm": NaN, "tokens": 99999, "seconds": 100}\n')
    tab.locator(".curves-legend", has_text="0.0625 at step 10 ").wait_for()
    assert all(len(answer.json()["records"]) <= 1 for answer in asked)


def test_settings_that_differ_are_named_with_both_values(opened):
    tab = opened()
    tab.wait_for_selector(".runs-settings")
    rows = tab.locator(".runs-settings tbody tr")
    texts = sorted(row.all_text_contents() for row in cells_of(tab.locator(".runs-settings tbody")))
    assert texts == [["model.d_ff", "32", "64"], ["training.seed", "1", "7"]]
    tab.get_by_label("Show all settings").check()
    assert rows.count() > 60
    assert tab.locator(".runs-settings .differs").count() == 2


def test_choosing_runs_changes_curves_and_address_but_no_colors(opened):
    tab = opened()
    color = "getComputedStyle(document.querySelector('.curves-legend [data-run=second] g')).color"
    before = tab.evaluate(color)
    tab.locator("input[value=first]").uncheck()
    assert [text[:6] for text in legend(tab)] == ["second"]
    assert tab.evaluate(color) == before
    assert "runs=second" in hash_of(tab)
    tab.locator("input[value=first]").check()
    assert [text[:5] for text in legend(tab)] == ["secon", "first"]


def test_table_and_saved_numbers_are_those_of_the_file(opened, run):
    tab = opened("#/runs?runs=first")
    tab.locator(".runs-chart summary").first.click()
    tab.locator(".runs-chart tbody tr").first.wait_for()
    rows = [row.all_text_contents() for row in cells_of(tab.locator(".runs-chart tbody").first)]
    assert [row[:2] for row in rows] == [[str(step), short(loss)] for step, loss in measured(run, "loss")]
    tab.locator(".curves .save > button").first.click()
    _, numbers = saved(tab, tab.locator(".curves [aria-label='Save as JSON']").first.click)
    curves = json.loads(numbers)["curves"]
    assert [(point["step"], point["value"]) for point in curves[0]["points"]] == measured(run, "loss")
    _, picture = saved(tab, tab.locator(".curves [aria-label='Save as SVG']").first.click)
    assert b"<path" in picture
    assert b"Loss" in picture


@pytest.fixture
def timelapse(opened):
    def open_timelapse(more="", **settings):
        tab = opened(f"#/runs?runs=first&timelapse=first&text={TEXT.replace(' ', '+')}{more}", **settings)
        tab.wait_for_selector("#timelapse [aria-busy=false]")
        return tab

    return open_timelapse


def test_time_lapse_has_the_probabilities_and_the_writings_of_every_snapshot(timelapse, run):
    tab = timelapse()
    target = pipeline_at(run, None).trace(TEXT).target.text
    rows = tab.locator(".timelapse-probabilities tbody tr").all()
    for row, step in zip(rows, [0, 1, 2, 4, 8, None], strict=True):
        model = pipeline_at(run, step)
        trace = model.trace(TEXT, target=target)
        shown = row.locator("td").all_text_contents()
        assert shown[:-1] == [Shown(math.exp(step.log_probability)) for step in trace.steps]
        assert shown[-1] == tab.evaluate(VISIBLE, model.trace(TEXT).target.text)
    assert tab.locator(".timelapse-probabilities thead th").count() == len(trace.steps) + 2
    assert tab.locator(".timelapse-output b").inner_text() == tab.evaluate(VISIBLE, target)


def test_slider_shows_the_attention_of_that_snapshot(timelapse, run):
    tab = timelapse("&snapshot=1")
    target = pipeline_at(run, None).trace(TEXT).target.text
    tab.get_by_label("Picture", exact=True).select_option("matrix")
    for step in (1, 2, 4):
        weights = pipeline_at(run, step).trace(TEXT, target=target).attention("decoder.0.cross_attention")[0]
        assert f"Step {step} ·" in tab.locator(".step-label").inner_text()
        tab.locator("#timelapse .numbers summary").click()  # another trace, another table
        tab.locator("#timelapse .numbers tbody td").first.wait_for()
        cells = tab.locator("#timelapse .numbers tbody td").all_text_contents()
        assert cells == [Shown(float(weight)) for weight in weights.flat]
        tab.get_by_label("Next snapshot").click()


def test_switch_shows_what_each_would_have_written(timelapse, run):
    tab = timelapse("&own=1&snapshot=2")
    trace = pipeline_at(run, 2).trace(TEXT)
    units = tab.locator("#timelapse .lines svg .unit[data-row=target]")
    units.first.wait_for()  # drawn once there is room for it
    assert units.count() == len(trace.target.tokens)


def test_playing_goes_through_all_snapshots(timelapse):
    tab = timelapse(fresh=True)
    tab.clock.install(time=0)
    tab.clock.pause_at(1)  # from here on it stands still unless it is told to run
    tab.get_by_role("button", name="Play").click()
    seen = []
    for _ in range(6):
        seen.append(tab.locator(".step-label").inner_text())
        tab.clock.run_for(900)
    assert [text.split(" ·")[0] for text in seen] == [f"Step {name}" for name in ("0", "1", "2", "4", "8", "8, best")]
    tab.get_by_role("button", name="Play").wait_for()


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (390, "dark")])
def test_everything_can_be_read_and_stays_in_its_width(timelapse, width, theme):
    tab = timelapse(width=width, theme=theme)
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert tab.evaluate(UNREADABLE, MIN_CONTRAST) == []
    assert tab.evaluate(CUT) == []


def test_an_empty_folder_says_so(tabs, models, tmp_path):
    with served({"gpt": models["gpt"]}, tmp_path) as address:
        tab = tabs("#/runs", url=address, fresh=True)
        tab.get_by_text("No runs in this folder yet").wait_for()
        assert tab.locator("#timelapse").is_hidden()


def test_without_runs_there_is_no_such_view(tab):
    tab.wait_for_selector("#bar nav a[aria-current=page]")
    assert "Runs" not in tab.locator("#bar nav a").all_text_contents()
