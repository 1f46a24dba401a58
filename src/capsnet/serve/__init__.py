"""The prediction server and its playground page: `capsnet serve`. Needs the extra `serve`.

A request comes in by `connections`, passes `guard` (who, how many, how large, how slow), is read by `reading` as one of the
types of `messages`, its pictures by `decoding`; it waits in `batching` for others to share a forward pass with, is computed by
`engine`, and answered by `service`. `openapi` describes the same types, `watch` counts and logs, `static/` is the page at `/`.
"""
