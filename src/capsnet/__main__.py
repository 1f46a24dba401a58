"""`python -m capsnet`, for launchers such as torchrun."""

from capsnet.cli import main

main()
