"""The studio: models in the browser, with their attention, activations and training runs.

Plain ES modules in `static/`, built on the drawing modules of `sightline.tracing`; no build step, no external files.

    assets       the files of the page, served without an API key
    routes       the routers: files, and the API of the views besides that of `sightline.serving`
    activations  activations of one forward pass, for Walk through
    positions    position encodings                word_map    word embeddings as a map, nearest neighbors
    runs         training runs: `runs_table` finds them, `runs_metrics` reads their metrics, `timelapse` loads the model
                 of a snapshot

In `static/`:

    index.html, studio.css     the page                           studio.js       header, choice of model and view
    api.js                     requests, streams, the API key     url_state.js    the URL: `#/watch?model=demo&text=…`
    views.js                   the list of views, and the models that each supports
    view_parts.js              parts shared by several views
    watch, walk, write, chat, fill, classify, positions, words, runs        the views; a file whose name starts with
                               that of a view is part of it (`curves` and `timelapse` of runs)

A view is a module that exports `mount(host, app)`: it draws into the element and returns a function that removes it.
Following a link removes the view and mounts it again; parameters that the view itself sets in the URL do not. `app` has

    model                   the card of the selected model, from GET /v1/models, with an `example`; `models` has all
    fetchJson(path, body)   POST (GET without a body) and return the JSON response; errors are thrown with the server's
                            message. `fetchBytes` returns an ArrayBuffer, `stream` yields the events of a stream
    params                  the URL parameters of this view, so that a link restores it: `get(name)`,
                            `set({name: value})`; null removes
    themed(store)           keeps the `palette` of a store of the drawing modules up to date with the theme; returns a
                            function that stops this

Drawing modules are imported from "/drawing/NAME.js". Texts only ever become text nodes (`element` of dom.js).
"""
