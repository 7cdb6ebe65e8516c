"""One module per family of messages: a request's context and message in, the response out."""
