"""`headway demo`: the whole system on one machine, with the simulated fleet in the place of a cluster."""
