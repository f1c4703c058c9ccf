"""Markdown: the same markup and lines, checked by markdown-it, for made-up documents and the project's own."""

import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from sightline.pipelines.documents import markdown, read_document
from sightline.pipelines.documents.blocks import Break, find_nearest, insert_breaks

from . import TRANSLATORS, reverse, translate

ROOT = Path(__file__).parents[3]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
WORDS = st.sampled_from(
    ["one", "two,", "three.", "a_b", "2 * 3", "#4", "1.", "-", "[5]", "x<y", r"\*six\*", "&amp;", "+"]
)
SPANS = st.sampled_from(
    ["*{}*", "**{}**", "_{}_", "~~{}~~", "[{}](http://a.org/b_c)", "[{}][ref]", "<b>{}</b>", "***{}***"]
)
ATOMS = st.sampled_from(
    ["`a b`", "``a ` b``", "![alt text](x.png)", "<http://a.org>", "http://b.org/x_y", "<br>", "[ref]"]
)
PHRASE = st.lists(
    st.one_of(WORDS, ATOMS, st.builds(str.format, SPANS, st.lists(WORDS, min_size=1, max_size=3).map(" ".join))),
    min_size=1,
    max_size=6,
).map(" ".join)
LINE = st.builds(
    str.format, st.sampled_from(["# {}", "- {}", "1. {}", "> {}", "{}", "{}  ", "    {}", "- [ ] {}"]), PHRASE
)
TABLE = st.lists(PHRASE.filter(lambda cell: "|" not in cell), min_size=2, max_size=2).map(
    lambda cells: f"| {' | '.join(cells)} |\n|---|:-:|\n| {' | '.join(reversed(cells))} |"
)
FENCE = PHRASE.map(lambda text: f"```py\n{text}\n```")
BLOCK = st.one_of(
    LINE, st.lists(LINE, min_size=2, max_size=3).map("\n".join), TABLE, FENCE, st.just("<div>\na b\n</div>")
)
DOCUMENT = st.lists(BLOCK, max_size=4).map(lambda blocks: "\n\n".join([*blocks, "[ref]: http://c.org"]))


def markup(source: str) -> Counter[str]:
    """Count all that markdown-it finds but text."""
    found: Counter[str] = Counter()
    for token in MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(source):
        content = token.content if token.type in ("fence", "code_block") else ""
        found[f"{token.type} {token.level} {content}"] += 1
        for child in token.children or ():
            if child.type not in ("text", "softbreak"):
                found[f"{child.type} {child.attrs} {child.content if child.type != 'image' else ''}"] += 1
    return found


@pytest.mark.parametrize("translator", TRANSLATORS.values(), ids=TRANSLATORS)
@given(source=DOCUMENT)
@settings(max_examples=40)
def test_markup_of_any_document_stays(translator, source):
    assert markup(translate(source, "markdown", translator)) == markup(source)


@given(soup=st.text(st.sampled_from("ab *_`[]()<>!#-\n|~\\&;:1.\r\0$^{}%"), max_size=30))
@settings(max_examples=150)
def test_parts_of_a_document_are_its_source(soup):
    parts = read_document(soup, "markdown").parts
    assert "".join(part if isinstance(part, str) else part.before + part.source + part.after for part in parts) == soup


@given(source=DOCUMENT, end=st.sampled_from(["\r", "\r\n"]))
@settings(max_examples=40)
def test_texts_do_not_depend_on_how_lines_end(source, end):
    ends = source.replace("\n", end)
    assert read_document(ends, "markdown").texts == read_document(source, "markdown").texts
    assert translate(ends, "markdown").count(end) == source.count("\n")


def test_nul_is_read_as_commonmark_does_and_stays_where_nothing_is_translated():
    document = read_document("The dog\0 is here.\n\n`a\0b`\n", "markdown")
    assert document.texts == ["The dog\ufffd is here."]
    assert document.render([("Da", [])])[0] == "Da\n\n`a\0b`\n"


@pytest.mark.parametrize("region", [("text", 0, 1, "another text"), ("text", 0, 9, "one two")])
def test_text_that_is_not_found_in_its_lines_stays_and_is_reported(monkeypatch, region):
    monkeypatch.setattr(markdown, "find_regions", lambda _: [region])
    rendered, notes = read_document("one two\n", "markdown").render([])
    assert rendered == "one two\n"
    assert notes == [f"this part was left as it is, as its lines were not found in the document: {region[3]!r}"]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_our_own_documents_keep_their_markup_and_lines(path):
    source = path.read_text(encoding="utf-8")
    document = read_document(source, "markdown")
    rendered, notes = document.render([reverse(text) for text in document.texts])
    assert markup(rendered) == markup(source)
    assert rendered.count("\n") == source.count("\n")
    assert len(notes) <= len(document.texts) // 50  # parts that are left as they are


@pytest.mark.parametrize(
    ("source", "translated"),
    [
        ("# One *two*", "# *TWO* ONE"),
        ("one **two three** four", "FOUR **THREE TWO** ONE"),
        ("see [the link](http://a.org 'T') now", "NOW [LINK THE](http://a.org 'T') SEE"),
        ("run `make x` now", "NOW RUN `make x`"),
        ("one two\nthree fo", "FO THREE\nTWO ONE"),
        ("> - one two\n>   three fo", "> - FO THREE\n>   TWO ONE"),
        ("one two  \nthree four", "TWO ONE  \nFOUR THREE"),
        ("| a b | c |\n|---|---|\n| d | e f |", "| B A | C |\n|---|---|\n| D | F E |"),
        ("---\ntitle: a b\n---\none two", "---\ntitle: a b\n---\nTWO ONE"),
        ("```\na b\n```\n\n    c d\n", "```\na b\n```\n\n    c d\n"),
        ("- [ ] one two", "- [ ] TWO ONE"),
        ("see [ref] now\n\n[ref]: /x", "NOW SEE [ref]\n\n[ref]: /x"),
        ("<details>\n<summary>one two</summary>\n</details>", "<details>\n<summary>TWO ONE</summary>\n</details>"),
        ("two 1.", r"1\. TWO"),
        ("one two\n\\\nthree four", "TWO ONE\n\\\nFOUR THREE"),
        ("one[^1] two.\n\n[^1]: three four\n[^b]: Five", "TWO. ONE[^1]\n\n[^1]: FOUR THREE\n[^b]: FIVE"),
        ("> [!NOTE]\n> one two", "> [!NOTE]\n> TWO ONE"),
        ("> [!tip]- one two\n> three four", "> [!tip]- TWO ONE\n> FOUR THREE"),
        ("so $x_1 + y$ is $z$", "IS SO $x_1 + y$ $z$"),
        ("so ${a}_i$ is ${b}$", "IS SO ${a}_i$ ${b}$"),
        ("one ${a}x${b} two", "TWO ${a}X${b} ONE"),
        ("costs ${a} and ${b.c} now", "NOW AND ${b.c} COSTS ${a}"),
        ("dear <%= a %>, {{{ b }}} one", "ONE DEAR <%= a %>, {{{ b }}}"),
        ("<% if x %>\none two\n<% end %>", "<% if x %>\nTWO ONE\n<% end %>"),
        (
            "<div>\n{% if x %}\n<b>Dear</b> {{ name }},\n{% endif %}\n</div>",
            "<div>\n{% if x %}\n<b>DEAR</b> {{ name }},\n{% endif %}\n</div>",
        ),
        ("so $`a*b*c`$ is $$d*e*f$$", "IS SO $`a*b*c`$ $$d*e*f$$"),
        ("one two\n$$\nx y\n$$\nthree four", "TWO ONE\n$$\nx y\n$$\nFOUR THREE"),
        ("$5 and $6", "$6 AND $5"),
        ("$HOME or $PATH, 5$ or 6$", "6$ OR 5$ $PATH, OR $HOME"),
        ("one {{ a * b * c }} two", "TWO ONE {{ a * b * c }}"),
        ("{% if x %}\none two\n{% endif %}", "{% if x %}\nTWO ONE\n{% endif %}"),
        ("# one two {#my-id}", "# TWO ONE {#my-id}"),
        ("# one two $x${#my-id}", "# TWO ONE $x$ {#my-id}"),
        (":smile: one two", ":smile: TWO ONE"),
        ("at 10:30:45 a::b::c", "A::B::C 10:30:45 AT"),
        ("::: note\none two\n:::", "::: note\nTWO ONE\n:::"),
        ("!!! note\n    one two", "!!! note\n    TWO ONE"),
        ("see [one $a]b$](/x)", "[ONE $a]b$](/x) SEE"),
        ("see [one[^1] two](/x)", "[TWO ONE[^1]](/x) SEE"),
        (r"one \$2\$ \:3a\:", r"\:3A: \$2$ ONE"),
    ],
)
def test_document_is_translated_with_its_markup(source, translated):
    assert translate(source, "markdown") == translated


@pytest.mark.parametrize(
    ("source", "translated"),
    [
        ("[^1]: one two\n\n    three four\n    five\n\n    six seven\n\neight nine\n",
         "[^1]: TWO ONE\n\n    FIVE FOUR\n    THREE\n\n    SEVEN SIX\n\nNINE EIGHT\n"),
        ("[^1]: one two\n\n        a code\n\n    three four\n", "[^1]: TWO ONE\n\n        a code\n\n    FOUR THREE\n"),
        ("[^1]: one two\n\n\tthree four\n\n\t\ta code\n", "[^1]: TWO ONE\n\n\tFOUR THREE\n\n\t\ta code\n"),
        ("[^1]: one two\n\n    ```\n    a code\n    ```\n", "[^1]: TWO ONE\n\n    ```\n    a code\n    ```\n"),
        ("[^1]:\n    one two\n[^b]:\n\n    three four\n", "[^1]:\n    TWO ONE\n[^b]:\n\n    FOUR THREE\n"),
        ("[^1]: one two\nthree fo\n\n    four five\n", "[^1]: FO THREE\nTWO ONE\n\n    FIVE FOUR\n"),
        ("[^1]: - one two\n    - three four\n", "[^1]: - TWO ONE\n    - FOUR THREE\n"),
        ("[^1]: one\n\n    | a b | c |\n    |---|---|\n", "[^1]: ONE\n\n    | B A | C |\n    |---|---|\n"),
        ("[^note]: <div>one two</div>\n", "[^note]: <div>TWO ONE</div>\n"),
        ("[^1]: [^2]: one two\n\n        three four\n", "[^1]: [^2]: TWO ONE\n\n        FOUR THREE\n"),
        ("> one two\n[^1]: three four\n\n    five six\n", "> TWO ONE\n[^1]: FOUR THREE\n\n    SIX FIVE\n"),
        ("> [^1]: one two\n>\n>     three four\n>\n>         a code\n",
         "> [^1]: TWO ONE\n>\n>     FOUR THREE\n>\n>         a code\n"),
        ("- one two\n\n  [^1]: three four\n\n      five six\n\n          a code\n",
         "- TWO ONE\n\n  [^1]: FOUR THREE\n\n      SIX FIVE\n\n          a code\n"),
        ("one two\n\n    [^1]: a code\n", "TWO ONE\n\n    [^1]: a code\n"),
        ("[^1]:     one two\n\n    see [ref]\n\n[ref]: /x\n", "[^1]:     TWO ONE\n\n    SEE [ref]\n\n[ref]: /x\n"),
    ],
)  # fmt: skip
def test_all_paragraphs_of_a_footnote_are_translated(source, translated):
    assert translate(source, "markdown") == translated
    assert translate(source.replace("\n", "\r\n"), "markdown") == translated.replace("\n", "\r\n")


@pytest.mark.parametrize("translator", TRANSLATORS.values(), ids=TRANSLATORS)
@given(source=st.lists(BLOCK, min_size=1, max_size=3).map("\n\n".join))
@settings(max_examples=40)
def test_footnote_is_translated_as_what_it_holds(translator, source):
    """Its content stands four columns to the right."""
    indented = re.sub("^(?=.)", "    ", source, flags=re.MULTILINE)
    expected = re.sub("^(?=.)", "    ", translate(source, "markdown", translator), flags=re.MULTILINE)
    assert translate(f"[^1]:\n\n{indented}", "markdown", translator) == f"[^1]:\n\n{expected}"


@pytest.mark.parametrize(
    "piece",
    ["[", "[a](", "`a``", "*a_", "<code>", "![", "[[", "a@", "www.",
     "[^1]: ", "[^1]:\n", "<% ", "{{ ", "${", "{{ x }} "],
)  # fmt: skip
def test_hostile_repetition_is_read_without_loss(piece):
    """What is repeated would take forever if each were looked for up to the end."""
    source = piece * 3_000 + " x"
    parts = read_document(source, "markdown").parts
    assert (
        "".join(part if isinstance(part, str) else part.before + part.source + part.after for part in parts) == source
    )


@given(st.lists(st.integers(0, 50), min_size=1, unique=True).map(sorted), st.floats(-10, 60), st.data())
def test_nearest_gap_is_the_first_of_all_that_are_nearest(places, place, data):
    gaps = [(one, number) for number, one in enumerate(places)]
    low = data.draw(st.integers(0, len(gaps) - 1))
    high = data.draw(st.integers(low + 1, len(gaps)))
    nearest = min(range(low, high), key=lambda gap: abs(gaps[gap][0] - place))
    assert find_nearest(gaps, place, low, high) == nearest


def test_each_break_is_compared_with_few_gaps():
    """Each comparison needs the break's share of the length."""
    looked_at: list[int] = []

    class CountedShare(float):
        def __mul__(self, length: float) -> float:
            looked_at.append(1)
            return float(self) * length

    n_lines = 100
    breaks = [Break(CountedShare(number / n_lines), "\n") for number in range(1, n_lines)]
    text = "|".join(["word"] * n_lines * 5)
    broken = insert_breaks(text, "|", breaks, lambda _: True)
    plain = [Break(float(one.share), one.raw) for one in breaks]
    assert broken == insert_breaks(text, "|", plain, lambda _: True)
    assert broken.count("\n") == len(breaks)
    assert len(looked_at) == len(breaks)


@pytest.mark.parametrize("markup", ["`a\nb`", '<b\ntitle="x">one</b>', "![a](b\n'c')"])
def test_a_line_break_within_code_or_a_tag_stays_there_and_is_not_added_again(markup):
    source = f"See one two {markup} three four\nfive six.\n"
    rendered = translate(source, "markdown")
    assert rendered.count("\n") == source.count("\n")
    assert markup.partition("one")[0] in rendered
