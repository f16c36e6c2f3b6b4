from typing import Never, NoReturn, final

@final
class ListParts:
    def __init__(self, *args: Never, **kwargs: Never) -> NoReturn: ...  # made by PoolIndex.parts
    @property
    def size(self) -> int: ...
    @property
    def revision(self) -> int: ...
    def join(self, head: bytes, tail: bytes) -> bytes: ...
