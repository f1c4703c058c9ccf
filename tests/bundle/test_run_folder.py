"""A run folder can be opened as its model."""

import pytest

from sightline.bundle import find_model_folder, load
from sightline.errors import ModelFileError


def test_run_folder_opens_its_model(folder, tmp_path):
    assert load(tmp_path).tokenizer is not None
    assert (find_model_folder(tmp_path), find_model_folder(folder)) == (folder, folder)


def test_run_folder_whose_save_was_killed_still_loads(folder, tmp_path):
    folder.rename(folder.with_name(f"{folder.name}.tmp-old"))
    assert load(tmp_path).tokenizer is not None


def test_folder_that_is_neither_is_refused_by_its_name(tmp_path):
    (tmp_path / "run/model").mkdir(parents=True)
    with pytest.raises(ModelFileError, match=r"run/config\.json: is missing"):
        load(tmp_path / "run")


def test_error_in_a_run_folder_names_the_file_in_its_model(folder, tmp_path):
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelFileError, match=r"model/model\.safetensors: is missing"):
        load(tmp_path)
