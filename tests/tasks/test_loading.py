"""A model folder opens as the pipeline for its task, if the model can do it."""

import pytest

from bundle.tiny import TOKENIZER, tiny_model
from sightline import bundle
from sightline.bundle import Bundle, TaskConfig
from sightline.errors import ModelFileError
from sightline.model.registry import resolve
from sightline.pipelines import Chat, Classifier, Filler, Generator, Pipeline, Translator
from sightline.tasks import TASKS, load, pipeline_for

HEADS = {"heads": ["sequence_classification"], "n_classes": 3}


@pytest.mark.parametrize(
    ("task", "architecture", "settings", "kind"),
    [
        ("translation", "transformer", {}, Translator),
        ("chat", "transformer", {}, Chat),
        ("language-model", "gpt", {}, Generator),
        ("classification", "bert", HEADS, Classifier),
    ],
)
def test_folder_opens_as_the_pipeline_of_its_task(task, architecture, settings, kind, tmp_path):
    model = tiny_model(architecture, **settings)
    bundle.save(Bundle(model, TOKENIZER, task_config=TaskConfig(task)), tmp_path / "model")
    assert type(load(tmp_path / "model")) is kind


@pytest.mark.parametrize(
    ("architecture", "settings", "kind"),
    [
        ("transformer", {}, Translator),
        ("gpt", {}, Generator),
        ("bert", HEADS, Classifier),
        ("bert", {"heads": ["token_classification"]}, Classifier),
        ("bert", {"heads": []}, Pipeline),
    ],
)
def test_folder_without_a_task_opens_by_interface_and_heads(architecture, settings, kind):
    assert type(pipeline_for(Bundle(tiny_model(architecture, **settings), TOKENIZER))) is kind


@pytest.mark.parametrize(
    ("task_config", "extra_input"),
    [
        (TaskConfig("classification", pair=False), None),
        (TaskConfig("classification", pair=True), "pair"),
        (TaskConfig("classification", per_word=True), None),
        (TaskConfig("classification"), "optional pair"),  # a folder of an earlier version
        (None, "optional pair"),
    ],
)
def test_studio_offers_a_second_text_where_the_model_reads_pairs(task_config, extra_input):
    model = pipeline_for(Bundle(tiny_model("bert", **HEADS), TOKENIZER))
    model.task_config = task_config
    assert TASKS["classification"].view_of(model).extra_input == extra_input


def test_masks_need_a_head_and_a_mask_token():
    from pipelines.tiny import filler_bundle

    found = filler_bundle()
    assert type(pipeline_for(Bundle(found.model, found.tokenizer))) is Filler


@pytest.mark.parametrize(
    ("task_config", "architecture", "settings", "reason"),
    [
        (TaskConfig("translation"), "bert", {}, "needs the architecture transformer or gpt, not bert"),
        (TaskConfig("masked-language-model"), "bert", HEADS, "has no head mlm"),
        (TaskConfig("classification", per_word=True), "bert", HEADS, "has no head token_classification"),
        (TaskConfig("classification", labels=("a", "b")), "bert", HEADS, "lists 2 labels, but the model has 3 classes"),
        (
            TaskConfig("language-model", labels=("a",)),
            "gpt",
            {},
            'has the entry "labels", which is not for',
        ),
        (TaskConfig("languge-model"), "gpt", {}, r"has the task 'languge-model', .*\(did you mean language-model\?\)"),
    ],
)
def test_model_that_cannot_do_its_task_is_refused(task_config, architecture, settings, reason, tmp_path):
    bundle.save(Bundle(tiny_model(architecture, **settings), TOKENIZER, task_config=task_config), tmp_path / "model")
    with pytest.raises(ModelFileError, match=rf"config\.json: .*{reason}"):
        load(tmp_path / "model")


def test_entry_that_older_folders_have_for_every_task_is_no_mismatch(tmp_path):
    task_config = TaskConfig("translation", context_turns=1)
    bundle.save(Bundle(tiny_model("transformer"), TOKENIZER, task_config=task_config), tmp_path / "model")
    assert type(load(tmp_path / "model")) is Translator


def test_snapshot_of_an_unknown_task_is_refused_as_any_folder_is():
    with pytest.raises(ModelFileError, match="has the task 'poetry', which this Sightline does not know"):
        pipeline_for(Bundle(tiny_model("gpt"), TOKENIZER, task_config=TaskConfig("poetry")))


@pytest.mark.parametrize("task", TASKS.values(), ids=lambda task: task.name)
def test_row_and_pipeline_agree(task):
    kind = resolve(task.pipeline)
    assert kind.generates == task.generates
    assert {resolve(interface) for interface in task.interfaces} == set(kind.interfaces)
