"""`capsnet serve`."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from capsnet.cli import console
from capsnet.cli.options import Flag, Maybe
from capsnet.errors import CapsNetError

NEEDED = ("starlette", "uvicorn", "python_multipart", "msgspec", "prometheus_client")
Hosts = Annotated[tuple[str, ...], arg(metavar="NAME ...", help_behavior_hint="")]


def serve(
    weights: Positional[str] = "efficient_capsnet.mnist",
    /,
    *,
    pairs: Maybe[str] = None,
    host: str = "127.0.0.1",
    port: int = 8000,
    batch_wait: float = 2.0,
    threads: Maybe[int] = None,
    allow_host: Hosts = (),
    token_file: Maybe[Path] = None,
    access_log: Maybe[str] = None,
    open: Flag = False,
) -> None:
    """Answer predictions over HTTP and show a page to draw in.

    Args:
        weights: A run folder, a weights folder, a bundled name, or an export: its folder or a file of it (without torch).
        pairs: Weights for two overlapping digits; beside weights for one digit the bundled ones when left out.
        host: The address to listen at; 0.0.0.0 lets other machines in.
        port: The port to listen at; 0 takes any free one.
        batch_wait: Milliseconds that a request waits for others to share a batch with; 0 computes each alone.
        threads: CPU threads; all when left out.
        allow_host: Host names that the server answers to, besides localhost and its own address; * allows any.
        token_file: A file with a token that every request for a prediction must carry.
        access_log: A file that gets one JSON object per request; - is standard error.
        open: Open the page in a browser.
    """
    if any(find_spec(name) is None for name in NEEDED):
        names = ", ".join(NEEDED).replace("_", "-")
        raise CapsNetError(f"Serving needs {names}: install them with pip install 'capsnet[serve]'.")
    if not 0 <= batch_wait <= 1000:
        raise CapsNetError(f"--batch-wait is 0 to 1000 milliseconds; got {batch_wait:g}.")
    if threads is not None and threads < 1:
        raise CapsNetError(f"--threads is at least 1; got {threads}.")

    from capsnet.serve.access import make_access
    from capsnet.serve.limits import Limits
    from capsnet.serve.run import run_server
    from capsnet.serve.watch import Watch, open_log

    def tell(address: str) -> None:
        console.out.print(f"{weights} is at {address} (Ctrl-C stops it)", markup=False, soft_wrap=True)

    run_server(
        weights,
        pairs,
        host=host,
        port=port,
        limits=Limits(wait=batch_wait / 1000),
        access=make_access(host, allow_host, token_file),
        watch=Watch(open_log(access_log)),
        on_ready=tell,
        threads=threads,
        open_page=open,
    )
