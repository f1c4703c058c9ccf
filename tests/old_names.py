"""Names of 0.1.0 that are gone for good, by kind: `tests/test_names.py` looks for each of them.

Settings, weights and options are listed once, in `sightline/renames.py`, by which 0.1.0's files are read.
"""
# ruff: noqa: SIM905 - a table of words is read as a table

MODULES = """
bundle/disguise bundle/purpose bundle/source cli/opening decoding/filters decoding/move decoding/requirements
decoding/results decoding/rules decoding/together decoding/turn decoding/walk model/probe model/sight
pipelines/fitting pipelines/foresight pipelines/passages pipelines/rewriter pipelines/spelling pipelines/stream
pipelines/task pipelines/writing run/announce run/begin run/explain run/journal run/sizes run/vocabulary
serving/answer serving/api/desk serving/api/looking serving/api/reading serving/api/shelf serving/caller
serving/comparison serving/crowd serving/envelope serving/facts serving/files serving/gone serving/keys serving/rate
serving/running serving/size serving/work serving/work_queue studio/runs_lapse studio/site studio/walking studio/words
text/chance text/feed text/library text/passages text/shelf text/store text/words tracing/figures/sheet
tracing/figures/stations tracing/figures/view tracing/growth tracing/knockouts tracing/look tracing/passage
tracing/plain tracing/points tracing/position_codes tracing/projection tracing/readout tracing/soundness
tracing/wishes training/advice training/agreement training/average training/pace training/rotation training/screen
training/self_check training/wording
""".split()
"""Python modules of the package, without their suffix."""

SCRIPTS = """
asking beside copied curves_ink film gaze glance ink leisure looking place raster runs_feed runs_offered runs_place
saving timelapse_odds walk_beginning walk_ending walk_slices walk_steering walk_sums walk_whereabouts watch_bench
watch_bodies watch_knock watch_outcome watch_place watch_slices worth wrapping write_odds write_parts write_past
""".split()
"""JavaScript modules, without their suffix."""

CLASSES = """
Addresses Advance Amount Asked Atlas Author Beams BestBy Buckets Cache CancelledWhenGone Captured Crowd Desk Ending
Envelope Errand Facts Feed Finish Framed FullError Idle Journal Knockouts LabelledBatch LabelledEncoder LabelledFeed
Lapse Looks MaskedFeed Memory Metricsheet Move News NormOrder Pace PairFeed Passage Prepared Probe Purpose Readout
Recorder Requirements Results Resumed Rewriter Room Rules RunningAverage SelfCheck SentencePairFeed Share Sheet Shelf
Shown Side Sight Sighting Sizes Speller Spelling Store Stride Surroundings TaggedFeed Talker TextFeed Together Turn
Unfolding Walk Wishes WithoutBeginnings WordHead Work WorkQueue Writing
""".split()
"""Classes and type aliases."""

FUNCTIONS = """
across around as_resolved asks_for_next_sentence at_work attentive_step_of backwards beginning_model best_merit
both_ways carded carry_out changed checked converted decided_by_data do_what_is_due does_it_learn encoded_beside
everywhere farewell feed find_again first_of force_to_disk foresee foreseen foreseen_targets foreseen_values foretell
framed go_on hand_over_threads in_haste in_place_of in_words kind_by_ability knock_out knock_out_each knocked_out
leaders_of learn learned left_to_data likeliest listening look look_again look_ahead look_ahead_mask mended merit
misfits model_place narrowed nobody not_finite offered one_after_another onwards open_store opened overridden padded
passage preference prefilled probe_for projected_agreement propose_fairly purpose_of read_journal read_out read_store
real_kind real_tokens remember remembered remembered_search reworded rewrite risen runs_beside set_aside
set_passages_aside shortened silenced source_of spell spelled stations surroundings take_turns taking_turns told
told_path twice typed typed_in_haste unfolding use_machine waiting_for walk_for watched write_down write_journal
write_store written written_down written_spans
""".split()
"""Functions, methods and properties."""

WORDS = """
disguise errand farewell foresee foreseen foresight foretell foretold knockout knockouts leisure typed_in_haste
whoever optimiser labelled colour neighbour tokenised
""".split()
"""Private words that must not stand in any text: code, comments, messages, help, documents, the page."""

ABOUT_THE_PAST = ("CHANGELOG.md", "docs/log.md", "src/sightline/renames.py", "src/sightline/bundle/migration.py")
ABOUT_THE_PAST += ("tests/old_names.py", "tests/runs/test_migration.py")
"""Files that describe what was."""
