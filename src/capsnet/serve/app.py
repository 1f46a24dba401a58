"""The routes."""

from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

import capsnet
from capsnet.serve.batching import Batcher
from capsnet.serve.engine import Engine, Poses, Question
from capsnet.serve.guard import Guard, problem
from capsnet.serve.limits import Limits
from capsnet.serve.openapi import document
from capsnet.serve.reading import read_poses, read_question
from capsnet.serve.samples import Samples

STATIC = Path(__file__).parent / "static"
MOST_SAMPLES = 40


class Service:
    """The loaded models by role, `main` and perhaps `pairs`, each with its two queues."""

    def __init__(self, engines: Mapping[str, Engine], limits: Limits) -> None:
        self.engines = engines
        self.limits = limits
        self.samples = Samples(engines["main"])
        self.description = {
            **engines["main"].describe(),
            "pairs": engines["pairs"].describe() if "pairs" in engines else None,
            "has_samples": self.samples.name is not None,
            "limits": asdict(limits),
            "version": capsnet.__version__,
        }
        self.document = document(engines["main"], limits)
        self.predictions: dict[str, Batcher[Question, list[dict[str, Any]]]] = {}
        self.pictures: dict[str, Batcher[Poses, list[Any]]] = {}

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """The queues live as long as the server. One thread computes for all: torch shares out the cores by itself."""
        with ThreadPoolExecutor(1, "capsnet") as executor:
            for role, engine in self.engines.items():
                self.predictions[role] = Batcher(engine.predict, self.limits, executor)
                self.pictures[role] = Batcher(engine.reconstruct, self.limits, executor)
            batchers: list[Batcher[Any, Any]] = [*self.predictions.values(), *self.pictures.values()]
            for batcher in batchers:
                batcher.start()
            yield
            for batcher in batchers:
                batcher.stop()

    def role(self, request: Request) -> str:
        """Which model a request is for."""
        role = request.query_params.get("model", "main")
        if role == "pairs" and role not in self.engines:
            raise HTTPException(404, "No weights for two digits are loaded; start the server with --pairs.")
        if role not in self.engines:
            raise HTTPException(404, f"'model' is main or pairs, not '{role[:40]}'.")
        return role

    async def predict(self, request: Request) -> Response:
        role = self.role(request)
        question = await read_question(request, self.engines[role], self.limits)
        return JSONResponse({"predictions": await self.predictions[role].submit(question)})

    async def reconstruct(self, request: Request) -> Response:
        role = self.role(request)
        poses = await read_poses(request, self.engines[role], self.limits)
        return JSONResponse({"images": await self.pictures[role].submit(poses)})

    async def model(self, request: Request) -> Response:
        return JSONResponse(self.description)

    async def draw_samples(self, request: Request) -> Response:
        count = whole_number(request, "count", 10, 1, MOST_SAMPLES)
        seed = whole_number(request, "seed", 0, 0, 2**31 - 1)
        drawn = await run_in_threadpool(self.samples.draw, count, seed)
        if drawn is None:
            raise HTTPException(404, "The data set of these weights is not on this machine.")
        return JSONResponse({"samples": drawn})

    async def openapi(self, request: Request) -> Response:
        return JSONResponse(self.document)

    async def health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def page(self, request: Request) -> Response:
        return FileResponse(STATIC / "index.html")


def create_app(engines: Mapping[str, Engine], limits: Limits | None = None) -> Starlette:
    """The ASGI application; `engines` has `main` and perhaps `pairs`."""
    limits = limits or Limits()
    service = Service(engines, limits)
    app = Starlette(
        routes=[
            Route("/", service.page),
            Route("/v1/predict", service.predict, methods=["POST"]),
            Route("/v1/reconstruct", service.reconstruct, methods=["POST"]),
            Route("/v1/model", service.model),
            Route("/v1/samples", service.draw_samples),
            Route("/healthz", service.health),
            Route("/openapi.json", service.openapi),
            Mount("/static", StaticFiles(directory=STATIC)),
        ],
        middleware=[Middleware(Guard, limits=limits)],
        exception_handlers={HTTPException: refused},
        lifespan=service.lifespan,
    )
    app.state.service = service
    return app


def whole_number(request: Request, name: str, default: int, lowest: int, highest: int) -> int:
    """A query's number."""
    value = request.query_params.get(name, str(default))
    if not (value.isascii() and value.isdecimal() and len(value) < 12 and lowest <= int(value) <= highest):
        raise HTTPException(
            422, f"'{name}' is a whole number from {lowest} to {highest}, not '{value[:40]}'."
        )
    return int(value)


async def refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return problem(error.status_code, sentence(request, error), error.headers)


def sentence(request: Request, error: HTTPException) -> str:
    """Our own words as they are; the framework's two for a wrong path or method made a sentence."""
    if error.detail == "Not Found":
        return f"There is nothing at {request.url.path[:80]}; see /openapi.json."
    if error.detail == "Method Not Allowed":
        return f"{request.method[:20]} is not for {request.url.path[:80]}; see /openapi.json."
    return error.detail
