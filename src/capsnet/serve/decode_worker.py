"""The process in which strangers' pictures are decoded: `python -m capsnet.serve.decode_worker`.

A decoder that takes too long, too much memory or the whole process down with it takes this one, never the server, which starts
another. A message is a JSON header and bytes, each with its length before it, on stdin and stdout.
"""

import json
import os
import struct
import sys
import traceback
from io import BytesIO
from typing import Any, BinaryIO

import numpy as np

from capsnet.data.pictures import read_header, read_picture
from capsnet.data.preprocessing import Preprocessing
from capsnet.errors import CapsNetError

LENGTHS = struct.Struct("<IQ")


class Upload(BytesIO):
    """A file's content with the name that a refusal calls it by."""

    def __init__(self, name: str, content: bytes) -> None:
        super().__init__(content)
        self.name = name


def pack(header: dict[str, Any], content: bytes = b"") -> bytes:
    text = json.dumps(header).encode()
    return LENGTHS.pack(len(text), len(content)) + text + content


def decode(header: dict[str, Any], content: bytes) -> bytes:
    """The answer to a message: pictures in the stored form, a refusal, or that they are too large for this process."""
    files, start = [], 0
    for name, size in header["files"]:
        files.append(Upload(name, content[start : start + size]))
        start += size
    try:
        left, headers = header["pixels"], []
        for file in files:
            headers.append(read_header(file, max_pixels=left))
            left -= headers[-1].pixels
            if headers[-1].memory > header["decode_bytes"]:
                raise CapsNetError(f"{file.name} takes too much memory to decode; make it smaller.")
        if header["small"] and header["pixels"] - left > header["small_pixels"]:
            return pack({"large": True})
        preprocessing, shape = Preprocessing.from_dict(header["preprocessing"]), tuple(header["image_shape"])
        prepared = [read_picture(file, preprocessing, shape) for file in files]
    except CapsNetError as error:
        return pack({"refused": str(error)})
    except MemoryError:
        return pack({"refused": "The picture takes too much memory to decode; make it smaller."})
    except Exception:
        return pack({"bug": traceback.format_exc()})
    pictures = np.stack(prepared)
    return pack({"shape": pictures.shape}, pictures.tobytes())


# Between what a decoder is known to take and what it is held to: the files themselves, and the heap's own need.
SLACK = 64_000_000


def limit_memory(more: int) -> None:
    """Lets this process take `more` bytes of addresses than it has now, where the system can hold it to that."""
    try:
        import resource

        with open("/proc/self/statm") as file:
            now = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (now + more + SLACK, now + more + SLACK))
    except (ImportError, OSError, ValueError):
        pass


def work(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answers one message after the other until there are no more."""
    while len(head := requests.read(LENGTHS.size)) == LENGTHS.size:
        header_size, content_size = LENGTHS.unpack(head)
        header = json.loads(requests.read(header_size))
        answers.write(decode(header, requests.read(content_size)))
        answers.flush()


if __name__ == "__main__":
    limit_memory(int(sys.argv[1]))
    if hasattr(os, "nice"):
        os.nice(int(sys.argv[2]))
    work(sys.stdin.buffer, sys.stdout.buffer)
