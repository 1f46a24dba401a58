"""The process that reads a large data set for the server's samples: `python -m capsnet.serve.sample_worker WEIGHTS BYTES`.

It may take so many bytes more than it has after its imports, writes the pool of `samples` to stdout as an .npz file, and
ends. What is wrong is one sentence on stderr.
"""

import os
import sys

from capsnet.errors import CapsNetError
from capsnet.serve.decode_worker import limit_memory
from capsnet.serve.samples import gather, pack
from capsnet.serve.torch_network import TorchNetwork


def main(weights: str, more: int) -> None:
    limit_memory(more)
    if hasattr(os, "nice"):
        os.nice(10)
    try:
        network = TorchNetwork(weights, threads=1)
        content = pack(gather(network.opened.dataset.test, network))
    except CapsNetError as error:
        sys.exit(str(error))
    except (MemoryError, RuntimeError) as error:  # the latter is torch's, when it gets no memory
        sys.exit(f"the data set could not be read within {more:,} bytes of memory ({error}).")
    sys.stdout.buffer.write(content)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
