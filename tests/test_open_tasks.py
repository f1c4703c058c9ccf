"""A task from outside, done by a family from outside: nothing in the package knows of either.

It is trained, resumed, decoded, evaluated, traced and served like the built-in ones.
"""

import io

import pytest

from serving.standing import standing
from serving.wire import asking
from sightline.errors import InputError, ModelFileError, SettingsError
from sightline.model import registry as families
from sightline.model.interfaces import CausalLM
from sightline.pipelines import Generator
from sightline.runs import train
from sightline.runs.recipe import build_recipe, read_recipe
from sightline.runs.show_config import config_lines
from sightline.serving.http import ServingSettings
from sightline.serving.service import service
from sightline.tasks import TASKS, RequestField, StudioView, Task, load, register
from sightline.tasks.evaluation import evaluate
from sightline.training.metrics import ValidationResult
from sightline.training.report import PlainReporter, Sample
from test_open_families import Bigram, BigramConfig

COUNT = "one two three four five six seven eight nine ten"


class Counter(Generator):
    """Counts on from a number."""

    def count_from(self, number: str, **overrides: object) -> str:
        return self.generate(number, **overrides)


class Counting(Task):
    """Learns lists of numbers, and continues them."""

    name = "counting"
    does = "counts"
    interfaces = ("sightline.model.interfaces:CausalLM",)
    default_family = "bigram"
    pipeline = f"{__name__}:Counter"
    command = "count"
    generates = True
    running_text = True
    evaluation_sets = ("text",)
    request = (RequestField("number", str, "Where to begin."), RequestField("times", int, "How often.", 1, maximum=3))
    view = StudioView(label="Number", verb="Count", beam=1)

    def record_fields(self, data):
        return ("text",)

    def build_encoder(self, settings, tokenizers, labels):
        from sightline.data.datasets.encoding import TextEncoder

        return TextEncoder(tokenizers.source, append_end=True)

    def batch_source(self, settings, plan):
        from sightline.data.datasets.batch_source import TextBatchSource

        return TextBatchSource(
            plan.split.dataset, plan.split.selected, plan.rank_slice, tokenizer=plan.tokenizers.source,
            length=plan.block_length, random_offset=plan.training,
        )  # fmt: skip

    def validate(self, validation):
        counted = validation.pipeline.count_from("two three", max_new_tokens=3)
        score = ("numbers", float(len(counted.split())))
        return ValidationResult(validation.loss, score, True, {}, (Sample("two three", counted, " four five six"),))

    def evaluate(self, pipeline, examples, options):
        from sightline.evaluation.report import Report

        return Report({"lines": len(examples.lines())})

    def example(self, pipeline):
        return {"text": "three"}

    def example_request(self, pipeline):
        return {"number": "three"}

    def read_request(self, pipeline, values):
        if values["number"] == "zero":
            raise InputError("is not learned", option="number")
        return [values["number"]] * values["times"], {}


@pytest.fixture(autouse=True)
def outside():
    """Register the family and the task for one test."""
    families.register(
        families.Family("bigram", "A model of pairs", BigramConfig, Bigram, CausalLM, roles=("start", "end"))
    )
    register(Counting())
    yield
    del TASKS["counting"], families.FAMILIES["bigram"]


def recipe(tmp_path) -> dict[str, object]:
    text = tmp_path / "text.txt"
    text.write_text(f"{COUNT}\n\n" * 40)
    return {
        "task": "counting",
        "data": {"train": str(text), "valid": str(text)},
        "tokenizer": {"kind": "words"},
        "model": {"d_model": 24, "max_length": 16, "dropout": 0.0},
        "training": {
            "schedule": "constant", "learning_rate": 0.05, "warmup_steps": 0, "batch_tokens": 300, "max_steps": 80,
            "checkpoint_every": 40,
        },
        "decoding": {"max_new_tokens": 12},
    }  # fmt: skip


@pytest.fixture
def run(tmp_path):
    return train(recipe(tmp_path), out=tmp_path / "run")


def test_task_trains_the_family_and_decodes(run):
    assert run.scores["numbers"] == 3
    model = load(run.folder)
    assert type(model) is Counter
    assert type(model.model) is Bigram
    assert model.count_from("six seven") == " eight nine ten"
    assert model.count_from("six seven", beam_size=2) == " eight nine ten"


def test_run_names_the_next_command(tmp_path):
    settings, said = recipe(tmp_path), io.StringIO()
    settings["training"]["max_steps"] = 2
    train(settings, out=tmp_path / "run", reporter=PlainReporter(said))
    assert f'to use it: sightline count {tmp_path}/run "…"' in said.getvalue()


def test_task_is_evaluated_by_its_own_metrics(run, tmp_path):
    test_set = tmp_path / "test.txt"
    test_set.write_text("one two\nthree\n")
    assert evaluate(run.folder, text=test_set).values == {"lines": 2}
    with pytest.raises(InputError, match="`labeled`: not for this model: give text"):
        evaluate(run.folder, labeled=test_set)


def test_task_is_traced(run):
    trace = load(run.folder).trace("six seven")
    assert (trace.task, trace.family, trace.target.text) == ("counting", "bigram", " eight nine ten")


def test_task_is_served_by_its_request_fields(run):
    app = service({"numbers": load(run.folder)}, ServingSettings(port=0))
    with standing(app) as server, asking(server.url) as http:
        answer = http.post("/tasks/counting", json={"number": "six seven", "times": 2, "max_tokens": 2})
        assert [[one["text"] for one in several] for several in answer.json()["data"]] == [[" eight nine"]] * 2
        [card] = http.get("/v1/models").json()["data"]
        assert (card["task"], card["endpoint"], card["view"]["verb"]) == ("counting", "POST /tasks/counting", "Count")
        refused = http.post("/tasks/counting", json={"number": "zero"}).json()["error"]
        assert (refused["param"], refused["message"]) == ("number", "is not learned")
        for body in ({"number": "one", "times": 4}, {"numbr": "one"}, {"number": 1}):
            assert http.post("/tasks/counting", json=body).status_code == 400
        assert (
            "this one counts: use POST /tasks/counting"
            in http.post("/v1/completions", json={"model": "numbers", "prompt": "one"}).json()["error"]["message"]
        )
        assert http.get("/openapi.json").json()["paths"]["/tasks/counting"]["post"]


def test_config_of_the_task_is_shown(tmp_path):
    shown = "\n".join(config_lines(build_recipe(recipe(tmp_path), name="counting", where="test")))
    assert 'task = "counting"' in shown
    assert "d_pair = 8" in shown


def test_model_of_an_unknown_task_is_refused(run, monkeypatch):
    monkeypatch.delitem(TASKS, "counting")
    with pytest.raises(ModelFileError, match="has the task 'counting', which this Sightline does not know"):
        load(run.folder)
    TASKS["counting"] = Counting()


def test_task_without_a_file_is_named(tmp_path):
    with pytest.raises(SettingsError, match=r"task is 'countng', not one of .*did you mean counting"):
        build_recipe({"task": "countng"}, name="x", where="x")
    assert read_recipe("translation").task == "translation"


def test_name_is_registered_once():
    with pytest.raises(ValueError, match="the task counting is registered already"):
        register(Counting())
