"""How weights begin: Glorot's uniform for the paper's models, small normals for BERT's and GPT's."""

from collections.abc import Callable

from torch import Tensor, nn


def initialize(model: nn.Module, *, embedding_std: float, linear: Callable[[Tensor], object]) -> None:
    """Fill every embedding, linear map and norm; biases start at zero, norms at the identity."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            linear(module.weight)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=embedding_std)
        elif isinstance(module, nn.LayerNorm | nn.RMSNorm):
            nn.init.ones_(module.weight)
        if getattr(module, "bias", None) is not None:
            nn.init.zeros_(module.bias)  # type: ignore[arg-type]


def glorot(weight: Tensor) -> None:
    """Keep the variance of values and gradients alike (Glorot & Bengio 2010)."""
    nn.init.xavier_uniform_(weight)


def small_normal(std: float = 0.02) -> Callable[[Tensor], object]:
    """BERT's and GPT-2's beginning."""
    return lambda weight: nn.init.normal_(weight, std=std)


def shrink_residual_outputs(stack: nn.Module, *, n_sublayers: int) -> None:
    """Divide what each sublayer adds by √(their number), so that the sum they build up keeps its size (GPT-2, 2.3)."""
    for name, parameter in stack.named_parameters():
        if name.endswith(("attention.output.weight", "feed_forward.narrow.weight")):
            parameter.data.div_(n_sublayers**0.5)
