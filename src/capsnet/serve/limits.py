"""How much one server takes on, in one place."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What is refused, and when.

    Attributes:
        body_bytes: of a request, whatever its type; more is answered with 413.
        images: of a request, and of a batch that the network gets.
        pixels: of all picture files of a request together, judged from their headers.
        queue: images that may wait for the network; more is answered with 503.
        requests: being read or answered at once; more is answered with 503.
        seconds: for a request to arrive, and again for its answer.
        wait: seconds that an image waits for others to be computed with; 0 computes every request alone.
    """

    body_bytes: int = 2_000_000
    images: int = 64
    pixels: int = 16_000_000
    queue: int = 512
    requests: int = 256
    seconds: float = 10.0
    wait: float = 0.002
