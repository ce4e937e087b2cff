"""The data path: the life of a request, from the client's bytes to the engine's and back."""
