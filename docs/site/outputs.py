"""The outputs and the pictures of `docs/questions`: what the commands on these pages print and draw of stored results.

    python docs/site/outputs.py

A page has one block with a command, and after it a block between two marks that this script fills. Above its picture
stands the command that draws it, in a comment.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs" / "questions").glob("*.md"))
WIDTH = 130
"""Characters in a line of an output."""
BEGIN, END = "<!-- output: begin -->\n", "<!-- output: end -->\n"
COMMAND = re.compile(r"^```\n(?P<command>bench (?:.+\\\n)*.+)\n```\n\n" + re.escape(BEGIN), re.MULTILINE)
DRAWN_BY = re.compile(r"^<!-- drawn by: (?P<command>bench .+) -->$", re.MULTILINE)
PICTURE = re.compile(r"\b(?:pictures|plots)/(?P<name>[\w.-]+\.(?:png|svg))")


def main() -> int:
    """Fill the blocks of all pages, and draw their pictures."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        page.write_text(filled(text), encoding="utf-8")
        draw(text, page.parent / "pictures")
        print(page.relative_to(ROOT))
    return 0


def filled(text: str) -> str:
    """The text of a page with what its command prints now.

    Raises:
        ValueError: it has no command with a block for its output below.
    """
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    asked = COMMAND.search(text)
    if asked is None or not end:
        raise ValueError("a page has a block with one command, and then the two marks of its output")
    return f"{head}{begin}```text\n{printed(asked['command'])}```\n{end}{tail}"


def draw(text: str, folder: Path) -> None:
    """Draw the pictures of a page anew, where it says by which command."""
    asked = DRAWN_BY.search(text)
    if asked is None:
        return
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as drawn:
        printed(f"{asked['command']} --output {shlex.quote(drawn)}")
        for name in dict.fromkeys(PICTURE.findall(text)):
            shutil.copyfile(Path(drawn, name), folder / name)


def printed(command: str) -> str:
    """What a command prints in the folder of the repository."""
    code = "from bench.cli import main; main.main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *shlex.split(command.replace("\\\n", " "))[1:]],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": str(WIDTH)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
