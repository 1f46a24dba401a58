"""`capsnet serve`."""

from importlib.util import find_spec

from tyro.conf import Positional

from capsnet.cli import console
from capsnet.cli.options import Flag, Maybe
from capsnet.errors import CapsNetError


def serve(
    weights: Positional[str] = "efficient_capsnet.mnist",
    /,
    *,
    pairs: Maybe[str] = None,
    host: str = "127.0.0.1",
    port: int = 8000,
    batch_wait: float = 2.0,
    threads: Maybe[int] = None,
    open: Flag = False,
) -> None:
    """Answer predictions over HTTP, and show a page to draw in.

    Args:
        weights: A run folder, a weights folder, or a bundled name.
        pairs: Weights for two overlapping digits; the bundled ones when left out.
        host: The address to listen at; 0.0.0.0 lets other machines in.
        port: The port to listen at; 0 takes any free one.
        batch_wait: Milliseconds that a request waits for others to share a batch with; 0 computes each alone.
        threads: Of the CPU; all when left out.
        open: Open the page in a browser.
    """
    if any(find_spec(name) is None for name in ("starlette", "uvicorn", "python_multipart")):
        raise CapsNetError(
            "Serving needs starlette, uvicorn and python-multipart: install them with pip install 'capsnet[serve]'."
        )
    if not 0 <= batch_wait <= 1000:
        raise CapsNetError(f"--batch-wait is 0 to 1000 milliseconds; got {batch_wait:g}.")
    if threads is not None and threads < 1:
        raise CapsNetError(f"--threads is at least 1; got {threads}.")

    from capsnet.devices import set_threads
    from capsnet.serve.limits import Limits
    from capsnet.serve.run import run_server

    set_threads(threads)

    def tell(address: str) -> None:
        console.out.print(f"{weights} is at {address} (Ctrl-C stops it)", markup=False, soft_wrap=True)

    limits = Limits(wait=batch_wait / 1000)
    run_server(weights, pairs, host=host, port=port, limits=limits, on_ready=tell, open_page=open)
