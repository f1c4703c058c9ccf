"""Scheduling of the requests to models.

    jobs       what requests ask of a model, the queue they wait in, and the running batch they share
    scheduler  the thread in which all models of the server run

Many requests share the steps of one model.
"""
