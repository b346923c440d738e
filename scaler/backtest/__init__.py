"""The simulated fleet (`plant`) and, later, the drivers and rivals that run on it. There is no second fleet."""
