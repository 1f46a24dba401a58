"""The OpenAPI document, generated from the operations and their types (`messages`); nothing in it is written twice."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from capsnet.serve.messages import Problem

Schema = dict[str, Any]
PROBLEMS = {
    400: "The request cannot be parsed.",
    401: "The server wants a token: Authorization: Bearer ….",
    403: "A page of another site asked.",
    404: "There is no such thing here.",
    408: "The request took too long to arrive.",
    409: "The model has no decoder.",
    413: "The body is too large, or holds too many images.",
    415: "The body's type is not one of those taken.",
    421: "This server does not go by the name in the Host header.",
    422: "The request can be parsed but not used.",
    503: "Too much is waiting, or the answer took too long: try again after Retry-After seconds.",
}
ANYWHERE = (401, 403, 421, 503)


@dataclass(frozen=True)
class Operation:
    """A path and its method, what it takes and gives, and the function that answers.

    Attributes:
        bodies: for each media type the types, one of which a body is.
        problems: statuses that it may refuse with, besides those that every operation may.
    """

    method: str
    path: str
    name: str
    summary: str
    handler: Callable[[Request], Awaitable[Response]]
    answer: type[Struct]
    query: type[Struct] | None = None
    bodies: Mapping[str, Sequence[type[Struct]]] = field(default_factory=dict)
    problems: Sequence[int] = ()


def document(title: str, description: str, version: str, operations: Sequence[Operation]) -> Schema:
    """OpenAPI 3.1, for `/openapi.json`."""
    types: dict[type[Struct], None] = {Problem: None}
    for operation in operations:
        for type_ in (operation.answer, operation.query, *sum(map(tuple, operation.bodies.values()), ())):
            if type_ is not None:
                types[type_] = None
    refs, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    schemas = dict(zip(types, refs, strict=True))
    paths: Schema = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = describe(
            operation, schemas, components
        )
    for operation in operations:
        if operation.query is not None:
            components.pop(operation.query.__name__, None)
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": version, "description": description},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def describe(operation: Operation, schemas: Mapping[type[Struct], Schema], components: Schema) -> Schema:
    described: Schema = {
        "operationId": operation.name,
        "summary": operation.summary,
        "responses": {
            "200": answer(operation.summary, schemas[operation.answer]),
            **{
                str(status): answer(PROBLEMS[status], schemas[Problem])
                for status in sorted({*operation.problems, *ANYWHERE})
            },
        },
    }
    if operation.query is not None:
        described["parameters"] = parameters(components[operation.query.__name__])
    if operation.bodies:
        content = {
            kind: {"schema": either([schemas[t] for t in types])} for kind, types in operation.bodies.items()
        }
        described["requestBody"] = {"required": True, "content": content}
    return described


def parameters(query: Schema) -> list[Schema]:
    """A query's fields, one parameter each; a list is given with commas between."""
    made = []
    for name, schema in query["properties"].items():
        schema = dict(schema)
        described = {
            "name": name,
            "in": "query",
            "description": schema.pop("description", ""),
            "schema": schema,
        }
        if schema.get("type") == "array":
            described.update(style="form", explode=False)
        made.append(described)
    return made


def answer(description: str, schema: Schema) -> Schema:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def either(schemas: list[Schema]) -> Schema:
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
