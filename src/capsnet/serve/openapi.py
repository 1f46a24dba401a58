"""The OpenAPI document of a server: what it takes and gives, in the sizes of the model it serves."""

from typing import Any

import capsnet
from capsnet.serve.engine import INCLUDES, Engine
from capsnet.serve.limits import Limits

Schema = dict[str, Any]


def document(engine: Engine, limits: Limits) -> Schema:
    """OpenAPI 3.1, for `/openapi.json`."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "capsnet",
            "version": capsnet.__version__,
            "description": f"Predictions of {engine.model.architecture.name}, and pictures from its capsules.",
        },
        "paths": {
            "/v1/predict": {"post": predict(engine, limits)},
            "/v1/reconstruct": {"post": reconstruct(engine, limits)},
            "/v1/model": {"get": reading("describeModel", "The model, its classes and its limits.", "Model")},
            "/v1/samples": {"get": samples()},
            "/healthz": {"get": reading("checkHealth", "Whether the server answers.", "Health")},
        },
        "components": {"schemas": schemas(engine, limits)},
    }


def predict(engine: Engine, limits: Limits) -> Schema:
    channels, height, width = engine.model.image_shape[0], *engine.stored_size
    include = {"type": "array", "items": {"enum": list(INCLUDES)}}
    return {
        "operationId": "predict",
        "summary": "Say what is in pictures.",
        "description": (
            "Picture files are prepared as the weights' pre-processing says; pixels as JSON are taken as the data set "
            "stores them."
        ),
        "parameters": [
            query("include", "What to give besides the scores.", include, style="form", explode=False),
            query(
                "top",
                "How many of the best classes to name and to reconstruct.",
                {"type": "integer", "minimum": 1, "maximum": engine.num_classes, "default": 1},
            ),
            MODEL,
        ],
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": ref("Images"),
                    "example": {"images": [blank(channels, height, width)]},
                },
                "multipart/form-data": {"schema": ref("Files")},
            },
        },
        "responses": {"200": answer("A prediction for each picture.", "Predictions"), **refusals(BODY)},
    }


def reconstruct(engine: Engine, limits: Limits) -> Schema:
    size = engine.pose_shape[-1]
    example: Schema = {"poses": [[0.25] * size], "classes": [0]}
    return {
        "operationId": "reconstruct",
        "summary": "Draw the pictures that poses stand for.",
        "parameters": [MODEL],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": ref("Poses"), "example": example}},
        },
        "responses": {"200": answer("A picture for each pose.", "Pictures"), **refusals((*BODY, "409"))},
    }


def samples() -> Schema:
    return {
        **reading("drawSamples", "Images of the test set.", "Samples"),
        "parameters": [
            query("count", "How many.", {"type": "integer", "minimum": 1, "maximum": 40, "default": 10}),
            query("seed", "Which.", {"type": "integer", "minimum": 0, "maximum": 2**31 - 1, "default": 0}),
        ],
        "responses": {"200": answer("Images and their classes.", "Samples"), **refusals(("404", "422"))},
    }


def schemas(engine: Engine, limits: Limits) -> Schema:
    channels, height, width = engine.model.image_shape[0], *engine.stored_size
    pixel, number = {"type": "number", "minimum": 0, "maximum": 255}, {"type": "number"}
    coordinate = {"type": "number", "minimum": -1e6, "maximum": 1e6}
    rows = array(array(pixel, width), height)
    batch = {"minItems": 1, "maxItems": limits.images}
    images: list[Schema] = [{"type": "array", "items": array(rows, channels), **batch}]
    if channels == 1:
        images.insert(0, {"type": "array", "items": rows, **batch})
    poses: list[Schema] = [{"type": "array", "items": nested(coordinate, engine.pose_shape), **batch}]
    if engine.has_capsules:
        poses.insert(0, {"type": "array", "items": nested(coordinate, engine.pose_shape[1:]), **batch})
    names = list(engine.class_names)
    picture = {"type": "array", "items": {"type": "array", "items": {"type": "array", "items": BYTE}}}
    anything: Schema = {"type": ["array", "null"]}
    return {
        "Images": record({"images": {"anyOf": images}}, closed=True),
        "Files": record(
            {"file": {"type": "array", "items": {"type": "string", "format": "binary"}, **batch}}
        ),
        "Poses": {
            **record(
                {
                    "poses": {"anyOf": poses},
                    "classes": {
                        "type": "array",
                        "items": {"anyOf": [{"enum": names}, index(engine.num_classes)]},
                        **batch,
                    },
                },
                closed=True,
            ),
            "description": (
                "One class for each pose. Poses of N x J x D hold every class's; N x D only that of the class. "
                "Without classes the longest capsule of N x J x D is drawn."
            ),
            "required": ["poses"],
        },
        "Predictions": record({"predictions": {"type": "array", "items": ref("Prediction")}}),
        "Prediction": {
            **record(
                {
                    "class": {"enum": names},
                    "score": number,
                    "scores": {"type": "object", "additionalProperties": number},
                    "likely": {"type": "boolean", "description": "False when no score reaches 0.5."},
                    "classes": {"type": "array", "items": {"enum": names}},
                    "poses": anything,
                    "coupling": anything,
                    "reconstructions": {
                        "type": "array",
                        "items": record({"class": {"enum": names}, "image": picture}),
                    },
                    "input": picture,
                }
            ),
            "required": ["class", "score", "scores", "likely"],
        },
        "Pictures": record({"images": {"type": "array", "items": picture}}),
        "Samples": record(
            {"samples": {"type": "array", "items": record({"image": picture, "class": {"enum": names}})}}
        ),
        "Model": {"type": "object", "required": ["name", "image_shape", "class_names", "limits"]},
        "Health": record({"status": {"const": "ok"}}),
        "Problem": record({"error": {"type": "string", "description": "What is wrong, in one sentence."}}),
    }


BYTE: Schema = {"type": "integer", "minimum": 0, "maximum": 255}
BODY = ("400", "404", "408", "413", "415", "422")
PROBLEMS = {
    "400": "The body cannot be parsed.",
    "404": "There is no such thing here.",
    "408": "The request took too long to arrive.",
    "409": "The model has no decoder.",
    "413": "The body is too large, or holds too many images.",
    "415": "The body's type is not one of those taken.",
    "422": "The body can be parsed but not used.",
    "503": "Too much is waiting, or the answer took too long: try again after Retry-After seconds.",
}


def query(name: str, description: str, schema: Schema, **more: Any) -> Schema:
    return {"name": name, "in": "query", "description": description, "schema": schema, **more}


MODEL = query(
    "model",
    "Which of the loaded models: pairs is the one for two overlapping digits.",
    {"enum": ["main", "pairs"], "default": "main"},
)


def reading(operation: str, summary: str, schema: str) -> Schema:
    return {
        "operationId": operation,
        "summary": summary,
        "responses": {"200": answer(summary, schema), **refusals()},
    }


def answer(description: str, schema: str) -> Schema:
    return {"description": description, "content": {"application/json": {"schema": ref(schema)}}}


def refusals(codes: tuple[str, ...] = ()) -> Schema:
    return {code: answer(PROBLEMS[code], "Problem") for code in (*codes, "503")}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def record(properties: Schema, *, closed: bool = False) -> Schema:
    schema: Schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {**schema, "additionalProperties": False} if closed else schema


def array(items: Schema, length: int) -> Schema:
    return {"type": "array", "items": items, "minItems": length, "maxItems": length}


def nested(items: Schema, shape: tuple[int, ...]) -> Schema:
    for length in reversed(shape):
        items = array(items, length)
    return items


def index(count: int) -> Schema:
    return {"type": "integer", "minimum": 0, "maximum": count - 1}


def blank(channels: int, height: int, width: int) -> Any:
    picture = [[0] * width for _ in range(height)]
    return picture if channels == 1 else [picture] * channels
