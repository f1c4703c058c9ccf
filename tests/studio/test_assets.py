"""The files of the page, as a browser gets them."""

import gzip
import re
from itertools import combinations

from sightline.model.registry import FAMILIES
from sightline.studio.routes import assets
from sightline.tasks import TASKS


def test_the_pages_code_is_small_on_its_way():
    """Under 200 kB, all views together."""
    assert sum(len(asset.packed) for asset in assets().values()) < 200_000


def test_files_come_compressed_to_clients_that_accept_it(http):
    for path in ("/", "/studio/studio.js", "/page/theme.css"):
        plain = http.get(path, headers={"accept-encoding": "identity"})
        packed = http.get(path, headers={"accept-encoding": "gzip"})
        assert "content-encoding" not in plain.headers
        assert packed.headers["content-encoding"] == "gzip"
        assert packed.content == plain.content == assets()[path].content
        assert gzip.decompress(assets()[path].packed) == plain.content


def leading(path: str) -> set[str]:
    """The classes that a stylesheet begins its selectors with: what it styles wherever that stands."""
    text = re.sub(r"/\*.*?\*/", "", assets()[path].content.decode(), flags=re.DOTALL)
    selectors = [one.strip() for group in re.findall(r"([^{}]+)\{", text) for one in group.split(",")]
    return {name for one in selectors for name in re.findall(r"^(?::is\()?\.([\w-]+)", one)} - {"exporting"}


def test_no_script_knows_a_family_or_a_task_by_its_name():
    """What the page does follows from the card of a model and from its trace, so that it does it for new ones too."""
    names = "|".join(sorted({*FAMILIES, *TASKS} - {"chat"}))  # which is also the name of a view
    for path, asset in assets().items():
        if path.endswith(".js"):
            found = re.findall(rf"""["'`]({names})["'`]|\b({names})\b["']?:""", asset.content.decode())
            assert found == [], path
            assert re.findall(r"\b(?:family|task)\b\W*[!=]==?\s*[\"'`]", asset.content.decode()) == [], path


def test_no_view_styles_what_another_one_does():
    """Stylesheets stay when one goes on to another view, which must look as if one had come there first."""
    views = ("watch", "walk", "positions", "write", "runs")
    for one, other in combinations(views, 2):
        assert leading(f"/studio/{one}/{one}.css") & leading(f"/studio/{other}/{other}.css") == set()


def test_nothing_but_the_table_is_served(http):
    outside = ("/studio/..%2froutes.py", "/studio/%2e%2e/assets.py", "/studio/walk/..%2f..%2froutes.py")
    unknown = ("/studio/routes.py", "/studio/walk", "/studio/walk/", "/studio/walk/none.js", "/page/none.js")
    for path in (*outside, *unknown):
        assert http.get(path).status_code == 404
