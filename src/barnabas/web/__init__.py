"""HTTP for the services: uvicorn server and its limits, the `/metrics` server, credentials, origin checks."""
