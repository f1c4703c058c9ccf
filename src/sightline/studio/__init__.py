"""The studio: one's own models in the browser, with the lid off.

Plain ES modules in `static/`, on the drawing modules of `sightline.tracing`; no build step, nothing from outside.

    assets      the files of the page, and who may have them without a key
    site        the routers: files, and what views ask besides the interface of `sightline.serving`
    walking     values of a pass, slice by slice            positions, words    codes of positions, the map of words
    runs        training runs: `runs_table` finds them, `runs_metrics` tells their curves, `runs_lapse` opens a model
                as it was on the way

In `static/`:

    index.html, studio.css     the page                       studio.js     header, choice of model and view
    asking.js                  requests, streams, the key     place.js      the address: `#/watch?model=demo&text=…`
    views.js                   which views there are, and for which models
    watch, walk, write, chat, fill, classify, positions, words, runs        the views; what begins with the name of
                               one is a part of it (`curves` and `timelapse` of runs)

A view is a module that exports `mount(host, app)`: it draws into the element and returns a function that removes it.
A link that is followed removes the view and mounts it anew; what the view itself writes into the address does not.
`app` has

    model               the card of the chosen model, as GET /v1/models tells it, with an `example` to ask; `models` has
                        all
    ask(path, body)     a POST (a GET without a body) whose JSON comes back; what is refused is thrown, its message a
                        sentence for people. `askBytes` gives an ArrayBuffer, `stream` the events of a stream
    place               `get(name)`, `set({name: value})`: what the address remembers for this view, so that a link
                        restores it; null forgets
    themed(store)       gives the store of drawing modules the `palette` of light or dark, now and at each change;
                        returns a function that ends this

Drawing modules are imported from "/drawing/NAME.js". Texts only ever become text nodes (`element` of dom.js).
"""
