from typing import final

from gdsvc._lease_heap import LeaseEntry

@final
class Listed(LeaseEntry): ...

@final
class BodyTable: ...
