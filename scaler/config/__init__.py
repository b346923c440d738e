"""Configuration: frozen pydantic values (`models`, `metadata`, `durations`) and, apart from them, loading (`load`)."""
