"""The sandbox: an ad library with known totals, real forward proxies and faults, all local."""

from regente.services.sandbox.catalogue import Ad, Catalogue
from regente.services.sandbox.faults import Fault, FaultInjector, FaultKind
from regente.services.sandbox.proxy import ProxyAccount
from regente.services.sandbox.sandbox import Sandbox

__all__ = ["Ad", "Catalogue", "Fault", "FaultInjector", "FaultKind", "ProxyAccount", "Sandbox"]
