"""Corpora: files of texts, read record by record, with every anomaly counted or refused."""
