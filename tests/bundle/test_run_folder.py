"""The folder of a run is opened by the model in it."""

import pytest

from sightline.bundle import load, model_place
from sightline.errors import ModelFileError


def test_folder_of_a_run_is_opened_by_its_model(folder, tmp_path):
    assert load(tmp_path).tokenizer is not None
    assert (model_place(tmp_path), model_place(folder)) == (folder, folder)


def test_folder_of_a_run_whose_save_was_killed_still_loads(folder, tmp_path):
    folder.rename(folder.with_name(f"{folder.name}.tmp-old"))
    assert load(tmp_path).tokenizer is not None


def test_folder_that_is_neither_is_refused_by_its_own_name(tmp_path):
    (tmp_path / "run/model").mkdir(parents=True)
    with pytest.raises(ModelFileError, match=r"run/config\.json: is missing"):
        load(tmp_path / "run")


def test_what_is_wrong_in_a_run_names_the_file_in_its_model(folder, tmp_path):
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelFileError, match=r"model/model\.safetensors: is missing"):
        load(tmp_path)
