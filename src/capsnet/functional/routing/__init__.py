"""Routings: how the votes for a parent become its pose. One per file; each is in ROUTINGS under its name."""

from capsnet.functional.routing.attention import attention_routing
from capsnet.functional.routing.dynamic import dynamic_routing, leaky_routing
from capsnet.functional.routing.em import em_routing
from capsnet.functional.routing.heinsen import heinsen_routing
from capsnet.functional.routing.inverted import inverted_routing
from capsnet.functional.routing.optimised import optimised_routing
from capsnet.functional.routing.orthogonal_sparse import orthogonal_sparse_routing
from capsnet.functional.routing.registry import (
    ROUTINGS,
    RoutingEntry,
    RoutingResult,
    get_routing,
    register_routing,
)
from capsnet.functional.routing.self_attention import self_attention_routing
from capsnet.functional.routing.self_routing import self_routing
from capsnet.functional.routing.uniform import uniform_routing
from capsnet.functional.routing.variational import variational_routing

__all__ = [
    "ROUTINGS",
    "RoutingEntry",
    "RoutingResult",
    "attention_routing",
    "dynamic_routing",
    "em_routing",
    "get_routing",
    "heinsen_routing",
    "inverted_routing",
    "leaky_routing",
    "optimised_routing",
    "orthogonal_sparse_routing",
    "register_routing",
    "self_attention_routing",
    "self_routing",
    "uniform_routing",
    "variational_routing",
]
