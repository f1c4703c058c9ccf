"""Text to batches of ids and back.

    corpora      files to records of texts
    tokenizers   text to ids and back
    datasets     records to encoded datasets, and those to batches
    sentences    where the sentences of a text begin and end

Knows no model.
"""
