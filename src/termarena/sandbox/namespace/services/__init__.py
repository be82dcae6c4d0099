"""Tasks of several services on embedded sandboxes: a compose file, one sandbox per service, one network for all."""

from termarena.sandbox.namespace.services.box import ServicesSandbox
from termarena.sandbox.namespace.services.pinning import pin_services
from termarena.sandbox.namespace.services.reading import read_services
from termarena.sandbox.namespace.services.starting import started

__all__ = ["ServicesSandbox", "pin_services", "read_services", "started"]
