"""The JavaScript client's schemas say what the server says (spec BROW-08), and hold nothing that only it may do."""

from perdure.api.routes import ROUTES
from tests.unit.api.browser_schemas import COMMANDS, MODULE, module_text


def test_the_clients_schemas_are_those_of_the_document() -> None:
    assert MODULE.read_text(encoding="utf-8") == module_text(), "run: python -m tests.unit.api.browser_schemas"


def test_a_browser_is_offered_commands_on_one_session_only() -> None:
    routes = {route.operation: route for route in ROUTES}

    assert all(routes[name].path.startswith("/v1/sessions/{session_id}") for name in COMMANDS)
    assert all(routes[name].keyed and not routes[name].signed for name in COMMANDS)
