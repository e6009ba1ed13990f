"""Records `bench run --model model.onnx` in a terminal of 80 columns: two pictures, for light and for dark pages.

    python docs/pictures/recording.py

The command runs in a new folder in which a reference model, exported to ONNX, lies as `model.onnx`, and measures there
as it does anywhere. A picture shows what stands on the terminal at the end; the line that told the progress is gone.
"""

from __future__ import annotations

import fcntl
import io
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from bench.api.cell import Cell
from bench.measure.limits import Limits
from bench.pipeline import prepare

FOLDER = Path(__file__).parent
COMMAND = "bench run --model model.onnx"
CELL = "crnn/torch/torch_onnx/raw/onnxruntime/cpu/b1t1"
"""The cell whose file is the model."""
COLUMNS, ROWS = 80, 50
TERMINAL = "xterm"
"""A terminal of 16 colours, which the themes below choose."""
UNSET = ("BENCH_PATH", "COLORTERM", "COLUMNS", "FORCE_COLOR", "LINES", "NO_COLOR", "TTY_COMPATIBLE")
"""Variables that would change what the command prints, or where it looks for plugins."""
TOKEN = re.compile(
    r"\x1b\[(?P<parameters>[0-9;?]*)(?P<code>[A-Za-z])|(?P<end>[\r\n])|(?P<text>[^\x1b\r\n]+)|(?P<rest>.)"
)

# Black, red, green, yellow, blue, magenta, cyan and white. Red and green are the vermilion and the bluish green of
# Okabe and Ito, "Color Universal Design" (2008), made darker or lighter until they are legible on the background.
THEMES = {
    "light": TerminalTheme(
        (255, 255, 255),
        (15, 18, 22),
        [
            (15, 18, 22),
            (176, 64, 0),
            (0, 105, 75),
            (130, 84, 0),
            (0, 96, 150),
            (148, 60, 112),
            (0, 98, 120),
            (80, 86, 94),
        ],
    ),
    "dark": TerminalTheme(
        (13, 17, 23),
        (236, 240, 245),
        [
            (150, 158, 168),
            (255, 138, 80),
            (60, 200, 155),
            (240, 175, 40),
            (105, 190, 240),
            (230, 160, 200),
            (110, 205, 225),
            (236, 240, 245),
        ],
    ),
}
FORMAT = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix, .{unique_id}-title {{
  font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", "Liberation Mono", monospace;
  font-size: {char_height}px;
}}
.{unique_id}-title {{ font-size: 16px; }}
svg > rect {{ stroke: #80868b; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal"><rect width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
"""What is around the lines. It names fonts that systems have, and loads none, as rich's own format does."""


def recorded(command: Sequence[str], folder: Path, environment: Mapping[str, str], *, columns: int = COLUMNS) -> str:
    """What a command writes to its terminal, with the codes for colours and the cursor.

    Args:
        command: the command and its arguments.
        folder: the working folder.
        environment: all environment variables.
        columns: width of the terminal.

    Raises:
        subprocess.CalledProcessError: the command failed; `output` is what it wrote.
    """
    ours, its = os.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    written = bytearray()
    with subprocess.Popen(command, cwd=folder, env=environment, stdin=its, stdout=its, stderr=its) as process:
        os.close(its)
        try:
            while part := _read(ours):
                written += part
        except BaseException:
            process.kill()
            raise
        finally:
            os.close(ours)
    output = written.decode("utf-8")
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, output)
    return output


def _read(terminal: int) -> bytes:
    """The next part of what is written to a terminal; nothing once no process has it open."""
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # Linux says so by EIO
        return b""


def final_screen(output: str) -> str:
    """The lines that stand on a terminal in the end, with the codes for colours.

    Only what rich's live view needs is known: lines are erased as a whole, and written from their beginnings.

    Raises:
        ValueError: the output has another code, or writes over what stands there.
    """
    lines, row, is_at_start = [""], 0, True
    for token in TOKEN.finditer(output):
        code, parameters = token["code"], token["parameters"]
        if token["rest"] is not None:
            raise ValueError(f"unknown code {output[token.start() : token.start() + 10]!r}")
        if token["text"] is not None:
            if is_at_start and re.sub(r"\x1b\[[0-9;]*m", "", lines[row]):
                raise ValueError(f"{token['text']!r} is written over {lines[row]!r}")
            lines[row] += token["text"]
            is_at_start = False
        elif token["end"] == "\r":
            is_at_start = True
        elif token["end"] == "\n":
            row += 1
            lines += [""] * (row == len(lines))
        elif code == "m":
            lines[row] += token[0]
        elif code == "A":
            row = max(0, row - int(parameters or 1))
        elif (code, parameters) == ("K", "2"):
            lines[row] = ""
        elif (code, parameters) not in (("l", "?25"), ("h", "?25")):  # which hide and show the cursor
            raise ValueError(f"unknown code {token[0]!r}")
    return "\n".join(lines).rstrip("\n")


def drawn(output: str, theme: str, *, title: str, columns: int = COLUMNS) -> str:
    """A picture of lines on a terminal, as SVG; a line that is too long goes on in the next one.

    Args:
        output: the lines, with codes for colours.
        theme: one of `THEMES`.
        title: stands above the lines.
        columns: width of the terminal.
    """
    console = Console(record=True, width=columns, file=io.StringIO(), highlight=False)
    for line in Text.from_ansi(output).split("\n", allow_blank=True):
        for start in range(0, max(len(line), 1), columns):
            console.print(line[start : start + columns], no_wrap=True, crop=False)
    return console.export_svg(title=title, theme=THEMES[theme], code_format=FORMAT, unique_id=f"recording-{theme}")


def main() -> None:
    """Record the command, and write the pictures beside this file."""
    cache = Path(os.environ.get("BENCH_CACHE") or ".cache/bench").resolve()
    model = prepare.artifact_of(Cell.from_path(CELL), Limits.of(step_s=None, memory_bytes=None)).path
    environment = {name: value for name, value in os.environ.items() if name not in UNSET}
    environment |= {"TERM": TERMINAL, "BENCH_CACHE": str(cache)}
    program, *arguments = shlex.split(COMMAND)
    with tempfile.TemporaryDirectory() as folder:
        shutil.copyfile(model, Path(folder, "model.onnx"))
        try:
            output = recorded([str(Path(sys.executable).with_name(program)), *arguments], Path(folder), environment)
        except subprocess.CalledProcessError as error:
            raise SystemExit(final_screen(error.output)) from error
    shown = f"\x1b[1m$ {COMMAND}\x1b[0m\n{final_screen(output)}"
    for theme in THEMES:
        path = FOLDER / f"recording-{theme}.svg"
        path.write_text(drawn(shown, theme, title="Inferometer"), encoding="utf-8")
        print(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


if __name__ == "__main__":
    main()
