"""What the site shows from outside docs/: the README as its first page, CONTRIBUTING, results, the help of commands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from commands import page as commands_page
from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
PLACES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "CITATION.cff": "CITATION.cff",
    "website/iframe-worker.js": "assets/iframe-worker.js",
    "website/site.css": "assets/site.css",
    "benchmarks/README.md": "benchmarks.md",
}
RESULTS = [path.relative_to(ROOT) for path in sorted((ROOT / "results").rglob("*")) if path.is_file()]
PLACES |= {str(path): str(path) for path in RESULTS if not any(part.startswith(".") for part in path.parts)}
"""Place in the site of each file of the repository; files of docs/ are at its top."""

LINK = re.compile(r"(\]\()([^)#:\s]+)(#[^)]*)?\)")


def on_files(files: Any, config: Any) -> Any:
    """Add the files that are not in docs/."""
    for source, place in PLACES.items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / source)))
    files.append(File.generated(config, "commands.md", content=commands_page()))
    return files


def on_page_markdown(markdown: str, page: Any, **_more: Any) -> str:
    """Point links between files of the repository to their places in the site."""
    place = page.file.src_uri
    source = next((source for source, there in PLACES.items() if there == place), f"docs/{place}")

    def moved(link: re.Match[str]) -> str:
        target = (ROOT / source).parent.joinpath(link[2]).resolve()
        if not target.is_relative_to(ROOT):
            return link[0]
        path = target.relative_to(ROOT).as_posix()
        there = PLACES.get(path, path.removeprefix("docs/"))
        return f"{link[1]}{'../' * place.count('/')}{there}{link[3] or ''})"

    return LINK.sub(moved, markdown)
