"""Cleaning finds what is wrong with a corpus, counts it rightly, and leaves what is right alone."""

import os
from pathlib import Path

import pytest

from sightline.data.corpora.cleaning import (
    CleaningReport,
    CleaningSettings,
    Fingerprints,
    has_markup,
    is_mojibake,
    normalize,
    numbers_differ,
    rules_for,
)
from sightline.data.corpora.corpus import Corpus
from sightline.data.corpora.files import FAULTS, Counts
from sightline.data.corpora.records import (
    PAIR_AND_LABEL,
    SOURCE_AND_TARGET,
    SOURCE_TARGET_LANGUAGE,
    TEXT,
    TEXT_AND_LABEL,
)
from sightline.data.corpora.settings import DataSettings
from sightline.errors import SettingsError
from spoiled_corpus import DIRT, phrase_pairs, spoil

DATA = Path(os.environ.get("SIGHTLINE_DATA", Path(__file__).parents[3] / "shared" / "data"))
EACH = 100


def write_pairs(path, pairs):
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    return path


def report_on(path, fields=SOURCE_AND_TARGET, *, settings=None, **options):
    corpus = Corpus(DataSettings(train=str(path), **options), fields, unit="line")
    cleaner = corpus.make_cleaner(settings)
    report = CleaningReport(cleaner.rules)
    for record, faults in corpus.find_faults(cleaner, Counts()):
        report.add(record, faults)
    return report


@pytest.fixture(scope="module")
def clean_pairs():
    return phrase_pairs(4_000)


@pytest.fixture(scope="module")
def spoiled(clean_pairs, tmp_path_factory):
    return write_pairs(tmp_path_factory.mktemp("spoiled") / "pairs.tsv", spoil(clean_pairs, each=EACH, seed=1))


def test_there_is_dirt_for_every_rule():
    assert set(DIRT) == set(FAULTS)


def test_counts_of_a_spoiled_corpus_are_right_to_five_percent(spoiled):
    counts = report_on(spoiled).counts
    assert {rule: count for rule, count in counts.items() if abs(count - EACH) > 0.05 * EACH} == {}


def test_a_clean_corpus_loses_nothing(clean_pairs, tmp_path):
    assert report_on(write_pairs(tmp_path / "pairs.tsv", clean_pairs)).dropped == 0


def multi30k(part, n):
    folder = DATA / "multi30k"
    if not folder.exists():
        pytest.skip(f"{folder} is not there")
    lines = [(folder / f"{part}.{language}").read_text(encoding="utf-8").split("\n") for language in ("en", "de")]
    return [(a.replace("\t", " "), b.replace("\t", " ")) for a, b in zip(*lines, strict=True) if a and b][:n]


def test_a_believed_clean_corpus_loses_less_than_one_percent(tmp_path):
    report = report_on(write_pairs(tmp_path / "pairs.tsv", multi30k("train", 4_000)))
    assert report.dropped < 0.01 * report.total


def test_counts_of_a_spoiled_real_corpus_are_right_to_five_percent(tmp_path):
    pairs = multi30k("train", 4_000)
    before = report_on(write_pairs(tmp_path / "clean.tsv", pairs)).counts
    counts = report_on(write_pairs(tmp_path / "spoiled.tsv", spoil(pairs, each=EACH, seed=1))).counts
    assert {rule: n for rule, n in counts.items() if abs(n - before[rule] - EACH) > 0.05 * EACH} == {}


def test_a_pair_found_by_several_rules_counts_once_in_the_total(tmp_path):
    path = write_pairs(tmp_path / "a.tsv", [("a <b>\x07", "b"), ("c", "d")])
    report = report_on(path)
    assert report.counts["markup"] == report.counts["controls"] == 1
    assert (report.dropped, report.total) == (1, 2)


def test_data_clean_drops_the_same_and_counts_it(spoiled):
    found = report_on(spoiled)
    counts = Counts()
    kept = list(Corpus(DataSettings(train=str(spoiled), clean=True), SOURCE_AND_TARGET).records(counts))
    assert len(kept) == found.total - found.dropped
    assert counts["cleaned"] == found.dropped
    assert {rule: counts[f"clean_{rule}"] for rule in found.counts} == found.counts


def test_the_validation_file_is_not_cleaned(tmp_path):
    path = write_pairs(tmp_path / "a.tsv", [("<b>a</b>", "b"), ("c", "d")])
    settings = DataSettings(train=str(path), valid=str(path), clean=True)
    assert len(list(Corpus(settings, SOURCE_AND_TARGET, "valid").records())) == 2
    assert len(list(Corpus(settings, SOURCE_AND_TARGET).records())) == 1


def test_lines_of_running_text_are_cleaned_before_they_are_joined(tmp_path):
    (tmp_path / "a.txt").write_text("one\n<p>two</p>\n* * *\nROMEO:\nROMEO:\n\nfÃ¼nf\nsix\n", encoding="utf-8")
    counts = Counts()
    corpus = Corpus(DataSettings(train=str(tmp_path / "a.txt"), clean=True), TEXT)
    assert [record.fields for record in corpus.records(counts)] == [("one\n* * *\nROMEO:\nROMEO:",), ("six",)]
    assert (counts["cleaned"], counts["clean_markup"], counts["clean_encoding"]) == (2, 1, 1)


def test_labels_are_no_side(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("good\t1\ngood\t1\ngood\t0\nGOOD!\t1\n<i>bad</i>\t0\n", encoding="utf-8")
    counts = report_on(path, TEXT_AND_LABEL).counts
    assert {rule: n for rule, n in counts.items() if n} == {"markup": 1, "duplicate": 1, "near_duplicate": 1}
    assert set(counts) == set(rules_for("labeled"))


@pytest.mark.parametrize(
    "text", ["fÃ¼r", "itâ€™s", "donâ\x80\x99t", "a \ufffd b", "ZÅ‚oty", "Ð¿Ñ€Ð¸", "ä¸­æ–‡", "ðŸ˜€", "NÂ°\xa05", "Ã\x9c"]
)
def test_mojibake_is_found(text):
    assert is_mojibake(text)


@pytest.mark.parametrize(
    "text",
    [
        "für",
        "„Was für ein Spaß“",
        "»Spaß«",
        "NÃO",
        "Å",
        "„Ä“",
        "привет",
        "中文",
        "😀",
        "It’s 5 €…",
        "château «â»",
        "Ähnlich – ja",
    ],
)
def test_usual_text_is_no_mojibake(text):
    assert not is_mojibake(text)


@pytest.mark.parametrize(
    ("source", "target", "differ"),
    [
        ("1,000 dogs", "1.000 Hunde", False),
        ("10,000 dogs", "10 000 Hunde", False),
        ("$3.50", "3,50 €", False),
        ("two dogs", "2 Hunde", False),
        ("at 3:30 pm", "um 15:30 Uhr", False),
        ("in 1984", "im Jahr 1984", False),
        ("no number", "keine Zahl", False),
        ("٣٤٥ dogs", "345 Hunde", False),
        ("in 1984", "im Jahr 1985", True),
        ("5 dogs", "6 Hunde", True),
        ("in 1984", "irgendwann", True),
        ("3 of 40", "3 von 50", True),
    ],
)
def test_numbers_are_compared_however_they_are_written(source, target, differ):
    assert numbers_differ(source, target) is differ


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("<b>a</b>", True),
        ("a<br/>b", True),
        ('<a href="x">y</a>', True),
        ("R&amp;D", True),
        ("&#8217;", True),
        ("<!-- a -->", True),
        ("<!-- not closed", True),  # looking for its end at every start would take quadratic time
        ("a < b and c > d", False),
        ("R&D; AT&T", False),
        ("<s> is a token? <unk>", True),
        ("I <3 you", False),
    ],
)
def test_markup_is_html_only(text, found):
    assert has_markup(text) is found


def test_scripts_of_a_side_are_learned(tmp_path):
    pairs = [(f"hello world {n}", f"こんにちは世界カタカナ {n}") for n in range(40)]
    path = write_pairs(tmp_path / "a.tsv", [*pairs, ("hello", "hello there"), ("привет", "世界")])
    assert report_on(path).counts["wrong_script"] == 2


def test_memory_of_repetitions_is_bounded(monkeypatch):
    monkeypatch.setattr("sightline.data.corpora.cleaning.MAX_FINGERPRINTS", 1_000)
    seen = Fingerprints()
    assert not any(seen.add(str(number)) for number in range(5_000))
    assert seen.add("4999")
    assert len(seen._table) <= 4_000


def test_unknown_rules_and_odd_thresholds_are_refused():
    with pytest.raises(SettingsError, match=r"unknown rule 'number' \(did you mean 'numbers'\?\): the rules are "):
        CleaningSettings(rules=("number",))
    with pytest.raises(SettingsError, match="max_ratio must be between"):
        CleaningSettings(max_ratio=0.5)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("लड़का अच्छा है", "लड़की अच्छी है"),
        ("কাল", "কোল"),
        ("มา", "มี่"),
        ("ܡܠܟܐ", "ܡܰܠܟܳܐ"),
    ],
)
def test_texts_that_differ_in_vowel_signs_are_different(first, second):
    assert normalize(first) != normalize(second)


@pytest.mark.parametrize("text", ["Good, day", "GOOD DAY!", " good…day ", "«good_day»", "good\u200b\x07 day ☺ +"])
def test_case_spacing_and_punctuation_are_no_difference(text):
    assert normalize(text) == "good day"


def test_a_text_of_punctuation_only_is_compared_as_it_is():
    assert normalize(" ?! ") == "?!"


def languages_of_targets(tmp_path):
    """Return a corpus of the same sentences in German and, a third as long, in Chinese, from English and Chinese."""
    rows = []
    for n in range(60):
        english, german, chinese = f"{'the old house ' * 8}{n}", f"{'das alte Haus ' * 8}{n}", f"{'老房子' * 6}{n}"
        rows += [(english, chinese, "zh"), (english, german, "de"), (chinese, german, "de")]
    path = tmp_path / "a.tsv"
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_the_usual_length_is_that_of_the_language_and_its_source(tmp_path):
    path = languages_of_targets(tmp_path)
    assert report_on(path, SOURCE_TARGET_LANGUAGE).counts["length_ratio"] == 0


def test_a_lopsided_pair_is_found_among_those_of_its_language(tmp_path):
    path = languages_of_targets(tmp_path)
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{'the old house ' * 8}\t{'老房子' * 60}\tzh\n{'the old house ' * 8}\tHaus\tde\n")
    assert report_on(path, SOURCE_TARGET_LANGUAGE).counts["length_ratio"] == 2


def write_labeled(path, texts):
    path.write_text("".join(f"{text} {n}\t{label}\n" for n, (text, label) in enumerate(texts)), encoding="utf-8")
    return path


def test_a_script_that_goes_with_a_label_is_not_wrong(tmp_path):
    texts = (
        [("an English text about nothing", "en")] * 400 + [("привет мир", "ru")] * 5 + [("こんにちは世界", "ja")] * 2
    )
    assert report_on(write_labeled(tmp_path / "a.tsv", texts), TEXT_AND_LABEL).counts["wrong_script"] == 0


def test_a_script_that_is_rare_among_the_texts_of_a_label_is_wrong(tmp_path):
    texts = [("a good book", "good"), ("a bad book", "bad")] * 100 + [("хорошая книга", "good")]
    assert report_on(write_labeled(tmp_path / "a.tsv", texts), TEXT_AND_LABEL).counts["wrong_script"] == 1


def test_pairs_with_a_label_are_judged_by_both_texts_and_the_label_and_are_no_translation(tmp_path):
    pairs = [
        ("A man sleeps.", "A man is awake.", "no"),
        ("A man sleeps.", "A man rests.", "yes"),  # the same first text
        ("A man sleeps.", "A man rests.", "no"),  # another label
        ("A man sleeps.", "A man sleeps.", "yes"),  # identical
        ("In 1984 two men slept.", "It was 1985.", "no"),  # numbers
        (f"{'A man sleeps. ' * 90}", "Yes.", "yes"),  # lengths
        ("a man sleeps", "A man rests!", "yes"),  # a near duplicate
        ("A man sleeps.", "A man rests.", "no"),  # a duplicate
        ("A man sleeps.", "<b>No</b>", "no"),  # markup in the second text
    ]
    path = tmp_path / "a.tsv"
    path.write_text("".join("\t".join(pair) + "\n" for pair in pairs), encoding="utf-8")
    counts = Counts()
    corpus = Corpus(DataSettings(train=str(path), label_level="pair", clean=True), PAIR_AND_LABEL)
    assert [record.fields for record in corpus.records(counts)] == pairs[:6]
    found = {name: n for name, n in counts.to_mapping().items() if name.startswith("clean_")}
    assert found == {"clean_near_duplicate": 1, "clean_duplicate": 1, "clean_markup": 1}
