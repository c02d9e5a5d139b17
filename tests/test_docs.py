"""Every Python example in the README and the documentation runs."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = {
    page: re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)
    for page in PAGES
}


@pytest.mark.parametrize(
    "page", [page for page, examples in EXAMPLES.items() if examples], ids=lambda page: page.name
)
def test_the_examples_of_a_page_run_one_after_the_other(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__"}
    for number, code in enumerate(EXAMPLES[page], start=1):
        exec(compile(code, f"{page.name}, example {number}", "exec"), namespace)
        shown = re.findall(r"^ *# > (.*)$", code, re.M)
        printed = capsys.readouterr().out
        assert not shown or printed.splitlines() == shown


def test_the_readme_has_an_example_and_names_what_exists():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert EXAMPLES[ROOT / "README.md"]
    for link in re.findall(r"\]\((?!http)([^)]+)\)", readme):
        assert (ROOT / link).exists(), link
    assert len(readme.splitlines()) < 80
