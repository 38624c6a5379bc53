"""Arrays, groups or models in, numbers out."""

__all__: list[str] = []
