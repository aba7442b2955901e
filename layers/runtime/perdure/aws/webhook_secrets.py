"""The webhooks' secrets: one secret of Secrets Manager for all of them, read when the first event comes."""

from __future__ import annotations

import json
from functools import cached_property

from perdure.aws.clients import Clients
from perdure.errors import ConfigurationError
from perdure.webhooks import from_environment


class WebhookSecrets:
    """Looks a webhook's secret up by its `secret_env`: in the environment, else in the secret that the template names.

    That one is a JSON object, `{"SHOP_HOOK_SECRET": "whsec_…"}`, read once per container and not before an event
    comes: an outage of Secrets Manager touches nothing but webhooks.

    Args:
        secret_arn: Empty: there is no such secret.
    """

    def __init__(self, clients: Clients, secret_arn: str) -> None:
        self._clients = clients
        self._secret_arn = secret_arn

    def __call__(self, name: str) -> str:
        """Return a secret; an empty text when nobody has set it.

        Raises:
            ConfigurationError: There is no such secret, the function may not read it, or it is something else.
            StoreUnavailableError: No answer came; the next event tries again.
        """
        return from_environment(name) or (self._kept.get(name, "") if self._secret_arn else "")

    @cached_property
    def _kept(self) -> dict[str, str]:
        from botocore.exceptions import BotoCoreError, ClientError

        from perdure.aws.errors import translated

        try:
            answer = self._clients.secrets.get_secret_value(SecretId=self._secret_arn)
        except (BotoCoreError, ClientError) as error:
            raise translated(error, "read the webhooks' secrets") from error
        return _by_name(answer.get("SecretString", ""))


def _by_name(text: str) -> dict[str, str]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        # `from None` and no value: what was read may be a secret.
        raise ConfigurationError(
            'the secret of WebhookSecretsArn must be a JSON object such as {"SHOP_HOOK_SECRET": "whsec_…"}'
        ) from None
    return found
