"""The data path's own HTTP/1.1 client: asyncio and httptools, one pool per engine."""
