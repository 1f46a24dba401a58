"""Routings: how the votes for a parent become its pose. One a file; each is in ROUTINGS under its name."""

from capsnet.functional.routing.registry import (
    ROUTINGS,
    Routing,
    RoutingResult,
    get_routing,
    register_routing,
)
from capsnet.functional.routing.self_attention import self_attention_routing

__all__ = [
    "ROUTINGS",
    "Routing",
    "RoutingResult",
    "get_routing",
    "register_routing",
    "self_attention_routing",
]
