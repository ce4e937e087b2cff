"""The listening side: uvicorn with the guards that a port open to strangers needs."""
