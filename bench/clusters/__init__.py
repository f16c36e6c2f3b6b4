"""How the imported EndpointSlices of a fleet are taken in: first sync and single events, beside kubernetes_asyncio."""
