"""Faults in figures: what kills, full disks, hostile files and hostile clients do. `make soak`; see `docs/reliability.md`."""
