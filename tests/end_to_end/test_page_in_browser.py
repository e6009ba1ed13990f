"""The page in a real browser: it sorts, filters and shows details, without an error and without a request."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support import page_records as made

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
DESKTOP, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}


def cells(*variants: str) -> list[str]:
    """What is shown of the cells with these variants."""
    return [f"null/native/{variant}/null/cpu" for variant in variants]


@dataclasses.dataclass
class Window:
    """A page that is open, with what went wrong in it and what it asked for."""

    page: Any
    complaints: list[str]
    requests: list[str]

    def follow(self, name: str) -> None:
        """Follow the bar's link of that name until the page has made it the current choice."""
        link = self.page.get_by_role("link", name=name)
        link.click()
        link.and_(self.page.locator("[aria-current]")).wait_for()  # the page is told of a new address afterwards

    def rows(self, within: str = ".task.current") -> list[str]:
        """Paths of the rows that can be seen, in order, without what is the same for all."""
        names = self.page.locator(f"{within} table.rows tbody tr:visible .name").all_inner_texts()
        return ["".join(name.split()) for name in names]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Skips the tests where there is none, or fails them where `REQUIRE_BROWSER` is set, as `.ci/run` sets it."""
    without = pytest.fail if os.environ.get("REQUIRE_BROWSER") else pytest.skip
    if CHROMIUM is None:
        without("no Chromium here; Debian's package is `chromium`")
    if importlib.util.find_spec("playwright") is None:
        without("playwright is not installed; pip install playwright")
    import playwright.sync_api as playwright

    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium has no sandbox for root
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(made.text(), encoding="utf-8")
    return path


@pytest.fixture
def opened(browser: Any, file: Path) -> Iterator[Any]:
    """A function that opens the page; that nothing was complained of is checked after each test."""
    contexts, windows = [], []

    def open_page(**options: Any) -> Window:
        context = browser.new_context(**{"viewport": DESKTOP, **options})
        window = Window(page=context.new_page(), complaints=[], requests=[])
        window.page.on("console", lambda message: window.complaints.append(message.text))
        window.page.on("pageerror", lambda error: window.complaints.append(str(error)))
        window.page.on("dialog", lambda dialog: window.complaints.append(dialog.message))  # an alert
        window.page.on("request", lambda request: window.requests.append(request.url))
        window.page.set_default_timeout(60_000)
        window.page.goto(f"{file.as_uri()}#task-toy")
        contexts.append(context)
        windows.append(window)
        return window

    yield open_page
    for context in contexts:
        context.close()
    for window in windows:
        assert window.complaints == []
        assert {url.partition("#")[0] for url in window.requests} == {file.as_uri()}


def test_a_click_sorts_and_another_turns_it_round(opened: Any) -> None:
    window = opened()
    latency = window.page.locator(".task.current th[data-key=latency_p50_ns]")
    assert window.rows() == cells("halve", "raw", "prune", "broken")

    latency.locator(".sorter").click()
    assert window.rows() == cells("broken", "halve", "raw", "prune")
    latency.locator(".sorter").click()
    assert window.rows() == cells("prune", "raw", "halve", "broken")
    assert latency.get_attribute("aria-sort") == "descending"

    window.page.locator(".task.current th[data-key=verdict] .sorter").press("Enter")
    assert window.rows() == cells("raw", "broken", "halve", "prune")  # baseline, broken, faster, slower


def test_words_and_choices_filter_tables_and_figures(opened: Any) -> None:
    window = opened()
    page = window.page
    assert page.locator(".task.current .line:visible .name").count() == 4

    page.fill("input[name=words]", "H*lve null")
    assert window.rows() == ["null/native/halve/null/cpu"]
    assert page.inner_text(".filter output") == "1 of 5 cells"
    assert page.locator(".task.current .line:visible > .name").count() == 1
    assert page.locator(".task.current .scatter >> nth=0").locator("g.faint").count() == 3

    page.fill("input[name=words]", "nothing-like-it")
    assert window.rows() == []
    assert page.locator(".task.current .nothing").is_visible()

    page.click("button[type=reset]")
    page.select_option("select[name=outcome]", "broken")
    assert window.rows() == ["null/native/broken/null/cpu"]


def test_a_task_with_a_hostile_name_is_chosen_like_any(opened: Any) -> None:
    window = opened()

    window.follow(made.HOSTILE)

    assert window.rows() == ["null/native/raw/null/cpu"]
    assert window.page.inner_text(".task.current h2") == made.HOSTILE
    assert made.REASON in window.page.inner_text(".task.current .note")
    window.follow("all")
    assert len(window.rows()) == 5


def test_details_have_the_figures_and_every_launch(opened: Any) -> None:
    window = opened()

    window.page.locator(".task.current table.rows .name").nth(2).click()

    dialog = window.page.locator("#detail")
    assert dialog.locator("h2").inner_text() == made.PRUNE
    assert dialog.locator(".samples circle").count() >= 100
    assert dialog.locator("tbody tr td:nth-child(2)").all_inner_texts() == [str(made.NUM_SAMPLES), "10"]
    assert "1.502 ms" in dialog.inner_text()
    assert "evenly spaced quantiles" in dialog.inner_text()
    window.page.keyboard.press("Escape")
    assert not dialog.is_visible()


def test_what_is_under_the_pointer_is_told(opened: Any) -> None:
    window = opened()
    assert not window.page.locator("#tip").is_visible()

    window.page.locator(".task.current .plot g").first.hover()

    told = window.page.locator("#tip").inner_text()
    assert any(cell in told for cell in made.records())
    assert "latency p50" in told


def test_dark_follows_the_system_and_the_button(opened: Any) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    light, dark = opened(color_scheme="light").page, opened(color_scheme="dark").page
    white, black = light.evaluate(colour), dark.evaluate(colour)
    assert white != black

    light.click("#theme")
    dark.click("#theme")

    assert (light.evaluate(colour), dark.evaluate(colour)) == (black, white)


def test_a_phone_needs_no_sideways_scrolling(opened: Any) -> None:
    window = opened(viewport=PHONE)
    window.follow("all")

    assert window.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    window.page.select_option("select[name=sort]", "latency_p50_ns")
    assert window.rows("[data-task=toy]")[0] == "null/native/broken/null/cpu"
    window.page.locator(".task.current table.rows .name").first.click()
    assert window.page.evaluate("document.getElementById('detail').getBoundingClientRect().width") <= PHONE["width"]


@pytest.mark.parametrize("scripts", [True, False])
def test_a_table_that_is_too_wide_scrolls_in_its_own_box(opened: Any, scripts: bool) -> None:
    page = opened(viewport={"width": 1300, "height": 900}, java_script_enabled=scripts).page
    widths = "[document.documentElement.scrollWidth, document.querySelector('#task-toy .wide').scrollWidth]"
    assert page.evaluate(widths)[0] <= 1300

    page.locator("#task-toy table.rows").evaluate("table => { table.style.minWidth = '1700px'; }")
    page.wait_for_timeout(200)  # the script is told of new sizes before the next frame

    assert page.evaluate(widths)[0] <= 1300
    assert page.evaluate(widths)[1] == 1700


def test_the_heading_of_a_table_that_fits_stays_in_sight(opened: Any) -> None:
    page = opened(viewport={"width": 1300, "height": 300}).page

    page.locator("#task-toy table.rows tbody tr").last.evaluate("row => row.scrollIntoView({block: 'center'})")

    head, table, bar = (
        page.locator(selector).bounding_box()
        for selector in ("#task-toy table.rows thead th >> nth=0", "#task-toy table.rows", ".bar")
    )
    assert head["y"] > table["y"] + 1
    assert head["y"] == pytest.approx(bar["y"] + bar["height"], abs=1)


def test_print_has_every_task_and_no_controls(opened: Any) -> None:
    window = opened(color_scheme="dark")

    window.page.emulate_media(media="print")

    assert window.page.locator(".task:visible").count() == 2
    assert not window.page.locator(".bar").is_visible()
    assert window.page.evaluate("getComputedStyle(document.body).color") == "rgb(22, 25, 29)"


def test_without_scripts_there_are_tables_and_figures(opened: Any) -> None:
    window = opened(java_script_enabled=False)

    assert window.page.locator(".task:visible").count() == 2
    assert window.page.locator("table.rows tbody tr:visible").count() == 5
    assert window.page.locator(".plot use:visible").count() > 0
    assert not window.page.locator(".bar").is_visible()
