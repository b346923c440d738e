"""Real engines under real load, for tests: what they export is what Headway reads. `make engines-test` runs them."""
