"""The page in a real Chromium: drawn by mouse, finger and keyboard, with every request and console line watched."""

import math
import os
import shutil
from pathlib import Path

import pytest

from capsnet.serve import app as serve_app
from capsnet.serve.access import Access

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: apt-get install chromium")

ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SEVEN = Path(__file__).parents[2] / "docs" / "seven.png"
# Strokes as shares of the board.
STROKES = {
    "0": [[(0.5 + 0.21 * math.sin(t / 4), 0.5 - 0.32 * math.cos(t / 4)) for t in range(27)]],
    "1": [[(0.52, 0.16), (0.48, 0.84)]],
    "4": [[(0.38, 0.18), (0.3, 0.5), (0.7, 0.5)], [(0.62, 0.2), (0.6, 0.86)]],
    "7": [[(0.28, 0.22), (0.7, 0.22), (0.48, 0.85)]],
}


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser, server):
    """Opens the page; at the end no console line and no request off the origin has been seen."""
    contexts, seen = [], []

    def open_(address=server.url, wait="#answer span", **options):
        origin = address.partition("#")[0]
        context = browser.new_context(**{"viewport": {"width": 1300, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("console", lambda message: seen.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: seen.append(f"error: {error}"))
        page.on("request", lambda r: r.url.startswith((origin, "blob:")) or seen.append(f"request: {r.url}"))
        page.on("response", lambda r: r.status < 400 or seen.append(f"{r.status}: {r.url}"))
        page.goto(address)
        if wait:
            page.wait_for_selector(wait)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert seen == []


@pytest.fixture
def page(open_page):
    return open_page()


def draw(page, strokes):
    box = page.locator("#pad").bounding_box()
    for stroke in strokes:
        points = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in stroke]
        page.mouse.move(*points[0])
        page.mouse.down()
        for point in points[1:]:
            page.mouse.move(*point, steps=3)
        page.mouse.up()


def pixels(page, canvas="picture"):
    return page.evaluate(
        # From a copy: Chromium remarks on the console when a canvas that is drawn to is read often.
        "id => { const c = document.getElementById(id), copy = new OffscreenCanvas(c.width, c.height);"
        " const context = copy.getContext('2d', { willReadFrequently: true }); context.drawImage(c, 0, 0);"
        " return [...context.getImageData(0, 0, c.width, c.height).data] }",
        canvas,
    )


def wait_for_other(page, before, canvas="picture"):
    """Waits until a canvas shows something else than before."""
    for _ in range(200):
        now = pixels(page, canvas)
        if now != before:
            return now
        page.wait_for_timeout(25)
    raise AssertionError(f"#{canvas} did not change")


def expect_answer(page, answer):
    sync_api.expect(page.locator("#answer")).to_have_text(answer, timeout=20_000)


@pytest.mark.parametrize("digit", STROKES)
def test_a_digit_drawn_by_mouse_is_recognised(page, digit):
    draw(page, STROKES[digit])
    expect_answer(page, digit)
    sync_api.expect(page.locator("#sentence")).to_contain_text(f"The capsule of {digit} is the longest")
    assert page.locator("#rows .row").count() == 10
    assert page.locator("#rows .heat i").count() == 160


def test_a_slider_changes_the_picture_and_reset_brings_it_back(page):
    draw(page, STROKES["4"])
    expect_answer(page, "4")
    page.wait_for_timeout(300)
    before = pixels(page)
    page.locator("#dimension-3").fill("0.2")
    moved = wait_for_other(page, before)
    page.locator("#random").click()
    wait_for_other(page, moved)
    page.locator("#reset").click()
    page.wait_for_timeout(500)
    # The same picture, drawn from poses rounded on their way.
    assert max(abs(a - b) for a, b in zip(pixels(page), before, strict=True)) <= 2
    assert page.locator("#dimension-3").input_value() == "0"


def test_another_capsule_can_be_chosen_and_draws_another_picture(page):
    before = pixels(page)
    other = page.locator("#rows input:not(:checked)").first
    other.focus()
    page.keyboard.press("Space")
    wait_for_other(page, before)
    assert page.locator("#rows input:checked").count() == 1


def test_a_sweep_moves_picture_and_slider_until_it_is_stopped(page):
    page.get_by_label("Sweep dimension 5").click()
    before = pixels(page)
    wait_for_other(page, before)
    page.keyboard.press("Escape")
    assert page.get_by_label("Sweep dimension 5").get_attribute("aria-pressed") == "false"
    page.wait_for_timeout(400)
    still = pixels(page)
    page.wait_for_timeout(300)
    assert pixels(page) == still


def test_less_motion_gets_the_sweep_as_a_film(open_page):
    page = open_page(reduced_motion="reduce")
    page.get_by_label("Sweep dimension 2").click()
    sync_api.expect(page.locator("#film canvas")).to_have_count(9)


def test_the_picture_is_saved_as_png(page):
    with page.expect_download() as download:
        page.get_by_text("Save PNG").click()
    assert download.value.suggested_filename.startswith("capsule-")
    assert Path(download.value.path()).read_bytes().startswith(b"\x89PNG")


def test_a_picture_file_and_a_test_digit_are_taken(page):
    page.set_input_files("#file", SEVEN)
    expect_answer(page, "7")
    page.get_by_label("Test image of 3").click()
    sync_api.expect(page.get_by_label("Test image of 3")).to_have_attribute("aria-pressed", "true")
    sync_api.expect(page.locator("#answer")).to_have_text("3")


def test_the_keyboard_alone_draws_undoes_and_clears(page):
    page.locator("#pad").focus()
    page.keyboard.press("Delete")
    sync_api.expect(page.locator("#sentence")).to_have_text("Nothing is drawn yet.")
    for _ in range(12):
        page.keyboard.press("ArrowUp")
    page.keyboard.press("Space")
    for _ in range(24):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    expect_answer(page, "1")
    page.keyboard.press("Backspace")
    expect_answer(page, "–")


def test_a_finger_draws_and_the_page_fits_a_phone(open_page):
    page = open_page(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    box = page.locator("#pad").bounding_box()
    session = page.context.new_cdp_session(page)

    def touch(kind, x, y):
        points = [{"x": box["x"] + x * box["width"], "y": box["y"] + y * box["height"]}]
        session.send(
            "Input.dispatchTouchEvent", {"type": kind, "touchPoints": [] if kind == "touchEnd" else points}
        )

    touch("touchStart", 0.5, 0.15)
    for n in range(1, 15):
        touch("touchMove", 0.5, 0.15 + 0.05 * n)
    touch("touchEnd", 0, 0)
    expect_answer(page, "1")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_two_digits_show_two_pictures_in_two_colours(page):
    page.get_by_text("Two digits").click()
    sync_api.expect(page.locator("#answer span")).to_have_count(2)
    page.wait_for_timeout(400)
    first, second, both = pixels(page, "first"), pixels(page, "second"), pixels(page)
    assert len(first) == len(second) == len(both) == 4 * 36 * 36
    assert sum(first[0::4]) > sum(first[2::4]), "the first is amber"
    assert sum(second[2::4]) > sum(second[0::4]), "the second is blue"
    page.locator("#clear").click()
    draw(page, STROKES["1"] + STROKES["0"])
    sync_api.expect(page.locator("#answer span")).to_have_count(2)
    page.wait_for_timeout(400)
    before = pixels(page, "first"), pixels(page, "second")
    page.locator("#dimension-1").fill("0.25")
    page.wait_for_timeout(600)
    changed = [pixels(page, canvas) != was for canvas, was in zip(("first", "second"), before, strict=True)]
    assert changed == [True, False], "only the chosen capsule is turned"


def test_a_server_without_weights_for_two_digits_says_so(open_page, serve, trained):
    with serve({"main": trained}) as other:
        page = open_page(other.url)
        page.get_by_text("Two digits").click()
        sync_api.expect(page.locator("#problem")).to_contain_text("no weights for two overlapping digits")
        assert page.locator('[name="mode"][value="main"]').is_checked()


def test_a_token_in_the_pages_address_is_sent_and_forgotten_there(open_page, serve, trained):
    with serve({"main": trained}, access=Access(token="0123456789abcdef")) as other:
        page = open_page(f"{other.url}#token=0123456789abcdef")
        draw(page, STROKES["7"])
        expect_answer(page, "7")
        assert page.url == other.url
        page.reload()
        page.wait_for_selector("#answer span")


def test_every_control_has_a_name_and_the_theme_can_be_switched(page):
    names = page.evaluate(
        "[...document.querySelectorAll('button, input, canvas')].filter(e => e.offsetParent && !e.closest('.sample canvas')"
        " && !(e.ariaLabel || e.textContent.trim() || e.labels?.[0]?.textContent || e.closest('button'))).map(e => e.outerHTML)"
    )
    assert names == []
    ground = "getComputedStyle(document.body).backgroundColor"
    before = page.evaluate(ground)
    page.locator("#theme").click()
    assert page.evaluate(ground) != before


def test_the_page_names_no_other_origin():
    for file in serve_app.STATIC.iterdir():
        text = file.read_text().replace('xmlns="http://www.w3.org/2000/svg"', "")
        assert "http://" not in text, file.name
        assert "https://" not in text, file.name
