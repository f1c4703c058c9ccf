"""Datasets: a corpus encoded once, and the batches of every epoch.

    encoding           records to rows of ids, one encoder per task
    encoded_dataset    the encoded corpus, cached in a folder
    splits             which examples are held out for validation
    batching           which examples form a batch, and in which order
    batch_source       the batches of every epoch, one class per task
    masking            masked language modeling
    batch              padded tensors, with shifted targets
    stateless_random   random numbers by seed, epoch and example

Every batch is a pure function of the seed, the epoch and its position.
"""
