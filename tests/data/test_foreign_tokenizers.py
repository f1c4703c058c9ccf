"""Imported tokenizers keep their own rules, and hostile ones do no harm."""

import json

import pytest
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from sightline.data.tokenizers import Tokenizer, train_bpe
from sightline.errors import InputError


def bert_json() -> str:
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = ["paris", "is", "a", "cap", "##ital", "[", "]", "mask"]
    vocabulary = {token: id_ for id_, token in enumerate(names + words)}
    backend = tokenizers.Tokenizer(models.WordPiece(vocab=vocabulary, unk_token="[UNK]"))  # noqa: S106
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    backend.add_special_tokens(names)
    backend.enable_padding(length=50)
    backend.enable_truncation(3)
    return backend.to_str()


def gpt2_json() -> str:
    backend = tokenizers.Tokenizer(models.BPE(vocab={"Ġ": 0, "a": 1, "Ġa": 2}, merges=[("Ġ", "a")]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(["<|endoftext|>"])
    return backend.to_str()


def change_model(**model: object) -> str:
    entries = json.loads(gpt2_json())
    entries["model"].update(model)
    return json.dumps(entries)


def test_bert_roles_are_recognized():
    bert = Tokenizer.from_json(bert_json())
    assert (bert.pad_id, bert.unknown_id, bert.cls_id, bert.sep_id, bert.mask_id) == (0, 1, 2, 3, 4)
    assert bert.start_id is None


def test_bert_lowercases_and_adds_special_tokens_by_its_own_rules():
    bert = Tokenizer.from_json(bert_json())
    assert [bert.token_text(id_) for id_ in bert.encode("Paris CAPITAL", add_special_tokens=True)] == [
        "[CLS]", "paris", "cap", "##ital", "[SEP]",
    ]  # fmt: skip


def test_stored_padding_and_truncation_are_ignored():
    assert len(Tokenizer.from_json(bert_json()).encode("paris is a capital")) == 5


def test_mask_typed_by_a_user_stays_text():
    bert = Tokenizer.from_json(bert_json())
    assert [bert.token_text(id_) for id_ in bert.encode("[MASK]")] == ["[", "mask", "]"]


def test_end_of_text_is_start_and_end_of_gpt2():
    gpt2 = Tokenizer.from_json(gpt2_json())
    assert gpt2.start_id == gpt2.end_id == 3
    assert gpt2.decode(gpt2.encode(" a a")) == " a a"


def test_given_roles_override_recognized_ones():
    assert Tokenizer.from_json(gpt2_json(), roles={"pad": "<|endoftext|>"}).roles == {"pad": "<|endoftext|>"}


@pytest.mark.parametrize(
    ("roles", "message"),
    [({"pda": "a"}, "did you mean 'pad'"), ({"pad": "<none>"}, "not in the vocabulary"), ({"pad": 3}, "not in")],
)
def test_impossible_roles_are_refused(roles, message):
    with pytest.raises(InputError, match=message):
        Tokenizer.from_json(gpt2_json(), roles=roles)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ("[]", "not an object"),
        ("{}", "not a tokenizer"),
        ('{"a": 1, "a": 2}', "duplicate key 'a'"),
        ('{"a": NaN}', "NaN is not a JSON number"),
        ('{"a": ' + "[" * 100_000, "nested too deeply"),
        ('{"a": [' + "{}," * 200_000 + "{}]}", "more than 100,000"),
        ('{"a": "\ud800"}', "surrogate"),
        (change_model(vocab={}, merges=[]), "would get the id 0 instead of 3"),
        (change_model(vocab={"a": -1}, merges=[]), "not a tokenizer"),
        (change_model(vocab={"a": 2**33}, merges=[]), "not a tokenizer"),
        (change_model(vocab={"aa": 0, "bb": 1}, merges=[["aa", "bb"]]), "forms no token"),
        (change_model(merges=["Ġ a", "Ġ"]), "not a merge of two tokens"),
        (change_model(merges=[["Ġ", 3]]), "not a merge of two tokens"),
        (change_model(continuing_subword_prefix="long"), "forms no token"),
        (change_model(type="Magic"), "not a tokenizer"),
    ],
)
def test_invalid_tokenizer_is_refused(text, message, capfd):
    """Also without a word from the library's Rust code on stderr."""
    with pytest.raises(InputError, match=message):
        Tokenizer.from_json(text)
    assert capfd.readouterr() == ("", "")


def test_template_with_missing_tokens_is_refused_on_load():
    entries = json.loads(bert_json())
    del entries["post_processor"]["special_tokens"]["[SEP]"]
    with pytest.raises(InputError, match="not a tokenizer"):
        Tokenizer.from_json(json.dumps(entries))


def test_panic_of_the_backend_is_refused(monkeypatch):
    class PanicException(BaseException):
        pass

    def panic(text):
        raise PanicException("index out of range")

    fake = type("Backend", (), {"from_str": staticmethod(panic)})
    monkeypatch.setattr("sightline.data.tokenizers.tokenizer.tokenizers.Tokenizer", fake)
    with pytest.raises(InputError, match="not a tokenizer: index out of range"):
        Tokenizer.from_json("{}")


def test_interrupt_is_not_turned_into_an_error(monkeypatch):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    tokenizer = train_bpe(["ab"])
    monkeypatch.setattr(tokenizer, "_backend", type("Backend", (), {"encode": interrupt}))
    with pytest.raises(KeyboardInterrupt):
        tokenizer.encode("a")
