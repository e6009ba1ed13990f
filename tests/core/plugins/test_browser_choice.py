"""Which browser runs a page, what is part of its version, and programs that are none."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bench.api.errors import ArtifactError
from bench.api.program import BROWSER
from bench.plugins.engines.browser import browser
from bench.plugins.engines.browser.page import Page
from support import browsers, browsing

RUNTIME = browsing.runtime()


def test_the_build_of_a_browser_and_flags_of_the_system_are_part_of_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "chromium"
    program.write_text("#!/bin/sh\necho Chromium 156.0.1.2\n")
    program.chmod(0o755)
    monkeypatch.setenv(browser.BROWSER, str(program))
    monkeypatch.setattr(browser, "_SYSTEM_FLAGS", tmp_path / "flags")
    seen = [RUNTIME.program_versions()["chromium"]]
    (tmp_path / "flags").mkdir()
    (tmp_path / "flags" / "own").write_text("export CHROMIUM_FLAGS=--js-flags=--jitless")
    browser._build_of.cache_clear()
    seen.append(RUNTIME.program_versions()["chromium"])
    assert seen[0] != seen[1]
    assert [text.partition("+")[0] for text in seen] == ["156.0.1.2"] * 2


def test_without_a_browser_the_reason_says_how_to_install_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path))
    monkeypatch.delenv(BROWSER, raising=False)
    monkeypatch.setattr(browser.shutil, "which", lambda name: None)
    assert browser.lacking() == "no Chromium found; `apt-get install chromium`, or --browser PATH"
    of_playwright = tmp_path / "chromium-1200" / "chrome-linux" / "chrome"
    for path in (of_playwright, tmp_path / "chromium-999" / "chrome-linux" / "chrome"):
        path.parent.mkdir(parents=True)
        path.touch()
    assert browser.path() == str(of_playwright), "the newest"
    monkeypatch.setenv(BROWSER, "/nowhere/chrome")
    assert str(browser.lacking()).startswith("no browser at /nowhere/chrome; `apt-get install chromium`")


def test_a_program_that_is_no_chromium_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    true = shutil.which("true")
    assert true is not None
    browsers.need(RUNTIME)
    monkeypatch.setenv(BROWSER, true)
    assert browser.lacking() == f"{true} does not tell its version: it is no Chromium"
    with pytest.raises(ArtifactError, match="the browser ended, with status"):
        Page(RUNTIME.command(), engine="ort", threads=1, provider="wasm")


@pytest.mark.parametrize("content", [b"no program", b"\x7fELF of another machine", b"#!/nowhere/sh\n"])
def test_a_file_that_cannot_be_run_is_a_reason(tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of other runtimes are measured all the same: neither its version nor its build is an error."""
    program = tmp_path / "chrome"
    program.write_bytes(content)
    program.chmod(0o755)
    monkeypatch.setenv(BROWSER, str(program))
    assert browser.lacking() == f"{program} does not tell its version: it is no Chromium"
    assert RUNTIME.program_versions() == {}
