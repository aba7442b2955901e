"""The model provider's key: from Secrets Manager into the environment, where model clients look for it."""

from __future__ import annotations

import os
from collections.abc import MutableMapping

from perdure.aws.clients import Clients

KEY_VARIABLE = "OPENAI_API_KEY"


def provide_model_key(clients: Clients, secret_arn: str, environment: MutableMapping[str, str] | None = None) -> None:
    """Fetch the key, once per container. A key that is in the environment already wins.

    Raises:
        ConfigurationError: There is no such secret, or the function may not read it.
        StoreUnavailableError: No answer came; the next invocation tries again.
    """
    variables = os.environ if environment is None else environment
    if variables.get(KEY_VARIABLE):
        return
    from botocore.exceptions import BotoCoreError, ClientError

    from perdure.aws.errors import translated

    try:
        answer = clients.secrets.get_secret_value(SecretId=secret_arn)
    except (BotoCoreError, ClientError) as error:
        raise translated(error, "read the model key") from error
    variables[KEY_VARIABLE] = answer["SecretString"].strip()
