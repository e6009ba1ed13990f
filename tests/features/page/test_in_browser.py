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

from bench.api.loss_units import AllowedLoss
from bench.decisions.best import best
from bench.features.page import document as pages
from bench.records import folder
from support import page_records as made

PUBLISHED = Path(__file__).parents[3] / "results" / "reference"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
DESKTOP, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
SMALL_PHONE = {"width": 375, "height": 667}


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
        link = self.page.locator(".bar").get_by_role("link", name=name)
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


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the published results: real names, and many deployments of each task."""
    stored = folder.read(PUBLISHED)
    chosen = best(stored.measurements, stored.chosen(None), max_metric_loss=AllowedLoss())
    shown = pages.Shown(
        records=stored.records, rows=stored.chosen(None), best=chosen, option=f" --results {'mine/' * 12}"
    )
    path = tmp_path_factory.mktemp("published") / "report.html"
    path.write_text(pages.page([shown], margin=0.02), encoding="utf-8")
    return path


@pytest.fixture
def opened(browser: Any, file: Path) -> Iterator[Any]:
    """A function that opens the page; that nothing was complained of is checked after each test."""
    contexts, windows, files = [], [], {file}

    def open_page(shown: Path = file, **options: Any) -> Window:
        context = browser.new_context(**{"viewport": DESKTOP, **options})
        window = Window(page=context.new_page(), complaints=[], requests=[])
        window.page.on("console", lambda message: window.complaints.append(message.text))
        window.page.on("pageerror", lambda error: window.complaints.append(str(error)))
        window.page.on("dialog", lambda dialog: window.complaints.append(dialog.message))  # an alert
        window.page.on("request", lambda request: window.requests.append(request.url))
        window.page.set_default_timeout(60_000)
        window.page.goto(f"{shown.as_uri()}#task-toy")
        files.add(shown)
        contexts.append(context)
        windows.append(window)
        return window

    yield open_page
    for context in contexts:
        context.close()
    for window in windows:
        assert window.complaints == []
        assert {url.partition("#")[0] for url in window.requests} <= {shown.as_uri() for shown in files}


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
    assert dialog.locator("thead th").all_inner_texts()[3:7] == ["slowest", "import", "load", "first inference"]
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


def pasted(page: Any) -> str:
    """What the clipboard holds, by pasting it into the filter."""
    page.locator("input[name=words]").focus()
    page.keyboard.press("Control+V")
    return str(page.input_value("input[name=words]"))


@pytest.mark.parametrize(
    ("by", "has_clipboard"), [("click", True), ("click", False), ("Enter", True), ("Space", False)]
)
def test_a_button_copies_the_command_and_says_so(opened: Any, by: str, has_clipboard: bool) -> None:
    """A page that a plain web server serves has no `navigator.clipboard`."""
    page = opened().page
    page.clock.install()
    if not has_clipboard:
        page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    button = page.locator(".card.winner .copy")
    assert button.inner_text() == "Copy"

    if by == "click":
        button.click()
    else:
        page.locator(".card.winner h2 a").focus()
        for _ in range(2):  # from the name of the task over that of the cell
            page.keyboard.press("Tab")
        page.keyboard.press(by)

    button.and_(page.get_by_text("Copied", exact=True)).wait_for()
    assert page.inner_text("[role=status]") == "Copied: bench pick toy"
    assert pasted(page) == "bench pick toy"
    page.clock.fast_forward("00:05")
    button.and_(page.get_by_text("Copy", exact=True)).wait_for()
    assert page.inner_text("[role=status]") == ""


def test_where_nothing_can_be_copied_the_command_is_selected(opened: Any) -> None:
    page = opened().page
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.evaluate("document.execCommand = () => false")

    page.click(".card.winner .copy")

    page.locator(".card.winner .copy").and_(page.get_by_text("Ctrl+C", exact=True)).wait_for()
    assert page.evaluate("getSelection().toString()") == "bench pick toy"


def test_a_mark_of_a_card_opens_its_cell_and_the_name_of_the_task_its_tables(opened: Any) -> None:
    window = opened()

    window.page.locator(".card.winner .strip circle.pick").click()
    assert window.page.locator("#detail h2").inner_text() == made.HALVE
    window.page.keyboard.press("Escape")
    window.page.locator(".card.none h2 a").click()

    window.page.locator(".bar [aria-current]").get_by_text(made.HOSTILE).wait_for()
    assert window.rows() == ["null/native/raw/null/cpu"]


def test_three_tasks_stand_on_the_first_two_screens_of_a_small_phone(opened: Any, published: Path) -> None:
    page = opened(published, viewport=SMALL_PHONE).page
    page.evaluate("scrollTo(0, 0)")

    bottoms = page.evaluate(
        "[...document.querySelectorAll('.card')].map((card) => card.getBoundingClientRect().bottom)"
    )
    assert len(bottoms) >= 3
    assert bottoms[2] <= 2 * SMALL_PHONE["height"]
    assert page.evaluate("document.documentElement.scrollWidth") <= SMALL_PHONE["width"]


OVERFLOWING = """
[...document.querySelectorAll('.card, .card *:not(svg *)')]
  .filter((one) => one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).display !== 'inline')
  .map((one) => one.outerHTML)
"""
COVERED = """
[...document.querySelectorAll('.strip')].flatMap((strip) => {
  const within = strip.closest('.card').getBoundingClientRect();
  const boxes = [...strip.querySelectorAll('text')].map((text) => [text.textContent, text.getBoundingClientRect()]);
  const out = boxes.filter(([, box]) => box.left < within.left || box.right > within.right).map(([text]) => text);
  const pairs = boxes.flatMap(([text, box], index) => boxes.slice(index + 1)
    .filter(([, other]) => box.left < other.right && other.left < box.right
      && box.top + 1 < other.bottom && other.top + 1 < box.bottom)
    .map(([other]) => `${text} over ${other}`));
  return [...out, ...pairs];
})
"""


def test_no_text_of_a_card_is_cut_off_or_covered(opened: Any, published: Path) -> None:
    page = opened(published).page
    for width in (320, 375, 768, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("innerWidth") == width
        assert page.evaluate(OVERFLOWING) == [], width
        assert page.evaluate(COVERED) == [], width


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
