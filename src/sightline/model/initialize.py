"""Weight initialization: Glorot uniform for the paper's models, small normals for BERT and GPT."""

from collections.abc import Callable

from torch import Tensor, nn


def initialize(model: nn.Module, *, embedding_std: float, linear: Callable[[Tensor], object]) -> None:
    """Initialize every embedding, linear map and norm; biases start at zero, norms at the identity."""
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
    """Draw weights that preserve the variance of activations and gradients (Glorot & Bengio 2010)."""
    nn.init.xavier_uniform_(weight)


def small_normal(std: float = 0.02) -> Callable[[Tensor], object]:
    """Return the initializer of BERT and GPT-2: normal with a small standard deviation."""
    return lambda weight: nn.init.normal_(weight, std=std)


def shrink_residual_outputs(stack: nn.Module, *, n_sublayers: int) -> None:
    """Divide each sublayer's output weights by √n_sublayers, so that the residual sum keeps its scale (GPT-2, 2.3)."""
    for name, parameter in stack.named_parameters():
        if name.endswith(("attention.output.weight", "feed_forward.down_proj.weight")):
            parameter.data.div_(n_sublayers**0.5)
