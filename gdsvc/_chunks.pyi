from typing import final

@final
class Chunks: ...
