"""What other layers may ask of a model: `Model` of every one, the Protocols by the kind of input and output.

A family names its Protocol in its row of the registry. Losses, traces, embeddings and whatever else depends on it are
looked up by the Protocol, never by the class of the model, so that a new family is one file and one row.

What a model reads is token ids (B T), or, where the family takes them, vectors in their place or inputs that it turns
into vectors itself, such as picture patches (B T …): the first two dimensions are always sequences and tokens.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from sightline.model.cache import INITIAL_CAPACITY
from sightline.model.config import Head, ModelConfig
from sightline.model.hooks import NO_HOOKS, NoHooks


@runtime_checkable
class Model(Protocol):
    """Every model: a torch module with a config. The methods without a text are those of `nn.Module`."""

    training: bool

    @property
    def config(self) -> ModelConfig:
        """The sizes and choices that it was built from."""

    @property
    def input_embedding(self) -> nn.Module:
        """The embedding of what the model reads; its `tokens` are the word vectors."""

    def tie_weights(self) -> None:
        """Share the tied weights; called again after parameters have been replaced."""

    def __call__(self, *inputs: Any, **options: Any) -> Tensor: ...  # noqa: D102
    def parameters(self) -> Iterator[nn.Parameter]: ...  # noqa: D102
    def named_parameters(self, *, remove_duplicate: bool = True) -> Iterator[tuple[str, nn.Parameter]]: ...  # noqa: D102
    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any: ...  # noqa: D102
    def modules(self) -> Iterator[nn.Module]: ...  # noqa: D102
    def train(self, mode: bool = True) -> Any: ...  # noqa: D102, FBT
    def eval(self) -> Any: ...  # noqa: D102
    def to(self, device: Any, /) -> Any: ...  # noqa: D102


@runtime_checkable
class EncodedSource(Protocol):
    """A source as a decoder attends to it."""

    @property
    def hidden(self) -> Float[Tensor, "*rows E"]:
        """The vectors of its tokens."""

    def repeat(self, copies: int) -> Any:
        """Return that of one sentence, repeated along the batch."""


@runtime_checkable
class Seq2Seq(Model, Protocol):
    """Reads a source, then predicts a target token by token (Transformer)."""

    @property
    def output(self) -> nn.Linear:
        """The output projection, which a loss may apply in chunks."""

    @property
    def cross_attention_point(self) -> str | None:
        """The hook point of the attention that aligns target and source; None without one."""

    def encode(
        self,
        source: Shaped[Tensor, "B S *rest"],
        *,
        lengths: Int[Tensor, "B"] | None = None,
        packed: bool = False,
        hooks: NoHooks = NO_HOOKS,
    ) -> Any:
        """Read the source: an `EncodedSource` of the family's own, which goes to `decode` and `start`."""

    def decode(
        self,
        target: Shaped[Tensor, "B T *rest"],
        encoder_output: Any,
        *,
        lengths: Int[Tensor, "B"] | None = None,
        packed: bool = False,
        hooks: NoHooks = NO_HOOKS,
    ) -> Float[Tensor, "*rows E"]:
        """Return the input of the output projection for a whole target (teacher forcing)."""

    def logits(self, hidden: Float[Tensor, "*rows E"], *, hooks: NoHooks = NO_HOOKS) -> Float[Tensor, "*rows V"]:
        """Project to the logits of every token of the vocabulary."""

    def start(self, encoder_output: Any, *, capacity: int = INITIAL_CAPACITY) -> Any:
        """Return the state of a decoder that has seen nothing yet: `SharedState` says what it can do."""

    def step(
        self,
        ids: Shaped[Tensor, "R T *rest"],
        state: Any,
        *,
        lengths: Int[Tensor, "R"] | None = None,
        hooks: NoHooks = NO_HOOKS,
    ) -> tuple[Float[Tensor, "R V"], Any]:
        """Feed the newest tokens of each row; return the logits of the next one and the updated state."""


@runtime_checkable
class CausalLM(Model, Protocol):
    """Predicts each next token of a text from those before it (GPT)."""

    @property
    def output(self) -> nn.Linear:
        """The output projection, which a loss may apply in chunks."""

    def decode(
        self,
        ids: Shaped[Tensor, "B T *rest"],
        *,
        lengths: Int[Tensor, "B"] | None = None,
        packed: bool = False,
        hooks: NoHooks = NO_HOOKS,
    ) -> Float[Tensor, "*rows E"]:
        """Return the input of the output projection for whole sequences."""

    def logits(self, hidden: Float[Tensor, "*rows E"], *, hooks: NoHooks = NO_HOOKS) -> Float[Tensor, "*rows V"]:
        """Project to the logits of every token of the vocabulary."""

    def start(self, n_rows: int, *, capacity: int = INITIAL_CAPACITY) -> Any:
        """Return the state of a model that has seen nothing yet."""

    def step(
        self,
        ids: Shaped[Tensor, "R T *rest"],
        state: Any,
        *,
        lengths: Int[Tensor, "R"] | None = None,
        hooks: NoHooks = NO_HOOKS,
    ) -> tuple[Float[Tensor, "R V"], Any]:
        """Feed the newest tokens of each row; return the logits of the next one and the updated state."""


@runtime_checkable
class TextEncoder(Model, Protocol):
    """Gives a vector for every token of a text, seen as a whole, and has heads that read them (Bert)."""

    def __call__(
        self,
        ids: Shaped[Tensor, "B T *rest"],
        *,
        segments: Int[Tensor, "B T"] | None = None,
        lengths: Int[Tensor, "B"] | None = None,
        packed: bool = False,
        hooks: NoHooks = NO_HOOKS,
    ) -> Float[Tensor, "*rows E"]:
        """Return the contextual embedding of every token."""

    def pool(self, hidden: Float[Tensor, "*rows E"], lengths: Int[Tensor, "B"] | None = None) -> Float[Tensor, "B E"]:
        """Return one vector per text."""

    def mlm(self, hidden: Float[Tensor, "*rows E"], *, hooks: NoHooks = NO_HOOKS) -> Float[Tensor, "*rows V"]:
        """Return the logits of the vocabulary at each token (masked language modeling)."""

    def token_classification(
        self, hidden: Float[Tensor, "*rows E"], *, hooks: NoHooks = NO_HOOKS
    ) -> Float[Tensor, "*rows C"]:
        """Return the logits of the classes at each token."""

    def sequence_classification(
        self, pooled: Float[Tensor, "B E"], *, hooks: NoHooks = NO_HOOKS
    ) -> Float[Tensor, "B C"]:
        """Return the logits of the classes for each text, from the output of `pool`."""

    def nsp(self, pooled: Float[Tensor, "B E"], *, hooks: NoHooks = NO_HOOKS) -> Float[Tensor, "B 2"]:
        """Return the logits of "B follows A" and "B does not" (next-sentence prediction), from the output of `pool`."""

    def head(self, name: Head) -> nn.Module:
        """Return a head by name; raise if this model does not have it."""
