"""How much one server takes on, in one place.

Memory is bounded by construction: `memory` bytes of bodies and answers at once, one batch at a time in the network, and
pictures decoded in two processes, each of which holds one request's and may take no more than `decode_bytes`.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What is refused, and when.

    Attributes:
        body_bytes: of a request, whatever its type; more is answered with 413.
        memory: bytes of all bodies and answers that are held at once; more is answered with 503.
        images: of a request, and of a batch that the network gets.
        answer_numbers: poses, couplings and pixels that a request may ask for, per image; more is answered with 422.
        pixels: of all picture files of a request together, judged from their headers.
        small_pixels: a request's pictures of at most this many pixels together never wait for larger ones.
        decode_bytes: that decoding a picture may take, judged from its header and held to.
        decode_seconds: that it may last.
        sample_bytes: that reading a large data set for samples may take, once and in a process of its own.
        sample_seconds: that it may last; there are no samples then.
        samples_queue: requests for samples that may wait for that; more are answered with 503.
        queue: images that may wait for the network, and requests that may wait for small pictures to be decoded.
        large_queue: requests that may wait for large pictures to be decoded.
        requests: being read or answered at once; more is answered with 503.
        connections: open at once; one more closes the one that has been idle longest.
        seconds: for a request's body to arrive, for its turn, and again for its answer.
        header_seconds: that a connection may be open without a complete request header.
        slowest: bytes per second at which a client must read its answer, after the first `seconds`.
        wait: seconds that an image waits for others to be computed with; 0 computes every request alone.
    """

    body_bytes: int = 2_000_000
    memory: int = 128_000_000
    images: int = 64
    answer_numbers: int = 65_536
    pixels: int = 16_000_000
    small_pixels: int = 1_000_000
    decode_bytes: int = 480_000_000
    decode_seconds: float = 5.0
    sample_bytes: int = 2_000_000_000
    sample_seconds: float = 60.0
    samples_queue: int = 32
    queue: int = 512
    large_queue: int = 4
    requests: int = 256
    connections: int = 512
    seconds: float = 10.0
    header_seconds: float = 10.0
    slowest: int = 100_000
    wait: float = 0.002
