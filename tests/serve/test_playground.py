"""The page in a real Chromium: drawn by mouse, finger and keyboard, with every request and console line watched."""

import base64
import math
import os
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw

import capsnet
from capsnet.card import Card
from capsnet.data.preprocessing import Preprocessing
from capsnet.opening import open_weights
from capsnet.serve import app as serve_app
from capsnet.serve.access import Access
from capsnet.serve.engine import Engine
from capsnet.serve.web import PACKAGE, export_web

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
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
]
ROOT = Path(__file__).parents[2]
SEVEN = ROOT / "docs" / "seven.png"
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


def test_a_server_without_weights_for_two_digits_offers_one(open_page, serve, trained):
    with serve({"main": trained}) as other:
        page = open_page(other.url)
        sync_api.expect(page.get_by_text("Two digits")).to_be_hidden()


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


FLOWERS = {"common buttercup": (230, 200, 30), "forget-me-not": (60, 90, 220), "red poppy": (210, 30, 30)}


def flower(colour, rng):
    picture = Image.new("RGB", (48, 40), tuple(rng.integers(60, 160, 3).tolist()))
    x, y = rng.integers(6, 20, 2).tolist()
    ImageDraw.Draw(picture).ellipse([x, y, x + 20, y + 16], fill=colour)
    return picture


@pytest.fixture(scope="module")
def flowers(tmp_path_factory):
    """Weights trained on small colour photographs, and one more photograph of each class."""
    place, rng = tmp_path_factory.mktemp("colour photographs"), np.random.default_rng(0)
    for name, colour in FLOWERS.items():
        (place / "all" / name).mkdir(parents=True)
        for n in range(40):
            flower(colour, rng).save(place / "all" / name / f"{n}.png")
        flower(colour, rng).save(place / f"{name}.png")
    options = {"model": "efficient_capsnet", "epochs": 6, "threads": 1, "progress": False}
    run = capsnet.train(str(place / "all"), out=place / "run", dataset_options={"image_size": 24}, **options)
    return Engine(str(run.folder)), {name: place / f"{name}.png" for name in FLOWERS}


@pytest.mark.parametrize("size", [(1280, 900), (390, 844)])
def test_colour_photographs_are_opened_and_never_drawn(open_page, serve, flowers, size):
    engine, photographs = flowers
    with serve({"main": engine}) as other:
        page = open_page(
            other.url, wait="#rows .row", viewport=dict(zip(("width", "height"), size, strict=True))
        )
        words = page.locator("body").inner_text().lower()
        assert "digit" not in words
        assert "draw" not in words.replace("the capsule draws", "").replace("drop", "")
        for hidden in ("#modes", "#samples", "#undo", "#pad-help"):
            assert page.locator(hidden).is_hidden()
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        with page.expect_file_chooser():  # a click is a wish for a picture
            page.locator("#pad").click()
        draw(page, STROKES["4"])
        page.wait_for_timeout(300)
        assert asked == [], "a stroke is no question"
        for name, file in photographs.items():
            page.set_input_files("#file", file)
            expect_answer(page, name)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        box, names = page.locator("#answer").bounding_box(), page.locator("#rows .name")
        assert box["x"] + box["width"] < size[0]
        assert names.all_inner_texts() == list(FLOWERS)
        red, green, blue = (sum(pixels(page, "input")[channel::4]) for channel in range(3))
        assert len({red, green, blue}) == 3, "the photograph is shown in colour"


def test_a_photograph_is_dropped_pasted_or_taken_with_the_camera(open_page, serve, flowers):
    engine, photographs = flowers
    with serve({"main": engine}) as other:
        page = open_page(other.url, wait="#rows .row")
        for event, name in (("drop", "red poppy"), ("paste", "forget-me-not")):
            give = (
                "([event, content]) => { const transfer = new DataTransfer();"
                " const file = Uint8Array.from(atob(content), c => c.charCodeAt(0));"
                " transfer.items.add(new File([file], 'one.png', { type: 'image/png' }));"
                " const kinds = { drop: DragEvent, paste: ClipboardEvent };"
                " const given = { dataTransfer: transfer, clipboardData: transfer };"
                " window.dispatchEvent(new kinds[event](event, { ...given, cancelable: true })); }"
            )
            page.evaluate(give, [event, base64.b64encode(photographs[name].read_bytes()).decode()])
            expect_answer(page, name)
        before = pixels(page, "input")
        page.get_by_role("button", name="Camera").click()
        sync_api.expect(page.locator("#video")).to_be_visible()
        for _ in range(100):  # its first frame
            if page.evaluate("document.getElementById('video').videoWidth > 0"):
                break
            page.wait_for_timeout(50)
        page.get_by_role("button", name="Take the picture").click()
        wait_for_other(page, before, "input")
        assert page.locator("#video").is_hidden()


def test_the_keyboard_reaches_everything_for_photographs(open_page, serve, flowers):
    engine, photographs = flowers
    with serve({"main": engine}) as other:
        page = open_page(other.url, wait="#rows .row")
        page.set_input_files("#file", photographs["red poppy"])
        expect_answer(page, "red poppy")
        reached = set()
        for _ in range(60):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.id || document.activeElement.name"))
        assert {"clear", "file", "camera", "capsule", "random", "dimension-1", "dimension-16"} <= reached
        assert "pad" not in reached, "there is nothing to draw"


def test_weights_for_two_digits_alone_take_two_digits(open_page, serve):
    with serve({"main": Engine("efficient_capsnet.multimnist")}) as other:
        page = open_page(other.url)
        sync_api.expect(page.locator("#answer span")).to_have_count(2)
        assert page.locator("#modes").is_hidden()
        page.locator("#clear").click()
        sync_api.expect(page.locator("#sentence")).to_have_text("Draw two digits on top of each other.")
        right = [[(x + 0.2, y) for x, y in stroke] for stroke in STROKES["1"]]
        draw(page, STROKES["0"] + right)
        sync_api.expect(page.locator("#answer span")).to_have_count(2)
        page.wait_for_timeout(500)
        assert set(page.locator("#answer span").all_inner_texts()) == {"0", "1"}


def test_stereo_weights_say_so_and_take_a_pair(open_page, serve, tmp_path):
    with serve({"main": Engine("efficient_capsnet.toyviews")}) as other:
        page = open_page(other.url, wait="#rows .row")
        assert "stereo pair" in page.locator("#invitation").inner_text()
        for hidden in ("#modes", "#undo", "#camera"):
            assert page.locator(hidden).is_hidden()
        draw(page, STROKES["1"])
        page.wait_for_timeout(300)
        assert page.locator("#problem").is_hidden()
        pair = np.random.default_rng(0).integers(0, 256, (64, 128), dtype=np.uint8)
        Image.fromarray(pair).save(tmp_path / "pair.png")
        page.set_input_files("#file", tmp_path / "pair.png")
        page.wait_for_selector("#answer span")
        assert page.evaluate("[input.width, input.height]", None) == [128, 64]


def test_a_hundred_long_names_stay_in_a_box_of_their_own(open_page, serve, tmp_path):
    names = tuple(f"object number {n}, seen from above and from the side" for n in range(100))
    card = Card(names, Preprocessing().to_dict(), {}, {})
    capsnet.save(capsnet.create_model("efficient_capsnet", (3, 24, 24), 100), tmp_path / "w", card=card)
    Image.new("RGB", (24, 24), (200, 100, 50)).save(tmp_path / "one.png")
    with serve({"main": Engine(str(tmp_path / "w"))}) as other:
        page = open_page(other.url, wait="#rows .row", viewport={"width": 390, "height": 844})
        page.set_input_files("#file", tmp_path / "one.png")
        page.wait_for_selector("#answer span")
        assert page.locator("#rows .row").count() == 100
        assert page.locator("#rows").bounding_box()["height"] <= 420
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        chosen, box = (page.locator(e).bounding_box() for e in ("#rows .row:has(:checked)", "#rows"))
        assert box["y"] - 1 <= chosen["y"] <= box["y"] + box["height"]


def test_the_page_names_no_other_origin():
    for file in serve_app.STATIC.iterdir():
        text = file.read_text().replace('xmlns="http://www.w3.org/2000/svg"', "")
        assert "http://" not in text, file.name
        assert "https://" not in text, file.name


@contextmanager
def exported(weights, out):
    """The page without a server, at a plain file server."""
    opened = open_weights(weights)
    export_web(opened, out, onnxruntime_web(), dataset=opened.dataset)
    command = [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            port = re.search(r"port (\d+)", process.stdout.readline()).group(1)
            yield f"http://127.0.0.1:{port}/"
        finally:
            process.kill()


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    out = tmp_path_factory.mktemp("static files") / "demo"
    with exported("efficient_capsnet.mnist", out) as address:
        yield address, out


def onnxruntime_web():
    """The npm package, where `make demo` keeps it."""
    place = ROOT / "build" / f"{PACKAGE.replace('@', '-')}.tgz"
    if not place.is_file():
        if shutil.which("npm") is None:
            pytest.skip(f"there is neither {place.name} in build/ nor npm")
        place.parent.mkdir(exist_ok=True)
        pack = ["npm", "pack", "--silent", "--pack-destination", str(place.parent), PACKAGE]
        done = subprocess.run(pack, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            pytest.skip(f"npm cannot get {PACKAGE}")
    return place


@pytest.fixture(scope="module")
def same_files(demo, serve):
    """A server with the very files of the demo."""
    with serve({"main": Engine(str(demo[1]))}) as serving, serving.client() as client:
        yield client


@pytest.mark.parametrize("digit", STROKES)
def test_the_demo_recognises_a_drawn_digit_as_a_server_would(open_page, demo, same_files, digit):
    page = open_page(demo[0])
    page.evaluate(
        "() => { const make = HTMLCanvasElement.prototype.toBlob; HTMLCanvasElement.prototype.toBlob ="
        " function (give, ...rest) { make.call(this, (blob) => { globalThis.sent = blob; give(blob); }, ...rest); }; }"
    )
    draw(page, STROKES[digit])
    expect_answer(page, digit)
    page.wait_for_timeout(500)
    # The page's own module, the same instance, with the last drawing that the page had it look at.
    ours, content = page.evaluate(
        "async () => { const network = await import(new URL('static/browser.js', location));"
        " const bytes = new Uint8Array(await sent.arrayBuffer());"
        " return [await network.predictFile('main', 2, sent), btoa(String.fromCharCode(...bytes))]; }"
    )
    theirs = same_files.post(
        "/v1/predict?top=2&include=poses,coupling,reconstructions,input",
        files={"file": ("drawing.png", base64.b64decode(content))},
    ).json()["predictions"][0]
    assert ours["class"] == theirs["class"] == digit
    assert ours["classes"] == theirs["classes"]
    assert ours["input"] == theirs["input"]
    assert list(ours["scores"].values()) == pytest.approx(list(theirs["scores"].values()), abs=1e-3)
    for name, shape in (("poses", (10, 16)), ("coupling", (10, 16))):
        assert np.shape(ours[name]) == shape
        assert np.abs(np.subtract(ours[name], theirs[name])).max() < 1e-3
    for drawn, other in zip(ours["reconstructions"], theirs["reconstructions"], strict=True):
        assert drawn["class"] == other["class"]
        assert np.abs(np.subtract(drawn["image"], other["image"])).max() <= 1


def test_the_demo_answers_within_three_seconds(open_page, demo):
    page = open_page(demo[0])
    assert page.evaluate("performance.now()") < 3000


def test_the_demo_fits_a_phone_and_is_drawn_on_by_keyboard(open_page, demo):
    page = open_page(demo[0], viewport={"width": 390, "height": 844})
    page.locator("#pad").focus()
    page.keyboard.press("Delete")
    for _ in range(12):
        page.keyboard.press("ArrowUp")
    page.keyboard.press("Space")
    for _ in range(24):
        page.keyboard.press("ArrowDown")
    expect_answer(page, "1")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_demos_capsules_are_turned_and_pictures_opened(open_page, demo, tmp_path):
    page = open_page(demo[0])
    page.set_input_files("#file", SEVEN)
    expect_answer(page, "7")
    before = pixels(page)
    page.locator("#dimension-3").fill("0.2")
    wait_for_other(page, before)
    page.get_by_label("Test image of 3").click()
    expect_answer(page, "3")
    (tmp_path / "no.png").write_bytes(b"no picture")
    page.set_input_files("#file", tmp_path / "no.png")
    sync_api.expect(page.locator("#problem")).to_contain_text("'no.png' is not a picture")


def test_photographs_in_the_demo_are_prepared_as_a_server_prepares_them(open_page, serve, flowers, tmp_path):
    engine, photographs = flowers
    out = tmp_path / "flowers"
    with exported(engine.network.weights, out) as address, serve({"main": Engine(str(out))}) as serving:
        page = open_page(address, wait="#rows .row")
        assert page.locator("#samples").is_hidden(), "a user's own pictures are not published"
        for name, file in photographs.items():
            page.set_input_files("#file", file)
            expect_answer(page, name)
            ours = page.evaluate(
                "async (content) => { const network = await import(new URL('static/browser.js', location));"
                " const file = new Blob([Uint8Array.from(atob(content), c => c.charCodeAt(0))]);"
                " return await network.predictFile('main', 1, file); }",
                base64.b64encode(file.read_bytes()).decode(),
            )
            with serving.client() as client:
                answer = client.post("/v1/predict?include=input", files={"file": file.read_bytes()})
            (theirs,) = answer.json()["predictions"]
            assert ours["input"] == theirs["input"]
            assert list(ours["scores"].values()) == pytest.approx(list(theirs["scores"].values()), abs=1e-3)


def test_the_demo_is_small_and_says_where_its_runtime_comes_from(demo):
    files = {file.relative_to(demo[1]).as_posix(): file for file in demo[1].rglob("*") if file.is_file()}
    assert sum(file.stat().st_size for file in files.values()) < 6e6, "docs/serving.md says so"
    assert "MIT License" in files["runtime/LICENSE"].read_text()
    assert "model.onnx" not in files
