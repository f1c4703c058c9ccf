"""Training runs, task by task: from a file to a model folder that works."""

import json
import threading

import pytest

import sightline
from sightline import bundle
from sightline.errors import ModelFileError, RefusedError, SettingsError
from sightline.runs import train
from sightline.runs.folder import encoded_folder
from sightline.runs.prepare import prepare
from sightline.runs.run_record import read_adapted, read_run_record, write_run_record
from sightline.runs.training_run import resolve_recipe
from sightline.runtime import choose_device
from sightline.storage import SHARED_LOCK, wait_for_lock
from sightline.tasks.registry import TASKS as TASK_ROWS
from sightline.training.distributed import Rank
from sightline.training.metrics import read_metrics
from sightline.training.report import SilentReporter
from turns import LONG, waiting_noticed

from .small import overrides, weights_of, write_corpus

TASKS = ("translation", "chat", "language-model", "masked-language-model", "classification")


def train_small(tmp_path, task: str, **more):
    reporter = SilentReporter()
    out = tmp_path / "runs" / "one"
    return train(task, overrides(tmp_path, task, **more), out=out, reporter=reporter), reporter


@pytest.fixture(scope="module", params=TASKS)
def run(request, tmp_path_factory):
    """One small run of each task, looked at by several tests."""
    result, reporter = train_small(tmp_path_factory.mktemp("run"), request.param)
    return request.param, result, reporter


def test_a_run_leaves_a_model_that_does_its_task(run):
    task, result, _ = run
    model = sightline.load(result.folder)
    answers = {
        "translation": lambda: model.translate("red cat"),
        "chat": lambda: model.reply(["red cat"]),
        "language-model": lambda: model.generate("red cat", max_new_tokens=5),
        "masked-language-model": lambda: model.fill("red [MASK] cat")[0].candidates[0].text,
        "classification": lambda: model.classify(["red cat"])[0].label,
    }
    assert isinstance(answers[task](), str)
    assert model.neighbors("red", n=3)


def test_a_run_writes_its_record_and_metrics(run):
    task, result, _ = run
    record = json.loads((result.folder / "run.json").read_text(encoding="utf-8"))
    assert record["resolved"]["task"] == task
    assert record["resolved"]["training"]["max_steps"] == 6
    assert record["outcome"]["stop_reason"] == "steps"
    assert record["outcome"]["scores"]["validation_loss"] > 0
    records = read_metrics(result.folder / "metrics.jsonl")
    assert [record["step"] for record in records if "loss" in record] == [1, 2, 3, 4, 5, 6]
    assert [record["step"] for record in records if "validation_loss" in record] == [3, 6]


def test_the_model_card_has_data_training_and_scores(run):
    _, result, _ = run
    card = (result.folder / "model" / "README.md").read_text(encoding="utf-8")
    for heading in ("Task", "Data", "Training", "Scores on the validation set"):
        assert f"## {heading}" in card
    assert "seed 1" in card


def test_a_run_prints_an_estimate_and_the_next_command(run):
    _, result, reporter = run
    assert any("parameters, about" in message for message in reporter.messages)
    assert reporter.messages[-1].startswith(f"the model is in {result.folder / 'model'}; to use it: sightline ")
    assert reporter.samples or reporter.validations


def test_a_finished_run_continues_with_more_steps_as_if_uninterrupted(tmp_path):
    short, _ = train_small(tmp_path, "translation", **{"training.schedule": "constant", "training.learning_rate": 0.01})
    train(None, {"training.max_steps": 9}, out=short.folder, resume=True)
    whole = train(
        "translation",
        overrides(
            tmp_path,
            "translation",
            **{"training.schedule": "constant", "training.learning_rate": 0.01, "training.max_steps": 9},
        ),
        out=tmp_path / "runs" / "two",
    )
    losses = [
        [r["loss"] for r in read_metrics(f / "metrics.jsonl") if "loss" in r] for f in (short.folder, whole.folder)
    ]
    assert losses[0] == losses[1]
    assert len(losses[0]) == 9


def test_the_recipe_in_the_record_is_the_same_after_a_resume(tmp_path):
    result, _ = train_small(tmp_path, "translation")
    before = json.loads((result.folder / "run.json").read_text(encoding="utf-8"))["recipe"]
    for more in ({}, {"training.max_steps": 7}):
        train(None, more, out=result.folder, resume=True)
        after = json.loads((result.folder / "run.json").read_text(encoding="utf-8"))["recipe"]
        assert after == {**before, "training": {**before["training"], **{k[9:]: v for k, v in more.items()}}}


def test_a_run_cannot_be_resumed_with_other_settings(tmp_path):
    result, _ = train_small(tmp_path, "translation")
    with pytest.raises(RefusedError, match=r"training\.seed was 1 and is 2"):
        train(None, {"training.seed": 2}, out=result.folder, resume=True)


def test_a_run_cannot_be_resumed_with_other_data(tmp_path):
    result, _ = train_small(tmp_path, "translation")
    write_corpus(tmp_path, "translation", n=70)
    with pytest.raises(RefusedError, match=r"data\.sha256 was"):
        train(None, out=result.folder, resume=True)


def test_a_folder_with_a_run_is_not_overwritten(tmp_path):
    result, _ = train_small(tmp_path, "translation")
    with pytest.raises(RefusedError, match="already holds a run: add --resume"):
        train("translation", overrides(tmp_path, "translation"), out=result.folder)


def test_a_model_can_use_the_tokenizer_of_another(tmp_path):
    """To compare models, they must differ in nothing else; the vocab_size of the recipe does not count."""
    first, _ = train_small(tmp_path, "masked-language-model")
    settings = overrides(tmp_path, "classification", **{"tokenizer.path": str(first.folder), "training.seed": 2})
    with pytest.raises(SettingsError, match=r"tokenizer\.path already sets vocab_size: leave them out"):
        train("classification", settings, out=tmp_path / "runs" / "a")
    del settings["tokenizer.vocab_size"]
    with pytest.raises(SettingsError, match="no token for end, start, which language-model needs"):
        train("language-model", settings, out=tmp_path / "runs" / "a")
    with pytest.raises(SettingsError, match=r"model\.init_from already sets the tokenizer: leave tokenizer\.path out"):
        train("classification", {**settings, "model.init_from": str(first.folder)}, out=tmp_path / "runs" / "a")
    second = train("classification", settings, out=tmp_path / "runs" / "b")
    ours, theirs = (bundle.load(folder) for folder in (second.folder, first.folder))
    assert ours.tokenizer.to_json() == theirs.tokenizer.to_json()
    assert ours.model.config.vocab_size == theirs.model.config.vocab_size
    name = "encoder.layers.0.self_attention.query.weight"
    assert (dict(ours.model.named_parameters())[name] - dict(theirs.model.named_parameters())[name]).abs().max() > 1e-2


def test_there_must_be_something_to_resume(tmp_path):
    with pytest.raises(RefusedError, match="holds no run to resume"):
        train("translation", out=tmp_path / "nothing", resume=True)
    with pytest.raises(SettingsError, match="name a recipe, or a run to resume"):
        train(None)


def test_the_same_seed_gives_the_same_model_and_the_corpus_is_encoded_once(tmp_path):
    first = train("translation", overrides(tmp_path, "translation"), out=tmp_path / "runs" / "a")
    encoded = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs" / ".encoded").rglob("*")}
    second = train("translation", overrides(tmp_path, "translation"), out=tmp_path / "runs" / "b")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "runs" / ".encoded").rglob("*")} == encoded
    assert weights_of(first.folder) == weights_of(second.folder)


def test_a_corpus_that_another_run_is_encoding_is_waited_for(tmp_path):
    recipe, folder = resolve_recipe("translation", overrides(tmp_path, "translation"), tmp_path / "run", resume=False)
    options = {"rank": Rank(), "resume": False, "device": choose_device("cpu")}
    waiting = threading.Thread(target=prepare, args=(recipe, folder), kwargs=options)
    with wait_for_lock(encoded_folder(folder)), waiting_noticed() as is_about_to_wait:
        waiting.start()
        assert is_about_to_wait.wait(LONG)
        assert [path.name for path in encoded_folder(folder).iterdir()] == [SHARED_LOCK]
    waiting.join(LONG)
    assert not waiting.is_alive()
    assert len(list(encoded_folder(folder).iterdir())) > 1


def test_a_model_that_a_kill_left_between_two_names_is_put_back(tmp_path):
    result, _ = train_small(tmp_path, "translation")
    weights, model = weights_of(result.folder), result.folder / "model"
    model.rename(result.folder / "model.tmp-old")  # the last save, killed between its two renames
    train(None, out=result.folder, resume=True)
    assert weights_of(result.folder) == weights
    assert model.is_dir()
    assert not list(result.folder.rglob("*.tmp-*"))


def test_source_and_target_may_have_a_vocabulary_each(tmp_path):
    result, _ = train_small(tmp_path, "translation", **{"tokenizer.shared_vocab": False, "model.tie_embeddings": False})
    kept = bundle.load(result.folder)
    assert kept.target_tokenizer is not None
    assert kept.model.config.target_vocab_size == kept.target_tokenizer.vocab_size
    assert isinstance(sightline.load(result.folder).translate("red cat"), str)


def test_one_model_can_translate_into_several_languages(tmp_path):
    path = tmp_path / "many.tsv"
    ways = (("de", "rot"), ("fr", "rouge"))
    lines = [f"red {n}\t{word} {n}\t{language}" for n in range(40) for language, word in ways]
    path.write_text("\n".join(lines), encoding="utf-8")
    result, _ = train_small(tmp_path, "translation", **{"data.train": str(path), "data.languages": ["de", "fr"]})
    model = sightline.load(result.folder)
    assert model.languages == ("de", "fr")
    assert isinstance(model.translate("red 1", to="fr"), str)


def test_classification_of_pairs_and_of_words(tmp_path):
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("\n".join(f"red {n}\tblue {n}\t{'yes' if n % 2 else 'no'}" for n in range(40)), encoding="utf-8")
    result, _ = train_small(tmp_path, "classification", **{"data.train": str(pairs), "data.label_level": "pair"})
    assert sightline.load(result.folder).classify([("red 1", "blue 1")])[0].label in ("yes", "no")
    words = tmp_path / "words.jsonl"
    rows = [{"tokens": ["the", f"dog{n}"], "labels": ["DET", "NOUN"]} for n in range(40)]
    words.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    result = train(
        "classification",
        overrides(tmp_path, "classification", **{"data.train": str(words), "data.label_level": "token"}),
        out=tmp_path / "runs" / "words",
    )
    assert len(sightline.load(result.folder).tag(["the", "cat"])) == 2


def test_a_masked_language_model_can_be_fine_tuned_to_a_classifier(tmp_path):
    start, _ = train_small(tmp_path, "masked-language-model")
    sizes = ("model.d_model", "model.n_heads", "model.d_ff", "model.n_layers", "tokenizer.vocab_size")
    settings = {k: v for k, v in overrides(tmp_path, "classification").items() if k not in sizes}
    settings |= {"model.init_from": str(start.folder), "training.max_steps": 1, "training.learning_rate": 1e-12}
    result = train("classification", settings, out=tmp_path / "runs" / "fine")
    before, after = (dict(bundle.load(f).model.named_parameters()) for f in (start.folder, result.folder))
    name = "encoder.layers.0.self_attention.query.weight"
    assert (before[name] - after[name]).abs().max() < 1e-6
    with pytest.raises(SettingsError, match="is a bert, but translation needs a transformer or a gpt"):
        train(
            "translation", {"data.train": "x.tsv", "model.init_from": str(start.folder)}, out=tmp_path / "runs" / "no"
        )


def write_reviews(tmp_path):
    """Write texts whose class is one word, anywhere in the text."""
    rows = [f"{' '.join(f'w{(i * k) % 7}' for k in range(i % 5 + 2))} {'good' if i % 2 else 'bad'}" for i in range(80)]
    lines = "".join(f"{row} {i}\t{'up' if i % 2 else 'down'}\n" for i, row in enumerate(rows))
    (tmp_path / "reviews.tsv").write_text(lines, encoding="utf-8")
    return str(tmp_path / "reviews.tsv")


def test_a_classifier_is_compared_with_a_linear_model(tmp_path):
    """Six updates teach nothing; a bag of words is right at once, and is recommended."""
    result, reporter = train_small(tmp_path, "classification", **{"data.train": write_reviews(tmp_path)})
    assert result.scores["linear_model_accuracy"] == 100
    told = " ".join(reporter.messages)
    assert "a linear model of words has 100.0 %, this model only" in told
    assert "prefer a linear model" in told
    assert "starting from nothing: start from a model that has read plain text" in told
    assert bundle.load(result.folder).training.scores["linear_model_accuracy"] == 100


def test_a_resumed_run_keeps_what_was_chosen_for_its_few_examples(tmp_path):
    settings = {"data.train": write_reviews(tmp_path), "training.max_steps": 4}
    first = train("classification", settings, out=tmp_path / "run")
    record = read_run_record(first.folder)
    assert record["adapted"]["model.pooling"] == "mean"
    assert "pooling" not in record["recipe"]["model"]
    resumed = train(None, {"training.max_steps": 6}, out=tmp_path / "run", resume=True)
    assert read_run_record(resumed.folder)["adapted"].keys() == record["adapted"].keys()
    assert bundle.load(resumed.folder).model.config.pooling == "mean"


def test_a_resumed_run_of_an_earlier_version_keeps_its_size(tmp_path, monkeypatch):
    """It chose nothing for few examples."""
    settings = {**overrides(tmp_path, "classification"), "training.max_steps": 2}
    with monkeypatch.context() as earlier:
        earlier.setattr("sightline.runs.prepare.adapt_to_small_data", lambda recipe, *_, **__: recipe)
        first = train("classification", settings, out=tmp_path / "run")
    record = read_run_record(first.folder)
    del record["adapted"]
    write_run_record(first.folder, record)
    resumed = train(None, {"training.max_steps": 4}, out=tmp_path / "run", resume=True)
    assert bundle.load(resumed.folder).model.config.pooling == "first"


@pytest.mark.parametrize("adapted", [["model.pooling"], {"pooling": "mean"}, {"nothing.pooling": "mean"}])
def test_a_damaged_record_of_what_was_chosen_is_refused(adapted, tmp_path):
    with pytest.raises(ModelFileError, match="has invalid settings for a small dataset"):
        read_adapted({"adapted": adapted}, tmp_path)


@pytest.mark.parametrize(
    ("ours", "n", "sentence"),
    [
        (90.0, 5_000, "a linear model of words has 82.6 %, this model 90.0 %"),
        (78.2, 5_000, "a linear model of words has 82.6 %, this model only 78.2 %: prefer a linear model"),
        (84.0, 200, "this model 84.0 % (a difference below 7 points may be chance on 200 validation examples)"),
        (80.0, 200, "only 80.0 % (a difference below 8 points may be chance on 200 validation examples): prefer"),
    ],
)
def test_what_the_comparison_means_is_said(ours, n, sentence):
    scores = {"accuracy": ours, "linear_model_accuracy": 82.6}
    assert sentence in TASK_ROWS["classification"].comment_on(scores, n_validation=n)


def test_without_a_linear_model_there_is_nothing_to_compare():
    assert TASK_ROWS["classification"].comment_on({"accuracy": 78.2}, n_validation=200) is None


def init_settings(tmp_path, start, task: str, **more) -> dict[str, object]:
    """Settings of a run that begins as another model, with nothing that this one decides."""
    mine = overrides(tmp_path, task, **{"model.init_from": str(start.folder), "training.max_steps": 1, **more})
    kept = ("model.init_from", *more)
    return {name: value for name, value in mine.items() if name in kept or not name.startswith(("model.", "tokenizer"))}


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """A translator to begin from."""
    return train_small(tmp_path_factory.mktemp("start"), "translation", **{"model.max_length": 40})[0]


def test_init_from_names_the_settings_of_the_recipe_that_it_overrides(tmp_path, start):
    """A built-in recipe with a preset and a vocabulary, neither of which the initial model has."""
    corpus, reporter = write_corpus(tmp_path, "translation"), SilentReporter()
    files = {"data.train": str(corpus), **dict.fromkeys(("data.train_target", "data.valid", "data.valid_target"))}
    steps = {"training.max_steps": 4, "training.max_epochs": None, "training.warmup_steps": 1}
    settings = init_settings(tmp_path, start, "translation", **files, **steps)
    result = train("multi30k", settings, out=tmp_path / "fine", reporter=reporter)
    [line] = [warning for warning in reporter.warnings if "model.init_from decides" in warning]
    assert line.endswith("are not used: model.preset, tokenizer.vocab_size")
    assert bundle.load(result.folder).model.config.d_model == 16
    train(None, out=tmp_path / "fine", resume=True)  # the recipe that the run recorded is not refused


def test_init_from_does_not_name_settings_that_hold(tmp_path, start):
    vocab_size = bundle.load(start.folder).tokenizer.vocab_size
    reporter = SilentReporter()
    settings = init_settings(
        tmp_path, start, "translation", **{"model.d_model": 16, "tokenizer.vocab_size": vocab_size}
    )
    train("translation", settings, out=tmp_path / "fine", reporter=reporter)
    assert not [warning for warning in reporter.warnings if "init_from" in warning]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model.d_model", 32),
        ("model.size", "small"),
        ("model.preset", "transformer-tiny"),
        ("model.family", "gpt"),
        ("tokenizer.vocab_size", 500),
        ("tokenizer.kind", "words"),
        ("tokenizer.shared_vocab", False),
        ("data.max_length", 100),
    ],
)
def test_init_from_refuses_what_the_user_typed_and_cannot_hold(tmp_path, start, name, value):
    settings = init_settings(tmp_path, start, "translation", **{name: value})
    with pytest.raises(SettingsError, match=f"model.init_from already sets {name}: leave it out"):
        train("translation", settings, out=tmp_path / "fine")


def test_a_recipe_that_contradicts_its_own_init_from_is_refused(tmp_path, start):
    """In one file, one of the two settings is a mistake; typed beside a recipe, init_from is meant to replace."""
    own = tmp_path / "own.toml"
    own.write_text(f'task = "translation"\n[model]\ninit_from = "{start.folder}"\nd_model = 64\n', encoding="utf-8")
    settings = init_settings(tmp_path, start, "translation")
    del settings["model.init_from"]
    with pytest.raises(SettingsError, match=r"model\.init_from already sets model\.d_model"):
        train(str(own), settings, out=tmp_path / "fine")


def test_init_from_brings_the_family_of_its_model(tmp_path):
    """A decoder-only translator can be fine-tuned by the recipe whose usual family is another."""
    mine = {k: v for k, v in overrides(tmp_path, "translation").items() if "coder_layers" not in k}
    gpt = train("translation", {**mine, "model.family": "gpt", "model.n_layers": 1}, out=tmp_path / "gpt")
    result = train("translation", init_settings(tmp_path, gpt, "translation"), out=tmp_path / "fine")
    assert type(bundle.load(result.folder).model).__name__ == "GPT"


def test_languages_of_one_direction_are_recorded_and_change_nothing_else(tmp_path):
    named = {"data.source_language": "en", "data.target_language": "de"}
    plain, same = train_small(tmp_path, "translation")[0], tmp_path / "runs" / "named"
    result = train("translation", overrides(tmp_path, "translation", **named), out=same)
    task_config = bundle.load(result.folder).task_config
    assert (task_config.source_language, task_config.target_language) == ("en", "de")
    assert "Translates English to German." in bundle.load(result.folder).card
    assert weights_of(same) == weights_of(plain.folder)
    assert len(list(encoded_folder(same).glob("vocabulary-*"))) == 1  # the corpus is not read again
