"""The settings of access control, where the code that uses them looks for them. They stand in the chassis, so that its settings of workers extend them."""

from gantry_chassis.settings.access import AccessSettings

__all__ = ["AccessSettings"]
