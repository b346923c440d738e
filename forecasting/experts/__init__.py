"""The experts, one module a model. `contract.py` says what each keeps."""
