"""Training: recipes, the loop, the run's folder."""
