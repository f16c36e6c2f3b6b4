"""Where the API server is and how to prove who asks: KUBECONFIG or the pod's service account, kept current.

kubernetes_asyncio reads the files, runs exec plugins and rotates the pod's token. Importing it takes seconds (it
brings every model there is), so import this module only where Kubernetes is asked for. Its own error texts can hold
whole entries of a kubeconfig, so none is passed on.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from kubernetes_asyncio.client.configuration import Configuration
from kubernetes_asyncio.config import incluster_config, kube_config
from kubernetes_asyncio.config.config_exception import ConfigException

from gdsvc.errors import GdsvcError
from gdsvc.kube.client import Settings

_incluster: Any = incluster_config  # only in part typed
_kubeconfig: Any = kube_config

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
RELOAD_AFTER_SECS: Final = 60.0  # a projected token is renewed minutes before its end, so a minute is soon enough
PLUGIN_SECS: Final = 30.0  # for an exec plugin or an identity provider to answer


class NoCredentials(GdsvcError):
    """The credentials cannot be loaded now."""


class Credentials:
    """`await Credentials.load(kubeconfig)`; then `authorization()` before each request.

    `kubeconfig` is the value of KUBECONFIG (paths joined by colons); None means the pod's service account.
    Raises NoCredentials, whose text names what failed and no secret.
    """

    def __init__(self, configuration: Any, loader: Any, now: Callable[[], float]) -> None:
        self.settings: Settings = configuration
        self._configuration = configuration
        self._loader = loader
        self._now = now
        self._loaded_at = now()

    @classmethod
    async def load(
        cls,
        kubeconfig: str | None,
        now: Callable[[], float] = time.monotonic,
        service_account: Path = SERVICE_ACCOUNT,
    ) -> "Credentials":
        # Its loader logs what a failing plugin wrote to stderr, whatever that is.
        logging.getLogger("kubernetes_asyncio.config.kube_config").setLevel(logging.CRITICAL)
        configuration: Any = Configuration()
        source = "the pod's service account" if kubeconfig is None else "KUBECONFIG"
        try:
            async with asyncio.timeout(PLUGIN_SECS):
                loader = await _load(kubeconfig, configuration, service_account)
        except Exception as error:  # noqa: BLE001  whatever the loader raises: KeyError, AssertionError, YAML errors
            raise NoCredentials(f"cannot load the credentials of {source}: {_reason(error)}") from None
        return cls(configuration, loader, now)

    async def authorization(self) -> str | None:
        """The value of the Authorization header, None where the server asks for no token.

        Where the source of a newer token fails, the old one may still do; a 401 says when not.
        """
        if self._loader is not None and self._now() - self._loaded_at >= RELOAD_AFTER_SECS and not self._lasts():
            with suppress(NoCredentials):
                await self._reload()
        try:
            token = await self._configuration.get_api_key_with_prefix("BearerToken")
        except Exception:  # noqa: BLE001  the hook reads a file that may be away for a moment
            token = self._configuration.api_key.get("BearerToken")
        return " ".join(str(token).split()) if token else None  # a token file may end in a newline

    async def renew(self) -> None:
        """After a 401: reads the kubeconfig's token file again, or runs its plugin whatever end it named."""
        if self._loader is not None:
            self._loader.__dict__.pop("exec_plugin_expiry", None)
            await self._reload()

    async def _reload(self) -> None:
        """The token file again; the plugin where its token is about to end."""
        self._loaded_at = self._now()
        try:
            async with asyncio.timeout(PLUGIN_SECS):
                await self._loader.load_and_set(self._configuration)
        except Exception as error:  # noqa: BLE001  as when it was loaded
            raise NoCredentials(f"cannot renew the credentials of KUBECONFIG: {_reason(error)}") from None

    def _lasts(self) -> bool:
        """A plugin that names no end is asked again only after a 401, as kubectl does."""
        user = self._loader._user  # noqa: SLF001  the loader offers no other way
        return user is not None and "exec" in user and "exec_plugin_expiry" not in self._loader.__dict__


async def _load(kubeconfig: str | None, configuration: Any, service_account: Path) -> Any:
    if kubeconfig is None:
        _incluster.load_incluster_config(
            client_configuration=configuration,
            token_filename=str(service_account / "token"),
            cert_filename=str(service_account / "ca.crt"),
        )
        return None
    return await _kubeconfig.load_kube_config(kubeconfig, client_configuration=configuration, persist_config=False)


def _reason(error: Exception) -> str:
    """What may be said of an error: its own words only where they are known to be plain."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}"
    if isinstance(error, TimeoutError):
        return f"no answer within {PLUGIN_SECS:.0f} s"
    text = str(error)
    if isinstance(error, ConfigException):  # after the mark: what a plugin wrote, or a whole entry with its token
        return text.partition(". " if text.startswith("exec:") else "{")[0][:200]
    return type(error).__name__
