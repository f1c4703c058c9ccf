"""HTML: every tag once, on the words it stood on, whatever the page."""

import re
from collections import Counter
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.pipelines.documents import blocks, read_document
from sightline.pipelines.documents.blocks import MAX_DEPTH
from sightline.tasks import load

from . import TRANSLATORS, keep, reverse, translate

WORDS = st.sampled_from(
    ["one", "two,", "three.", "(four)", "five &amp; six", "x&nbsp;y", "http://a.org/b", "é", "1 < 2"]
)
INLINE = st.sampled_from(
    ["b", "i", "em", "span", 'a href="http://x.org/?a=1&amp;b"', "code", 'span translate="no"', "sub"]
)
BLOCK = st.sampled_from(["p", "div", "li", "h1", "td", "pre", "script"])


def close(tag: str) -> str:
    return f"</{tag.split()[0]}>"


def wrap(tags, content):
    return st.builds(lambda tag, inner: f"<{tag}>{inner}{close(tag)}", tags, content)


PHRASE = st.recursive(
    st.one_of(WORDS, st.sampled_from(["<br>", '<img src="x.png" alt="y">', "<!-- note -->", "<wbr>"])),
    lambda inner: wrap(INLINE, st.lists(inner, max_size=4).map(" ".join)),
    max_leaves=12,
)
PAGE = st.lists(wrap(BLOCK, st.lists(PHRASE, max_size=5).map(" ".join)), max_size=4).map("\n".join)
SOUP = st.lists(
    st.sampled_from(
        ["<b>", "</b>", "<i>", "</i>", "<p>", "</p>", "<br/>", "<", ">", "&", "&amp;", "a", " b ", "<a href='", "'",
         '"',
         "<!--", "-->", "<script>", "</script>", "<code>", "</code>", "<!DOCTYPE html>", "<?x", "<![CDATA[", "</", "\n",
         "{{", "}}", "{%", "%}", "<%", "%>", "{{ x }}"]
    ),
    max_size=16,
).map("".join)  # fmt: skip


class Tags(HTMLParser):
    """Counts tags and checks their nesting."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()
        self.stack: list[str] = []
        self.is_nested = True
        self.feed(source)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found[f"<{tag} {attrs}>"] += 1
        if tag not in ("br", "img", "wbr"):
            self.stack.append(tag)

    def handle_endtag(self, tag):
        self.found[f"</{tag}>"] += 1
        if not self.stack or self.stack.pop() != tag:
            self.is_nested = False

    def handle_comment(self, data):
        self.found[f"<!--{data}-->"] += 1

    def handle_decl(self, decl):
        self.found[f"<!{decl}>"] += 1


@pytest.mark.parametrize("translator", TRANSLATORS.values(), ids=TRANSLATORS)
@given(page=PAGE)
@settings(max_examples=50)
def test_tags_of_any_page_stay_and_nest(translator, page):
    before, after = Tags(page), Tags(translate(page, "html", translator))
    assert after.found == before.found
    assert after.is_nested or not before.is_nested
    assert not after.stack or before.stack


@pytest.mark.parametrize("translator", TRANSLATORS.values(), ids=TRANSLATORS)
@given(soup=SOUP)
@settings(max_examples=50)
def test_tags_of_tag_soup_stay(translator, soup):
    assert Tags(translate(soup, "html", translator)).found == Tags(soup).found


TEMPLATES = st.sampled_from(
    ["{{ a }}", "{{{b}}}", "{{ a > b }}", "{{ c|default:'<i>d</i>' }}", '{{ "&amp;"\n }}', "{# one two #}", "<%= x %>",
     "${a.b}", "{% if x < y %}", "{% else %}", "{%- endif -%}", "<% end %>", "{{#each a}}", "{{/each}}", "{{ if .x }}"]
)  # fmt: skip
TEMPLATE = re.compile(r"\{\{\{b\}\}\}|\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}|<%.*?%>|\$\{.*?\}", re.DOTALL)
STATEMENT = re.compile(r"\{%|<% |\{\{(?:[#/]| if)")
TEMPLATE_PAGE = st.lists(
    st.one_of(
        TEMPLATES, wrap(INLINE, TEMPLATES), PHRASE, st.sampled_from(["<p>", "</p>", '<a href="{{ a }}">', "</a>"])
    ),
    max_size=10,
).map(" ".join)


@pytest.mark.parametrize("translator", TRANSLATORS.values(), ids=TRANSLATORS)
@given(page=TEMPLATE_PAGE)
@settings(max_examples=50)
def test_templates_of_any_page_stay_once_and_statements_in_order(translator, page):
    translated = translate(page, "html", translator)
    before, after = TEMPLATE.findall(page), TEMPLATE.findall(translated)
    assert Counter(after) == Counter(before)
    assert list(filter(STATEMENT.match, after)) == list(filter(STATEMENT.match, before))
    assert Tags(translated).found == Tags(page).found


@given(soup=SOUP)
def test_parts_of_a_document_are_its_source(soup):
    parts = read_document(soup, "html").parts
    assert "".join(part if isinstance(part, str) else part.before + part.source + part.after for part in parts) == soup


@given(words=st.lists(st.sampled_from("abcdefgh"), min_size=2, max_size=8, unique=True), data=st.data())
def test_inline_tag_is_on_the_words_aligned_to_what_it_stood_on(words, data):
    start = data.draw(st.integers(0, len(words) - 1))
    end = data.draw(st.integers(start + 1, len(words)))
    page = " ".join([*words[:start], f"<b>{' '.join(words[start:end])}</b>", *words[end:]])
    for translator, expected in (
        (keep, words[start:end]),
        (reverse, [word.upper() for word in words[start:end]][::-1]),
    ):
        assert re.search("<b>(.*)</b>", translate(page, "html", translator))[1].split() == expected


@pytest.mark.parametrize(
    ("source", "translated"),
    [
        ("<p>Hello <b>big <i>bad</i></b> world</p>", "<p>WORLD <b><i>BAD</i> BIG</b> HELLO</p>"),
        ("<p>Never <em>ever</em>, my <b>friend</b>!</p>", "<p><b>FRIEND</b>! MY <em>EVER</em>, NEVER</p>"),
        ("<li>Run <code>make test</code> now</li>", "<li>NOW RUN <code>make test</code></li>"),
        ("<p>Use <code>x</code>.</p>", "<p>USE <code>x</code>.</p>"),
        ("one two<br>three four", "TWO ONE<br>FOUR THREE"),
        ("<b>one two<br>three four</b>", "<b>TWO ONE<br>FOUR THREE</b>"),
        (
            "<b>one <i>two</b> three</i>",
            "<b>ONE<i>TWO</b>THREE</i>".replace("E<i>", "E <i>").replace("</b>T", "</b> T"),
        ),
        ("<p>see https://a.org/b?c=d now", "<p>NOW SEE https://a.org/b?c=d"),
        ('<a href="/x" title="a b">one two</a>', '<a href="/x" title="a b">TWO ONE</a>'),
        (
            "<script>a b</script><style>c d</style><pre>e f</pre>",
            "<script>a b</script><style>c d</style><pre>e f</pre>",
        ),
        ('a <span translate="no">Big Ben</span> b', 'B A <span translate="no">Big Ben</span>'),
        ("fish &amp; chips &lt;b&gt;", "&lt;B&gt; CHIPS &amp; FISH"),
        ("<!DOCTYPE html><!-- a b --><title>one two</title>", "<!DOCTYPE html><!-- a b --><title>TWO ONE</title>"),
    ],
)
def test_page_is_translated_with_its_tags(source, translated):
    assert translate(source, "html") == translated


@pytest.mark.parametrize(
    ("source", "translated"),
    [
        ("<p>Dear {{ name }}, hello</p>", "<p>HELLO DEAR {{ name }},</p>"),
        ("<p>one <b>{{ a | upper }} two</b></p>", "<p><b>{{ a | upper }} TWO</b> ONE</p>"),
        ("<p>{{ a }}</p>", "<p>{{ a }}</p>"),
        ("<p>one two{# a b #}</p>", "<p>TWO ONE{# a b #}</p>"),
        ("one {% if a %}two three{% else %}four{% endif %}.", "ONE {% if a %}THREE TWO{% else %}FOUR{% endif %}."),
        ("{% if a %}<b>one two</b>{% endif %}", "{% if a %}<b>TWO ONE</b>{% endif %}"),
        ("<b>one two {% x y %} three</b>", "<b>TWO ONE {% x y %} THREE</b>"),
        ("<% if a < b && c > d %>one two<% end %>", "<% if a < b && c > d %>TWO ONE<% end %>"),
        ("one <%= a -%> two", "TWO ONE <%= a -%>"),
        ("{{#if a}}one two{{else}}three{{/if}} {{{ b c }}}", "{{#if a}}TWO ONE{{else}}THREE{{/if}} {{{ b c }}}"),
        ("{{ range .a }}one two{{- end }}", "{{ range .a }}TWO ONE{{- end }}"),
        ("one two {{ a(b &amp; c) }}", "TWO ONE {{ a(b &amp; c) }}"),
        ("one {{\n a\n}} two", "TWO ONE {{\n a\n}}"),
        ("""{% t "one <b>two</b>" %} three four""", """{% t "one <b>two</b>" %} FOUR THREE"""),
        ("<a {% if a > b %}class=c{% endif %}>one two</a>", "<a {% if a > b %}class=c{% endif %}>TWO ONE</a>"),
        ("<{{ tag }}>one two</{{ tag }}>", "<{{ tag }}>TWO ONE</{{ tag }}>"),
        ('<a href="{{ a }}">one two</a>', '<a href="{{ a }}">TWO ONE</a>'),
        ("one {{ a }}{{ b }} two", "TWO ONE {{ a }}{{ b }}"),
        ("one {{a}}% &{{ b\n}}; two", "TWO &amp;{{ b\n}}; ONE {{a}}%"),
        ("one ${a.b} two", "TWO ONE ${a.b}"),
        ("one {{ <b>two</b> }} three", "THREE }} <b>TWO</b> {{ ONE"),
        ("one {{ two <!-- }} --> three", "THREE TWO <!-- }} --> {{ ONE"),
        ("<!-- {{ --> one two }}", "<!-- {{ -->}} TWO ONE"),
        ("one {{ two", "TWO {{ ONE"),
    ],
)  # fmt: skip
def test_templates_of_a_page_stay(source, translated):
    assert translate(source, "html") == translated


@pytest.mark.parametrize("piece", ["{{", "{% ", "<%", "${", "{{ <b>", '{{ "', "{{ x }} ", "{% x %}"])
def test_hostile_repetition_of_templates_is_read_without_loss(piece):
    source = piece * 3_000 + " x"
    parts = read_document(source, "html").parts
    assert (
        "".join(part if isinstance(part, str) else part.before + part.source + part.after for part in parts) == source
    )


def test_each_template_is_looked_at_a_few_times(monkeypatch):
    """However many follow each other, neither those before text nor those already placed are gone through again."""
    n_steps = 0

    class CountedNode(blocks.Node):
        def __setattr__(self, name, value):
            nonlocal n_steps
            n_steps += 1
            super().__setattr__(name, value)

    original = blocks.Placement._find_place

    def find_place(self, node, parent, placed, *limits):
        nonlocal n_steps
        n_steps += len(placed)
        return original(self, node, parent, placed, *limits)

    monkeypatch.setattr(blocks, "Node", CountedNode)
    monkeypatch.setattr(blocks.Placement, "_find_place", find_place)
    found = []
    for n_templates in (100, 200):
        n_steps = 0
        translate("{{ x }} " * n_templates + "one", "html")
        found.append(n_steps)
    assert found[1] <= 2.1 * found[0]


def test_depth_and_number_of_tags_are_no_danger():
    deep = "<b>" * 40 * MAX_DEPTH + "one two" + "</b>" * 40 * MAX_DEPTH
    wide = "<i>a</i> <b>b</b> " * 2_000
    for page in (deep, wide):
        assert Tags(translate(page, "html")).found == Tags(page).found


@pytest.mark.parametrize(
    ("piece", "method"),
    [
        ("<a ", "parse_starttag"),
        ("</a ", "parse_endtag"),
        ("<? ", "parse_pi"),
        ("<!-- ", "parse_comment"),
        ("<!--x>", "parse_comment"),
        ("<![CDATA[x>", "parse_marked_section"),
    ],
)
def test_what_is_never_closed_is_looked_for_once(monkeypatch, piece, method):
    """The parser reads from each to the end of the page."""
    calls: list[int] = []
    original = getattr(HTMLParser, method)

    def count(self, *args):
        calls.append(1)
        return original(self, *args)

    monkeypatch.setattr(HTMLParser, method, count)
    source = "<p>one two</p>" + piece * 500
    calls.clear()
    translated = translate(source, "html")
    assert translated == "<p>TWO ONE</p>" + piece * 500
    assert len(calls) <= 2


def test_text_behind_the_last_tag_is_translated_up_to_a_tag_that_is_never_closed():
    assert translate("<p>one 1 < 2 two <b three", "html") == "<p>TWO 2 &lt; 1 ONE <b three"


@pytest.mark.parametrize("section", ["<![x[y]]>", "<![ x>", "<![if IE]>", "<![CDATA[a > b]]>"])
def test_marked_section_of_any_kind_stays(section):
    assert translate(f"{section}one two", "html") == f"{section}TWO ONE"


def test_block_translated_to_nothing_stays_and_is_reported():
    rendered, notes = read_document("<p>one</p><p>two</p>", "html").render([("", []), ("zwei", [])])
    assert rendered == "<p>one</p><p>zwei</p>"
    assert notes == ["this part was left as it is, as its markup would not survive: 'one'"]


def test_trained_model_translates_sentences_and_keeps_tags(trained):
    """What it says differs between processors; what training has recorded and how tags nest does not."""
    translator = load(trained("phrases"))
    assert translator.bundle.training.max_source_tokens > 1
    assert translator.splits_sentences
    page = "<p>March <b>14</b>, 2026</p>\n<p>next <i>week</i><br>next week</p>"
    translated = translator.translations([page], to="de", markup="html")[0][0]
    assert Tags(translated.text).found == Tags(page).found
    assert Tags(translated.text).is_nested
    assert len(translated.sentences) == 3
    assert [one.text for one in translated.sentences][2] == translator.translate("next week", to="de")
