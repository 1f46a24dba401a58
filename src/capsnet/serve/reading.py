"""From a request's body to tensors that the network takes; what does not fit is refused in one sentence.

Letters: N images, C x H x W image, J classes, D pose size.
"""

import json
import math
from io import BytesIO
from typing import Any

import numpy as np
import torch
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from torch import Tensor

from capsnet.data.pictures import read_header, read_picture
from capsnet.errors import CapsNetError
from capsnet.serve.engine import INCLUDES, Engine, Poses, Question
from capsnet.serve.limits import Limits

# Parsing less than this takes less time than handing it to a thread and back is worth.
SMALL_BODY = 64_000
LARGEST_POSE = 1e6
DEEPEST = 4  # N x C x H x W


async def read_question(request: Request, engine: Engine, limits: Limits) -> Question:
    """`POST /v1/predict`: picture files, or pixels as JSON."""
    include = read_include(request)
    top = read_top(request, engine)
    kind = media_type(request)
    if kind == "multipart/form-data":
        pictures = await read_files(request, engine, limits)
    elif is_json(kind):
        pictures = await aside(await request.body(), lambda body: read_pixels(body, engine, limits))
    else:
        raise HTTPException(415, "Send picture files as multipart/form-data, or pixels as application/json.")
    return Question(pictures, include, top)


async def read_poses(request: Request, engine: Engine, limits: Limits) -> Poses:
    """`POST /v1/reconstruct`."""
    if not is_json(media_type(request)):
        raise HTTPException(415, "Send poses and classes as application/json.")
    if engine.model.decoder is None:
        raise HTTPException(409, "This model has no decoder, so it cannot reconstruct.")
    return await aside(await request.body(), lambda body: parse_poses(body, engine, limits))


def media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def is_json(kind: str) -> bool:
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))


async def aside(body: bytes, parse: Any) -> Any:
    """Parses a large body in a thread, so that others are answered meanwhile."""
    return parse(body) if len(body) < SMALL_BODY else await run_in_threadpool(parse, body)


def read_include(request: Request) -> frozenset[str]:
    names = [n for value in request.query_params.getlist("include") for n in value.split(",") if n]
    for name in names:
        if name not in INCLUDES:
            raise HTTPException(422, f"'include' names some of {', '.join(INCLUDES)}, not '{name[:40]}'.")
    return frozenset(names)


def read_top(request: Request, engine: Engine) -> int:
    value = request.query_params.get("top", "1")
    if not (
        value.isascii() and value.isdecimal() and len(value) < 6 and 1 <= int(value) <= engine.num_classes
    ):
        raise HTTPException(
            422, f"'top' is a whole number from 1 to {engine.num_classes}, not '{value[:40]}'."
        )
    return int(value)


async def read_files(request: Request, engine: Engine, limits: Limits) -> Tensor:
    """The pictures of a form's `file` fields, prepared as `capsnet predict` prepares them."""
    # One more than allowed, so that the sentence is ours.
    async with request.form(max_files=limits.images + 1, max_fields=limits.images) as form:
        files: list[tuple[str, bytes]] = []
        for value in form.getlist("file"):
            if not isinstance(value, UploadFile):
                raise HTTPException(422, "The field 'file' holds text; it must be a picture file.")
            name = f"'{value.filename[:80]}'" if value.filename else "The picture"
            files.append((name, await value.read()))
    if not files:
        raise HTTPException(422, "The form has no picture in a field named 'file'.")
    if len(files) > limits.images:
        raise HTTPException(413, f"A request has at most {limits.images} pictures.")
    return await run_in_threadpool(prepare_files, files, engine, limits)


class Upload(BytesIO):
    """A file's content with the name that a refusal calls it by."""

    def __init__(self, name: str, content: bytes) -> None:
        super().__init__(content)
        self.name = name


def prepare_files(files: list[tuple[str, bytes]], engine: Engine, limits: Limits) -> Tensor:
    left, prepared = limits.pixels, []
    for name, content in files:
        source = Upload(name, content)
        try:
            left -= read_header(source, max_pixels=left).pixels
            prepared.append(read_picture(source, engine.preprocessing, engine.model.image_shape))
        except CapsNetError as error:
            raise HTTPException(422, str(error)) from error
    return torch.from_numpy(np.stack(prepared))


def read_pixels(body: bytes, engine: Engine, limits: Limits) -> Tensor:
    """The pixels of `{"images": ...}`, as the data set stores them: nothing is centred or inverted."""
    images = numbers(parse_object(body, {"images"}), "images", lowest=0, highest=255)
    channels, (height, width) = engine.model.image_shape[0], engine.stored_size
    if images.ndim == 3 and channels == 1:
        images = images[:, None]
    if images.shape[1:] != (channels, height, width):
        expected = f"N x {channels} x {height} x {width}"
        expected += f" or N x {height} x {width}" if channels == 1 else ""
        got = " x ".join(map(str, images.shape))
        raise HTTPException(422, f"'images' must be {expected} numbers; got {got}.")
    check_count(images, limits)
    return torch.from_numpy(images.astype(np.float32))


def parse_poses(body: bytes, engine: Engine, limits: Limits) -> Poses:
    """`{"poses": N x J x D, "classes": N}`, or N x D, each the pose of its class alone."""
    fields = parse_object(body, {"poses", "classes"})
    poses = torch.from_numpy(
        numbers(fields, "poses", lowest=-LARGEST_POSE, highest=LARGEST_POSE).astype(np.float32)
    )
    check_count(poses, limits)
    classes = read_classes(fields["classes"], len(poses), engine) if "classes" in fields else None
    if tuple(poses.shape[1:]) == engine.pose_shape:
        if classes is None and engine.has_capsules:
            classes = poses.norm(dim=-1).argmax(dim=1)
        return Poses(poses, classes)
    if engine.has_capsules and tuple(poses.shape[1:]) == engine.pose_shape[1:]:
        if classes is None:
            raise HTTPException(422, "Poses of N x D need 'classes', one for each.")
        whole = torch.zeros(len(poses), *engine.pose_shape)
        whole[torch.arange(len(poses)), classes] = poses
        return Poses(whole, classes)
    expected = " x ".join(map(str, ("N", *engine.pose_shape)))
    got = " x ".join(map(str, poses.shape))
    raise HTTPException(422, f"'poses' must be {expected} numbers; got {got}.")


def read_classes(value: Any, count: int, engine: Engine) -> Tensor:
    """Class names or their numbers, one for each pose."""
    if not isinstance(value, list) or len(value) != count:
        raise HTTPException(422, f"'classes' must be a list of {count}, one for each pose.")
    classes = []
    for item in value:
        if isinstance(item, str) and item in engine.class_names:
            classes.append(engine.class_names.index(item))
        elif type(item) is int and 0 <= item < engine.num_classes:
            classes.append(item)
        else:
            raise HTTPException(
                422,
                f"A class is one of the model's names, or 0 to {engine.num_classes - 1}; got {shown(item)}.",
            )
    return torch.tensor(classes)


def parse_object(body: bytes, known: set[str]) -> dict[str, Any]:
    """A JSON object; NaN and Infinity, which JSON does not have, are refused."""

    def refuse(name: str) -> float:
        raise ValueError(f"{name} is not a number in JSON")

    try:
        fields = json.loads(body, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)[:120]
        raise HTTPException(400, f"The body is not JSON: {reason}.") from error
    if not isinstance(fields, dict):
        raise HTTPException(422, f"The body must be an object with {' and '.join(sorted(known))}.")
    for name in fields:
        if name not in known:
            raise HTTPException(
                422, f"The body has {shown(name)}; it may have {' and '.join(sorted(known))}."
            )
    return fields


def numbers(fields: dict[str, Any], name: str, *, lowest: float, highest: float) -> np.ndarray:
    """A field's nested lists as an array, when they are rectangular and hold numbers of the range only."""
    if name not in fields:
        raise HTTPException(422, f"The body has no '{name}'.")
    value = fields[name]
    # Types are checked before NumPy looks: it would turn a long word among numbers into a huge array of words.
    if not isinstance(value, list) or not all_numbers(value):
        raise HTTPException(422, f"'{name}' must be nested lists that hold numbers only.")
    try:
        array = np.asarray(value, dtype=np.float64)
    except (ValueError, OverflowError) as error:
        raise HTTPException(
            422, f"'{name}' must be nested lists of equal lengths, of finite numbers."
        ) from error
    if array.size == 0:
        raise HTTPException(422, f"'{name}' is empty.")
    low, high = float(array.min()), float(array.max())
    if not (math.isfinite(low) and math.isfinite(high) and low >= lowest and high <= highest):
        raise HTTPException(
            422, f"'{name}' must be numbers from {lowest:g} to {highest:g}; got {low:g} to {high:g}."
        )
    return array


def all_numbers(value: list[Any], depth: int = 1) -> bool:
    """Whether the lists end in numbers; true and false are none in JSON."""
    kinds = set(map(type, value))
    if kinds == {list}:
        return depth < DEEPEST and all(all_numbers(v, depth + 1) for v in value)
    return kinds <= {int, float}


def check_count(array: Any, limits: Limits) -> None:
    if len(array) > limits.images:
        raise HTTPException(413, f"A request has at most {limits.images} images; got {len(array)}.")


def shown(value: Any) -> str:
    """A value from outside, short enough for a sentence."""
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= 40 else text[:37] + "..."
