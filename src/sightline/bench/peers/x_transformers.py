"""x-transformers by lucidrains, with its fused attention."""

from torch import Tensor, nn

from sightline.bench.peers.torch_nn import smoothed_loss
from sightline.bench.shapes import PAD
from sightline.data.datasets.batch import PairBatch
from sightline.model.config import TransformerConfig


class XTransformers(nn.Module):
    """The paper's model; it has no dropout on sublayer outputs, so it has it in the feed-forward network."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        from x_transformers import Decoder, Encoder, TransformerWrapper

        shared = {
            "dim": config.d_model, "heads": config.n_heads, "attn_dim_head": config.head_width, "pre_norm": False,
            "ff_mult": config.d_ff / config.d_model, "attn_flash": True, "ff_dropout": config.dropout,
        }  # fmt: skip
        wrapper = {"num_tokens": config.vocab_size, "max_seq_len": 8192, "emb_dropout": config.dropout}
        self.encoder = TransformerWrapper(**wrapper, attn_layers=Encoder(depth=config.n_encoder_layers, **shared))
        self.decoder = TransformerWrapper(
            **wrapper,
            tie_embedding=True,
            attn_layers=Decoder(depth=config.n_decoder_layers, cross_attend=True, **shared),
        )
        self.decoder.token_emb = self.encoder.token_emb

    def forward(self, batch: PairBatch) -> Tensor:
        """Return the loss."""
        real = batch.source != PAD
        encoder_output = self.encoder(batch.source, mask=real, return_embeddings=True)
        return smoothed_loss(self.decoder(batch.inputs, context=encoder_output, context_mask=real), batch.targets)
