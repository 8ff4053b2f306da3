"""Links of the documentation lead somewhere, and every page is on the site."""

import importlib.util
import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from helpers import ROOT

pytestmark = pytest.mark.lint
DOCS = ROOT / "docs"
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "benchmarks/README.md")),
    ROOT / "examples" / "serve" / "README.md",
    *sorted(DOCS.rglob("*.md")),
]
_CODE = re.compile(r"^(```|~~~).*?^\1[ \t]*$", re.M | re.S)
_INLINE_CODE = re.compile(r"(`+)[^`].*?\1")
_LINK = re.compile(r"\]\(\s*<?([^)\s>]+)|^ {0,3}\[[^\]]+\]:\s*<?([^\s>]+)", re.M)


def links(text):
    """Targets of links and images, without those to other sites and those that are only shown as code."""
    prose = _INLINE_CODE.sub("", _CODE.sub("", text))
    found = (one or other for one, other in _LINK.findall(prose))
    return [target for target in found if not re.match(r"[a-z][a-z0-9+.-]*:", target, re.I)]


def anchors(text):
    """The anchors that GitHub gives to a page's headings: a second one of a name ends in -1."""
    made = set()
    for heading in re.findall(r"^#{1,6}[ \t]+(.+?)[ \t]*#*$", _CODE.sub("", text), re.M):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        number = sum(
            other == name or re.fullmatch(rf"{re.escape(name)}-\d+", other) is not None for other in made
        )
        made.add(f"{name}-{number}" if number else name)
    return made


def dead_links(page):
    """Links of a page to files that do not exist or to headings they lack."""
    dead = []
    for target in links(page.read_text(encoding="utf-8")):
        path, _, anchor = unquote(target).partition("#")
        file = page.parent / path if path else page
        if not file.exists() or (
            anchor and (file.suffix != ".md" or anchor not in anchors(file.read_text(encoding="utf-8")))
        ):
            dead.append(target)
    return dead


def pages_of_the_site(text):
    """The files that a ``mkdocs.yml`` names in its navigation."""
    navigation = re.search(r"^nav:\n((?:[ \t]+.*\n|\n)+)", text, re.M)
    return re.findall(r"[\w./-]+\.md\b", navigation[1]) if navigation else []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_to_a_file_and_a_heading(page):
    assert dead_links(page) == []


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.name)
def test_pages_of_the_site_link_to_each_other_alone(page):
    """The site is made of docs/: what lies outside is not there. A source file is named as code instead."""
    files = [target.partition("#")[0] for target in links(page.read_text(encoding="utf-8"))]
    outside = [file for file in files if not (page.parent / file).resolve().is_relative_to(DOCS)]
    assert outside == []


def test_the_site_has_every_page_once():
    listed = pages_of_the_site((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert sorted(listed) == sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))


def test_the_picture_is_what_its_script_draws():
    spec = importlib.util.spec_from_file_location("operations", DOCS / "operations.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert Path(script.TARGET).read_text(encoding="utf-8") == script.draw()


def test_it_finds_dead_links(tmp_path):
    """A checker that finds nothing must be shown to find something, and no more than that."""
    (tmp_path / "other.md").write_text("# One, two\n\n## `key` again\n\n## Twice\n\n## Twice\n")
    page = tmp_path / "page.md"
    page.write_text(
        "# Here\n"
        "[a](other.md) [b](other.md#one-two) [c](other.md#key-again) [d](#here) [e](other.md#twice-1)\n"
        "[f](https://example.org/no.md) `[g](no.md)` ![h](no.svg) [i](no.md) [j](other.md#three)\n"
        "[k](#there) [l](other.md#twice-2)\n"
        "```\n# Not a heading\n[m](no.md)\n```\n"
        "[n](#not-a-heading)\n\n[o]: gone.md\n"
    )
    wrong = ["no.svg", "no.md", "other.md#three", "#there", "other.md#twice-2", "#not-a-heading", "gone.md"]
    assert dead_links(page) == wrong


def test_it_finds_a_page_that_is_not_on_the_site():
    text = "site_name: a\nnav:\n  - Home: index.md\n  - More:\n    - Guide: guide.md\ntheme: b.md\n"
    assert pages_of_the_site(text) == ["index.md", "guide.md"]
    assert pages_of_the_site("site_name: a\n") == []
