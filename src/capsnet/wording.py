"""Numbers in sentences."""


def counted(n: int, what: str) -> str:
    """Return a number with its noun: 1 epoch, 2,000 images."""
    return f"{n:,} {what}" + "s" * (n != 1)
