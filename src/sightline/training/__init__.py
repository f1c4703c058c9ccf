"""How a model learns. Knows tensors and models, no text."""
