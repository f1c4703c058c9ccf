"""The HTTP server of `sightline serve`.

    http        everything between a socket and an endpoint; knows no model
    scheduling  the requests to all models, which run in one thread
    api         the endpoints: OpenAI's and LibreTranslate's API, and our own
    service     assembles models, scheduler, API and middleware into the application

docs/architecture.md follows a request through them.
"""
