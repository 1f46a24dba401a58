"""The application: the routes of the service and of the page, behind the guard."""

from collections.abc import Mapping
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from capsnet.serve.access import Access
from capsnet.serve.answers import problem
from capsnet.serve.engine import Engine
from capsnet.serve.guard import Guard
from capsnet.serve.limits import Limits
from capsnet.serve.service import Service
from capsnet.serve.watch import Watch

STATIC = Path(__file__).parent / "static"


def create_app(
    engines: Mapping[str, Engine],
    limits: Limits | None = None,
    access: Access | None = None,
    watch: Watch | None = None,
) -> Starlette:
    """The ASGI application; `engines` has `main` and perhaps `pairs`."""
    limits, watch = limits or Limits(), watch or Watch()
    service = Service(engines, limits, watch)
    described = [Route(o.path, o.handler, methods=[o.method]) for o in service.operations]
    app = Starlette(
        routes=[
            Route("/", page),
            *described,
            Route("/metrics", service.metrics),
            Route("/openapi.json", service.openapi),
            Mount("/static", StaticFiles(directory=STATIC)),
        ],
        middleware=[Middleware(Guard, limits=limits, access=access or Access(), watch=watch)],
        exception_handlers={HTTPException: refused},
        lifespan=service.lifespan,
    )
    watch.know(frozenset({"/", "/metrics", "/openapi.json", *(o.path for o in service.operations)}))
    app.state.service = service
    return app


async def page(request: Request) -> Response:
    return FileResponse(STATIC / "index.html")


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
