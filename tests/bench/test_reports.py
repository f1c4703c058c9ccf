"""What the benchmarks print, the limits beside it, growth curves, and the chart."""

import json
import re

import pytest
import torch

from sightline.bench import trace
from sightline.bench.chart import draw_charts, duration, speed
from sightline.bench.contenders import Plan, Result
from sightline.bench.growth import Curve, Growth, GrowthReport, bends, describe_bends, doubled, measure_growth, powers
from sightline.bench.limits import Machine, count_flops, describe_machine, gemm_rates, read_rate
from sightline.bench.measure import Timing
from sightline.bench.memory import read_memory
from sightline.bench.report import Limit, Report
from sightline.bench.shapes import Shape
from sightline.bench.train import flops_of_step
from sightline.cli.main import main
from sightline.errors import InputError
from sightline.model.attention import attend_fused

MACHINE = Machine("A processor", ("avx2",), 2, 2, {"torch": "2.13.0"}, 0.0)
RESULTS = [
    Result("sightline", timing=Timing("sightline", (0.010, 0.012)), peak_bytes=5_000_000),
    Result("peer", "compiled", Timing("peer", (0.020, 0.036))),
    Result("absent", error="not installed: absent"),
]
REPORT = Report("train", "Training step, tiny", RESULTS, MACHINE, 110, [Limit("products alone", 0.0055)], ["remark"])


def test_report_has_ratios_limits_and_failures():
    text = REPORT.as_text()
    assert re.search(r"sightline +11\.0 ms \(10\.5–11\.5\) +10,000 tokens/s +5 MB\n", text)
    assert "peer (compiled)" in text
    assert "sightline is 2.50× as fast" in text
    assert "absent           not installed: absent" in text
    assert "limit: products alone 5.50 ms; sightline takes 2.0×" in text
    assert text.endswith("remark")
    found = REPORT.as_json()
    assert [one["ratio"] for one in found["results"]] == [1.0, 2.5, None]
    assert found["results"][2]["error"] == "not installed: absent"
    assert json.loads(json.dumps(found)) == json.loads(json.dumps(found))


def test_times_of_other_work_are_not_compared():
    other = Result("import", timing=Timing("import", (0.001, 0.001)), is_peer=False)
    assert Report("startup", "", [RESULTS[0], other], MACHINE).ratio(other) is None


def test_powers_and_bends_of_a_curve():
    values = doubled(1, 64)
    assert values == [1, 2, 4, 8, 16, 32, 64]
    assert doubled(64, 1) == []
    flat_then_linear = [1.0, 1.0, 1.0, 1.0, 2.0, 4.0, 8.0]
    assert powers(values, flat_then_linear) == [0, 0, 0, 1, 1, 1]
    [(at, low, high)] = bends(values, flat_then_linear)
    assert (at, round(low), round(high)) == (8, 0, 1)
    assert describe_bends(values, Curve("a", tuple(flat_then_linear))) == "grows with power 0.0 up to 8, 1.0 from 8"
    assert describe_bends(values, Curve("a", tuple(map(float, values)))) == "grows with power 1.0 throughout"
    assert powers([1, 2, 4], [1.0, None, 4.0]) == [None, None]
    assert describe_bends([1, 2], Curve("a", (None, None))) == "too few points"


def test_noise_is_no_bend():
    values = doubled(1, 64)
    wobbly = [1.0, 2.1, 3.9, 8.3, 15.8, 33.0, 62.0]
    assert bends(values, wobbly) == []


def test_growth_goes_on_where_a_contender_fails():
    seen = []

    def run(contenders, arguments):
        seen.append(arguments)
        failed = Result("b", error="too long") if arguments["n"] > 1 else Result("b", timing=Timing("b", (1.0,)))
        return [Result("a", timing=Timing("a", (float(arguments["n"]),))), failed]

    class Told(Plan):
        def run(self, contenders, arguments, *, with_output=False):
            return run(contenders, arguments)

    found = measure_growth("x", "About", Growth("n", [1, 2, 4]), [], lambda n: {"n": n}, Told(1))
    assert [one["n"] for one in seen] == [1, 2, 4]
    assert found.curves == [Curve("a", (1.0, 2.0, 4.0)), Curve("b", (1.0, None, None))]
    assert "failed" in found.as_text()
    assert found.as_json()["curves"][0]["powers"] == [1, 1]


def test_charts_are_drawn_from_json(tmp_path, capsys):
    first, grown = tmp_path / "train.json", tmp_path / "grown.json"
    first.write_text(json.dumps(REPORT.as_json()))
    curves = [Curve("sightline", (0.1, 0.2, None)), Curve("peer", (0.2, 0.5, 1.0))]
    grown.write_text(json.dumps(GrowthReport("train", "Growing", "length", [64, 128, 256], curves, MACHINE).as_json()))
    assert main(["bench", "chart", str(first), str(first), "--out", str(tmp_path / "speed.svg")]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "speed.svg")
    picture = (tmp_path / "speed.svg").read_text()
    assert picture.count("Training step, tiny") == 2
    assert "2.55×" in picture  # of the medians: 28 ms and 11
    draw_charts([grown], tmp_path / "grown.svg")
    assert "How times grow" in (tmp_path / "grown.svg").read_text()
    with pytest.raises(InputError, match="draw them apart"):
        draw_charts([first, grown], tmp_path / "both.svg")
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(InputError, match="is not what `sightline bench … --json` prints"):
        draw_charts([tmp_path / "other.json"], tmp_path / "x.svg")
    with pytest.raises(InputError, match="cannot read"):
        draw_charts([tmp_path / "none.json"], tmp_path / "x.svg")


def test_speed_is_relative_to_the_fastest_peer():
    names = {"sightline": 2.0, "sightline native int8": 1.0, "before": 3.0, "other": 4.0, "slow": 8.0}
    rows = [{"name": name, "median_seconds": seconds} for name, seconds in names.items()]
    assert [speed(row, rows) for row in rows] == [2.0, 4.0, 4 / 3, 1.0, 0.5]  # no engine of ours is a peer
    assert speed(rows[0], rows[:1]) == 1.0
    assert [duration(one) for one in (2.34, 0.5, 0.0012)] == ["2.3 s", "500 ms", "1.2 ms"]


def test_limits_are_measured():
    rates = gemm_rates()
    assert rates.best >= rates.fp32 >= rates.fp32_mkl > 0
    assert read_rate(1_000_000) > 0
    machine = describe_machine()
    assert machine.cores >= machine.threads >= 1
    assert machine.processor
    assert machine.processor in str(machine)


def test_products_are_counted_with_those_of_attention():
    x, weight = torch.randn(3, 5), torch.randn(7, 5)
    assert count_flops(lambda: torch.nn.functional.linear(x, weight)) == 2 * 3 * 5 * 7
    heads = torch.randn(2, 4, 6, 8)
    assert count_flops(lambda: attend_fused(heads, heads, heads)) == 2 * (2 * 2 * 4 * 6 * 6 * 8)


def test_a_step_of_twice_the_layers_has_more_products():
    one, two = (flops_of_step(Shape("tiny", batch=4, vocabulary=100, layers=n)) for n in (1, 2))
    assert one < two < 2 * one


def test_every_variant_of_tracing_generates_thirty_tokens():
    """Who looks less must not have less to look at."""
    work = trace.translator("tiny")
    assert len(work.tokenizer.encode(trace.SENTENCE)) == trace.N_TOKENS
    [[translation]] = work.translations([trace.SENTENCE])
    assert len(translation.tokens) in (trace.N_TOKENS - 1, trace.N_TOKENS)
    sizes = {}
    for variant, options in trace.VARIANTS.items():
        if options is not None:
            seen = work.trace(trace.SENTENCE, **options)
            assert len(seen.steps) == trace.N_TOKENS
            sizes[variant] = seen.size
    assert sizes["all activations, logit lens"] > sizes["attention"] == sizes["attention, logit lens"] > 0


def test_memory_is_that_of_the_process():
    resident = read_memory("VmRSS")
    assert resident == 0 or read_memory("VmHWM") >= resident > 50_000_000
