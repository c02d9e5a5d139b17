"""Every Python example in the README and the documentation runs."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = [
    pytest.param(page, code, id=f"{page.relative_to(ROOT)}:{number}")
    for page in PAGES
    for number, code in enumerate(
        re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)
    )
]


@pytest.mark.parametrize(("page", "code"), EXAMPLES)
def test_example(page, code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, f"{page.name}", "exec"), {"__name__": "__main__"})


def test_the_readme_has_an_example_and_names_what_exists():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert any(page.values[0].name == "README.md" for page in EXAMPLES)
    for link in re.findall(r"\]\((?!http)([^)]+)\)", readme):
        assert (ROOT / link).exists(), link
    assert len(readme.splitlines()) < 80
