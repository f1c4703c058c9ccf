"""Files to batches: corpora, tokenizers, encoded datasets. Knows no model."""
