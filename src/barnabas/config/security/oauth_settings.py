"""Settings of OAUTHBEARER: which tokens count, where the keys are, and how a broker gets a token of its own."""

from __future__ import annotations

from barnabas.config.checks import AtLeast, ListOf
from barnabas.config.setting import Kind, Setting

_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")

OAUTH_SETTINGS: tuple[Setting, ...] = (
    Setting("sasl.oauthbearer.jwks.endpoint.url", Kind.STRING, None,
            "Where the identity provider has its keys (JWKS): an https address, http to this machine, or a file "
            "(file:///etc/keys.json). OAUTHBEARER needs it."),
    Setting("sasl.oauthbearer.jwks.endpoint.refresh.ms", Kind.LONG, "3600000",
            "The keys are fetched again after this time. They are sooner, when a token names one that is not known.",
            AtLeast(1)),
    Setting("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", Kind.LONG, "100",
            "Keys that could not be fetched are tried again after this time, which doubles each time.", AtLeast(1)),
    Setting("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", Kind.LONG, "10000",
            "It doubles up to this. Tokens that name keys nobody knows have them fetched no more often than this.",
            AtLeast(1)),
    Setting("sasl.oauthbearer.expected.issuer", Kind.STRING, None,
            "The issuer that a token must name (iss). OAUTHBEARER needs it; Kafka does not insist."),
    Setting("sasl.oauthbearer.expected.audience", Kind.LIST, "",
            "A token must be meant for one of these (aud). OAUTHBEARER needs it; Kafka does not insist."),
    Setting("sasl.oauthbearer.clock.skew.seconds", Kind.INT, "30",
            "By how much the clocks of the identity provider and the broker may differ.", AtLeast(0)),
    Setting("sasl.oauthbearer.sub.claim.name", Kind.STRING, "sub", "The claim that names the user."),
    Setting("sasl.oauthbearer.scope.claim.name", Kind.STRING, "scope", "The claim that names the scope."),
    Setting("barnabas.sasl.oauthbearer.algorithms", Kind.LIST, ",".join(_ALGORITHMS),
            "The algorithms that tokens may be signed with. Those with a shared secret, and none, are not among them.",
            ListOf(*_ALGORITHMS)),
    Setting("sasl.oauthbearer.token.endpoint.url", Kind.STRING, None,
            "Where a broker gets a token for other brokers, if sasl.mechanism.inter.broker.protocol is OAUTHBEARER."),
    Setting("sasl.oauthbearer.client.credentials.client.id", Kind.STRING, None, "The broker's name there."),
    Setting("sasl.oauthbearer.client.credentials.client.secret", Kind.PASSWORD, None, "Its secret there."),
    Setting("sasl.oauthbearer.scope", Kind.STRING, None, "The scope that it asks for."),
)  # fmt: skip
