"""Corpora: files of texts, read record by record.

    settings   the `[data]` section of a recipe: which files, and how they are read
    corpus     a training or validation set, as cleaned records
    records    a record, the fields each task needs, and labels
    formats    parallel files, TSV, JSON Lines, running text
    files      the lines of plain and gzip files, and the counts of anomalies
    builtin    the phrasebook and the dialogues that the demos train on

Every anomaly is counted or refused (`corpus` lists them).
"""
