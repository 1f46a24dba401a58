"""From a request to what the network takes; what does not fit is refused in one sentence.

Letters: N images, C x H x W image, J classes, D pose size.
"""

import re
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np
from msgspec import UNSET, Struct
from starlette.datastructures import QueryParams, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request

from capsnet.serve.engine import Engine, Poses
from capsnet.serve.limits import Limits

Query = TypeVar("Query", bound=Struct)
WORDS = {
    "`int | str`": "whole number or text",
    "`float`": "number",
    "`int`": "whole number",
    "`str`": "text",
    "`bool`": "true or false",
    "`array`": "array",
    "`": "'",
}


class BodyReader:
    """Reads a JSON body as the first of several types that it fits."""

    def __init__(self, types: Sequence[type[Struct]], limits: Limits) -> None:
        self._decoders = [msgspec.json.Decoder(type_) for type_ in types]
        self._limits = limits

    def read(self, body: bytes) -> Any:
        errors: list[str] = []
        for decoder in self._decoders:
            try:
                value = decoder.decode(body)
            except msgspec.ValidationError as error:
                errors.append(str(error))
            except (ValueError, RecursionError) as error:
                raise HTTPException(400, f"The body is not JSON: {error}.") from error
            else:
                first = getattr(value, value.__struct_fields__[0])
                check_count(len(first), self._limits)
                return value
        # The types differ in how deep their lists are; the one of the sender's depth says what is really wrong.
        meant = min(errors, key=lambda message: "`array`" in message and "got" in message)
        raise HTTPException(422, f"The body does not fit: {plain(meant)}; /openapi.json says what does.")


def plain(message: str) -> str:
    """A validation message as part of a sentence: its place first, without Python's marks."""
    message, _, place = message.partition(" - at ")
    for word, plainer in WORDS.items():
        message = message.replace(word, plainer)
    message = message[:1].lower() + message[1:200]
    return f"{place.strip('`').removeprefix('$.')[:80]}: {message}" if place else message


def read_query(parameters: QueryParams, type_: type[Query]) -> Query:
    """A query's parameters; those that it does not have are passed over."""
    values: dict[str, Any] = dict(parameters)
    if "include" in values:
        values["include"] = [n for value in parameters.getlist("include") for n in value.split(",") if n]
    try:
        return msgspec.convert(values, type_, strict=False)
    except msgspec.ValidationError as error:
        raise HTTPException(
            422, f"The query does not fit: {plain(str(error))}; /openapi.json says what does."
        ) from error


def is_json(request: Request) -> bool:
    kind = media_type(request)
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))


def media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def read_files(request: Request, limits: Limits) -> list[tuple[str, bytes]]:
    """The names and contents of a form's `file` fields."""
    # One more than allowed, so that the sentence is ours.
    async with request.form(max_files=limits.images + 1, max_fields=limits.images) as form:
        files: list[tuple[str, bytes]] = []
        for value in form.getlist("file"):
            if not isinstance(value, UploadFile):
                raise HTTPException(422, "The field 'file' holds text; it must be a picture file.")
            # Control characters would break a log or a terminal that shows the sentence.
            name = re.sub(r"[^\x20-\x7e\xa0-\uffff]", "?", value.filename or "")[:80]
            files.append((f"'{name}'" if name else "The picture", await value.read()))
    if not files:
        raise HTTPException(422, "The form has no picture in a field named 'file'.")
    check_count(len(files), limits)
    return files


def pictures_of(message: Any, engine: Engine) -> np.ndarray:
    """`{"images": ...}` as the data set stores them: nothing is centred or inverted."""
    images = np.array(message.images, dtype=np.float32)
    return images.reshape(-1, *engine.picture_shape)


def poses_of(message: Any, engine: Engine) -> Poses:
    """`{"poses": N x J x D, "classes": N}`, or N x D, each the pose of its class alone."""
    poses = np.array(message.poses, dtype=np.float32)
    classes = None if message.classes is UNSET else read_classes(message.classes, len(poses), engine)
    if tuple(poses.shape[1:]) == engine.pose_shape:
        if classes is None and engine.has_capsules:
            classes = np.linalg.norm(poses, axis=-1).argmax(axis=1)
        return Poses(poses, classes)
    whole = np.zeros((len(poses), *engine.pose_shape), dtype=np.float32)
    whole[np.arange(len(poses)), classes] = poses
    return Poses(whole, classes)


def read_classes(value: list[str | int], count: int, engine: Engine) -> np.ndarray:
    """Class names or their numbers, one for each pose."""
    if len(value) != count:
        raise HTTPException(422, f"'classes' must be a list of {count}, one for each pose; got {len(value)}.")
    numbers = [item if isinstance(item, int) else engine.class_names.index(item) for item in value]
    return np.array(numbers, dtype=np.int64)


def check_count(count: int, limits: Limits) -> None:
    if count > limits.images:
        raise HTTPException(413, f"A request has at most {limits.images} images; got {count}.")
