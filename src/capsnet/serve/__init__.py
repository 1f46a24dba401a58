"""The prediction server and its playground page: `capsnet serve`. Needs the extra `serve`.

A request passes `guard` (size, time, crowd), is read by `reading`, waits in `batching` for others to share a forward
pass with, is computed by `engine`, and is answered by `app`; `openapi` describes it all, `static/` is the page at `/`.
"""
