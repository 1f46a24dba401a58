"""JSON answers: the one way in which values and refusals leave the server."""

from typing import Any

import msgspec
from starlette.responses import Response

from capsnet.serve.messages import Problem

encode = msgspec.json.Encoder().encode


class Answer(Response):
    """Any message as JSON."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return encode(content)


def problem(status: int, sentence: str, headers: Any = None) -> Answer:
    """The one form of every refusal."""
    return Answer(Problem(sentence), status, headers)
