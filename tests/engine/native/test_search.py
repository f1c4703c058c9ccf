"""Whole searches in C find what the searches of `sightline.decoding` find, to the last bit of every score."""

import subprocess
import sys
import threading

import numpy as np
import pytest
import torch

from engine.native.small import VOCAB_SIZE, draw_texts, make_model, make_native
from sightline.bundle import Bundle, save
from sightline.decoding import DecodingSettings, Request, search
from sightline.engine.native import search as search_module
from sightline.engine.native.model import CancelFlag, NativeModel
from sightline.engine.native.native_engine import EngineState, NativeEngine
from sightline.engine.native.search import NativeSearchError, Progress, find_unsupported_setting
from sightline.engine.native.search import search as native_search
from sightline.errors import InputError, SettingsError

END_IDS = tuple(range(1, 20))
"""So many that some texts end early."""
SEARCHES = [
    DecodingSettings(max_new_tokens=14),
    DecodingSettings(max_new_tokens=14, beam_size=2),
    DecodingSettings(max_new_tokens=14, beam_size=4, n_best=3, length_penalty=1.0),
    DecodingSettings(max_new_tokens=9, beam_size=5, n_best=5, length_penalty=0.0),
    DecodingSettings(max_new_tokens=3, beam_size=90, n_best=2),
]


def search_in_python(native, texts, settings, limits=None):
    """Search through steps, one call each."""
    engine = NativeEngine.__new__(NativeEngine)
    engine.model = native
    request = Request([[1]] * len(texts), settings, end_ids=END_IDS, max_new_tokens=limits)
    return search(engine.step, EngineState(native.read(texts)), request)


def search_in_c(native, texts, settings, **options):
    return native_search(native, texts, settings, first_ids=[1] * len(texts), end_ids=END_IDS, **options)


@pytest.mark.parametrize("settings", SEARCHES, ids=lambda it: f"beam {it.beam_size}")
@pytest.mark.parametrize("precision", ["int8", "fp32"])
@pytest.mark.parametrize("family", ["transformer", "gpt"])
def test_search_finds_what_python_finds(family, precision, settings):
    for seed in range(3):
        native = make_native(make_model(family, seed=seed), precision=precision)
        texts = draw_texts(9, seed=seed)
        limits = np.random.default_rng(seed).integers(1, 15, 9).tolist()
        expected = search_in_python(native, texts, settings, limits)
        assert search_in_c(native, texts, settings, max_new_tokens=limits) == expected


def test_more_texts_than_there_is_room_for_results_take_several_calls(monkeypatch):
    """Texts may be many and their limits high: nobody asks for memory that nobody has."""
    native, texts = make_native(make_model("transformer")), draw_texts(9)
    limits = [7, 14, 3, 9, 1, 14, 5, 2, 8]
    expected = search_in_c(native, texts, SEARCHES[2], max_new_tokens=limits)
    monkeypatch.setattr(search_module, "MAX_RESULT_TOKENS", 100)  # two texts of 14 tokens, three times each
    progress = Progress()
    assert search_in_c(native, texts, SEARCHES[2], max_new_tokens=limits, progress=progress) == expected
    assert progress.n_done == 9


@pytest.mark.parametrize("settings", SEARCHES[:4], ids=lambda it: f"beam {it.beam_size}")
@pytest.mark.parametrize("family", ["transformer", "gpt"])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_texts_that_share_a_batch_are_those_found_one_by_one(family, settings, threads):
    """However many fit at once, and in whatever group they are: a text that ends makes room for the next."""
    native = make_native(make_model(family))
    texts = draw_texts(13)
    alone = [search_in_c(native, [text], settings)[0] for text in texts]
    for max_rows in (1, 7, 64):
        assert search_in_c(native, texts, settings, threads=threads, max_rows=max_rows) == alone
    assert [search_in_c(native, [text], settings, threads=threads)[0] for text in texts] == alone


def test_helpers_change_nothing():
    """A vocabulary so large that helpers take a part of its logits, at every step."""
    native = make_native(make_model("gpt", vocab_size=9000))
    for settings in SEARCHES[:3]:
        request = {"first_ids": [1], "end_ids": []}
        alone = native_search(native, [[5, 6]], settings, threads=1, **request)
        for _ in range(5):
            assert native_search(native, [[5, 6]], settings, threads=3, **request) == alone


def test_search_ends_texts_for_every_reason():
    native = make_native(make_model("transformer"))
    found = search_in_c(native, draw_texts(30), DecodingSettings(max_new_tokens=2, beam_size=2, n_best=2))
    assert {hypothesis.finish_reason for several in found for hypothesis in several} == {"eos", "length"}


def test_torch_model_gives_the_same_hypotheses():
    """With floats: the same tokens, and scores but for rounding."""
    from sightline.engine.torch_engine import TorchEngine

    model = make_model("transformer")
    texts = draw_texts(5)
    engine = TorchEngine(model)
    for settings in SEARCHES[:4]:
        request = Request([[1]] * 5, settings, end_ids=END_IDS)
        expected = search(engine.step, engine.prefill(texts), request)
        found = search_in_c(make_native(model, precision="fp32"), texts, settings)
        for own, theirs in zip(found, expected, strict=True):
            assert [one.ids for one in own] == [one.ids for one in theirs]
            assert [one.score for one in own] == pytest.approx([one.score for one in theirs], abs=1e-4)


def test_cancelled_search_ends():
    native = make_native(make_model("gpt", max_length=None, positions="none"))
    flag, found = CancelFlag(), []
    settings = DecodingSettings(max_new_tokens=1_000_000)

    def run():
        request = {"first_ids": [1], "end_ids": [], "cancel": flag}
        found.append(native_search(native, [[5]], settings, **request))

    thread = threading.Thread(target=run)
    thread.start()
    flag.cancel()
    thread.join(60)
    assert found == [[[]]]


def test_greedy_steps_are_cancelled():
    flag = CancelFlag()
    flag.cancel()
    tokens, _ = make_native(make_model("gpt")).read([[5]]).greedy(np.array([3], dtype=np.int32), 5, cancel=flag)
    assert len(tokens) == 0
    assert flag.is_cancelled


def test_progress_counts_texts():
    progress = Progress()
    search_in_c(make_native(make_model("transformer")), draw_texts(7), SEARCHES[0], progress=progress)
    assert progress.n_done == 7


def test_settings_of_other_searches_are_named():
    assert find_unsupported_setting(DecodingSettings(beam_size=4, n_best=2, top_k=5)) is None
    assert find_unsupported_setting(DecodingSettings(do_sample=True)) == "do_sample"
    assert find_unsupported_setting(DecodingSettings(repetition_penalty=1.2)) == "repetition_penalty"
    with pytest.raises(SettingsError, match="the native search does not know stop"):
        search_in_c(make_native(make_model("gpt")), [[5]], DecodingSettings(stop=("x",)))


def test_requests_that_cannot_be():
    native = make_native(make_model("transformer"))
    with pytest.raises(InputError, match="first_ids are for 1 texts, texts are 2"):
        native_search(native, [[5], [6]], SEARCHES[0], first_ids=[1], end_ids=[])
    with pytest.raises(InputError, match="max_new_tokens must be 1 or more, not 0"):
        search_in_c(native, [[5]], SEARCHES[0], max_new_tokens=[0])
    with pytest.raises(InputError, match="end_ids must lie between 0 and 76"):
        native_search(native, [[5]], SEARCHES[0], first_ids=[1], end_ids=[VOCAB_SIZE])
    assert native_search(native, [], SEARCHES[0], first_ids=[], end_ids=[]) == []


def test_text_that_grows_too_long_is_named():
    native = make_native(make_model("gpt"))
    with pytest.raises(InputError, match=r"49 tokens are more than this model can take \(48\)"):
        native_search(native, [[5] * 46], DecodingSettings(max_new_tokens=9), first_ids=[1], end_ids=[])


@pytest.mark.parametrize("beam_size", [1, 3])
def test_logits_that_are_not_finite_are_named(beam_size):
    model = make_model("gpt", tie_embeddings=False)
    with torch.no_grad():
        model.embedding.tokens.weight[7, 3] = torch.inf
    native = make_native(model, precision="fp32")
    settings = DecodingSettings(max_new_tokens=1, beam_size=beam_size)
    with pytest.raises(NativeSearchError, match=r"logits for sentence 2 are not numbers .* after 0 tokens"):
        native_search(native, [[5], [7]], settings, first_ids=[1, 1], end_ids=[])


def test_model_folder_is_searched_without_torch(tmp_path):
    model = make_model("transformer")
    save(Bundle(model), tmp_path / "model")
    settings = DecodingSettings(max_new_tokens=8, beam_size=2)
    [[expected]] = native_search(make_native(model), [[5, 6]], settings, first_ids=[1], end_ids=[2])
    code = f"""
import sys
from sightline.decoding.settings import DecodingSettings
from sightline.engine.native.model import NativeModel
from sightline.engine.native.search import search
model = NativeModel.load({str(tmp_path / "model")!r}, threads=1)
[[found]] = search(model, [[5, 6]], DecodingSettings(max_new_tokens=8, beam_size=2), first_ids=[1], end_ids=[2])
print(found.ids, "torch" in sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.stdout == f"{expected.ids} False\n", run.stderr


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_folder_with_weights_of_sixteen_bits(dtype, tmp_path):
    model = make_model("gpt").to(dtype)
    save(Bundle(model), tmp_path / "model")
    loaded = NativeModel.load(tmp_path / "model", precision="fp32", threads=1)
    ids = np.array([3], dtype=np.int32)
    expected = make_native(model.float(), precision="fp32").read([[5, 6]]).step(ids).logits
    assert np.array_equal(loaded.read([[5, 6]]).step(ids).logits, expected)
