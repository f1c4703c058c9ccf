"""The studio: models in the browser, with their attention, activations and training runs.

Plain ES modules in `static/`, built on the drawing modules of `sightline.tracing`; no build step, no external files.

    routes       the files of the page, served without an API key, and the API of the views
    activations  activations of one forward pass, for Walk through
    positions    position encodings                word_map    word embeddings as a map, nearest neighbors
    runs         training runs: `runs_table` finds them and reads their metrics; a time-lapse traces one text with the
                 model of each snapshot

In `static/`:

    index.html, studio.css     the page                           studio.js       the header, the list of views
    api.js                     requests, streams, the API key     url_state.js    the URL: `#/watch?model=demo&text=…`
    inputs.js                  inputs besides a text, undo        view_parts.js   parts shared by several views
    model_card.js              what a model is, examples to try, the note on an unfamiliar input
    watch/                     Watch: `layout` of the views, `ablation` of heads
    walk/                      Walk through: `stages` and those of a `layer`, their `activations`, `formulas` and
                               `panel`s; `navigation`
    write/                     Write, Chat, Fill and Classify
    positions/, words/         Positions and its `pictures`; Words and its `word_map`
    runs/                      Runs: `polling` of the server, `curves` from `curves_data`, `timelapse`

A view is a module `FOLDER/NAME.js` that exports `mount(host, app)`: it draws into the element and returns a function
that removes it. A view is loaded when it is first opened, with the stylesheet of its folder, which has its name: both
are there before it is mounted. Following a link removes the view and mounts it again; parameters that the view itself
sets in the URL do not. `app` has

    model                   the card of the selected model, from GET /v1/models; `models` has all. It has an `example`,
                            `examples` of its validation set, what there is to say `about` it, whether the model
                            `generates` text, and the `view` of its task: `tab` (the view made for it), `label`
                            and `verb` of a form, `extra_input` ("turns", "pair", "optional pair" or null), `beam`
                            and `asks_length`
    fetchJson(path, body)   POST (GET without a body) and return the JSON response; errors are thrown with the server's
                            message and `code`. `fetchBytes` returns an ArrayBuffer, `stream` yields the events of a
                            stream
    params                  the URL parameters of this view, so that a link restores it: `get(name)`,
                            `set({name: value})`; null removes. `go` does the same for what a user selects, so that
                            Back returns to what was there before
    themed(store)           keeps the `palette` of a store of the drawing modules up to date with the theme; returns a
                            function that stops this

No module knows a task or a family by its name: the card says how a task is shown, and a trace what kind of model it is
of (`interface`: Seq2Seq, CausalLM, TextEncoder or another) and what that `predicts` (tokens, masks, classes or null).
Any trace can be watched, also that of a model without attention; Walk through needs attention blocks of a known
interface, and says so where it has no stages.

Drawing modules are imported from "/page/NAME.js". Texts only ever become text nodes (`element` of dom.js).
"""
