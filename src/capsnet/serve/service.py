"""What the server does: its models, the operations on them and how they are answered. The page and the routes are in `app`."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

import capsnet
from capsnet.serve import messages, reading
from capsnet.serve.answers import Answer, problem
from capsnet.serve.batching import Batcher
from capsnet.serve.connections import Connections
from capsnet.serve.decoding import Decoding
from capsnet.serve.engine import Engine, Poses, Question
from capsnet.serve.limits import Limits
from capsnet.serve.openapi import Operation, document
from capsnet.serve.samples import Samples
from capsnet.serve.watch import Watch

# Parsing less than this takes less time than handing it to a thread and back is worth.
SMALL_BODY = 64_000
BODY = (400, 404, 408, 413, 415, 422)


class Service:
    """The loaded models by role, `main` and perhaps `pairs`, each with its two queues."""

    def __init__(self, engines: Mapping[str, Engine], limits: Limits, watch: Watch) -> None:
        self.engines = engines
        self.limits = limits
        self.watch = watch
        self.decoding = Decoding(limits)
        self.connections = Connections(limits)
        self.samples = Samples(engines["main"].network, limits)
        self.messages = {role: messages.Messages(engine, limits) for role, engine in engines.items()}
        self._images = {role: reading.BodyReader(m.images, limits) for role, m in self.messages.items()}
        self._poses = {role: reading.BodyReader(m.poses, limits) for role, m in self.messages.items()}
        self.description = msgspec.convert(
            {
                **engines["main"].network.describe(),
                "pairs": engines["pairs"].network.describe() if "pairs" in engines else None,
                "has_samples": self.samples.here,
                "limits": limits,
                "version": capsnet.__version__,
            },
            messages.Description,
        )
        self.operations = self._operations()
        self.document = document(
            "capsnet",
            f"Predictions of {self.description.name}, and pictures from its capsules.",
            capsnet.__version__,
            self.operations,
        )
        self._gauges()
        self.predictions: dict[str, Batcher[Question, list[messages.Prediction]]] = {}
        self.pictures: dict[str, Batcher[Poses, list[Any]]] = {}

    def _gauges(self) -> None:
        gauge, lanes = self.watch.gauge, self.decoding.lanes
        gauge("capsnet_connections", "Open connections.", lambda: len(self.connections))
        gauge(
            "capsnet_connections_overdue",
            "Cut since the start, without a request.",
            lambda: self.connections.overdue,
        )
        gauge(
            "capsnet_images_waiting",
            "Images waiting for the network.",
            lambda: sum(b.waiting for b in self.batchers),
        )
        for name, lane in lanes.items():
            gauge(
                f"capsnet_decoding_{name}_waiting",
                "Requests with such pictures that wait.",
                partial(getattr, lane, "waiting"),
            )
            gauge(
                f"capsnet_decoding_{name}_restarts",
                "Decoders that had to be ended.",
                partial(getattr, lane, "restarts"),
            )

    @property
    def batchers(self) -> "list[Batcher[Any, Any]]":
        return [*self.predictions.values(), *self.pictures.values()]

    def _operations(self) -> list[Operation]:
        main = self.messages["main"]
        return [
            Operation(
                "POST",
                "/v1/predict",
                "predict",
                "Say what is in pictures. Files are prepared as the weights' pre-processing says; pixels as JSON are taken as "
                "the data set stores them.",
                self.predict,
                messages.Predictions,
                main.predict_query,
                {"application/json": main.images, "multipart/form-data": [main.files]},
                BODY,
            ),
            Operation(
                "POST",
                "/v1/reconstruct",
                "reconstruct",
                "Draw the pictures that poses stand for.",
                self.reconstruct,
                messages.Pictures,
                messages.ReconstructQuery,
                {"application/json": main.poses},
                (*BODY, 409),
            ),
            Operation(
                "GET",
                "/v1/model",
                "describeModel",
                "The model, its classes and its limits.",
                self.model,
                messages.Description,
            ),
            Operation(
                "GET",
                "/v1/samples",
                "drawSamples",
                "Images of the test set and their classes.",
                self.draw_samples,
                messages.Samples,
                messages.SamplesQuery,
                problems=(404, 422),
            ),
            Operation(
                "GET", "/healthz", "checkHealth", "Whether the server answers.", self.health, messages.Health
            ),
            Operation(
                "GET", "/readyz", "checkReadiness", "Whether it takes work.", self.ready, messages.Health
            ),
        ]

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """The queues live as long as the server. One thread computes for all: a network shares out the cores."""
        with ThreadPoolExecutor(1, "capsnet") as executor, ThreadPoolExecutor(1, "capsnet-parse") as parser:
            self._parser = parser
            for role, engine in self.engines.items():
                self.predictions[role] = Batcher(engine.predict, self.limits, executor)
                self.pictures[role] = Batcher(engine.reconstruct, self.limits, executor)
            for batcher in self.batchers:
                batcher.start()
            self.connections.start()
            await self.decoding.start()
            yield
            await self.decoding.stop()
            self.connections.stop()
            for batcher in self.batchers:
                batcher.stop()

    def role(self, model: str) -> str:
        """Which model a request is for."""
        if model not in self.engines:
            raise HTTPException(404, "No weights for two digits are loaded; start the server with --pairs.")
        return model

    async def aside(self, body: bytes, parse: Any) -> Any:
        """Parses a large body in a thread, one at a time, so that others are answered meanwhile."""
        if len(body) < SMALL_BODY:
            return parse(body)
        return await asyncio.get_running_loop().run_in_executor(self._parser, parse, body)

    async def predict(self, request: Request) -> Response:
        query: Any = reading.read_query(request.query_params, self.messages["main"].predict_query)
        role = self.role(query.model)
        engine, include = self.engines[role], frozenset(query.include)
        if query.top > engine.num_classes:
            raise HTTPException(422, f"'top' is at most {engine.num_classes} for this model.")
        if engine.numbers(include, query.top) > self.limits.answer_numbers:
            most = f"{self.limits.answer_numbers:,}"
            raise HTTPException(
                422, f"An answer has at most {most} numbers per image: include less, or a smaller 'top'."
            )
        if reading.media_type(request) == "multipart/form-data":
            files = await reading.read_files(request, self.limits)
            network = engine.network
            pictures = await self.decoding.decode(files, network.preprocessing, network.image_shape)
        elif reading.is_json(request):
            reader = self._images[role]
            pictures = await self.aside(
                await request.body(), lambda body: reading.pictures_of(reader.read(body), engine)
            )
        else:
            raise HTTPException(
                415, "Send picture files as multipart/form-data, or pixels as application/json."
            )
        self.watch.images.inc(len(pictures))
        question = Question(pictures, include, query.top)
        return Answer(messages.Predictions(await self.predictions[role].submit(question)))

    async def reconstruct(self, request: Request) -> Response:
        role = self.role(reading.read_query(request.query_params, messages.ReconstructQuery).model)
        engine, reader = self.engines[role], self._poses[role]
        if not reading.is_json(request):
            raise HTTPException(415, "Send poses and classes as application/json.")
        if not engine.network.has_decoder:
            raise HTTPException(409, "This model has no decoder, so it cannot reconstruct.")
        poses = await self.aside(
            await request.body(), lambda body: reading.poses_of(reader.read(body), engine)
        )
        return Answer(messages.Pictures(await self.pictures[role].submit(poses)))

    async def model(self, request: Request) -> Response:
        return Answer(self.description)

    async def draw_samples(self, request: Request) -> Response:
        query = reading.read_query(request.query_params, messages.SamplesQuery)
        if self.samples.waiting >= self.limits.samples_queue:
            raise HTTPException(
                503, "The samples are being read; try again in a moment.", {"Retry-After": "5"}
            )
        drawn = await self.samples.draw(query.count, query.seed)
        if drawn is None:
            raise HTTPException(404, "The data set of these weights is not on this machine.")
        return Answer(messages.Samples([messages.Drawing(name, image.tolist()) for name, image in drawn]))

    async def openapi(self, request: Request) -> Response:
        return Answer(self.document)

    async def health(self, request: Request) -> Response:
        return Answer(messages.Health())

    async def ready(self, request: Request) -> Response:
        reason = self.not_ready()
        return Answer(messages.Health()) if reason is None else problem(503, reason, {"Retry-After": "1"})

    def not_ready(self) -> str | None:
        """Why work is better sent elsewhere at the moment."""
        if self.watch.requests > self.limits.requests:
            return "As many requests are being answered as the server takes."
        if any(batcher.seconds_computing > self.limits.seconds for batcher in self.batchers):
            return "The network has not finished a batch for too long."
        return None

    async def metrics(self, request: Request) -> Response:
        return Response(self.watch.page(), media_type="text/plain; version=0.0.4")
