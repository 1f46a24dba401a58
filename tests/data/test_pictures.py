"""Picture files as stored pixels: digits found, inverted and centred; whole pictures fitted; hostile files refused."""

import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from capsnet.data import load_dataset
from capsnet.data.digits import centre_digit
from capsnet.data.pictures import MAX_PIXELS, decode, read_header, read_picture
from capsnet.data.preprocessing import Preprocessing
from capsnet.errors import CapsNetError

DIGIT = Preprocessing("digit", 256.0)
PICTURE = Preprocessing("picture")
MNIST_SHAPE = (1, 28, 28)


@pytest.fixture(scope="module")
def digits() -> np.ndarray:
    return load_dataset("mnist").test.images[:200, 0].numpy()


def saved(tmp_path: Path, array: np.ndarray, name: str = "x.png") -> Path:
    Image.fromarray(array).save(tmp_path / name)
    return tmp_path / name


def test_mnist_images_come_back_as_they_were(digits: np.ndarray) -> None:
    back = np.stack([centre_digit(digit.astype(float)) for digit in digits])
    # The lightest pixel is stretched to 255, which a few images lack by one.
    assert np.abs(back.astype(int) - digits).max(axis=(1, 2)).tolist().count(0) > 150
    assert (np.abs(back.astype(int) - digits).max(axis=(1, 2)) <= 1).mean() > 0.97


def test_an_inverted_digit_is_turned_round(tmp_path: Path, digits: np.ndarray) -> None:
    light = read_picture(saved(tmp_path, digits[0]), DIGIT, MNIST_SHAPE)
    dark = read_picture(saved(tmp_path, 255 - digits[0]), DIGIT, MNIST_SHAPE)
    np.testing.assert_array_equal(light, dark)
    assert light.shape == MNIST_SHAPE
    assert light.dtype == np.uint8


@pytest.mark.parametrize("ink", [0, 255])
def test_transparent_ground_with_any_ink(tmp_path: Path, digits: np.ndarray, ink: int) -> None:
    rgba = np.full((28, 28, 4), ink, dtype=np.uint8)
    rgba[..., 3] = digits[0]
    got = read_picture(saved(tmp_path, rgba), DIGIT, MNIST_SHAPE)
    assert np.abs(got[0].astype(int) - digits[0]).max() <= 2


def test_size_place_colour_and_contrast_do_not_matter(tmp_path: Path, digits: np.ndarray) -> None:
    likeness = []
    for digit in digits[:20]:
        large = np.asarray(Image.fromarray(digit).resize((280, 280), Image.Resampling.BICUBIC), dtype=float)
        page = np.zeros((500, 700))
        page[200:480, 20:300] = large
        paper = np.stack([230 - 0.5 * page, 225 - 0.6 * page, 200 - 0.4 * page], axis=2).astype(np.uint8)
        got = read_picture(saved(tmp_path, paper, "x.jpg"), DIGIT, MNIST_SHAPE)[0]
        likeness.append(np.corrcoef(got.ravel(), digit.ravel())[0, 1])
    # Rounding the centre of mass to a pixel may move a digit by one.
    assert min(likeness) > 0.75
    assert np.mean(likeness) > 0.93


def test_the_ink_is_fitted_and_centred_as_mnist_was(tmp_path: Path) -> None:
    page = np.full((300, 200), 255, dtype=np.uint8)
    page[10:110, 150:190] = 0
    got = read_picture(saved(tmp_path, page), DIGIT, MNIST_SHAPE)[0].astype(float)
    rows, columns = np.flatnonzero(got.any(axis=1)), np.flatnonzero(got.any(axis=0))
    assert (rows[-1] - rows[0] + 1, columns[-1] - columns[0] + 1) == (20, 8)
    assert (got.sum(axis=1) * np.arange(28)).sum() / got.sum() == pytest.approx(14, abs=0.5)
    assert (got.sum(axis=0) * np.arange(28)).sum() / got.sum() == pytest.approx(14, abs=0.5)


def test_thin_lines_of_a_large_drawing_stay_visible(tmp_path: Path) -> None:
    page = np.full((1000, 1000), 255, dtype=np.uint8)
    page[100:900, 500:506] = 0
    page[100:900, 300:306] = 0
    assert read_picture(saved(tmp_path, page), DIGIT, MNIST_SHAPE).max() == 255


def test_a_huge_drawing_gives_nearly_what_a_large_one_gives(tmp_path: Path, digits: np.ndarray) -> None:
    pictures = [
        Image.fromarray(255 - digits[3]).resize((n, n), Image.Resampling.BICUBIC) for n in (1500, 6000)
    ]
    large, huge = (
        read_picture(saved(tmp_path, np.asarray(p)), DIGIT, MNIST_SHAPE).astype(int) for p in pictures
    )
    assert np.abs(large - huge).mean() < 2


def test_paper_grain_and_shadow_are_not_ink(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    page = 180 + 20 * np.linspace(-1, 1, 400)[None, :] + rng.normal(0, 3, (400, 400))
    page[100:300, 190:215] = 40
    got = read_picture(saved(tmp_path, page.clip(0, 255).astype(np.uint8)), DIGIT, MNIST_SHAPE)[0]
    columns = np.flatnonzero(got.max(axis=0) > 64)
    assert columns[-1] - columns[0] + 1 <= 4


@pytest.mark.parametrize("level", [0, 130, 255])
def test_a_blank_sheet_gives_a_black_image(tmp_path: Path, level: int) -> None:
    page = np.full((50, 40), level, dtype=np.uint8)
    page[3, 4] = abs(level - 5)
    assert read_picture(saved(tmp_path, page), DIGIT, MNIST_SHAPE).max() == 0


def test_one_pixel_and_one_row_are_handled(tmp_path: Path) -> None:
    assert read_picture(saved(tmp_path, np.zeros((1, 1), np.uint8)), DIGIT, MNIST_SHAPE).max() == 0
    row = np.zeros((1, 400), np.uint8)
    row[0, 100:200] = 255
    assert read_picture(saved(tmp_path, row), DIGIT, MNIST_SHAPE).shape == MNIST_SHAPE


def test_a_digit_on_a_larger_canvas(tmp_path: Path, digits: np.ndarray) -> None:
    got = read_picture(saved(tmp_path, digits[0]), DIGIT, (1, 40, 40))
    assert got.shape == (1, 40, 40)
    np.testing.assert_array_equal(got[0, 6:34, 6:34], digits[0])


@pytest.mark.parametrize("suffix", ["png", "jpg", "webp", "bmp", "gif", "tiff", "ppm"])
def test_whole_pictures_keep_their_colours_in_every_format(tmp_path: Path, suffix: str) -> None:
    array = np.zeros((60, 90, 3), np.uint8)
    array[:, :45] = (200, 30, 30)
    array[:, 45:] = (30, 30, 200)
    got = read_picture(saved(tmp_path, array, f"x.{suffix}"), PICTURE, (3, 32, 48))
    assert got.shape == (3, 32, 48)
    assert np.abs(got[:, 16, 8].astype(int) - (200, 30, 30)).max() < 25
    assert np.abs(got[:, 16, 40].astype(int) - (30, 30, 200)).max() < 25


def test_modes_are_brought_to_grey_or_colour(tmp_path: Path) -> None:
    ramp = np.tile(np.linspace(0, 255, 32).astype(np.uint8), (32, 1))
    plain = Image.fromarray(ramp)
    for mode in ("1", "L", "P", "RGB", "RGBA", "LA", "CMYK", "I;16"):
        picture = Image.fromarray(ramp.astype(np.uint16) * 257) if mode == "I;16" else plain.convert(mode)
        name = "x.tiff" if mode == "CMYK" else "x.png"
        picture.save(tmp_path / name)
        got = read_picture(tmp_path / name, PICTURE, (1, 32, 32))[0]
        assert abs(float(got.mean()) - 127) < 12, mode


def test_a_photo_is_turned_upright(tmp_path: Path) -> None:
    array = np.zeros((20, 40), np.uint8)
    array[:, :20] = 255
    exif = Image.Exif()
    exif[274] = 6
    Image.fromarray(array).save(tmp_path / "x.jpg", exif=exif)
    got = read_picture(tmp_path / "x.jpg", PICTURE, (1, 40, 20))[0]
    assert got[5].mean() > 200
    assert got[35].mean() < 50


def test_light_on_dark_sets_invert_pictures_with_a_light_border(tmp_path: Path) -> None:
    page = np.full((40, 40), 240, np.uint8)
    page[10:30, 10:30] = 40
    fashion = Preprocessing("picture", light_on_dark=True)
    got = read_picture(saved(tmp_path, page), fashion, MNIST_SHAPE)[0]
    assert got[0, 0] == 15
    assert got[14, 14] == 215
    np.testing.assert_array_equal(read_picture(saved(tmp_path, 255 - page), fashion, MNIST_SHAPE)[0], got)


def test_a_stereo_pair_lies_side_by_side(tmp_path: Path) -> None:
    pair = np.concatenate([np.full((48, 48), 50, np.uint8), np.full((48, 48), 200, np.uint8)], axis=1)
    got = read_picture(saved(tmp_path, pair), Preprocessing(resize=(64, 64), crop=(48, 48)), (2, 48, 48))
    assert got.shape == (2, 64, 64)
    assert [int(eye[30, 30]) for eye in got] == [50, 200]
    with pytest.raises(CapsNetError, match="must be a stereo pair"):
        read_picture(saved(tmp_path, pair[:, :48]), PICTURE, (2, 48, 48))


def test_bytes_are_taken_as_well_as_names(tmp_path: Path, digits: np.ndarray) -> None:
    content = saved(tmp_path, digits[0]).read_bytes()
    got = read_picture(io.BytesIO(content), DIGIT, MNIST_SHAPE)
    np.testing.assert_array_equal(got[0], digits[0])


def bomb(width: int, height: int) -> bytes:
    """A PNG of a hundred bytes whose header claims any size."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(bytes(1000)))
        + chunk(b"IEND", b"")
    )


HOSTILE = {
    "text": (b"this is not a picture", "is not a picture"),
    "empty": (b"", "is not a picture"),
    "postscript": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "is not a picture"),
    "a bomb": (bomb(8000, 8000), "at most 50 million are read"),
    "a large bomb": (bomb(12_000, 12_000), "at most 50 million|more than 50 million"),
    "a huge bomb": (bomb(2**31 - 1, 2**31 - 1), "more than 50 million|damaged|not a picture"),
    "missing pixels": (bomb(100, 100), "damaged picture"),
}


@pytest.mark.parametrize("case", HOSTILE)
@pytest.mark.parametrize("preprocessing", [DIGIT, PICTURE], ids=["digit", "picture"])
def test_hostile_files_get_one_sentence(tmp_path: Path, case: str, preprocessing: Preprocessing) -> None:
    content, message = HOSTILE[case]
    path = tmp_path / "odd name ☃.png"
    path.write_bytes(content)
    with pytest.raises(CapsNetError, match=message) as error:
        read_picture(path, preprocessing, MNIST_SHAPE)
    assert str(path) in str(error.value)


def test_truncated_pictures_are_refused(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    for name in ("x.png", "x.jpg", "x.webp", "x.bmp"):
        path = saved(tmp_path, noise, name)
        path.write_bytes(path.read_bytes()[:-2000])
        with pytest.raises(CapsNetError, match=r"damaged picture|is not a picture"):
            read_picture(path, PICTURE, (3, 32, 32))


def test_missing_files_folders_and_channels(tmp_path: Path, digits: np.ndarray) -> None:
    with pytest.raises(CapsNetError, match="There is no file"):
        decode(tmp_path / "nothing.png")
    with pytest.raises(CapsNetError, match="is a folder"):
        decode(tmp_path)
    with pytest.raises(CapsNetError, match="cannot be read as 5 channels"):
        read_picture(saved(tmp_path, digits[0]), PICTURE, (5, 32, 32))
    assert MAX_PIXELS == 50_000_000


def test_headers_give_the_upright_size_without_decoding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exif = Image.Exif()
    exif[274] = 6
    for suffix in ("png", "jpg", "webp", "tiff"):
        Image.new("RGB", (40, 20)).save(tmp_path / f"x.{suffix}", exif=exif)
    Image.new("L", (40, 20)).save(tmp_path / "grey.png")
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", lambda self: pytest.fail("decoded"))
    for suffix in ("png", "jpg", "webp", "tiff"):
        assert read_header(tmp_path / f"x.{suffix}")[:3] == (40, 20, False)
    assert read_header(tmp_path / "grey.png")[:3] == (20, 40, True)
    with pytest.raises(CapsNetError, match=r"40 x 20 pixels; at most 0\.0007 million"):
        read_header(tmp_path / "grey.png", max_pixels=700)


@pytest.mark.parametrize("top", [255, 300, 1023, 4095, 40_000, 65_535])
@pytest.mark.parametrize("kind", ["I;16", "I;16B", "I"])
def test_deep_pictures_of_any_depth_are_visible_and_keep_their_contrast(
    tmp_path: Path, top: int, kind: str
) -> None:
    ramp = np.tile(np.linspace(0, top, 32), (32, 1))
    stored = ramp.astype({"I": "<i4", "I;16": "<u2", "I;16B": ">u2"}[kind])
    Image.frombytes(kind, (32, 32), stored.tobytes()).save(tmp_path / "x.tiff")
    got = read_picture(tmp_path / "x.tiff", PICTURE, (1, 32, 32))[0]
    assert got.max() >= 128
    assert np.abs(got - ramp * (got.max() / top)).max() <= 1.5


@pytest.mark.parametrize(
    ("low", "high", "expected"), [(0, 1, (0, 255)), (0, 200, (0, 200)), (-3, 5, (0, 255)), (7, 7e6, (0, 255))]
)
def test_floats_of_any_range_are_visible(
    tmp_path: Path, low: float, high: float, expected: tuple[int, int]
) -> None:
    ramp = np.tile(np.linspace(low, high, 32, dtype=np.float32), (32, 1))
    Image.fromarray(ramp).save(tmp_path / "x.tiff")
    got = read_picture(tmp_path / "x.tiff", PICTURE, (1, 32, 32))[0]
    assert (got.min(), got.max()) == expected


def test_floats_that_are_not_numbers_become_black(tmp_path: Path) -> None:
    levels = np.full((32, 32), 0.5, dtype=np.float32)
    levels[0], levels[1] = np.nan, np.inf
    Image.fromarray(levels).save(tmp_path / "x.tiff")
    got = read_picture(tmp_path / "x.tiff", PICTURE, (1, 32, 32))[0]
    assert got[:2].max() == 0
    assert got[2:].min() == 128


def test_palettes_with_transparency_and_animations_show_what_a_person_sees_first(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (32, 32), colour) for colour in ("red", "green")]
    for suffix in ("gif", "webp", "png", "tiff"):
        frames[0].save(tmp_path / f"x.{suffix}", save_all=True, append_images=frames[1:])
        got = read_picture(tmp_path / f"x.{suffix}", PICTURE, (3, 32, 32))
        assert np.abs(got[:, 16, 16].astype(int) - (255, 0, 0)).max() < 6, suffix
    clear = Image.new("P", (32, 32), 0)
    clear.putpalette([0, 0, 0, 255, 0, 0])
    clear.paste(1, (0, 0, 16, 32))
    clear.save(tmp_path / "clear.png", transparency=0)
    got = read_picture(tmp_path / "clear.png", PICTURE, (3, 32, 32))
    assert got[:, 16, 4].tolist() == [255, 0, 0]
    assert got[:, 16, 28].tolist() == [255, 255, 255]


def test_pixels_are_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL import ImageFile

    decoders: list[str] = []
    real = ImageFile.ImageFile.load_prepare
    monkeypatch.setattr(
        ImageFile.ImageFile, "load_prepare", lambda self: (decoders.append(self.format), real(self))[1]
    )
    read_picture(saved(tmp_path, np.zeros((64, 64, 3), np.uint8)), PICTURE, (3, 32, 32))
    assert decoders == ["PNG"]


def test_large_jpegs_are_decoded_small_and_look_the_same(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    smooth = Image.fromarray(rng.integers(0, 256, (12, 16, 3), dtype=np.uint8)).resize((1600, 1200))
    smooth.save(tmp_path / "x.jpg", quality=95)
    assert decode(tmp_path / "x.jpg", (64, 64)).size == (200, 150)
    assert decode(tmp_path / "x.jpg", (300, 500)).size == (1600, 1200)
    small = read_picture(tmp_path / "x.jpg", PICTURE, (3, 64, 64)).astype(int)
    smooth.save(tmp_path / "x.png")
    assert np.abs(small - read_picture(tmp_path / "x.png", PICTURE, (3, 64, 64))).mean() < 2


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
def test_damaged_exif_does_not_hide_a_picture(tmp_path: Path) -> None:
    Image.new("L", (32, 32), 77).save(tmp_path / "x.jpg", exif=b"Exif\0\0II*\0\xff\xff\xff\xff")
    assert abs(int(read_picture(tmp_path / "x.jpg", PICTURE, (1, 32, 32)).mean()) - 77) < 3


def test_an_empty_file_is_called_empty(tmp_path: Path) -> None:
    (tmp_path / "x.jpg").write_bytes(b"")
    with pytest.raises(CapsNetError, match=r"x\.jpg is not a picture .the file is empty."):
        read_header(tmp_path / "x.jpg")
