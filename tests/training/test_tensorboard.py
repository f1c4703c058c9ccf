"""TensorBoard events, each once."""

import math
import sys

import pytest

from sightline.errors import RefusedError, SightlineError
from sightline.training.formatting import Sample
from sightline.training.optional import import_optional
from sightline.training.tensorboard import TensorBoardWriter

pytest.importorskip("tensorboard")


def curves(folder) -> dict[str, list[tuple[int, float]]]:
    """Read the folder as TensorBoard does."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder))
    events.Reload()
    found = {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
    for tag in events.Tags()["tensors"]:
        found[tag] = [(event.step, event.tensor_proto.string_val[0].decode()) for event in events.Tensors(tag)]
    return found


def test_training_and_validation_are_separate_and_texts_left_out(tmp_path):
    writer = TensorBoardWriter(tmp_path)
    writer.append({"step": 5, "loss": 2.5, "skipped": 1, "signature": "text", "nothing": None})
    writer.append({"step": 6, "validation_loss": 1.5, "bleu": 30.0, "best_step": None})
    assert curves(tmp_path) == {  # before it is closed: a curve grows during the run
        "train/loss": [(5, 2.5)],
        "train/skipped": [(5, 1.0)],
        "validation/loss": [(6, 1.5)],
        "validation/bleu": [(6, 30.0)],
    }
    writer.close()


def test_samples_are_shown_as_they_are(tmp_path):
    writer = TensorBoardWriter(tmp_path)
    writer.append({"step": 6, "validation_loss": 1.5}, [Sample("<b>*a*\n", "x", ""), Sample("c", "", "d")])
    writer.close()
    ((step, text),) = curves(tmp_path)["validation/samples/text_summary"]
    assert step == 6
    assert text.splitlines() == [
        "    source     <b>*a*\\n",
        "    output     x",
        "",
        "---",
        "",
        "    source     c",
        "    output     (empty)",
        "    reference  d",
    ]


def test_resumed_run_draws_each_step_once(tmp_path):
    killed = TensorBoardWriter(tmp_path)
    for step in range(1, 7):
        killed.append({"step": step, "loss": 10.0 + step})
    killed.close()
    resumed = TensorBoardWriter(tmp_path, purge_step=5)
    for step in range(5, 9):
        resumed.append({"step": step, "loss": 20.0 + step})
    resumed.close()
    expected = [*((step, 10.0 + step) for step in range(1, 5)), *((step, 20.0 + step) for step in range(5, 9))]
    assert curves(tmp_path)["train/loss"] == expected


def test_loss_that_is_no_number_is_written_as_such(tmp_path):
    writer = TensorBoardWriter(tmp_path)
    writer.append({"step": 1, "loss": math.nan})
    writer.close()
    assert math.isnan(curves(tmp_path)["train/loss"][0][1])


def test_folder_that_cannot_be_written_to_is_an_error_in_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SightlineError, match=r"could not write TensorBoard events into .*file"):
        TensorBoardWriter(tmp_path / "file")


def test_missing_package_is_named_with_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(RefusedError) as caught:
        TensorBoardWriter(tmp_path)
    assert str(caught.value) == (
        "writing TensorBoard events needs the package tensorboard, which is not installed: "
        'pip install "sightline[tensorboard]"'
    )


def test_package_that_is_there_is_returned():
    assert import_optional("json.decoder", extra="x", purpose="this").__name__ == "json.decoder"


def test_package_that_lacks_another_says_so_itself(tmp_path, monkeypatch):
    (tmp_path / "broken_package.py").write_text("import not_there_at_all")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="not_there_at_all"):
        import_optional("broken_package", extra="x", purpose="this")
