"""What Headway reads of a Kubernetes cluster and writes into it: the live view, the plan, the Lease and Events."""
