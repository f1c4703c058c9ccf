"""CTranslate2, the fastest engine for such models on a CPU: our weights in its format, in 32 or 8 bits."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from sightline.bench.decode import N_NEW, source_length
from sightline.bench.embed import texts
from sightline.bench.shapes import MAX_POSITIONS, Shape, prompts, random_model
from sightline.bench.worker import Job
from sightline.data.datasets.batch import pad
from sightline.model.interfaces import CausalLM, Seq2Seq, TextEncoder
from sightline.model.positions import sinusoid_table
from sightline.model.registry import interface_of


def array(tensor: Tensor) -> Any:
    """Return a weight as CTranslate2 takes it."""
    return np.ascontiguousarray(tensor.detach().numpy())


def fill_linear(spec: Any, *linears: nn.Linear) -> None:
    """Write linear maps below one another, as it stores queries, keys and values."""
    spec.weight = np.concatenate([array(one.weight) for one in linears])
    if linears[0].bias is not None:
        spec.bias = np.concatenate([array(one.bias) for one in linears])


def fill_norm(spec: Any, norm: Any) -> None:
    """Write a layer norm; a norm without bias has zeros."""
    spec.gamma = array(norm.weight)
    spec.beta = np.zeros_like(spec.gamma) if norm.bias is None else array(norm.bias)


def fill_layer(spec: Any, layer: Any) -> None:
    """Write a layer."""
    own = layer.self_attention
    fill_linear(spec.self_attention.linear[0], own.query, own.key, own.value)
    fill_linear(spec.self_attention.linear[1], own.output)
    fill_norm(spec.self_attention.layer_norm, layer.self_attention_norm)
    if layer.cross_attention is not None:
        cross = layer.cross_attention
        fill_linear(spec.attention.linear[0], cross.query)
        fill_linear(spec.attention.linear[1], cross.key, cross.value)
        fill_linear(spec.attention.linear[2], cross.output)
        fill_norm(spec.attention.layer_norm, layer.cross_attention_norm)
    fill_linear(spec.ffn.linear_0, layer.feed_forward.up_proj)
    fill_linear(spec.ffn.linear_1, layer.feed_forward.down_proj)
    fill_norm(spec.ffn.layer_norm, layer.feed_forward_norm)


def fill_stack(spec: Any, stack: Any, embedding: Any, config: Any) -> None:
    """Write an encoder or a decoder with its embedding."""
    table = spec.embeddings if hasattr(spec.embeddings, "weight") else spec.embeddings[0]
    table.weight = array(embedding.tokens.weight)
    spec.scale_embeddings = config.scale_embeddings
    positions = embedding.positions
    learned = sinusoid_table(MAX_POSITIONS, config.d_model) if positions is None else positions.weight
    spec.position_encodings.encodings = array(learned)
    for layer_spec, layer in zip(spec.layer, stack.layers, strict=True):
        fill_layer(layer_spec, layer)
    if stack.final_norm is not None:
        fill_norm(spec.layer_norm, stack.final_norm)


def words(config: Any) -> list[str]:
    """Return a vocabulary: every id as a word, among them the special ones it asks for."""
    return ["<blank>", "</s>", *map(str, range(2, config.vocab_size))]


def save(model: Any, folder: Path) -> None:
    """Write a model of ours in its format."""
    from ctranslate2.specs import (
        TransformerDecoderModelSpec,
        TransformerEncoderModelSpec,
        TransformerEncoderSpec,
        TransformerSpec,
        common_spec,
    )

    activation = {
        "relu": common_spec.Activation.RELU,
        "gelu": common_spec.Activation.GELU,
        "gelu_tanh": common_spec.Activation.GELUTanh,
    }
    config = model.config
    options = {"pre_norm": config.pre_norm, "activation": activation[config.activation]}
    spec: Any
    interface = interface_of(config)
    if interface is Seq2Seq:
        counts = (config.n_encoder_layers, config.n_decoder_layers)
        spec = TransformerSpec.from_config(counts, config.n_heads, **options)
        fill_stack(spec.encoder, model.encoder, model.source_embedding, config)
        fill_stack(spec.decoder, model.decoder, model.target_embedding, config)
        spec.decoder.projection.weight = array(model.output.weight)
        spec.register_source_vocabulary(words(config))
        spec.register_target_vocabulary(words(config))
        spec.config.decoder_start_token = "</s>"  # noqa: S105 - a word, not a password
    elif interface is CausalLM:
        spec = TransformerDecoderModelSpec.from_config(config.n_layers, config.n_heads, **options)
        fill_stack(spec.decoder, model.decoder, model.embedding, config)
        spec.decoder.projection.weight = array(model.output.weight)
        spec.register_vocabulary(words(config))
    else:
        encoder = TransformerEncoderSpec(config.n_layers, config.n_heads, layernorm_embedding=True, **options)
        encoder.embeddings.append(common_spec.EmbeddingsSpec())
        encoder.embeddings_merge = np.dtype("int8").type(common_spec.EmbeddingsMerge.ADD)
        spec = TransformerEncoderModelSpec(encoder)
        fill_stack(encoder, model.encoder, model.embedding, config)
        encoder.embeddings[1].weight = array(model.embedding.segments.weight)
        fill_norm(encoder.layernorm_embedding, model.embedding.norm)
        spec.register_vocabulary(words(config))
    if interface is not Seq2Seq:
        spec.config.bos_token = spec.config.unk_token = "<blank>"  # noqa: S105 - words, not passwords
        spec.config.eos_token = "</s>"  # noqa: S105
    spec.config.layer_norm_epsilon = config.norm_eps
    spec.validate()
    spec.optimize(quantization=None)
    folder.mkdir()
    spec.save(str(folder))


def open_model(shape: Shape, compute_type: str) -> Any:
    """Return our model in CTranslate2, on as many threads as the process has."""
    import ctranslate2
    import torch

    kinds: dict[type, str] = {Seq2Seq: "Translator", CausalLM: "Generator", TextEncoder: "Encoder"}
    model = random_model(shape)
    with tempfile.TemporaryDirectory() as folder:
        save(model, Path(folder) / "model")
        return getattr(ctranslate2, kinds[shape.interface])(
            str(Path(folder) / "model"),
            compute_type=compute_type,
            inter_threads=1,
            intra_threads=torch.get_num_threads(),
        )


def decoding_job(shape: dict[str, Any], *, compute_type: str) -> Job:
    """Generate with its own search."""
    wanted = Shape.of(shape)
    model = open_model(wanted, compute_type)
    names = words(wanted.config())
    number_of = {name: number for number, name in enumerate(names)}
    rows = [[names[id_] for id_ in ids] for ids in prompts(wanted, length=source_length(wanted))]
    if wanted.interface is Seq2Seq:

        def run() -> list[list[int]]:
            found = model.translate_batch(
                rows, beam_size=wanted.beam, max_decoding_length=N_NEW, min_decoding_length=N_NEW, max_batch_size=0
            )
            return [[number_of[word] for word in one.hypotheses[0]] for one in found]
    else:

        def run() -> list[list[int]]:
            found = model.generate_batch(
                rows, beam_size=wanted.beam, max_length=N_NEW, min_length=N_NEW, include_prompt_in_result=False,
                max_batch_size=0,
            )  # fmt: skip
            return [list(one.sequences_ids[0]) for one in found]

    return Job(run)


def embedding_job(shape: dict[str, Any], *, compute_type: str) -> Job:
    """Return the mean vector of each text."""
    wanted = Shape.of(shape)
    model = open_model(wanted, compute_type)
    rows = texts(wanted)
    ids, lengths = pad(rows)
    mask = (np.arange(ids.size(1)) < lengths.numpy()[:, None])[..., None]

    def run() -> list[list[float]]:
        hidden = np.asarray(model.forward_batch(rows).last_hidden_state)
        mean = (hidden * mask).sum(axis=1) / lengths.numpy()[:, None]
        first: list[list[float]] = mean[:, :4].tolist()
        return first

    return Job(run)
