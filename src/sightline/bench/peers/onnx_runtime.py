"""onnxruntime, in 32 bits and with weights quantized to 8: graphs of our weights, caches handed from step to step.

There is no search in onnxruntime: the loop around the graph is greedy and written here, as its users write one.
"""

import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sightline.bench.decode import N_NEW, source_length
from sightline.bench.embed import texts
from sightline.bench.shapes import END, MAX_POSITIONS, Shape, prompts, random_model
from sightline.bench.worker import Job
from sightline.data.datasets.batch import pad
from sightline.model.interfaces import Seq2Seq
from sightline.model.layers import ACTIVATIONS
from sightline.model.positions import sinusoid_table
from sightline.model.registry import interface_of


class Graph(nn.Module):
    """Our layers, written out so that a graph can be made of them: no packing, caches as inputs and outputs."""

    def __init__(self, stack: Any, embedding: Any, config: Any) -> None:
        super().__init__()
        self.stack, self.embedding, self.config = stack, embedding, config
        positions = embedding.positions
        table = sinusoid_table(MAX_POSITIONS, config.d_model) if positions is None else positions.weight.detach()
        self.table: Tensor
        self.register_buffer("table", table.clone())

    def embed(self, ids: Tensor, positions: Tensor) -> Tensor:
        """Return token plus position, plus the first segment in BERT, normalized there."""
        x: Tensor = self.embedding.embed(ids) + self.table[positions]
        if self.embedding.segments is not None:
            x = x + self.embedding.segments.weight[0]
        normed: Tensor = x if self.embedding.norm is None else self.embedding.norm(x)
        return normed

    def heads(self, x: Tensor) -> Tensor:
        """Split the last dimension: B T E → B H T D."""
        return x.view(x.size(0), x.size(1), self.config.n_heads, -1).transpose(1, 2)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return softmax(QKᵀ/√d + mask)V, heads put side by side again."""
        scores = q @ k.transpose(2, 3) / math.sqrt(q.size(-1))
        weights = (scores if mask is None else scores + mask).softmax(-1)
        return (weights @ v).transpose(1, 2).flatten(2)

    def residual(self, norm: Any, x: Tensor, sublayer: Any) -> Tensor:
        """Add what a sublayer makes of x; the norm is before or after."""
        added: Tensor = x + sublayer(norm(x)) if self.config.pre_norm else norm(x + sublayer(x))
        return added

    def feed_forward(self, layer: Any, x: Tensor) -> Tensor:
        """Apply the feed-forward network."""
        wide = layer.feed_forward.up_proj(x)
        act = F.relu if self.config.activation == "relu" else ACTIVATIONS[self.config.activation]
        out: Tensor = layer.feed_forward.down_proj(act(wide))
        return out

    def finish(self, x: Tensor) -> Tensor:
        """Apply the final norm, if there is one."""
        normed: Tensor = x if self.stack.final_norm is None else self.stack.final_norm(x)
        return normed


class EncoderGraph(Graph):
    """Ids and a mask into hidden vectors."""

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Return the last layer's output; `mask` is 0 for tokens, −∞ for padding."""
        x = self.embed(ids, torch.arange(ids.size(1)))
        for layer in self.stack.layers:
            own = layer.self_attention

            def attention(y: Tensor, own: Any = own) -> Tensor:
                q, k, v = (self.heads(linear(y)) for linear in (own.query, own.key, own.value))
                merged: Tensor = own.output(self.attend(q, k, v, mask))
                return merged

            x = self.residual(layer.self_attention_norm, x, attention)
            x = self.residual(layer.feed_forward_norm, x, lambda y, layer=layer: self.feed_forward(layer, y))
        return self.finish(x)


class CrossGraph(nn.Module):
    """The encoder's output into the keys and values of every layer's cross-attention."""

    def __init__(self, encoder: EncoderGraph, stack: Any) -> None:
        super().__init__()
        self.encoder, self.stack = encoder, stack

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        """Encode, then project."""
        hidden = self.encoder(ids, mask)
        found = []
        for layer in self.stack.layers:
            cross = layer.cross_attention
            found += [self.encoder.heads(cross.key(hidden)), self.encoder.heads(cross.value(hidden))]
        return tuple(found)


class StepGraph(Graph):
    """The newest tokens and the caches into the best next token and the caches after it.

    With a prompt several tokens come at once, each seeing those before it.
    """

    def __init__(self, model: Any, embedding: Any) -> None:
        super().__init__(model.decoder, embedding, model.config)
        self.output = model.output
        self.has_cross = interface_of(model.config) is Seq2Seq

    def forward(self, ids: Tensor, *caches: Tensor) -> tuple[Tensor, ...]:
        """Return the best next token of each row, and keys and values, in the order they came."""
        n_layers = len(self.stack.layers)
        past, cross_kv = caches[: 2 * n_layers], caches[2 * n_layers :]
        before, new = past[0].size(2), ids.size(1)
        positions = torch.arange(new) + before
        mask = torch.where(torch.arange(before + new)[None, :] <= positions[:, None], 0.0, -math.inf)
        x = self.embed(ids, positions)
        kept: list[Tensor] = []
        for number, layer in enumerate(self.stack.layers):
            own = layer.self_attention

            def attention(y: Tensor, own: Any = own, number: int = number) -> Tensor:
                q, k, v = (self.heads(linear(y)) for linear in (own.query, own.key, own.value))
                k, v = torch.cat([past[2 * number], k], dim=2), torch.cat([past[2 * number + 1], v], dim=2)
                kept.extend((k, v))
                merged: Tensor = own.output(self.attend(q, k, v, mask))
                return merged

            x = self.residual(layer.self_attention_norm, x, attention)
            if self.has_cross:

                def cross(y: Tensor, cross: Any = layer.cross_attention, number: int = number) -> Tensor:
                    k, v = cross_kv[2 * number], cross_kv[2 * number + 1]
                    merged: Tensor = cross.output(self.attend(self.heads(cross.query(y)), k, v))
                    return merged

                x = self.residual(layer.cross_attention_norm, x, cross)
            x = self.residual(layer.feed_forward_norm, x, lambda y, layer=layer: self.feed_forward(layer, y))
        return self.output(self.finish(x)[:, -1]).argmax(-1, keepdim=True), *kept


def open_session(
    graph: nn.Module, inputs: Sequence[Tensor], dynamic: Sequence[dict[int, str]], *, quantized: bool
) -> Any:
    """Make a graph of a module, quantize it if asked, and open it."""
    import onnxruntime
    from onnxruntime.quantization import quantize_dynamic

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.onnx"
        names = [f"in{number}" for number in range(len(inputs))]
        torch.onnx.export(
            graph, tuple(inputs), str(path), input_names=names, dynamo=False, opset_version=17,
            dynamic_axes=dict(zip(names, dynamic, strict=True)),
        )  # fmt: skip
        if quantized:
            quantize_dynamic(path, path := Path(folder) / "quantized.onnx")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = torch.get_num_threads(), 3
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def call(session: Any, values: Sequence[Any]) -> list[Any]:
    """Run a session; caches stay its own values and are not copied."""
    names = [one.name for one in session.get_inputs()]
    outputs = [one.name for one in session.get_outputs()]
    found: list[Any] = session.run_with_ort_values(outputs, dict(zip(names, values, strict=True)))
    return found


@torch.inference_mode()
def decoding_job(shape: dict[str, Any], *, quantized: bool) -> Job:
    """Generate greedily."""
    import onnxruntime

    wanted = Shape.of(shape)
    model = random_model(wanted)
    config = model.config
    is_pair = wanted.interface is Seq2Seq
    texts = torch.tensor(prompts(wanted, length=source_length(wanted)))
    n_rows, n_layers = texts.size(0), len(model.decoder.layers)
    empty = torch.zeros(n_rows, config.n_heads, 0, config.head_width)
    step_graph = StepGraph(model, model.target_embedding if is_pair else model.embedding)
    some = torch.zeros(n_rows, config.n_heads, 3, config.head_width)
    past_axes = [{0: "rows", 2: "before"}] * (2 * n_layers)
    wrap = onnxruntime.OrtValue.ortvalue_from_numpy
    if is_pair:
        mask = torch.zeros(n_rows, 1, 1, texts.size(1))
        encoder = CrossGraph(EncoderGraph(model.encoder, model.source_embedding, config), model.decoder)
        reading = open_session(encoder, [texts, mask], [{0: "rows", 1: "s"}, {0: "rows", 3: "s"}], quantized=quantized)
        cross = [torch.zeros(n_rows, config.n_heads, texts.size(1), config.head_width)] * (2 * n_layers)
        inputs = [texts[:, :1], *[some] * (2 * n_layers), *cross]
        axes = [*past_axes, *[{0: "rows", 2: "s"}] * len(cross)]
    else:
        inputs, axes = [texts, *[some] * (2 * n_layers)], past_axes
    stepping = open_session(step_graph, inputs, [{0: "rows", 1: "new"}, *axes], quantized=quantized)

    first = torch.full((n_rows, 1), END) if is_pair else texts

    def run() -> list[list[int]]:
        newest = wrap(first.numpy())
        past = [wrap(empty.numpy())] * (2 * n_layers)
        read = call(reading, [wrap(texts.numpy()), wrap(mask.numpy())]) if is_pair else []
        columns = []
        for _ in range(N_NEW):
            newest, *past = call(stepping, [newest, *past, *read])
            columns.append(newest.numpy()[:, 0].tolist())
        return [list(row) for row in zip(*columns, strict=True)]

    return Job(run)


@torch.inference_mode()
def embedding_job(shape: dict[str, Any], *, quantized: bool) -> Job:
    """Return the mean vector of each text."""
    import onnxruntime

    wanted = Shape.of(shape)
    model = random_model(wanted)
    ids, lengths = pad(texts(wanted))
    is_token = torch.arange(ids.size(1)) < lengths[:, None]
    mask = torch.where(is_token, 0.0, -math.inf)[:, None, None]
    graph = EncoderGraph(model.encoder, model.embedding, model.config)
    axes = [{0: "rows", 1: "length"}, {0: "rows", 3: "length"}]
    session = open_session(graph, [ids, mask], axes, quantized=quantized)
    wrap = onnxruntime.OrtValue.ortvalue_from_numpy
    inputs = [wrap(ids.numpy()), wrap(mask.numpy())]

    def run() -> list[list[float]]:
        [hidden] = call(session, inputs)
        mean = (torch.from_numpy(hidden.numpy()) * is_token[..., None]).sum(1) / lengths[:, None]
        first: list[list[float]] = mean[:, :4].tolist()
        return first

    return Job(run)
