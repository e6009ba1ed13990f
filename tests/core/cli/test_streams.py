"""Whatever a command prints has no control characters, and an error is one line, whatever names and paths hold."""

from __future__ import annotations

import io
import logging
import os
import pty
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from onnx import TensorProto, helper, save

from bench.api.errors import ChildError, InputError
from bench.cli import commands, main, options
from bench.cli.streams import guarded
from bench.report import terminal
from bench.testing import printable_errors
from support.features import needs

STEERS = "\x1b[2J\n\x9b\u202e\r\x07"
SHOWN = "\\x1b[2J\\n\\x9b\\u202e\\r\\x07"


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """The exit code of a command."""
    monkeypatch.setattr(sys, "argv", ["bench", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main.main()
    return int(stopped.value.code or 0)


@pytest.mark.parametrize(
    "arguments",
    [
        [f"no{STEERS}command"],
        ["show", f"--no{STEERS}option"],
        ["show", "--format", f"x{STEERS}"],
        ["check", "a", "b", "--batch", f"1{STEERS}"],
        pytest.param(["graph", f"x{STEERS}"], marks=needs("graph")),
        ["show", "--results", f"/nowhere{STEERS}"],
        ["show", f"glob{STEERS}"],
        ["show", "--margin", f"2{STEERS}"],
        pytest.param(["compare", f"a{STEERS}", f"b{STEERS}"], marks=needs("compare")),
        pytest.param(["profile", f"/nowhere{STEERS}.onnx"], marks=needs("profile")),
        pytest.param(["profile", f"/nowhere{STEERS}.{STEERS}"], marks=needs("profile")),
        ["run", "--model", f"/nowhere{STEERS}.onnx"],
        ["run", "--dim", f"n{STEERS}=x"],
        ["run", "--model", "m.onnx", "--shape", f"n{STEERS}=1xx"],
        ["pick", f"t{STEERS}"],
        pytest.param(["explain", f"t{STEERS}"], marks=needs("explain")),
        ["check", f"/nowhere{STEERS}"],
        ["best", "--into", f"/nowhere{STEERS}"],
    ],
)
def test_errors_are_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, *arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 1
    assert said.err.startswith("bench: ")
    assert said.err.rstrip("\n").isprintable()


def test_an_error_of_the_system_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(**_: object) -> None:
        raise FileNotFoundError(2, "No such file", f"/a{STEERS}b")

    monkeypatch.setattr(commands, "app", fail)
    assert run(monkeypatch) == 2
    assert capsys.readouterr().err == f"bench: cannot use /a{SHOWN}b: No such file\n"


def test_what_packages_print_passes_through_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.stdout, sys.stderr
    with guarded():
        print(f"printed {STEERS}")
        sys.stdout.writelines([f"lines {STEERS}", "\n"])
        sys.stderr.write(warnings.formatwarning(f"warned {STEERS}", UserWarning, "file", 1, line=""))
        logging.StreamHandler(sys.stderr).handle(logging.makeLogRecord({"msg": f"logged {STEERS}"}))
        options.tell(f"told {STEERS}")
        options.say(f"said {STEERS}")
        options.write(f"whole {STEERS}\n", None)
    assert (sys.stdout, sys.stderr) == before
    said = capsys.readouterr()
    layout = SHOWN.replace("\\n", "\n")
    assert said.out == f"printed {layout}\nlines {layout}\ntold {SHOWN}\nwhole {layout}\n"
    assert said.err == f"file:1: UserWarning: warned {layout}\nlogged {layout}\nbench: said {SHOWN}\n"


def test_messages_of_the_guard_are_printable() -> None:
    with pytest.raises(InputError) as raised, printable_errors():
        raise InputError(f"told {STEERS}") from ChildError("error", f"child {STEERS}")
    assert str(raised.value) == f"told {SHOWN}"
    assert str(raised.value.__cause__) == f"child {SHOWN}"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_stream_of_another_encoding_gets_escapes(monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding=encoding))
    with guarded():
        terminal.Console().print(terminal.line("\u4e2d"))
        sys.stdout.write("\u4e2d\n")
        sys.stdout.flush()
    assert written.getvalue() == b"\\u4e2d\n\\u4e2d\n"


def test_closed_streams_are_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    monkeypatch.setattr(sys, "stdout", None)
    assert run(monkeypatch, "show", "--none") == 2


def test_the_streams_are_given_back_after_an_error() -> None:
    before = sys.stdout, sys.stderr
    with pytest.raises(ZeroDivisionError), guarded():
        raise ZeroDivisionError
    assert (sys.stdout, sys.stderr) == before


def test_a_file_keeps_its_layout_and_has_no_codes(tmp_path: Path) -> None:
    options.write(f"a\tb\nc\u00a0d {STEERS}", tmp_path / "file")
    layout = SHOWN.replace("\\n", "\n")
    assert (tmp_path / "file").read_text(encoding="utf-8") == f"a\tb\nc\u00a0d {layout}"


def hostile_model(path: Path) -> Path:
    """Names of nodes, values and an operator's domain that steer a terminal, forge lines or begin a formula."""
    value = helper.make_tensor_value_info
    name = f"{STEERS}<script>"
    nodes = [
        helper.make_node("Relu", ["x"], [name], name="=1+cmd|'/C calc'!A0"),
        helper.make_node(f"Op{STEERS}", [name], ["y"], name=f'{STEERS}"|a|b|', domain=f"dom{STEERS}"),
    ]
    ends = [value("x", TensorProto.FLOAT, [f"N{STEERS}", 4])], [value("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, f"g{STEERS}", *ends)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(f"dom{STEERS}", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8, producer_name=STEERS)
    save(model, path)
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hostile_model(tmp_path_factory.mktemp("hostile") / f"m{STEERS}.onnx")


@pytest.fixture(scope="module")
def clean_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("clean") / "clean.onnx"
    value = helper.make_tensor_value_info
    ends = [value("x", TensorProto.FLOAT, [1, 4])], [value("y", TensorProto.FLOAT, [1, 4])]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"], name="relu")], "g", *ends)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


EACH = ["node-table", "node-csv", "node-json", "tensor-table", "weight-csv", "buffer-json"]
"""Each view and each format; the other pairs are thorough."""


@needs("profile")
@pytest.mark.parametrize(
    ("by", "format"),
    [
        pytest.param(by, format, marks=[] if f"{by}-{format}" in EACH else pytest.mark.thorough)
        for by in ("node", "tensor", "weight", "buffer")
        for format in ("table", "csv", "json")
    ],
)
def test_a_profile_shows_escapes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], model: Path, by: str, format: str
) -> None:
    code = run(monkeypatch, "profile", str(model), "--no-observe", "--by", by, "--format", format)
    said = capsys.readouterr()
    assert code == 0, said.err
    assert {char for char in said.out + said.err if not char.isprintable()} <= {"\n"}
    if format == "csv" and by == "node":
        assert "'=1+cmd|'/C calc'!A0,Relu" in said.out


@needs("graph")
def test_a_difference_and_a_text_show_escapes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], model: Path, clean_model: Path
) -> None:
    for arguments in (["diff", str(clean_model), str(model)], ["text", str(model)]):
        assert run(monkeypatch, "graph", *arguments) == 0
        said = capsys.readouterr()
        assert {char for char in said.out + said.err if not char.isprintable()} <= {"\n", "\t"}
        assert "\\x1b[2J" in said.out


@needs("graph")
def test_a_picture_shows_escapes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, model: Path
) -> None:
    target = tmp_path / f"p{STEERS}.svg"
    assert run(monkeypatch, "graph", "picture", str(model), str(target), "--no-observe") == 0
    assert capsys.readouterr().out.splitlines()[0] == f"{tmp_path}/p{SHOWN}.svg"
    drawn = target.read_text(encoding="utf-8")
    assert {char for char in drawn if not char.isprintable()} <= {"\n"}
    assert "<script>" not in drawn
    assert "&lt;script&gt;" in drawn


def on_a_terminal(program: str, *arguments: str, cache: Path) -> bytes:
    """What a program writes to its terminal."""
    primary, replica = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "BENCH_CACHE": str(cache), "COLUMNS": "200"}
    child = subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdout=replica, stderr=replica, stdin=replica, env=environment
    )
    os.close(replica)
    said = io.BytesIO()
    try:
        while data := os.read(primary, 4096):
            said.write(data)
    except OSError:  # the terminal is closed with its last process
        pass
    assert child.wait(timeout=60) == 0
    return said.getvalue()


@needs("graph")
def test_a_terminal_gets_colours_and_no_codes_of_names(model: Path, tmp_path: Path) -> None:
    """On a terminal rich writes codes of its own beside the escaped names."""
    program = "from bench.cli.main import main; main()"
    said = on_a_terminal(program, "graph", "diff", str(model), str(model), cache=tmp_path)
    assert b"\x1b[1m" in said
    assert b"\x1b[2J" not in said
    assert b"\\x1b[2J" in said


LIVE = """
from bench.cli import progress, streams
from bench.report.terminal import Console, line

with streams.guarded():
    console = Console(stderr=True)
    with progress.observer(console) as watch:
        watch.stage("prepare", 2)
        print("a name \\x1b[2J")
        watch.stage("verify", 2)
    Console().print(line("a table", style="bold"))
"""


def test_a_live_view_on_a_terminal_has_colours_and_no_codes_of_names(tmp_path: Path) -> None:
    """In a live view rich puts streams of its own before those of the command."""
    said = on_a_terminal(LIVE, cache=tmp_path)
    for shown in (b"0:00 preparing 0 of 2 cells", b"0:00 verifying 0 of 2 cells", b"a table"):
        assert b"\x1b[1m" + shown in said
    assert b"\r\x1b[2K" in said, "the line is redrawn in its place"
    assert b"\x1b[2J" not in said
    assert b"\\x1b" not in said, "rich leaves out the code of the name"
