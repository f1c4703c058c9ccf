"""docs/serving.md documents every limit and every path."""

import dataclasses
import re

from named import ROOT
from sightline.serving.http import Limits, ServingSettings
from sightline.serving.service import service

TEXT = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")


def test_every_limit_is_documented_with_its_option():
    flags = {field.metadata["flag"] for field in dataclasses.fields(Limits)}
    documented = set(re.findall(r"`(--[a-z-]+)`", TEXT.split("## Limits")[1].split("## ")[0]))
    assert documented == flags


def test_every_path_is_documented():
    paths = service({}, ServingSettings(port=0)).openapi()["paths"]
    assert [path for path in paths if path.split("/{")[0] not in TEXT] == []
