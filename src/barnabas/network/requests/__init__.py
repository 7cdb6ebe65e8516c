"""From a request's bytes to its handler and back: routes, stages, requests that weigh much."""
