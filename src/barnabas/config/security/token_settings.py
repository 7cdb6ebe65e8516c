"""Delegation tokens (KIP-48): for how long they live, and the key behind their secrets."""

from __future__ import annotations

from barnabas.config.checks import AtLeast
from barnabas.config.setting import Kind, Setting

TOKEN_SETTINGS: tuple[Setting, ...] = (
    Setting("delegation.token.secret.key", Kind.PASSWORD, None,
            "Secret that all brokers of a cluster share: with it and the id of a delegation token its HMAC is "
            "computed, which is the token's password. Unset: there are no delegation tokens."),
    Setting("delegation.token.max.lifetime.ms", Kind.LONG, "604800000",
            "For how long a delegation token can be renewed at most, whatever was asked for.", AtLeast(1)),
    Setting("delegation.token.expiry.time.ms", Kind.LONG, "86400000",
            "A delegation token that is not renewed for this long has expired.", AtLeast(1)),
    Setting("delegation.token.expiry.check.interval.ms", Kind.LONG, "3600000",
            "How often delegation tokens that have expired are removed. They are not accepted before that, "
            "either.", AtLeast(1)),
    # Kafka has no bound; any user may create tokens, and every broker keeps them.
    Setting("barnabas.delegation.tokens.max", Kind.INT, "10000",
            "How many delegation tokens there may be in the cluster. Another one is refused with "
            "POLICY_VIOLATION.", AtLeast(0)),
)  # fmt: skip
