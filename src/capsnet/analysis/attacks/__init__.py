"""Pictures made to deceive a network, and pictures that are merely spoilt."""
