"""What 0.1.0 wrote is still read: three model folders, and a run that was stopped in the middle of an accumulation.

The folders in tests/fixtures/0.1.0 were written by 0.1.0 itself, with every setting that has another name or value
today. `outputs.json` is what it computed with its models, `uninterrupted.jsonl` the log of the same run not stopped.
"""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import sightline
from sightline import bundle
from sightline.bundle.manifest import FORMAT
from sightline.bundle.migration import migrate_config, migrate_run_record, migrate_state, migrate_weight
from sightline.errors import SettingsError
from sightline.renames import SETTINGS
from sightline.runs.recipe import apply_overrides, build_recipe, read_recipe
from sightline.runs.run_record import read_run_record
from sightline.training.metrics import read_metrics

OLD = Path(__file__).parents[1] / "fixtures" / "0.1.0"
OUTPUTS = json.loads((OLD / "outputs.json").read_text(encoding="utf-8"))
IDS = torch.tensor([[5, 9, 20, 31], [7, 8, 40, 12]])
TIMED = ("seconds", "tokens_per_second")


def computed(name: str) -> dict[str, torch.Tensor]:
    """Return what today's code computes with a model of 0.1.0, by head."""
    model = bundle.load(OLD / name).model.eval()
    with torch.no_grad():
        if name == "translation":
            return {"": model(IDS, IDS[:, :3])}
        if name == "language-model":
            return {"": model(IDS)}
        hidden = model(IDS)
        pooled = model.pool(hidden)
        return {
            "mlm": model.mlm(hidden),
            "nsp": model.nsp(pooled),
            "sequence_classification": model.sequence_classification(pooled),
            "token_classification": model.token_classification(hidden),
        }


@pytest.mark.parametrize("name", ["translation", "masked-language-model", "language-model"])
def test_a_model_of_0_1_0_computes_what_it_computed(name):
    expected = OUTPUTS[name] if isinstance(OUTPUTS[name], dict) else {"": OUTPUTS[name]}
    found = computed(name)
    assert found.keys() == expected.keys()
    for head, values in found.items():
        torch.testing.assert_close(values, torch.tensor(expected[head]), atol=1e-4, rtol=1e-4)


def test_settings_of_0_1_0_keep_their_values():
    loaded = bundle.load(OLD / "translation")
    config, generation = loaded.model.config, loaded.generation
    assert (config.pre_norm, config.positions, config.rope_theta, config.norm_eps) == (True, "rope", 500.0, 1e-6)
    assert (config.scale_embeddings, config.tie_embeddings) == (False, False)
    assert (generation.beam_size, generation.max_new_tokens, generation.no_repeat_ngram_size) == (3, 20, 2)
    assert (generation.include_prompt, generation.bad_words, generation.forced_words) == (True, ((9, 8),), ((7,),))
    assert bundle.load(OLD / "language-model").generation.do_sample
    assert bundle.load(OLD / "run").task_config.context_turns == 2


def test_a_model_of_0_1_0_is_saved_in_todays_words(tmp_path):
    for name in ("translation", "masked-language-model", "language-model"):
        before = bundle.load(OLD / name)
        bundle.save(before, tmp_path / name)
        config = json.loads((tmp_path / name / "config.json").read_text(encoding="utf-8"))
        assert config["format"] == FORMAT
        assert not SETTINGS["model"].keys() & config["model"].keys()
        after = bundle.load(tmp_path / name).model.state_dict()
        assert all(torch.equal(after[key], value) for key, value in before.model.state_dict().items())


def records(run: Path) -> list[dict]:
    return [
        {name: value for name, value in one.items() if name not in TIMED} for one in read_metrics(run / "metrics.jsonl")
    ]


@pytest.fixture
def old_run(tmp_path, monkeypatch):
    """A run of 0.1.0 as its folder lay there, 14 batches of three an update done: two wait for the fifth update."""
    shutil.copytree(OLD / "run", tmp_path / "run")
    shutil.copy(OLD / "dialogues.jsonl", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "run"


def test_a_run_of_0_1_0_goes_on_as_if_it_had_not_been_stopped(old_run):
    """Its log is that of the run that was not stopped, whose last digits are another processor's."""
    result = sightline.train(None, out=old_run, resume=True)
    assert result.stop_reason == "steps"
    lines = (OLD / "uninterrupted.jsonl").read_text(encoding="utf-8").splitlines()
    found, expected = records(old_run), [json.loads(line) for line in lines]
    assert len(found) == len(expected)
    for mine, theirs in zip(found, expected, strict=True):
        assert mine == pytest.approx({name: value for name, value in theirs.items() if name not in TIMED}, rel=1e-3)


def test_a_run_of_0_1_0_goes_on_to_the_last_bit(old_run, tmp_path):
    """Resumed from the old files, and from the same state written anew in between: the same weights and losses."""
    again = tmp_path / "again"
    shutil.copytree(old_run, again)
    sightline.train(None, ["training.max_steps=5"], out=again, resume=True)  # ends with a checkpoint of today's
    sightline.train(None, ["training.max_steps=8"], out=again, resume=True)
    sightline.train(None, out=old_run, resume=True)
    losses = [[one["loss"] for one in records(run) if "loss" in one] for run in (old_run, again)]
    assert losses[0] == losses[1]
    first, second = (weights(run) for run in (old_run, again))
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


def weights(run: Path) -> dict[str, torch.Tensor]:
    """Return the weights, moments and running average of a run's last checkpoint."""
    last = run / "checkpoints" / "step-00000008"
    return {
        f"{kind}.{name}": tensor
        for kind in ("model", "optimizer", "ema")
        for name, tensor in load_file(last / f"{kind}.safetensors").items()
    }


def test_the_recipe_of_an_old_run_is_read_in_todays_words(old_run):
    record = read_run_record(old_run)
    recipe = build_recipe(record["recipe"], name="chat", where="run.json")
    assert recipe.data.casual_user_turns
    assert recipe.data.too_long == "truncate"
    assert not recipe.tokenizer.shared_vocab
    assert record["outcome"]["stop_reason"] == "signal"
    for section, names in SETTINGS.items():
        assert not names.keys() & set(record["resolved"].get(section, {})) - {"max_length"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("encoder.layers.0.feed_forward.widen.weight", "encoder.layers.0.feed_forward.up_proj.weight"),
        ("decoder.layers.11.feed_forward.narrow.bias.exp_avg", "decoder.layers.11.feed_forward.down_proj.bias.exp_avg"),
        ("heads.masked_words.output.bias", "heads.mlm.output.bias"),
        ("embedding.tokens.weight", "embedding.tokens.weight"),
    ],
)
def test_weights_are_found_by_their_new_names(old, new):
    assert migrate_weight(old) == new


@pytest.mark.parametrize("entries", [{}, {"model": 3, "purpose": []}, {"recipe": 1, "outcome": 2, "metrics": [1]}])
def test_what_is_not_of_the_expected_shape_is_handed_on(entries):
    """Migration refuses nothing: that is for the reader behind it."""
    for migrate in (migrate_config, migrate_run_record, migrate_state):
        assert isinstance(migrate(entries), dict)


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("training.agreement=3", "'training.r_drop'"),
        ("training.window=1", "'training.bucket_window'"),
        ("training.schedule=paper", "did you mean noam"),
        ("model.start=x", "'model.init_from'"),
        ("data.classified=words", "'data.label_level'"),
        ("decoding.beam=4", "'decoding.beam_size'"),
        ("tokenizer.separate=true", "'tokenizer.shared_vocab'"),
        ("model.positions=rotary", "did you mean rope"),
    ],
)
def test_an_old_name_is_answered_with_the_new_one(override, told):
    with pytest.raises(SettingsError, match=told):
        apply_overrides(read_recipe("translation"), [override])
