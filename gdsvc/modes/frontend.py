"""What the Global Frontend routes by, wired: a policy, and the pools of the command line or of a discovery service."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from importlib.metadata import EntryPoint

from gdsvc import logs
from gdsvc.client import Options, RemotePoolDirectory
from gdsvc.frontend.catalog import Catalog, static
from gdsvc.frontend.ejection import Ejection
from gdsvc.frontend.following import Following
from gdsvc.frontend.policies import plugins
from gdsvc.frontend.policies.policy import Environment, Policy
from gdsvc.frontend.selection import Selector
from gdsvc.frontend.selection_core import SelectionCore
from gdsvc.settings import FrontendSettings

log = logs.get("gdsvc.frontend")


class Routing:
    """`selector` knows no pool until `running()` is entered. Raises PolicyFault where the policy cannot be had."""

    def __init__(self, settings: FrontendSettings, installed: Iterable[EntryPoint]) -> None:
        self.selector = Selector(_policy(settings, installed), Ejection())
        self._settings = settings
        self._directory: RemotePoolDirectory | None = None

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Keeps the catalog up to date. A fault of ours in doing so ends what runs inside."""
        if self._settings.pools:
            self._publish(static(self._settings.pools))
            yield
            return
        options = Options(self._settings.discovery_urls)
        async with RemotePoolDirectory(options) as self._directory, asyncio.TaskGroup() as tasks:
            following = tasks.create_task(Following(self._directory, self._publish).run())
            try:
                yield
            finally:
                following.cancel()

    def not_ready(self) -> tuple[str, ...]:
        """Why no request could be served: nothing listed yet, or nothing selectable in it."""
        catalog = self.selector.catalog
        if not catalog.known:
            reason = self._directory.reason if self._directory is not None else None
            return (f"no list of pools yet: {reason}" if reason else "no list of pools yet",)
        return () if catalog.selectable else ("no pool with a model has a frontend",)

    def _publish(self, catalog: Catalog) -> None:
        before = self.selector.catalog
        self.selector.publish(catalog, asyncio.get_running_loop().time())
        if (catalog.complete, catalog.selectable) != (before.complete, before.selectable):
            log.info(
                "catalog.changed", pools=len(catalog.pools), complete=catalog.complete, selectable=catalog.selectable
            )
        if catalog.unusable - before.unusable:  # their other frontends are used
            log.warning("catalog.unusable_urls", pools=sorted(catalog.unusable))


def _policy(settings: FrontendSettings, installed: Iterable[EntryPoint]) -> Policy:
    if settings.use_selection_core:
        return SelectionCore()
    environment = Environment(
        load=_unknown,
        round_trip=_unknown,
        region=settings.region,
        load_headroom=settings.load_headroom,
        session_pin_ttl_secs=float(settings.session_pin_ttl_secs),
    )
    return plugins.load(settings.router_policy, installed, environment)


def _unknown(_: str) -> None:
    """Nobody measures round trips yet, nor do relays report here."""
