"""One HTTP request to a pod's own server, on behalf of a client of the API.

Owns the request and the words of its failure. It must not know pods.
"""

from __future__ import annotations

from collections.abc import Mapping

import aiohttp

from simcluster.api.port import ApiError, ProxyResponse

_PATIENCE_S = 30.0


async def fetch(host: str, port: int, method: str, path: str, headers: Mapping[str, str], body: bytes) -> ProxyResponse:
    """The server's answer as it is. `ApiError` 503 where it does not answer."""
    url = f"http://{host}:{port}/{path.lstrip('/')}"
    timeout = aiohttp.ClientTimeout(total=_PATIENCE_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, auto_decompress=False) as session,
            session.request(method, url, headers=dict(headers), data=body, allow_redirects=False) as answer,
        ):
            return ProxyResponse(answer.status, dict(answer.headers), await answer.read())
    except (aiohttp.ClientError, TimeoutError) as error:
        raise ApiError(
            503, "ServiceUnavailable", f"error trying to reach service: dial tcp {host}:{port}: {error}"
        ) from error
