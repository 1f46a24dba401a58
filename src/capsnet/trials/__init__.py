"""Many trainings: seeds of one recipe, on this machine or on a Ray cluster."""
