"""Ours = reference: from the same weights, the same numbers, layer by layer, so that a mismatch names its layer.

The references are tiny random models built from a config; nothing is downloaded. Ours is read through its hook points,
theirs through forward hooks; a table of taps maps their modules to our points.
"""

import pytest
import torch
import torch.nn.functional as F
import transformers
from torch import Tensor
from torch.testing import assert_close

from sightline.model import ActivationCache
from sightline.pretrained.weight_names import (
    BERT_SEQUENCE_CLASSES,
    BERT_TOKEN_CLASSES,
    to_ours,
)

from .reference_pairs import PAIRS, SOURCE_FOR_BERT, Pair, bert_config, every_pair, give_weights, our_bert
from .reference_taps import (
    N_CLASSES,
    SEGMENTS,
    SOURCE,
    TARGET,
    TARGET_VOCAB_SIZE,
    TOLERANCE,
    assert_layers_agree,
    record_taps,
)

pytestmark = pytest.mark.filterwarnings(
    # nn.Transformer warns that pre-norm disables its encoder's fast path; no test here takes it.
    "ignore:enable_nested_tensor is True, but self.use_nested_tensor is False:UserWarning"
)


def layers_of(pair: Pair) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Run both; return the values at ours' points and at theirs."""
    activations = ActivationCache("*")
    pair.run_ours(hooks=activations)
    return activations.seen, record_taps(pair.theirs, pair.taps, pair.run_theirs)


@every_pair
def test_layers_agree_with_the_reference(make_pair):
    assert_layers_agree(*layers_of(make_pair()))


@every_pair
@pytest.mark.parametrize("packed", [False, True], ids=["padded", "packed"])
def test_unwatched_logits_agree_with_the_reference(make_pair, packed):
    """Hooks take the explicit path of attention; an ordinary run takes the fused kernel."""
    pair = make_pair()
    ours, theirs = pair.run_ours(hooks=ActivationCache(), packed=packed), pair.run_theirs()
    real = pair.predicts.real
    assert_close(ours if packed else ours[real], theirs[real], atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize(
    ("make_pair", "path", "report"),
    [
        (
            PAIRS["bert"],
            "encoder.layers.1.self_attention",
            r"^layer encoder\.1 differs by .* at self_attention\.weights",
        ),
        (
            PAIRS["gpt2"],
            "decoder.layers.2.self_attention",
            r"^layer decoder\.2 differs by .* at self_attention\.weights",
        ),
        (
            PAIRS["marian-swish"],
            "decoder.layers.1.cross_attention",
            r"^layer decoder\.1 differs by .* at cross_attention\.weights",
        ),
    ],
    ids=["bert", "gpt2", "marian"],
)
def test_exchanged_query_and_key_are_reported_as_their_layer(make_pair, path, report):
    """The comparison itself must be able to fail, and to say where."""
    pair = make_pair()
    attention = pair.ours.get_submodule(path)
    attention.query, attention.key = attention.key, attention.query
    with pytest.raises(AssertionError, match=report):
        assert_layers_agree(*layers_of(pair))


def test_bert_sequence_classes_agree_with_the_reference():
    theirs = transformers.BertForSequenceClassification(bert_config(num_labels=N_CLASSES))
    ours = our_bert(heads=("sequence_classification",), n_classes=N_CLASSES)
    give_weights(theirs, ours, BERT_SEQUENCE_CLASSES)
    hidden = ours(SOURCE.ids, segments=SEGMENTS, lengths=SOURCE.lengths)
    scores = ours.sequence_classification(ours.pool(hidden))
    assert_close(scores, theirs(**SOURCE_FOR_BERT).logits, atol=TOLERANCE, rtol=0)


def test_bert_token_classes_agree_with_the_reference():
    theirs = transformers.BertForTokenClassification(bert_config(num_labels=N_CLASSES))
    ours = our_bert(heads=("token_classification",), n_classes=N_CLASSES)
    give_weights(theirs, ours, BERT_TOKEN_CLASSES)
    scores = ours.token_classification(ours(SOURCE.ids, segments=SEGMENTS, lengths=SOURCE.lengths))
    assert_close(scores[SOURCE.real], theirs(**SOURCE_FOR_BERT).logits[SOURCE.real], atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("name", ["torch-post-norm-relu", "torch-pre-norm-gelu"])
def test_gradients_agree_with_torch(name):
    """The tables move and cut tensors and nothing else, so they carry gradients as well as weights."""
    pair = PAIRS[name]()
    labels = torch.randint(TARGET_VOCAB_SIZE, (int(TARGET.lengths.sum()),), generator=torch.Generator().manual_seed(4))
    for logits in (pair.run_theirs(), pair.run_ours()):
        F.cross_entropy(logits[TARGET.real], labels).backward()
    expected = to_ours(pair.table, {name: weight.grad for name, weight in pair.theirs.named_parameters()})
    actual = {name: weight.grad for name, weight in pair.ours.named_parameters()}
    assert actual.keys() == expected.keys()
    # A bias of keys shifts all scores of a query alike: it has no gradient, only rounding, and borrows a scale.
    scales = {name: expected[name.replace("key.bias", "key.weight")].abs().max() for name in expected}
    differing = [name for name in expected if not (actual[name] - expected[name]).abs().max() <= 1e-9 * scales[name]]
    assert differing == []


@pytest.fixture
def unwritten_memory_is_nan():
    """Let no test pass by the luck of zeros: in this mode torch fills memory it leaves uninitialized with NaN."""
    assert torch.utils.deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


CONTINUED = ["gpt2", "llama", "llama3", "llama-yarn", "qwen2", "qwen3"]


@pytest.mark.usefixtures("unwritten_memory_is_nan")
@pytest.mark.parametrize("make_pair", [PAIRS[name] for name in CONTINUED], ids=CONTINUED)
def test_cached_greedy_continuation_agrees_with_generate(make_pair):
    """Prompts of mixed lengths: padded on the left for `generate`, which continues at the right end."""
    pair, n_steps = make_pair(), 8
    pair.ours.float()
    pair.theirs.float()  # in double precision its mask of paddings is not finite; the likeliest words are far apart
    n_padding = (TARGET.ids.size(1) - TARGET.lengths).tolist()
    left_padded = torch.stack([row.roll(n) for row, n in zip(TARGET.ids, n_padding, strict=True)])
    expected = pair.theirs.generate(
        left_padded,
        attention_mask=TARGET.real.flip(1).long(),
        max_new_tokens=n_steps,
        do_sample=False,
        use_cache=True,
        pad_token_id=0,
        output_logits=True,
        return_dict_in_generate=True,
    ).logits
    capacity = TARGET.ids.size(1) + 2  # the cache is to have room not yet written, and then to grow
    cache = pair.ours.start(TARGET.ids.size(0), capacity=capacity)
    logits, cache = pair.ours.step(TARGET.ids, cache, lengths=TARGET.lengths)
    actual = [logits]
    while len(actual) < n_steps:
        logits, cache = pair.ours.step(logits.argmax(dim=-1, keepdim=True), cache)
        actual.append(logits)
    assert_close(torch.stack(actual), torch.stack(expected), atol=TOLERANCE, rtol=0)
