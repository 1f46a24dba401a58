"""Hostile versions of good files: seeded, and so that checksums on the way in don't shield what is behind them."""

import copy
import gzip
import io
import json
import struct
import zipfile
import zlib
from random import Random
from typing import Any

INTEGERS = (0, 1, -1, 2, 127, 255, 256, 32767, 65535, 65536, 2**31 - 1, -(2**31), 2**32 - 1)
WORDS = (
    b"",
    b"\0",
    b"nan",
    b"-1",
    b"1e999",
    b"9" * 400,
    b"\xff\xfe",
    b'"',
    b",,,,",
    b"\n\n",
    b"../../x",
    b"[" * 3000,
)
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 10**12, 10**400, -0.5, 1e300, float("nan"), float("inf"), "", "x", "\0", "x" * 5000,
    "../../x", "/etc/passwd", [], {}, [[]], [0], [1, 2, 3, 4, 5], [10**12] * 3, [-1, -1, -1], {"x": {}}, [None], ["x", "x"],
)  # fmt: skip


def mutate_bytes(content: bytes, random: Random) -> bytes:
    """A few changes: bits, numbers, cuts, repeats, words."""
    made = bytearray(content)
    # Headers are where lies matter most.
    reach = len(made) if random.random() < 0.5 else min(len(made), 160)
    for _ in range(random.choice((1, 1, 1, 2, 4, 16))):
        if not made:
            break
        at = random.randrange(max(1, min(reach, len(made))))
        kind = random.randrange(7)
        if kind == 0:
            made[at] ^= 1 << random.randrange(8)
        elif kind == 1:
            made[at] = random.randrange(256)
        elif kind == 2:
            number = random.choice(INTEGERS) & 0xFFFFFFFF
            packed = struct.pack(random.choice("<>") + "I", number)[: random.choice((1, 2, 4))]
            made[at : at + len(packed)] = packed
        elif kind == 3:
            del made[at : at + random.choice((1, 2, 8, 64, len(made)))]
        elif kind == 4:
            piece = bytes(made[at : at + random.choice((1, 8, 64, 512))])
            made[at:at] = piece * random.choice((1, 2, 20))
        elif kind == 5:
            made[at:at] = random.choice(WORDS)
        else:
            made[at:at] = random.randbytes(random.choice((1, 4, 64)))
    return bytes(made)


def mutate_json(text: str, random: Random) -> str:
    """One value of a document, or a few, replaced, removed or repeated."""
    value = json.loads(text)
    for _ in range(random.choice((1, 1, 2, 3))):
        where, key, parent = value, None, None
        while isinstance(where, dict | list) and where and (key is None or random.random() < 0.7):
            parent, key = where, random.choice(list(where) if isinstance(where, dict) else range(len(where)))
            where = parent[key]
        if parent is None:
            return json.dumps(random.choice(VALUES))
        kind = random.randrange(5)
        if kind == 0 and isinstance(parent, dict):
            del parent[key]
        elif kind == 1 and isinstance(where, list):
            parent[key] = where * random.choice((0, 2, 50))
        elif kind == 2 and isinstance(where, int | float):
            parent[key] = random.choice((-where, where + 1, where * 10**6, str(where), [where]))
        else:
            parent[key] = copy.deepcopy(random.choice(VALUES))
    text = json.dumps(value)
    return mutate_bytes(text.encode(), random).decode(errors="replace") if random.random() < 0.1 else text


def mutate_packed(content: bytes, random: Random) -> bytes:
    """A gzip file whose content is wrong, or which is wrong itself."""
    if random.random() < 0.2:
        return mutate_bytes(content, random)
    return gzip.compress(mutate_bytes(gzip.decompress(content), random), 1)


def mutate_zip(content: bytes, random: Random) -> bytes:
    """An archive with right checksums and a wrong member, or a wrong archive."""
    if random.random() < 0.25:
        return mutate_bytes(content, random)
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as new:
        names = old.namelist()
        chosen = random.choice(names)
        for name in names:
            member = old.read(name)
            if name == chosen:
                if random.random() < 0.1:
                    continue
                member = mutate_bytes(member, random)
            new.writestr(name, member)
    return made.getvalue()


def mutate_png(content: bytes, random: Random) -> bytes:
    """A PNG with wrong chunks and right checksums; anything else as bytes."""
    if not content.startswith(b"\x89PNG") or random.random() < 0.2:
        return mutate_bytes(content, random)
    chunks, at = [], 8
    while at + 8 <= len(content):
        size = struct.unpack(">I", content[at : at + 4])[0]
        chunks.append([content[at + 4 : at + 8], content[at + 8 : at + 8 + size]])
        at += size + 12
    chunk = random.choice(chunks)
    packed = chunk[0] == b"IDAT" and random.random() < 0.5
    chunk[1] = (
        zlib.compress(mutate_bytes(zlib.decompress(chunk[1]), random))
        if packed
        else mutate_bytes(chunk[1], random)
    )
    if random.random() < 0.1:
        random.shuffle(chunks)
    return content[:8] + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )


def mutate_tar(content: bytes, random: Random) -> bytes:
    """A packed archive with a wrong header and its right checksum, or wrong bytes."""
    if random.random() < 0.2:
        return mutate_bytes(content, random)
    made = bytearray(gzip.decompress(content))
    blocks = [at for at in range(0, len(made) - 511, 512) if made[at + 257 : at + 262] == b"ustar"]
    if random.random() < 0.2 or not blocks:
        return gzip.compress(mutate_bytes(bytes(made), random), 1)
    at = random.choice(blocks)
    head = mutate_bytes(bytes(made[at : at + 512]), random)[:512].ljust(512, b"\0")
    total = sum(head[:148]) + 8 * 32 + sum(head[156:])
    made[at : at + 512] = head[:148] + b"%06o\0 " % total + head[156:]
    return gzip.compress(bytes(made), 1)


def mutate_safetensors(content: bytes, random: Random) -> bytes:
    """A header that says something else of the tensors, or wrong bytes."""
    if random.random() < 0.3:
        return mutate_bytes(content, random)
    size = struct.unpack("<Q", content[:8])[0]
    header = mutate_json(content[8 : 8 + size].decode(), random).encode()
    return struct.pack("<Q", len(header)) + header + content[8 + size :]
