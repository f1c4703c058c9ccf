"""Ours = reference: from the same weights, the same numbers, layer by layer, so that a mismatch names its layer.

The references are tiny random models built from a config; nothing is downloaded. Ours is watched through its probes,
theirs through forward hooks; a table of taps says which of their modules computes what which of our points shows.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import transformers
from reference_weights import (
    BERT_PRETRAINING,
    BERT_SEQUENCE_CLASSES,
    BERT_TOKEN_CLASSES,
    GPT2,
    LLAMA,
    MARIAN,
    TORCH,
    Row,
    Table,
    fill,
    renamed,
    to_ours,
    to_theirs,
)
from torch import Tensor, nn
from torch.testing import assert_close

from sightline.model import GPT, Bert, BertConfig, GPTConfig, Recorder, Transformer, TransformerConfig

pytestmark = pytest.mark.filterwarnings(
    # nn.Transformer tells those who choose pre-norm that its encoder's fast path is lost; no test here takes it.
    "ignore:enable_nested_tensor is True, but self.use_nested_tensor is False:UserWarning"
)

TOLERANCE = 1e-5
VOCAB_SIZE, TARGET_VOCAB_SIZE, N_CLASSES, MAX_LENGTH = 50, 40, 5, 16
ENCODER_LAYERS, DECODER_LAYERS = 3, 2


# One padded batch for all


@dataclass(frozen=True)
class Batch:
    """Right-padded sentences of mixed lengths."""

    ids: Tensor  # B T
    lengths: Tensor  # B

    @property
    def real(self) -> Tensor:
        """True where a token is no padding: B T."""
        return torch.arange(self.ids.size(1)) < self.lengths[:, None]


def random_batch(*lengths: int, seed: int) -> Batch:
    """Draw ids that every vocabulary here has; padding is 0."""
    ids = torch.randint(
        1, TARGET_VOCAB_SIZE, (len(lengths), max(lengths)), generator=torch.Generator().manual_seed(seed)
    )
    batch = Batch(ids, torch.tensor(lengths))
    return Batch(ids * batch.real, batch.lengths)


SOURCE = random_batch(7, 3, 5, seed=1)
TARGET = random_batch(4, 6, 2, seed=2)
SEGMENTS = (torch.arange(SOURCE.ids.size(1)) >= 2).long().expand_as(SOURCE.ids)  # each text: two tokens, then the rest


# Watching a reference


def its_output(inputs: tuple[Any, ...], output: Any) -> Tensor:
    """Take what a module returns, or the first of what it returns."""
    return output[0] if isinstance(output, tuple) else output


def its_weights(inputs: tuple[Any, ...], output: Any) -> Tensor:
    """Take the second result of an attention module."""
    return output[1]


def its_logits(inputs: tuple[Any, ...], output: Any) -> Tensor:
    """Take the logits from what a whole model returns."""
    return output.logits


def its_input(inputs: tuple[Any, ...], output: Any) -> Tensor:
    """Take what a module is given, where no module returns it."""
    return inputs[0]


@dataclass(frozen=True)
class Tap:
    """Which of their modules computes what our point shows; stars as in the tables of weights."""

    theirs: str
    ours: str
    take: Callable[[tuple[Any, ...], Any], Tensor] = its_output


BERT_TAPS = (
    Tap("bert.embeddings", "encoder.embedding.output"),
    Tap("bert.encoder.layer.*.attention.self", "encoder.*.self_attention.weights", its_weights),
    Tap("bert.encoder.layer.*.attention.self", "encoder.*.self_attention.concatenated"),
    Tap("bert.encoder.layer.*.attention", "encoder.*.self_attention.norm"),
    Tap("bert.encoder.layer.*.intermediate", "encoder.*.feed_forward.hidden"),
    Tap("bert.encoder.layer.*", "encoder.*.feed_forward.norm"),
    Tap("cls.predictions", "masked_words.logits"),
    Tap("cls.seq_relationship", "next_sentence.logits"),
)

GPT2_TAPS = (
    Tap("transformer.drop", "decoder.embedding.output"),
    Tap("transformer.h.*.ln_1", "decoder.*.self_attention.norm"),
    Tap("transformer.h.*.attn", "decoder.*.self_attention.weights", its_weights),
    Tap("transformer.h.*.attn", "decoder.*.self_attention.output"),
    Tap("transformer.h.*.ln_2", "decoder.*.feed_forward.norm"),
    Tap("transformer.h.*.mlp", "decoder.*.feed_forward.output"),
    Tap("transformer.h.*", "decoder.*.feed_forward.residual"),
    Tap("transformer.ln_f", "decoder.final_norm"),
    Tap("lm_head", "logits"),
)

LLAMA_TAPS = (
    Tap("model.embed_tokens", "decoder.embedding.output"),
    Tap("model.layers.*.input_layernorm", "decoder.*.self_attention.norm"),
    Tap("model.layers.*.self_attn", "decoder.*.self_attention.weights", its_weights),
    Tap("model.layers.*.self_attn", "decoder.*.self_attention.output"),
    Tap("model.layers.*.post_attention_layernorm", "decoder.*.feed_forward.norm"),
    Tap("model.layers.*.mlp", "decoder.*.feed_forward.output"),
    Tap("model.layers.*", "decoder.*.feed_forward.residual"),
    Tap("model.norm", "decoder.final_norm"),
    Tap("lm_head", "logits"),
)

MARIAN_TAPS = (
    Tap("model.*.layers.0", "*.embedding.output", its_input),
    Tap("model.*.layers.*.self_attn", "*.*.self_attention.weights", its_weights),
    Tap("model.*.layers.*.self_attn", "*.*.self_attention.output"),
    Tap("model.*.layers.*.self_attn_layer_norm", "*.*.self_attention.norm"),
    Tap("model.*.layers.*.encoder_attn", "*.*.cross_attention.weights", its_weights),
    Tap("model.*.layers.*.encoder_attn", "*.*.cross_attention.output"),
    Tap("model.*.layers.*.encoder_attn_layer_norm", "*.*.cross_attention.norm"),
    Tap("model.*.layers.*.fc2", "*.*.feed_forward.output"),
    Tap("model.*.layers.*", "*.*.feed_forward.norm"),
    Tap("", "logits", its_logits),  # of the whole model: lm_head's output still lacks the bias
)

# nn.Transformer never asks its attention for the weights; what they mix shows in the output.
TORCH_TAPS = (
    Tap("*.layers.0", "*.embedding.output", its_input),
    Tap("*.layers.*.self_attn", "*.*.self_attention.output"),
    Tap("*.layers.*.norm1", "*.*.self_attention.norm"),
    Tap("*.layers.*.multihead_attn", "*.*.cross_attention.output"),
    Tap("encoder.layers.*.norm2", "encoder.*.feed_forward.norm"),
    Tap("decoder.layers.*.norm2", "decoder.*.cross_attention.norm"),
    Tap("decoder.layers.*.norm3", "decoder.*.feed_forward.norm"),
    Tap("*.layers.*.linear2", "*.*.feed_forward.output"),
    Tap("output", "logits"),
)
TORCH_PRE_NORM_TAPS = (*TORCH_TAPS, Tap("*.layers.*", "*.*.feed_forward.residual"), Tap("*.norm", "*.final_norm"))


def watched(reference: nn.Module, taps: tuple[Tap, ...], run: Callable[[], Tensor]) -> dict[str, Tensor]:
    """Run a reference; return what its tapped modules computed, under the names of our points."""
    seen: dict[str, Tensor] = {}

    def keep(_: nn.Module, inputs: tuple[Any, ...], output: Any, *, point: str, take: Callable[..., Tensor]) -> None:
        seen[point] = take(inputs, output).detach()

    hooks = [
        module.register_forward_hook(partial(keep, point=point, take=tap.take))
        for path, module in reference.named_modules()
        for tap in taps
        if (point := renamed(path, tap.theirs, tap.ours)) is not None
    ]
    run()  # with gradients on: without them torch's encoder would take a fast path past its own modules
    for hook in hooks:
        hook.remove()
    idle = [tap.theirs for tap in taps if not any(renamed(point, tap.ours, "") is not None for point in seen)]
    assert not idle, f"the reference has no such modules any more: {idle}"
    return seen


# Comparing


def real_values(point: str, value: Tensor) -> Tensor:
    """Leave out what padding computed, which no one defines; keys that are padding stay, as their weight must be 0."""
    if point.startswith("next_sentence"):  # one row a text
        return value
    if point.endswith(".weights"):
        value = value.transpose(1, 2)  # B T H S
    batch = SOURCE if point.startswith(("encoder", "masked_words")) else TARGET
    return value[batch.real]


def differences(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> dict[str, float]:
    """Return the greatest difference at each point the reference was tapped at, in the order ours came by them."""
    missing = set(theirs) - set(ours)
    assert not missing, f"our model never came by {sorted(missing)}"
    return {
        point: (real_values(point, value) - real_values(point, theirs[point])).abs().max().item()
        for point, value in ours.items()
        if point in theirs
    }


def assert_layers_agree(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> None:
    """Name the first layer that differs; all behind it only inherit the difference."""
    for point, difference in differences(ours, theirs).items():
        place = point.split(".")
        layer, where = ".".join(place[:2]), ".".join(place[2:])
        assert difference <= TOLERANCE, f"layer {layer} differs by {difference:.2g}" + (f" at {where}" if where else "")


# The pairs


@dataclass(frozen=True)
class Pair:
    """A reference, our model with the same weights, and one way to run each on the same batch, up to the logits."""

    theirs: nn.Module
    ours: nn.Module
    table: Table
    taps: tuple[Tap, ...]
    run_theirs: Callable[[], Tensor]
    run_ours: Callable[..., Tensor]
    predicts: Batch = TARGET
    """The batch at whose tokens the logits stand."""

    def __post_init__(self) -> None:
        give_weights(self.theirs, self.ours, self.table)


def give_weights(theirs: nn.Module, ours: nn.Module, table: Table) -> None:
    """Make the two models one; dropout off."""
    spread_out(theirs)
    fill(ours, table, theirs.state_dict())
    ours.eval()
    theirs.eval()


def spread_out(model: nn.Module) -> None:
    """Draw every weight, bias and norm far from its usual beginning, so that no two could be exchanged unseen."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, weight in learned(model):
            weight.normal_(std=0.2, generator=generator)  # about √(1 / d_model): values keep their size, layer by layer
            if weight.ndim == 1 and name.endswith("weight"):  # a norm's, which should not flip signs
                weight.add_(1.0)


def learned(model: nn.Module) -> list[tuple[str, Tensor]]:
    """Return the weights training would change (not Marian's sinusoids), and Marian's output bias, to it a buffer."""
    weights = [(name, weight) for name, weight in model.named_parameters() if weight.requires_grad]
    return weights + [(name, bias) for name, bias in model.named_buffers() if name == "final_logits_bias"]


SIZES = {"vocab_size": VOCAB_SIZE, "d_model": 32, "n_heads": 4, "d_ff": 48}


def bert_config(**settings: Any) -> transformers.BertConfig:
    return transformers.BertConfig(
        vocab_size=VOCAB_SIZE,
        hidden_size=32,
        num_hidden_layers=ENCODER_LAYERS,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=MAX_LENGTH,
        layer_norm_eps=1e-3,  # great enough to matter, here and below
        attn_implementation="eager",  # the others never form the weights
        **settings,
    )


def our_bert(**settings: Any) -> Bert:
    return Bert(BertConfig(**SIZES, n_layers=ENCODER_LAYERS, max_length=MAX_LENGTH, norm_epsilon=1e-3, **settings))


SOURCE_FOR_BERT = {"input_ids": SOURCE.ids, "token_type_ids": SEGMENTS, "attention_mask": SOURCE.real.long()}


def bert() -> Pair:
    theirs = transformers.BertForPreTraining(bert_config())
    ours = our_bert()

    def run_ours(probe: Recorder, **how: Any) -> Tensor:
        hidden = ours(SOURCE.ids, segments=SEGMENTS, lengths=SOURCE.lengths, probe=probe, **how)
        pooled = ours.pool(hidden, lengths=SOURCE.lengths)
        ours.next_sentence(pooled, probe=probe.within("next_sentence"))
        return ours.masked_words(hidden, probe=probe.within("masked_words"))

    def run_theirs() -> Tensor:
        return theirs(**SOURCE_FOR_BERT).prediction_logits

    return Pair(theirs, ours, BERT_PRETRAINING, BERT_TAPS, run_theirs, run_ours, predicts=SOURCE)


def decoder_only(theirs: nn.Module, ours: GPT, table: Table, taps: tuple[Tap, ...]) -> Pair:
    return Pair(
        theirs,
        ours,
        table,
        taps,
        run_theirs=lambda: theirs(input_ids=TARGET.ids, attention_mask=TARGET.real.long()).logits,
        run_ours=lambda **how: ours(TARGET.ids, lengths=TARGET.lengths, **how),
    )


def gpt2() -> Pair:
    config = transformers.GPT2Config(
        vocab_size=VOCAB_SIZE,
        n_embd=32,
        n_layer=ENCODER_LAYERS,
        n_head=4,
        n_inner=48,
        n_positions=MAX_LENGTH,
        layer_norm_epsilon=1e-3,
        bos_token_id=None,
        eos_token_id=None,
        attn_implementation="eager",
    )
    ours = GPT(GPTConfig(**SIZES, n_layers=ENCODER_LAYERS, max_length=MAX_LENGTH, norm_epsilon=1e-3))
    return decoder_only(transformers.GPT2LMHeadModel(config), ours, GPT2, GPT2_TAPS)


def llama(*, tied: bool = False) -> Pair:
    config = transformers.LlamaConfig(
        vocab_size=VOCAB_SIZE,
        hidden_size=32,
        num_hidden_layers=ENCODER_LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=48,
        max_position_embeddings=MAX_LENGTH,
        rope_parameters={"rope_type": "default", "rope_theta": 500.0},
        rms_norm_eps=1e-3,
        tie_word_embeddings=tied,
        bos_token_id=None,
        eos_token_id=None,
        attn_implementation="eager",
    )
    settings = SIZES | {
        "n_layers": ENCODER_LAYERS, "n_kv_heads": 2, "activation": "swiglu", "norm": "rms", "norm_epsilon": 1e-3,
        "positions": "rotary", "rotary_base": 500.0, "max_length": MAX_LENGTH, "bias": False, "tied_output": tied,
    }  # fmt: skip
    return decoder_only(transformers.LlamaForCausalLM(config), GPT(GPTConfig(**settings)), LLAMA, LLAMA_TAPS)


def marian(*, theirs_activation: str, our_activation: str, target_vocab_size: int | None = None) -> Pair:
    config = transformers.MarianConfig(
        vocab_size=VOCAB_SIZE,
        decoder_vocab_size=target_vocab_size or VOCAB_SIZE,
        share_encoder_decoder_embeddings=target_vocab_size is None,
        d_model=32,
        encoder_layers=ENCODER_LAYERS,
        decoder_layers=DECODER_LAYERS,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        activation_function=theirs_activation,
        max_position_embeddings=MAX_LENGTH,
        scale_embedding=True,
        pad_token_id=0,
        eos_token_id=0,
        decoder_start_token_id=0,
        attn_implementation="eager",
    )
    theirs = transformers.MarianMTModel(config)
    ours = our_transformer(
        activation=our_activation,
        positions="sinusoidal_halves",
        output_bias=True,
        target_vocab_size=target_vocab_size,
    )
    return Pair(
        theirs,
        ours,
        MARIAN,
        MARIAN_TAPS,
        run_theirs=lambda: (
            theirs(
                input_ids=SOURCE.ids,
                attention_mask=SOURCE.real.long(),
                decoder_input_ids=TARGET.ids,
                decoder_attention_mask=TARGET.real.long(),
            ).logits
        ),
        run_ours=partial(run_transformer, ours),
    )


def our_transformer(**settings: Any) -> Transformer:
    return Transformer(
        TransformerConfig(**SIZES, n_encoder_layers=ENCODER_LAYERS, n_decoder_layers=DECODER_LAYERS, **settings)
    )


def run_transformer(model: Transformer, **how: Any) -> Tensor:
    return model(SOURCE.ids, TARGET.ids, source_lengths=SOURCE.lengths, target_lengths=TARGET.lengths, **how)


class TorchTranslator(nn.Transformer):
    """torch's own encoder–decoder, given the embeddings and the output projection it lacks."""

    def __init__(self, *, norm_first: bool, activation: str) -> None:
        super().__init__(
            d_model=32,
            nhead=4,
            num_encoder_layers=ENCODER_LAYERS,
            num_decoder_layers=DECODER_LAYERS,
            dim_feedforward=48,
            dropout=0.0,
            activation=activation,
            norm_first=norm_first,
            layer_norm_eps=1e-3,
            batch_first=True,
        )
        if not norm_first:  # layers that end in a norm are followed by one more, which the paper does not have
            self.encoder.norm = self.decoder.norm = None
        self.source_tokens = nn.Embedding(VOCAB_SIZE, 32)
        self.target_tokens = nn.Embedding(TARGET_VOCAB_SIZE, 32)
        self.output = nn.Linear(32, TARGET_VOCAB_SIZE)

    def forward(self, source: Batch, target: Batch) -> Tensor:
        """Return the logits; torch's masks are True where one may not look."""
        hidden = super().forward(
            self.source_tokens(source.ids),
            self.target_tokens(target.ids),
            tgt_mask=torch.ones(target.ids.size(1), target.ids.size(1), dtype=torch.bool).triu(1),
            src_key_padding_mask=~source.real,
            tgt_key_padding_mask=~target.real,
            memory_key_padding_mask=~source.real,
        )
        return self.output(hidden)


TORCH_TRANSLATOR = TORCH.with_rows(
    Row("source_tokens.weight", "source_embedding.tokens.weight"),
    Row("target_tokens.weight", "target_embedding.tokens.weight"),
    Row("output.*", "output.*"),
)


def torch_transformer(*, norm_order: str, activation: str) -> Pair:
    theirs = TorchTranslator(norm_first=norm_order == "pre", activation=activation)
    ours = our_transformer(
        norm_order=norm_order,
        activation=activation,
        norm_epsilon=1e-3,
        dropout=0.0,
        positions="none",
        scaled_embedding=False,
        tied_output=False,
        output_bias=True,
        target_vocab_size=TARGET_VOCAB_SIZE,
    )
    return Pair(
        theirs,
        ours,
        TORCH_TRANSLATOR,
        TORCH_PRE_NORM_TAPS if norm_order == "pre" else TORCH_TAPS,
        run_theirs=lambda: theirs(SOURCE, TARGET),
        run_ours=partial(run_transformer, ours),
    )


PAIRS: dict[str, Callable[[], Pair]] = {
    "bert": bert,
    "gpt2": gpt2,
    "llama": llama,
    "llama-tied": partial(llama, tied=True),
    "marian-swish": partial(marian, theirs_activation="swish", our_activation="silu"),
    "marian-relu": partial(marian, theirs_activation="relu", our_activation="relu"),
    "marian-two-vocabularies": partial(
        marian, theirs_activation="swish", our_activation="silu", target_vocab_size=TARGET_VOCAB_SIZE
    ),
    "torch-post-norm-relu": partial(torch_transformer, norm_order="post", activation="relu"),
    "torch-pre-norm-gelu": partial(torch_transformer, norm_order="pre", activation="gelu"),
}

every_pair = pytest.mark.parametrize("make_pair", PAIRS.values(), ids=PAIRS)


# Layer by layer


def layers_of(pair: Pair) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Run both; return the values at ours' points and at theirs."""
    recorder = Recorder("*")
    pair.run_ours(probe=recorder)
    return recorder.seen, watched(pair.theirs, pair.taps, pair.run_theirs)


@every_pair
def test_layers_agree_with_the_reference(make_pair):
    assert_layers_agree(*layers_of(make_pair()))


@every_pair
@pytest.mark.parametrize("packed", [False, True], ids=["padded", "packed"])
def test_unwatched_logits_agree_with_the_reference(make_pair, packed):
    """Watching takes the explicit path of attention; an ordinary run takes the fused kernel."""
    pair = make_pair()
    ours, theirs = pair.run_ours(probe=Recorder(), packed=packed), pair.run_theirs()
    real = pair.predicts.real
    assert_close(ours if packed else ours[real], theirs[real], atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize(
    ("make_pair", "place", "report"),
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
def test_exchanged_query_and_key_are_reported_as_their_layer(make_pair, place, report):
    """The comparison itself must be able to fail, and to say where."""
    pair = make_pair()
    attention = pair.ours.get_submodule(place)
    attention.query, attention.key = attention.key, attention.query
    with pytest.raises(AssertionError, match=report):
        assert_layers_agree(*layers_of(pair))


# BERT's heads for classes: their own models, each with a table of its own


def test_bert_sequence_classes_agree_with_the_reference():
    theirs = transformers.BertForSequenceClassification(bert_config(num_labels=N_CLASSES))
    ours = our_bert(heads=("sequence_classes",), n_classes=N_CLASSES)
    give_weights(theirs, ours, BERT_SEQUENCE_CLASSES)
    hidden = ours(SOURCE.ids, segments=SEGMENTS, lengths=SOURCE.lengths)
    scores = ours.sequence_classes(ours.pool(hidden))
    assert_close(scores, theirs(**SOURCE_FOR_BERT).logits, atol=TOLERANCE, rtol=0)


def test_bert_token_classes_agree_with_the_reference():
    theirs = transformers.BertForTokenClassification(bert_config(num_labels=N_CLASSES))
    ours = our_bert(heads=("token_classes",), n_classes=N_CLASSES)
    give_weights(theirs, ours, BERT_TOKEN_CLASSES)
    scores = ours.token_classes(ours(SOURCE.ids, segments=SEGMENTS, lengths=SOURCE.lengths))
    assert_close(scores[SOURCE.real], theirs(**SOURCE_FOR_BERT).logits[SOURCE.real], atol=TOLERANCE, rtol=0)


# Gradients


@pytest.mark.parametrize("name", ["torch-post-norm-relu", "torch-pre-norm-gelu"])
def test_gradients_agree_with_torch(name):
    """The tables move and cut tensors and nothing else, so they carry gradients as well as weights.

    In double precision: some gradients are the small rest of large sums, whose rounding would hide a real difference.
    """
    pair = PAIRS[name]()
    labels = torch.randint(TARGET_VOCAB_SIZE, (int(TARGET.lengths.sum()),), generator=torch.Generator().manual_seed(4))
    pair.theirs.double()
    pair.ours.double()
    for logits in (pair.run_theirs(), pair.run_ours()):
        F.cross_entropy(logits[TARGET.real], labels).backward()
    expected = to_ours(pair.table, {name: weight.grad for name, weight in pair.theirs.named_parameters()})
    actual = {name: weight.grad for name, weight in pair.ours.named_parameters()}
    assert actual.keys() == expected.keys()
    # A bias of keys shifts all scores of a query alike: it has no gradient, only rounding, and borrows a scale.
    scales = {name: expected[name.replace("key.bias", "key.weight")].abs().max() for name in expected}
    differing = [name for name in expected if not (actual[name] - expected[name]).abs().max() <= 1e-9 * scales[name]]
    assert differing == []


# Decoding with a cache


@pytest.fixture
def unwritten_memory_is_nan():
    """Let no test pass by the luck of zeros: in this mode torch fills memory it leaves uninitialised with NaN."""
    assert torch.utils.deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("unwritten_memory_is_nan")
@pytest.mark.parametrize("make_pair", [gpt2, llama], ids=["gpt2", "llama"])
def test_cached_greedy_continuation_agrees_with_generate(make_pair):
    """Prompts of mixed lengths: padded on the left for `generate`, which goes on at the right end."""
    pair, n_steps = make_pair(), 8
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


# The tables


@every_pair
def test_table_gives_back_the_weights_it_was_given(make_pair):
    pair = make_pair()
    aliases = {second for second, _ in pair.table.aliases}
    expected = {
        name: weight
        for name, weight in pair.theirs.state_dict().items()
        if name not in aliases and not any(renamed(name, computed, "") == "" for computed in pair.table.computed)
    }
    assert_close(to_theirs(pair.table, pair.ours.state_dict()), expected, atol=0, rtol=0)


def test_fill_lists_what_is_left_over_on_either_side():
    pair = gpt2()
    shorter = Table(tuple(row for row in GPT2.rows if "ln_f" not in row.theirs))
    with pytest.raises(ValueError, match=r"no row names their transformer\.ln_f\.weight.*") as caught:
        fill(pair.ours, shorter, pair.theirs.state_dict())
    assert "nothing fills our decoder.final_norm.bias" in str(caught.value)


def test_fill_refuses_to_tie_what_the_reference_keeps_apart():
    with pytest.raises(ValueError, match=r"several in the reference: embedding\.tokens\.weight, output\.weight"):
        fill(llama(tied=True).ours, LLAMA, llama(tied=False).theirs.state_dict())


def test_fill_refuses_weights_of_another_shape():
    pair = gpt2()
    state = pair.theirs.state_dict() | {"transformer.wpe.weight": torch.zeros(MAX_LENGTH + 1, 32)}
    with pytest.raises(ValueError, match=r"embedding\.positions\.weight would be of shape \(17, 32\), not \(16, 32\)"):
        fill(pair.ours, GPT2, state)


def test_fill_takes_a_tied_weight_under_either_of_its_names():
    """Files hold a weight once: Marian's keep the first name the tables call second."""
    pair = PAIRS["marian-swish"]()
    names = {"lm_head.weight", "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"}
    state = {name: weight for name, weight in pair.theirs.state_dict().items() if name not in names}
    ours = PAIRS["marian-swish"]().ours
    nn.init.zeros_(ours.source_embedding.tokens.weight)
    fill(ours, MARIAN, state)
    assert_close(ours.source_embedding.tokens.weight, pair.theirs.model.shared.weight, atol=0, rtol=0)
