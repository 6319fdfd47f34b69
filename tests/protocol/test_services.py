"""What is declared of the services."""

from local2.protocol.services import ACTIONS, SERVICES


def test_some_role_may_do_what_a_service_requires() -> None:
    required = {service.action for service in SERVICES if service.action}

    assert required <= ACTIONS.keys()
