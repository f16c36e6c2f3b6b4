from typing import final

from gdsvc._lease_heap import LeaseEntry

__pyx_capi__: dict[str, object]  # Cython's, for the modules that cimport note_beat and matches

@final
class Listed(LeaseEntry):
    @property
    def item(self) -> bytes: ...
    @property
    def model(self) -> str | None: ...
    @property
    def region(self) -> str | None: ...
    @property
    def beats(self) -> int: ...
    @property
    def source(self) -> bytes | None: ...

@final
class BodyTable: ...

@final
class KeyTable: ...
