"""The files of the page, as a browser gets them."""

import gzip

from sightline.studio.assets import assets


def test_the_pages_code_is_small_on_its_way():
    """Under 200 kB, all views together."""
    assert sum(len(asset.packed) for asset in assets().values()) < 200_000


def test_files_come_compressed_to_whoever_understands_that(http):
    for path in ("/", "/studio/studio.js", "/drawing/theme.css"):
        plain = http.get(path, headers={"accept-encoding": "identity"})
        packed = http.get(path, headers={"accept-encoding": "gzip"})
        assert "content-encoding" not in plain.headers
        assert packed.headers["content-encoding"] == "gzip"
        assert packed.content == plain.content == assets()[path].content
        assert gzip.decompress(assets()[path].packed) == plain.content


def test_nothing_but_the_table_is_served(http):
    for path in ("/studio/..%2fsite.py", "/studio/site.py", "/drawing/none.js", "/studio/%2e%2e/assets.py"):
        assert http.get(path).status_code == 404
