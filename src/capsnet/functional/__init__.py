"""The maths: pure functions without parameters, each citing its equation."""

from capsnet.functional.losses import cross_entropy, margin_loss, reconstruction_loss, spread_loss
from capsnet.functional.routing import RoutingResult, self_attention_routing
from capsnet.functional.squashing import get_squash, length, squash, squash_sabour
from capsnet.functional.votes import compute_matrix_votes, compute_shared_votes, compute_votes

__all__ = [
    "RoutingResult",
    "compute_matrix_votes",
    "compute_shared_votes",
    "compute_votes",
    "cross_entropy",
    "get_squash",
    "length",
    "margin_loss",
    "reconstruction_loss",
    "self_attention_routing",
    "spread_loss",
    "squash",
    "squash_sabour",
]
