"""transformers: Marian, BERT and GPT-2, with torch's fused attention, in training, generating and embedding."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sightline.bench.decode import N_NEW, source_length
from sightline.bench.embed import texts
from sightline.bench.peers.torch_nn import smoothed_loss
from sightline.bench.shapes import END, MAX_POSITIONS, PAD, Shape, prompts, random_model
from sightline.bench.worker import Job
from sightline.data.datasets.batch import MaskedBatch, PairBatch, TextBatch, pad, token_mask
from sightline.model.config import BertConfig, GPTConfig, TransformerConfig
from sightline.model.interfaces import Seq2Seq
from sightline.model.positions import sinusoid_table
from sightline.pretrained.weight_names import BERT_PRETRAINING, GPT2, MARIAN, Table, to_theirs


def marian(config: TransformerConfig) -> nn.Module:
    """Return a Marian of our shape."""
    from transformers import MarianConfig, MarianMTModel

    made: nn.Module = MarianMTModel(
        MarianConfig(
            vocab_size=config.vocab_size, d_model=config.d_model,
            encoder_layers=config.n_encoder_layers, decoder_layers=config.n_decoder_layers,
            encoder_attention_heads=config.n_heads, decoder_attention_heads=config.n_heads,
            encoder_ffn_dim=config.d_ff, decoder_ffn_dim=config.d_ff, activation_function="relu",
            dropout=config.dropout, attention_dropout=0.0, activation_dropout=0.0, scale_embedding=True,
            max_position_embeddings=MAX_POSITIONS, pad_token_id=PAD, eos_token_id=END, decoder_start_token_id=END,
            forced_eos_token_id=None, attn_implementation="sdpa",
        )
    )  # fmt: skip
    return made


def bert(config: BertConfig) -> nn.Module:
    """Return a BERT of our shape with the head of masked language modeling."""
    from transformers import BertConfig as TheirConfig
    from transformers import BertForMaskedLM

    made: nn.Module = BertForMaskedLM(
        TheirConfig(
            vocab_size=config.vocab_size, hidden_size=config.d_model, num_hidden_layers=config.n_layers,
            num_attention_heads=config.n_heads, intermediate_size=config.d_ff,
            max_position_embeddings=config.max_length, hidden_dropout_prob=config.dropout,
            attention_probs_dropout_prob=0.0, pad_token_id=PAD, attn_implementation="sdpa",
        )
    )  # fmt: skip
    return made


def gpt2(config: GPTConfig) -> nn.Module:
    """Return a GPT-2 of our shape."""
    from transformers import GPT2Config, GPT2LMHeadModel

    made: nn.Module = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=config.vocab_size, n_positions=config.max_length, n_embd=config.d_model,
            n_layer=config.n_layers, n_head=config.n_heads, n_inner=config.d_ff, resid_pdrop=config.dropout,
            embd_pdrop=config.dropout, attn_pdrop=0.0, bos_token_id=PAD, eos_token_id=END,
            attn_implementation="sdpa",
        )
    )  # fmt: skip
    return made


class HuggingFaceMarian(nn.Module):
    """MarianMTModel in training."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.model = marian(config)

    def forward(self, batch: PairBatch) -> Tensor:
        """Return the loss."""
        found = self.model(
            input_ids=batch.source,
            attention_mask=(batch.source != PAD).long(),
            decoder_input_ids=batch.inputs,
            use_cache=False,
        )
        return smoothed_loss(found.logits, batch.targets)


class HuggingFaceBert(nn.Module):
    """BertForMaskedLM in training."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.model = bert(config)

    def forward(self, batch: MaskedBatch) -> Tensor:
        """Return the loss."""
        labels = batch.inputs.new_full(batch.inputs.shape, -100)
        labels[batch.selected] = batch.targets
        loss: Tensor = self.model(
            input_ids=batch.inputs, attention_mask=token_mask(batch.inputs, batch.lengths).long(), labels=labels
        ).loss
        return loss


class HuggingFaceGPT2(nn.Module):
    """GPT2LMHeadModel in training."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.model = gpt2(config)

    def forward(self, batch: TextBatch) -> Tensor:
        """Return the loss."""
        logits = self.model(input_ids=batch.inputs, use_cache=False).logits
        return F.cross_entropy(logits.flatten(0, 1), batch.targets.flatten())


def with_our_weights(theirs: nn.Module, ours: nn.Module, table: Table) -> nn.Module:
    """Give a model of theirs the weights of ours."""
    given = to_theirs(table, ours.state_dict())
    missing, surplus = theirs.load_state_dict(given, strict=False)
    learned = {name for name, _ in theirs.named_parameters()}
    unfilled = [name for name in missing if name in learned and "embed_positions" not in name]
    if surplus or any(name not in TIED for name in unfilled):
        raise ValueError(f"weights do not fit: {unfilled}, {surplus}")
    return theirs.eval()


TIED = ("model.shared.weight", "cls.predictions.bias")
"""Second names of weights that are given under their first."""


def same_marian(shape: Shape) -> nn.Module:
    """Return a Marian with our weights, and our order of sines and cosines."""
    ours = random_model(shape)
    theirs: Any = with_our_weights(marian(ours.config), ours, MARIAN)
    table = sinusoid_table(MAX_POSITIONS, ours.config.d_model)
    for side in (theirs.model.encoder, theirs.model.decoder):
        side.embed_positions.weight = nn.Parameter(table, requires_grad=False)
    theirs.generation_config.update(
        eos_token_id=None, forced_eos_token_id=None, bad_words_ids=None, pad_token_id=PAD, decoder_start_token_id=END
    )
    return theirs  # type: ignore[no-any-return]


def same_gpt2(shape: Shape) -> nn.Module:
    """Return a GPT-2 with our weights."""
    ours = random_model(shape)
    theirs: Any = with_our_weights(gpt2(ours.config), ours, GPT2)
    theirs.generation_config.update(eos_token_id=None, pad_token_id=PAD)
    return theirs  # type: ignore[no-any-return]


def decoding_job(shape: dict[str, Any]) -> Job:
    """Generate with `generate`, as its documentation says, cache included."""
    wanted = Shape.of(shape)
    is_pair = wanted.interface is Seq2Seq
    model: Any = same_marian(wanted) if is_pair else same_gpt2(wanted)
    inputs = torch.tensor(prompts(wanted, length=source_length(wanted)))
    options: dict[str, Any] = {"max_new_tokens": N_NEW, "num_beams": wanted.beam, "do_sample": False}
    if wanted.beam > 1:
        options["length_penalty"] = 1.0

    def run() -> list[list[int]]:
        with torch.inference_mode():
            found = model.generate(inputs, attention_mask=torch.ones_like(inputs), **options)
        ids: list[list[int]] = found[:, -N_NEW:].tolist()
        return ids

    return Job(run)


def traced_job(shape: dict[str, Any], *, traced: bool) -> Job:
    """Generate for one source, with all attention weights of all steps or without."""
    model: Any = same_marian(Shape.of(shape))
    if traced:
        model.set_attn_implementation("eager")  # the fused kernel has no weights to give
    inputs = torch.tensor(prompts(Shape.of(shape), length=30))

    def run() -> None:
        with torch.inference_mode():
            model.generate(
                inputs,
                attention_mask=torch.ones_like(inputs),
                max_new_tokens=30,
                num_beams=1,
                output_attentions=traced,
                return_dict_in_generate=True,
            )

    return Job(run)


def embedding_job(shape: dict[str, Any]) -> Job:
    """Return the mean vector of each text, padding left out of it."""
    wanted = Shape.of(shape)
    ours = random_model(wanted)
    body = with_our_weights(bert(ours.config), ours, BERT_PRETRAINING).get_submodule("bert")
    ids, lengths = pad(texts(wanted))
    mask = token_mask(ids, lengths)

    def run() -> list[list[float]]:
        with torch.inference_mode():
            hidden = body(input_ids=ids, attention_mask=mask.long()).last_hidden_state
            mean = (hidden * mask[..., None]).sum(1) / lengths[:, None]
        first: list[list[float]] = mean[:, :4].tolist()
        return first

    return Job(run)
