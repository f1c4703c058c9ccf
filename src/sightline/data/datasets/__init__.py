"""Datasets: a corpus encoded once, and the batches of every epoch."""
